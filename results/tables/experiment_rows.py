"""Rows of an experiment's table: its cells, filled with records, and commands for the empty ones."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain

from results.analysis.aggregate import failure_text, groups_of, lenders_among, of_newest_recipe, scored_runs
from results.analysis.names import common_title, old_recipe, settings_title, task_title
from results.analysis.paper_scores import PaperScore, load_paper
from results.analysis.row_warnings import row_warnings
from results.analysis.rows import MINI, Group, Lender, TableRow
from results.experiments.cell import Cell, ExperimentRow
from results.experiments.experiment import ArmPerplexity, Experiment, values_of
from results.experiments.runs_of_cells import runs_of_cells
from results.records.collect import Collection, Finding, FoundRecord
from results.records.identity import FOLD
from results.records.record import RunRecord
from results.records.sweep_manifest import TypedPlaces, hydra_value

PARTIAL = ("limit", "train_fraction")  # settings under which the paper's numbers do not apply

Filled = list[tuple[Cell, list[FoundRecord]]]  # cells of one row and arm, each with its records
Command = Mapping[str, Sequence[str]]  # what a command sets: key -> values


@dataclass(frozen=True)
class ExperimentLine:
    """A row of the table: what the experiment's file says, and our runs.

    Attributes:
        title: Its name for people.
        spec: The row in the file.
        runs: Our runs, with the arms of the experiment in place of features.
        paper: Arm -> the paper's number.
        paper_std: Arm -> the standard deviation that the paper prints.
    """

    title: str
    spec: ExperimentRow
    runs: TableRow
    paper: Mapping[str, float]
    paper_std: Mapping[str, float]

    @property
    def paper_gain(self) -> float | None:
        """The paper's difference between the two arms that are compared; None if it does not print both."""
        first, second = (self.paper.get(arm) for arm in self.runs.compared)
        return None if first is None or second is None else second - first


@dataclass(frozen=True)
class ExperimentTable:
    """An experiment with its rows, what was found about their runs, and how commands say where things are."""

    experiment: Experiment
    lines: Sequence[ExperimentLine]
    findings: Sequence[Finding]
    where: Sequence[str] = ()

    @cached_property
    def titles(self) -> dict[str, str]:
        """The arms' names for people: those in the file, or those of their features if an arm is named like these."""
        groups = [group for line in self.lines for group in line.runs.groups]
        records = {arm: [own.records[0] for own in groups if own.features == arm] for arm in self.experiment.arms}
        return {arm: _arm_title(self.experiment, arm, own) for arm, own in records.items()}

    @property
    def base(self) -> str:
        """The arm that others are compared with: the first of the two in the file; empty without these."""
        return self.experiment.compare[0] if self.experiment.compare else ""

    def against_base(self, line: ExperimentLine, arm: str) -> TableRow:
        """The runs of a row, to compare an arm with `base`; there is no pair if the arm is `base` itself."""
        return line.runs.comparing(self.base, arm if arm != self.base else "")


def fill(collection: Collection, experiment: Experiment, places: TypedPlaces | None = None) -> ExperimentTable:
    """The rows of the experiment in its order, with findings about them and commands that fill empty cells.

    Args:
        collection: The records to take runs from; other runs than the experiment's are left out.
        experiment: The experiment, or what was chosen of it.
        places: Where the user has configs, data and runs, for these commands.
    """
    rows = _rows(collection.found, experiment)
    shown = {cell.identity.row for cell in experiment.cells}
    findings = [finding for finding in collection.findings if finding.row is None or finding.row in shown]
    lines = [_line(row, experiment, findings, collection.found) for row in rows]
    findings += _other_bilms(experiment, lines)
    shipped = all(data == MINI for data, _ in shown)
    where = places.words(shipped) if places else []
    if any(line.runs.groups for line in lines):
        findings += _missing(experiment, rows, where)
    elif not experiment.published_only:
        findings.append(Finding("empty", _whole(experiment, where), wrong=True))
    once = list(dict.fromkeys(findings))  # rows may show other metrics of the same runs
    return ExperimentTable(experiment, lines, once, where)


def _rows(found: Sequence[FoundRecord], experiment: Experiment) -> list[dict[str, Filled]]:
    """The cells of each row with their records, by arm."""
    rows: dict[tuple[object, ...], dict[str, Filled]] = {}
    for cell, own in zip(experiment.cells, runs_of_cells(found, experiment.cells), strict=True):
        row = rows.setdefault((id(cell.row), *cell.extra_overrides), {})  # two rows may show the same runs
        row.setdefault(cell.arm, []).append((cell, own))
    return list(rows.values())


def is_measured(perplexity: ArmPerplexity, group: Group) -> bool:
    """Whether the runs have the biLM that the perplexity was measured of."""
    return all(weights_of(record) == perplexity.weights for record in group.runs)


def weights_of(record: RunRecord) -> object:
    """The sha256 of the run's biLM; None without one."""
    return (record.weights or {}).get("sha256")


def _other_bilms(experiment: Experiment, lines: Sequence[ExperimentLine]) -> list[Finding]:
    """Notes on arms whose biLM is not the one whose perplexity the experiment's file states, or that has none there."""
    found = []
    for arm in experiment.arms if experiment.perplexities else ():
        own = experiment.perplexities.get(arm)
        groups = [group for line in lines if (group := line.runs.group(arm))]
        here = sorted({str(weights) for group in groups for record in group.runs if (weights := weights_of(record))})
        if own is None and here:
            text = f"{arm}: no perplexity of its biLM {', '.join(here)}; to draw it, add [perplexities.{arm}]"
            found.append(Finding("note", text, wrong=False))
        elif own and not all(is_measured(own, group) for group in groups):
            text = (
                f"{arm}: {own.card} states the perplexity of the biLM {own.weights}, found runs with "
                f"{', '.join(here)}; to draw them, state their biLM's own perplexity in a copy of the experiment's file"
            )
            found.append(Finding("note", text, wrong=True))
    return found


def _missing(experiment: Experiment, rows: Sequence[Mapping[str, Filled]], where: Sequence[str]) -> list[Finding]:
    """The commands of cells that lack runs: "empty" where there is no score at all, else "seeds"."""
    commands: dict[tuple[bool, bool, tuple[str, str]], list[Command]] = {}
    whole = _empty_arms(rows) if experiment.by_arm else {}
    for arm, cells in whole.items():
        commands.setdefault((False, arm in experiment.compare, ("", "")), []).append(_of_arm(experiment, arm, cells))
    for row in rows:
        for arm, cells in row.items():
            if arm in whole:
                continue
            missing = _without_new_runs(cells)
            if missing:
                empty = {cell.seed for cell, own in cells if not _finished(own)} == {cell.seed for cell, _ in cells}
                key = (not empty, empty and arm in experiment.compare, missing[0][0].identity.row)
                commands.setdefault(key, []).append(_command(missing))
    return [
        Finding("seeds" if some else "empty", _typed(experiment, command, where), wrong, row if any(row) else None)
        for (some, wrong, row), own in commands.items()
        for command in _joined(own)
    ]


def _without_new_runs(cells: Filled) -> Filled:
    """The cells of one row and arm without a finished run of the newest recipe; a mean leaves older ones out."""
    recipes = [
        [item.record.recipe for item in own if _finished([item]) and not old_recipe(item.record)] for _, own in cells
    ]
    newest = max(chain.from_iterable(recipes), default=1)
    return [
        item for item, own in zip(cells, recipes, strict=True) if newest not in own and not item[0].row.published_only
    ]


def _empty_arms(rows: Sequence[Mapping[str, Filled]]) -> dict[str, Filled]:
    """The cells of those arms that have no finished run at all."""
    arms: dict[str, Filled] = {}
    for row in rows:
        for arm, cells in row.items():
            arms.setdefault(arm, []).extend(cells)
    return {arm: cells for arm, cells in arms.items() if not any(_finished(found) for _, found in cells)}


def _of_arm(experiment: Experiment, arm: str, cells: Filled) -> Command:
    """What makes all runs of an arm: what the arm sets, without its rows."""
    own = dict(map(values_of, [*experiment.given, *experiment.arms[arm]]))
    return {**own, **{key: values for key, values in _command(cells).items() if key in ("seed", "retry")}}


def _arm_title(experiment: Experiment, arm: str, records: Sequence[RunRecord]) -> str:
    """The arm's name for people: that in the file, or that of its features if it is named like these."""
    if arm in experiment.titles:
        return experiment.titles[arm]
    return common_title(arm, (record for record in records if record.identity.features == arm))


def _line(
    row: Mapping[str, Filled], experiment: Experiment, findings: list[Finding], all_found: Sequence[FoundRecord]
) -> ExperimentLine:
    cell = next(iter(row.values()))[0][0]
    spec, key = cell.row, cell.identity.row
    title = " ".join([spec.title or _default_title(cell), *cell.extra_overrides])
    groups, failed = list[Group](), list[FoundRecord]()
    for arm, cells in row.items():
        items = [item for _, found in cells for item in found]
        failed += [item for item in items if item.record.status == "failed"]
        own_title = _arm_title(experiment, arm, [item.record for item in items])
        groups += _groups(f"{title}, {own_title}", arm, spec, items, findings)
    first, second = experiment.compare or ("", "")
    runs = TableRow(*key, groups, failed, None, (first, second), lenders=_lenders(groups, spec, key, all_found))
    findings += [Finding("failed", failure_text(item), wrong=True, row=key) for item in failed]
    wanted = {key for cells in row.values() for key in cells[0][0].identity.variant}
    warnings = row_warnings(runs, wanted, experiment.titles, title)
    findings += [Finding("note", text, wrong, row=key) for text, wrong in warnings]
    known = _own_scores(spec, runs) if spec.paper else _known_scores(cell)
    if known is None:
        return ExperimentLine(title, spec, runs, spec.paper, spec.paper_std)
    return ExperimentLine(title, spec, replace(runs, paper=known), known.scores, known.std)


def _groups(
    where: str, arm: str, spec: ExperimentRow, items: Sequence[FoundRecord], findings: list[Finding]
) -> list[Group]:
    """The numbers of one cell: one, or several with different labels if its runs cannot be averaged."""
    runs = scored_runs(items, findings)
    whole, partial = (
        of_newest_recipe([run for run in runs if run.incomplete is some], where, findings) for some in (False, True)
    )
    (found, keys), groups = groups_of(whole), list[Group]()
    if keys:
        findings.append(Finding("note", f"{where}: runs that differ in {', '.join(keys)} are not averaged", wrong=True))
    for group in [*found, *groups_of(partial)[0]]:
        kept = [(_shown(record, spec), run) for record, run in zip(group.records, group.examples, strict=True)]
        scored = [(record, run) for record, run in kept if record is not None]
        if len(scored) < len(kept):
            text = (
                f"{where}: {len(kept) - len(scored)} runs have no {spec.split} score by {spec.metric or 'the metric'}"
            )
            findings.append(Finding("note", text, wrong=True))
        if scored:
            settings = {key: value for key, value in group.settings.items() if key in (*keys, FOLD)}
            examples = [run if spec.split == "test" else None for _, run in scored]  # examples are those of test
            groups.append(Group(arm, settings, [record for record, _ in scored], examples, group.single))
    return groups


def _lenders(
    groups: Sequence[Group], spec: ExperimentRow, key: tuple[str, str], found: Sequence[FoundRecord]
) -> list[Lender]:
    """Those of all runs of the task, not of the experiment's alone: a gain has one interval in every table."""
    if all(len(group.runs) > 1 for group in groups):
        return []
    return lenders_among([item for item in found if item.record.identity.row == key], partial(_shown, spec=spec))


def _shown(record: RunRecord, spec: ExperimentRow) -> RunRecord | None:
    """The record with the row's metric and split in place of its main score; None if it has no such score."""
    metric, scores = spec.metric or record.metric, record.scores.get(spec.split, {})
    shown = {**record.scores, record.judged: scores}
    return replace(record, metric=metric, scores=shown) if metric in scores else None


def _default_title(cell: Cell) -> str:
    """The name of the task on the data, and what else the row sets."""
    values = {key.lstrip("+"): value for key, _, value in (override.partition("=") for override in cell.row.overrides)}
    others = settings_title({key: value for key, value in values.items() if key not in ("task", "data", "trial")})
    return ", ".join(filter(None, [task_title(cell.identity.data, cell.identity.task), others]))


def _own_scores(spec: ExperimentRow, runs: TableRow) -> PaperScore | None:
    """The numbers in the experiment's file, with the margin of their metric; None if its examples are not ours."""
    if runs.data not in load_paper().comparable_data:
        return None
    metric = spec.metric or runs.metric
    margin = next((score.margin for score in load_paper().score if score.metric == metric), 0.0)
    return PaperScore(runs.task, metric, spec.split, spec.paper, spec.source, True, margin, spec.paper_std)


def _known_scores(cell: Cell) -> PaperScore | None:
    """The numbers of paper/scores.toml, if they apply to the cell's row."""
    if cell.row.metric or cell.row.split != "test" or any(key in cell.settings for key in PARTIAL):
        return None
    return load_paper().compared(cell.identity.data, cell.identity.task)


def _finished(found: Sequence[FoundRecord]) -> bool:
    return any(item.record.status == "finished" for item in found)


def _command(missing: Filled) -> Command:
    """What makes these runs of one row and arm."""
    command = {key: [value] for key, value in missing[0][0].settings.items() if key != FOLD}
    for key in ("seed", FOLD):
        values = dict.fromkeys(cell.value(key) or "" for cell, _ in missing)
        if any(values):
            command[key] = list(values)
    failed = any(item.record.status == "failed" for _, found in missing for item in found)
    return {**command, "retry": ["failed"]} if failed else command


def _joined(commands: Sequence[Command]) -> list[Command]:
    """Fewer commands for the same runs: two that differ in the values of one key become one."""
    joined: list[Command] = []
    for command in commands:
        for number, other in enumerate(joined):
            differing = [key for key in command if command[key] != other.get(key)]
            if command.keys() == other.keys() and len(differing) <= 1:
                joined[number] = {
                    **other,
                    **{key: list(dict.fromkeys([*other[key], *command[key]])) for key in differing},
                }
                break
        else:
            joined.append(command)
    return joined if len(joined) == len(commands) else _joined(joined)


def _whole(experiment: Experiment, where: Sequence[str]) -> str:
    """The command of all cells."""
    return _typed(experiment, dict(map(values_of, experiment.given)), where)


def _typed(experiment: Experiment, command: Command, where: Sequence[str]) -> str:
    """The command as typed; `where` says where things are."""
    words = [f"{key}={','.join(values)}" if any(values) else key for key, values in command.items()]
    return typed_sweep(experiment, [*words, *where])


def typed_sweep(experiment: Experiment, words: Sequence[str]) -> str:
    """The command that runs an experiment, or cells without one, with further words."""
    first = [f"experiment={hydra_value(experiment.name)}"] if experiment.name else []
    return f"python -m tasks.run -m {shlex.join([*first, *words])}"
