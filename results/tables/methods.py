"""A paragraph for the methods section of a paper, generated from the records of a table."""

from collections.abc import Iterable

from results.records.record import RunRecord
from results.tables.rows import Row, Table, runs_in_words
from results.tables.sheet import interval_legend, trials_text
from results.tables.writers import tex

SPLITS = {"train": "to train on", "dev": "to choose the epoch", "test": "to test"}
TRAINER = {"optimizer": "{}", "lr": "learning rate {}", "batch_size": "batches of {}", "epochs": "at most {} epochs"}


def methods_of(table: Table) -> str:
    """The methods paragraph in LaTeX: runs, data, recipe, machine; empty without runs."""
    rows = [row for row in [*table.rows, *table.others] if row.groups]
    runs = [run for row in rows for group in row.groups for run in group.runs]
    groups = [(arm, [group.runs[0] for row in rows if (group := row.group(arm))]) for arm in table.arms]
    arms = [f"{table.titles[arm]}: {_or(map(_vectors, first))}" for arm, first in groups if first]
    machines = [run.environment for run in runs if run.environment]
    versions = {f"{name} {it.packages[name]}" for it in machines for name in it.packages}
    pythons = _or(it.python for it in machines)
    commits = _or(str(it.commit)[:10] for it in machines)
    hours = sum(run.seconds or 0 for run in runs) / 3600
    lines = [
        *map(_row, rows),
        f"arms: {'; '.join(arms)}",
        *interval_legend([(row.title, row.interval) for row in rows]),
        *([trials_text(table.experiment)] if table.experiment.trials else []),
        f"software: Python {pythons}, {', '.join(sorted(versions))}, code at commit {commits}",
        f"hardware: {_or(f'{it.device}, {it.platform}, threads: {it.threads}' for it in machines)}; {len(runs):,} runs "
        f"took {hours:.1f} hours in all",
    ]
    return "".join(tex(f"{line[0].upper()}{line[1:]}.") + "\n" for line in lines if runs)


def _row(row: Row) -> str:
    """Data, seeds and recipe of a row."""
    runs = [run for group in row.groups for run in group.runs]
    splits = [(name, split) for name in SPLITS if isinstance(split := runs[0].data.get(name), dict) and split]
    sizes = ", ".join(f"{next(iter(split.values())):,} {next(iter(split))} {SPLITS[name]}" for name, split in splits)
    folds = f" in each of {runs[0].folds} folds" * bool(runs[0].folds)
    trainer = [text.format(_or(run.settings("trainer").get(key) for run in runs)) for key, text in TRAINER.items()]
    return (
        f"{row.title}: {sizes}{folds}; {runs_in_words(runs)}; recipe {row.groups[0].recipe} of the task "
        f"({', '.join(trainer)}); {row.metric_title()} on the test set, which was read once"
    )


def _vectors(run: RunRecord) -> str:
    """The description of an arm's vectors."""
    words, weights = run.settings("features").get("words"), run.weights
    vectors = [f"vectors {words['vectors']}"] if isinstance(words, dict) and words.get("vectors") else []
    bilm = [f"biLM {weights['name']} (sha256 {str(weights['sha256'])[:7]})"] if weights else []
    return " and ".join([*vectors, *bilm]) or "no word vectors"


def _or(values: Iterable[object]) -> str:
    """Different values, each once."""
    return " or ".join(dict.fromkeys(map(str, values)))
