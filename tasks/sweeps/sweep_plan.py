"""What --plan prints: the runs of a command, their time, disk and downloads, and what is missing."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from statistics import fmean

from elmo.common.durations import duration
from elmo.common.files import size_in_words
from results.experiments.runs_of_cells import equal_runs
from results.records.identity import record_path
from tasks.running.config import RunConfig
from tasks.running.plan import identity_of
from tasks.sweeps.needs import Needs


def plan_lines(
    configs: Mapping[str, RunConfig | str], to_do: Collection[Path], needs: Needs, at_once: int | None
) -> Iterator[str]:
    """The lines of a plan.

    Args:
        configs: the runs by their overrides, or why one is rejected.
        to_do: the records that are still to be written.
        needs: what they need and do not find.
        at_once: how many run at the same time; None if a cluster decides it.
    """
    runs = [run for run in configs.values() if isinstance(run, RunConfig)]
    left = [run for run in runs if record_path(run.runs_dir, identity_of(run)).absolute() in to_do]
    together = f", {at_once} at a time" if len(left) > 1 and at_once else ""
    yield f"runs       {len(configs)}: {len(runs) - len(left)} have a record, {len(left)} are to do{together}"
    equal = equal_runs({run.runs_dir for run in left}, list(map(identity_of, left)))
    times = [fmean(item.record.seconds or 0.0 for item in items) for items in equal if items]
    if times:
        environments = [item.record.environment for items in equal for item in items]
        devices = " and ".join(sorted({own.device for own in environments if own is not None}))
        rest = f"; of the other {len(left) - len(times)} none is recorded" if len(times) < len(left) else ""
        about = f"about {duration(sum(times) / min(at_once or 1, len(times)))} for {len(times)} runs"
        yield f"time       {about}, as long as equal ones took on {devices}{rest}"
    elif left:
        yield "time       not known: no equal run is recorded here or published"
    for folder in sorted({run.runs_dir for run in left}):
        sizes = [sum(path.stat().st_size for path in items[0].path.parent.iterdir()) for items in equal if items]
        about = f"about {size_in_words(fmean(sizes) * len(left))} of records" if sizes else "records"
        yield f"disk       {about} in {folder}; {_free(folder)} free"
    for folder, most in sorted({(own, run.store.limit_gb) for run in left if (own := run.store.folder())}):
        yield f"disk       at most {most:g} GB of frozen layers in {folder} (store.limit_gb); {_free(folder)} free"
    for name, size in needs.downloads.items():
        yield f"download   {name}, {'size not known' if size is None else size_in_words(size)}"
    yield from (f"missing    {reason}" for reason in needs.missing)
    if not needs.missing:
        yield "missing    nothing" + " but what is downloaded before the first run" * bool(needs.downloads)


def _free(folder: Path) -> str:
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    return size_in_words(shutil.disk_usage(there).free)
