"""The board: the bundles in `bundles/`, each checked again, as arms of one table next to the suite's own baseline."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import results.board
from elmo.common.errors import InputError
from results.board.bundle import SUFFIX
from results.experiments import ArmCost, Experiment, ExperimentRow
from results.names import default_pair, task_title
from results.records.collect import PUBLISHED, Collection, Finding
from results.tables.fill import fill
from results.tables.rows import Group, Row, Table, lenders_of
from results.verify import Checked, check

BOARD, BUNDLES = "board", Path(results.board.__file__).with_name("bundles")


def filled(collection: Collection, experiment: Experiment, where: Sequence[str] = ()) -> Table:
    """As `fill`; the board next to the published records has the bundles instead of these records."""
    return board(experiment) if shows_board(collection, experiment.name) else fill(collection, experiment, where)


def shows_board(collection: Collection, name: str) -> bool:
    """Whether the experiment of this name shows the bundles: next to the published records."""
    return name == BOARD and any(item.path.resolve().is_relative_to(PUBLISHED) for item in collection.files)


def with_bundles(experiment: Experiment, bundles: Path = BUNDLES) -> Experiment:
    """The experiment; of the board with an arm for each bundle, so that these can be compared."""
    names = [path.name.removesuffix(SUFFIX) for path in bundles.glob(f"*{SUFFIX}")] if experiment.name == BOARD else []
    return replace(experiment, arms={**experiment.arms, **{name: [f"features={name}"] for name in sorted(names)}})


def board(experiment: Experiment, bundles: Path = BUNDLES) -> Table:
    """The table of all bundles in a folder; a finding for each that is refused.

    Args:
        experiment: The baseline, its cost, and the rows that the mean is over; bundles may add rows.
        bundles: The folder.
    """
    accepted, findings, notes = list[Checked](), list[Finding](), [experiment.note]
    for path in sorted(bundles.glob(f"*{SUFFIX}")):
        try:
            accepted.append(check(path, None))  # commits were compared when it came in
        except InputError as error:
            findings += [Finding("unreadable", line, wrong=True) for line in str(error).split("\n")]
            notes.append(f"Left out, because python -m results.verify refuses it: {path.name}")
    base, of_row = default_pair()[0], defaultdict[tuple[str, str, str], list[Group]](list)
    for one in accepted:
        for key, (baseline, group) in one.groups.items():
            text, (data, task) = one.manifest.overlaps.get(key), key.split("/")
            declared = [f"{one.manifest.title}, {task_title(data, task)}: {text}"] if text else []
            groups = of_row[data, task, baseline.label]
            groups += [] if groups else [replace(baseline, features=base)]
            groups.append(replace(group, features=one.manifest.name, declared=declared))
    known = {cell.identity.row: cell.row for cell in experiment.cells}
    in_order, rows = list(known.values()), list[Row]()
    for (data, task, label), groups in of_row.items():
        if experiment.chosen is not None and (data, task) not in known:
            continue
        spec = known.get((data, task)) if not label else None
        spec = spec or ExperimentRow([f"task={task}", f"data={data}", *label.split()])
        row = Row(data, task, groups, groups[0].settings, spec=spec, compared=experiment.compared)
        rows.append(replace(row, lenders=lenders_of(groups)))
    rows.sort(key=lambda row: in_order.index(row.spec) if row.spec in in_order else len(in_order))
    stated = {one.manifest.name: one.manifest for one in accepted}
    notes += [f"{it.title}: trained on {it.text}; time: {it.measured}" for it in stated.values()]
    columns = {
        "confirmed": {one.manifest.name: _labels(one) for one in accepted},
        "trials on dev": {name: str(sum(it.trials.values())) for name, it in stated.items()},
    }
    shown = replace(
        experiment,
        arms={base: experiment.arms[base], **{name: [f"features={name}"] for name in stated}},
        titles={**experiment.titles, **{name: f"{it.title} ({name})" for name, it in stated.items()}},
        costs={arm: cost for arm, cost in experiment.costs.items() if arm == base}
        | {n: ArmCost(it.parameters, it.milliseconds) for n, it in stated.items() if it.parameters and it.milliseconds},
        note=". ".join(notes),
        chosen=None,
    )
    return Table(shown, rows, [], findings, columns=columns)


def _labels(checked: Checked) -> str:
    """How far all rows are confirmed, or each kind with its tasks."""
    by_label: dict[str, list[str]] = {}
    for key, label in checked.labels.items():
        data, task = key.split("/")
        by_label.setdefault(label, []).append(task_title(data, task))
    return "; ".join(f"{label}: {', '.join(of)}" if len(by_label) > 1 else label for label, of in by_label.items())
