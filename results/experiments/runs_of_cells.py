"""Finds the records of an experiment's cells."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from results.experiments.cell import Cell
from results.records.collect import PUBLISHED, Collection, FoundRecord, collect
from results.records.identity import Identity, record_path


def runs_of_cells(found: Sequence[FoundRecord], cells: Sequence[Cell]) -> list[list[FoundRecord]]:
    """The records of each cell."""
    by_name: dict[tuple[str, str, str, int], list[FoundRecord]] = defaultdict(list)
    for item in found:
        name = item.record.identity
        by_name[name.data, name.task, name.features, name.seed].append(item)
    runs = []
    for cell in cells:
        name = cell.identity
        known = by_name[name.data, name.task, name.features, name.seed]
        runs.append([item for item in known if cell.is_run(item.record.identity, item.record.config)])
    return runs


def only_cells(collection: Collection, cells: Sequence[Cell]) -> Collection:
    """The collection with the records of these cells alone, each once."""
    found = {item.path: item for items in runs_of_cells(collection.found, cells) for item in items}
    return replace(collection, found=list(found.values()))


def equal_runs(folders: Iterable[Path], runs: Sequence[Identity]) -> list[list[FoundRecord]]:
    """The finished runs, in the folders or published, that differ from each of these runs in seed and fold alone."""
    known: dict[Path, list[FoundRecord]] = defaultdict(list)
    for item in collect([PUBLISHED, *folders]).found:
        if item.record.status == "finished":
            known[_cell(item.record.identity)].append(item)
    return [known[_cell(run)] for run in runs]


def _cell(run: Identity) -> Path:
    return record_path(Path(), replace(run, seed=0, fold=None))
