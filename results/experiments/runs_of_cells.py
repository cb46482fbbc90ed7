"""Finds the records of an experiment's cells."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from results.experiments.cell import Cell
from results.records.collect import Collection, FoundRecord


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
