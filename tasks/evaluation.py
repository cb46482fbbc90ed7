"""One call from Python: a source on some tasks against the baseline, with its records and their table."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from results.experiments import Experiment, ExperimentRow, runs_of_cells
from results.records.collect import collect
from results.records.record import RunRecord
from results.tables.fill import fill
from results.tables.rows import Table
from results.tables.sheet import note_line, sections_of, sheets_of
from results.tables.writers import MACHINE_FORMATS, as_tex, as_text, methods_of
from tasks.running.config import typed_folds
from tasks.running.experiment import run


@dataclass(frozen=True)
class Evaluation:
    """Records and their table, which prints, and becomes a pandas table or LaTeX."""

    records: Sequence[RunRecord]
    table: Table

    def __str__(self) -> str:
        sheets = sheets_of(self.table)
        return as_text(sheets, [("Notes", [note_line(self.table, sheets)])])

    def to_pandas(self) -> Any:  # noqa: ANN401 (a pandas.DataFrame: pandas has no types)
        """All numbers, as in python -m results.table --format csv."""
        import pandas  # imported here: slow to import

        return pandas.read_csv(io.StringIO(MACHINE_FORMATS["csv"](self.table)))

    def to_latex(self) -> str:
        """The table in LaTeX, with its notes; bold is what is better than all others beyond noise."""
        sheets = sheets_of(self.table, best=True, cut=False)
        return as_tex(sheets, sections_of(self.table, sheets))

    def methods(self) -> str:
        """A paragraph for a paper, in LaTeX: data, seeds, recipe, versions and hardware."""
        return methods_of(self.table)


def evaluate(
    source: str | type,
    tasks: Sequence[str],
    data: str = "mini",
    seeds: Sequence[int] = (1,),
    *settings: str,
    baseline: str | type = "glove",
    runs_dir: str = "results/runs",
    config_dir: str | None = None,
) -> Evaluation:
    """Runs a source and the baseline on tasks, except what is done; runs are those of the same words typed.

    Args:
        source: the name of an arm (features=NAME), with settings after it if you like ("elmo features.elmo.layers=0"),
            or a class of frozen layers (`elmo.FrozenSource`) in a module of its own.
        tasks: their names.
        data: the name of a dataset, or the path of its YAML.
        seeds: of each run.
        settings: further KEY=VALUE of all runs.
        baseline: an arm like `source`.
        runs_dir: the folder of the records.
        config_dir: a folder of further configs, trusted like code.

    Raises:
        InputError: a name or a setting is wrong.
    """
    arms = {"baseline": _words(baseline), "source": _words(source)}
    folder, rows, configs = Path(config_dir) if config_dir else None, [], []
    for task in tasks:
        row = ExperimentRow([f"task={task}", f"data={data}", *settings])
        for words in ([*arm, f"seed={seed}"] for seed in seeds for arm in arms.values()):
            folds = typed_folds([*row.overrides, *words, f"runs_dir={runs_dir}"], folder)
            configs += folds
        rows.append(replace(row, folds=len(folds) if len(folds) > 1 else None))
    for config in configs:  # after all have been checked
        run(config, in_sweep=True)
    titles = {arm: " ".join(words).removeprefix("features=") for arm, words in arms.items()}
    experiment = Experiment(arms, rows, "Test", list(seeds), tuple(arms), name="evaluate", titles=titles)
    collection = collect([Path(runs_dir)])
    records = [item.record for items in runs_of_cells(collection.files, experiment.cells) for item in items]
    return Evaluation(records, fill(collection, experiment))


def _words(arm: str | type) -> list[str]:
    """An arm as overrides."""
    if isinstance(arm, str):
        return f"features={arm}".split()
    return ["features=glove", f"+features.frozen.{arm.__name__}.source._target_={arm.__module__}.{arm.__qualname__}"]
