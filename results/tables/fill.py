"""Fills tables: puts records into the rows and arms of an experiment, averages those that differ in the seed alone.

The table without an experiment is filled in the same way: its rows and arms are those of the records.
"""

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain

from results import names
from results.audit import REMEDY, unlike_metrics
from results.experiments import NAMED, NOT_RECORDED, Cell, Experiment, ExperimentRow, runs_of_cells, values_of
from results.records.collect import Collection, Finding, RecordFile, ScoredRun, join_folds
from results.records.example_scores import Example, ExamplesUnreadable
from results.records.identity import (
    EXAMPLES_NAME,
    FOLD,
    Identity,
    Parts,
    differences,
    fingerprint,
    flattened,
    looked_up,
    same_value,
    shown,
)
from results.records.progress import hydra_value
from results.records.record import RunRecord, contents_of, settings_of
from results.tables.rows import (
    MINI,
    Group,
    Lender,
    Row,
    Table,
    as_label,
    comparable_parts,
    is_partial,
    lenders_of,
    row_warnings,
    runs_in_words,
)

PARTIAL = ("limit", "train_fraction")  # settings under which the paper's numbers do not apply


@dataclass(frozen=True)
class Selection:
    """The choice of what to show of all records.

    Attributes:
        data: Only these data sets; all if empty.
        include_limited: Whether to show runs with a limit.
        compared: The features whose difference is the gain; settings may follow, as in "FEATURES KEY=VALUE".
        headline: The experiment whose two arms are the main ones, if they have settings; see `_rows_of_records`.
        main_only: Whether to leave out other arms, and rows with other settings where a task has plain ones.
    """

    data: Sequence[str] = field(default_factory=list)
    include_limited: bool = False
    compared: tuple[str, str] = field(default_factory=names.default_pair)
    headline: Experiment | None = None
    main_only: bool = False


@dataclass(frozen=True)
class _RowRuns:
    """A row to fill, its records by arm, and the settings in which its arms differ on purpose."""

    row: Row
    records: dict[str, list[RecordFile]]
    wanted: Set[str]


def fill(collection: Collection, experiment: Experiment, where: Sequence[str] = ()) -> Table:
    """The table of an experiment, with the command that fills its empty cells.

    Args:
        collection: The records to take runs from; other runs than the experiment's are left out.
        experiment: The experiment, or what was chosen of it.
        where: Words of this command that say where the runs are.
    """
    filled = list(zip(experiment.cells, runs_of_cells(collection.files, experiment.cells), strict=True))
    by_row: dict[tuple[object, ...], list[tuple[Cell, list[RecordFile]]]] = defaultdict(list)
    for cell, items in filled:
        by_row[id(cell.row), *cell.extra_overrides].append((cell, items))  # two rows may show the same runs
    shown_keys = {cell.identity.row for cell, _ in filled}
    findings = [finding for finding in collection.findings if finding.row is None or finding.row in shown_keys]
    rows, others, lenders = list[Row](), list[Row](), _Lenders(collection.files)
    for cells in by_row.values():
        cell = cells[0][0]
        records: dict[str, list[RecordFile]] = {}
        for arm_cell, items in cells:
            records.setdefault(arm_cell.arm, []).extend(items)
        name = " ".join([cell.row.title or _default_title(cell), *cell.extra_overrides])
        wanted = {key for arm_cell, _ in cells for key in arm_cell.identity.variant}
        paper = _known_scores(cell.identity.row, cell.row, cell.settings)
        row = Row(*cell.identity.row, (), spec=cell.row, name=name, paper=paper, compared=experiment.compared)
        main, *unlike = _filled([_RowRuns(row, records, wanted)], experiment, findings, lenders)
        rows.append(main)
        others += unlike
    findings += _missing(experiment, filled, where)
    return Table(experiment, rows, others, list(dict.fromkeys(findings)))


def fill_all(collection: Collection, selection: Selection) -> Table:
    """The table of all records, its rows in the paper's order."""
    data = selection.data
    findings = [one for one in collection.findings if not data or not one.row or one.row[0] in data]
    by_key: dict[tuple[str, str], list[RecordFile]] = defaultdict(list)
    limited = trials = 0
    for item in collection.files:
        record = item.record
        if data and record.identity.data not in data:
            continue
        if record.status == "failed":  # always reported
            findings.append(Finding("failed", failure_text(item), wrong=True, row=record.identity.row))
        if record.trial:
            trials += 1
        elif record.limit is not None and not selection.include_limited:
            limited += 1
        else:
            by_key[record.identity.row].append(item)
    left_out = {
        f"limited runs left out: {limited} (--include-limited shows them)": limited,
        f"trials left out: {trials}; they have no test score (--experiment NAME shows those of an experiment)": trials,
    }
    findings += [Finding("note", text, wrong=False) for text, count in left_out.items() if count]
    keys = sorted(by_key, key=_row_order)
    runs = {key: _rows_of_records(key, by_key[key], selection, collection.files) for key in keys}
    experiment = _experiment_of([row_runs for rows in runs.values() for row_runs in rows], selection)
    rows, others, lenders = list[Row](), list[Row](), _Lenders(collection.files)
    for key in keys:
        filled = _filled(runs[key], experiment, findings, lenders)
        paired = [row for row in filled if row.pair and all(map(row.group, row.compared)) and not row.groups[0].partial]
        first = [row for row in filled if not row.settings] or paired or filled
        rows += first
        others += [row for row in filled if row not in first]
        for arm in selection.compared:
            if lacking := [row.title for row in first if not (row.group(arm) or row.matched)]:
                findings.append(Finding("empty", f"{'; '.join(lacking)}: no runs of {arm}", wrong=True, row=key))
    arms = _headline_settings(selection.headline) if selection.headline else {}
    main_arms = {key: value for settings in arms.values() for key, value in settings.items()}
    return Table(experiment, rows, others, list(dict.fromkeys(findings)), main_arms=main_arms)


def _row_order(key: tuple[str, str]) -> tuple[object, ...]:
    """Sort key: the paper's data and tasks in its order, then others by name, the mini data last."""
    data, task = key
    paper = names.load_paper()
    return (data not in paper.comparable_data, data == MINI, data, *names.sort_key(task, paper.tasks))


def _experiment_of(runs: Sequence[_RowRuns], selection: Selection) -> Experiment:
    """The experiment whose rows and arms are those of the records."""
    others = {arm for row_runs in runs for arm in row_runs.records} - set(selection.compared)
    in_order = [*selection.compared, *sorted(others, key=lambda arm: names.sort_key(arm, names.load_names().arms))]
    arms, rows = {arm: [f"features={arm}"] for arm in in_order}, [row_runs.row.spec for row_runs in runs]
    return Experiment(arms, rows, title="Test scores", seeds=[], compare=selection.compared)


def _rows_of_records(
    key: tuple[str, str], items: Sequence[RecordFile], selection: Selection, everything: Sequence[RecordFile]
) -> list[_RowRuns]:
    """The rows of a task on a data set, one for each choice of settings, plain runs first.

    Settings are changes to the headline's arms: its runs are the plain ones, and runs with the suite's defaults have
    other settings. Arms that the headline lacks, such as controls, should have what its second arm has. Without a pair
    of the headline's arms, settings are changes to the suite's defaults, and the rows' titles say what these are.
    """
    data, task = key
    headline = selection.headline if data != MINI else None
    file_rows = headline.rows if headline else []
    known = next((row for row in file_rows if {f"task={task}", f"data={data}"} <= set(row.overrides)), None)
    typed, title = (known.overrides, known.title) if known else ([], "")
    wanted = _headline_settings(headline, typed) if headline else {}
    defaults = {pair for item in everything for pair in _defaults(item.record, wanted)}
    placed = [(item, *_placed(item.record, selection.compared, wanted, defaults)) for item in items]
    whole = [one for one in placed if one[0].record.status == "finished" and not is_partial(one[0].record)]
    complete = [
        {as_label(settings) for item, its_arm, settings in whole if its_arm == arm and not _unlike(item.record, values)}
        for arm, values in wanted.items()
    ]
    named = {name: values[0] for name, values in map(values_of, typed) if name not in NAMED}
    if headline and complete and not set.intersection(*complete):
        placed = [(item, *_placed(item.record, selection.compared, {}, set())) for item in items]
        instead = dict(sorted({pair for item in items for pair in _defaults(item.record, wanted)}))
        of_arms = [name for values in _headline_settings(headline).values() for name in values]
        named, title = {name: instead[name] for name in of_arms if name in instead}, ""
    rows: dict[str, _RowRuns] = {}
    asked = {name for arm in selection.compared for name in arm_settings(arm)[1]}
    for item, arm, settings in sorted(placed, key=lambda one: as_label(one[2])):
        spec = ExperimentRow([f"task={task}", f"data={data}", *(f"{name}={value}" for name, value in settings.items())])
        spec = replace(spec, parts=known.parts if known and not settings else {})
        paper = _known_scores(key, spec, settings)
        row = Row(*key, (), settings, named, spec, title * (not settings), paper, compared=selection.compared)
        rows.setdefault(row.label, _RowRuns(row, {}, asked)).records.setdefault(arm, []).append(item)
    if selection.main_only and (plain := [row_runs for row_runs in rows.values() if not row_runs.row.settings]):
        (main,) = plain
        compared = {arm: main.records[arm] for arm in selection.compared if arm in main.records}
        return [replace(main, records=compared)]
    return list(rows.values())


def _headline_settings(headline: Experiment, row: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Compared arm -> what its runs set in a row with these overrides and record, without task, data and features."""
    typed = {arm: dict(map(values_of, [*row, *headline.arms[arm]])) for arm in headline.compare}
    left_out = (*NAMED, *NOT_RECORDED)
    settings = {arm: {key: value[0] for key, value in by.items() if key not in left_out} for arm, by in typed.items()}
    return settings if any(settings.values()) else {}


def _defaults(record: RunRecord, wanted: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str]]:
    """The suite's defaults for those settings that are wanted of the run's arm, if the run has them."""
    keys = [key for key in wanted.get(record.identity.features, {}) if key not in record.identity.variant]
    return [(key, shown(value)) for key in keys if (value := looked_up(record.config, key)) is not ...]


def arm_settings(name: str) -> tuple[str, dict[str, str]]:
    """The features and the settings of an arm to compare, "FEATURES KEY=VALUE ..."."""
    features, *settings = name.split() or [""]
    return features, {key: value for key, _, value in (setting.partition("=") for setting in settings)}


def _placed(
    record: RunRecord, compared: Sequence[str], wanted: Mapping[str, Mapping[str, str]], defaults: Set[tuple[str, str]]
) -> tuple[str, dict[str, str]]:
    """The arm and the settings of a run: without those that are wanted of its arm, and with what it has instead.

    A setting of its features is only named if it is a default. Any other value belongs to these features, as their own
    vectors do.
    """
    features, settings = record.identity.features, record.identity.typed_variant
    for name in sorted(compared, key=len, reverse=True):  # the one with more settings first
        of_arm, asked = arm_settings(name)
        if asked and features == of_arm and asked.items() <= settings.items():
            return name, {key: value for key, value in settings.items() if key not in asked}
    values = wanted.get(features) or (list(wanted.values())[1] if wanted else {})
    unlike = _unlike(record, values)
    placed = {key: value for key, value in settings.items() if key in unlike or key not in values}
    for key, has in unlike.items():
        if has and (not key.startswith("features.") or (key, has) in defaults):
            placed[key] = has
    return features, dict(sorted(placed.items()))


def _unlike(record: RunRecord, wanted: Mapping[str, str]) -> dict[str, str]:
    """The wanted settings that the run does not have, with the values that it has, if any."""
    values = {key: looked_up(record.config, key) for key in wanted}
    unlike = {key: value for key, value in values.items() if not same_value(key, wanted[key], value)}
    return {key: "" if value is ... else shown(value) for key, value in unlike.items()}


def _filled(
    runs: Sequence[_RowRuns], experiment: Experiment, findings: list[Finding], lenders: "_Lenders"
) -> list[Row]:
    """The rows of one task on a data set, with those of runs that cannot be averaged behind them; adds findings."""
    rows: list[tuple[_RowRuns, Row]] = []
    for row_runs in runs:
        row, groups = row_runs.row, list[Group]()
        for arm, items in row_runs.records.items():
            title = experiment.titles.get(arm) or names.arm_title(arm, next((item.record for item in items), None))
            where = f"{row.name or names.task_title(*row.key, items[0].record if items else None)}, {title}"
            groups += _groups(where, arm, row, items, findings)
            failed = [item for item in items if item.record.status == "failed"]
            findings += [Finding("failed", failure_text(item), wrong=True, row=row.key) for item in failed]
        groups.sort(key=lambda group: list(experiment.arms).index(group.features))
        paper = _own_scores(row, groups) if row.spec.paper else row.paper
        for label in dict.fromkeys([row.label, *(group.label for group in groups)]):
            of_label = [group for group in groups if group.label == label]
            settings = of_label[0].settings if of_label else row.settings
            of_task = lenders.of(row.key, row.spec) if any(len(group.runs) == 1 for group in of_label) else ()
            rows.append((row_runs, replace(row, groups=of_label, settings=settings, paper=paper, lenders=of_task)))
    if not experiment.name:  # that of all records has an empty row only if all runs failed
        rows = [(row_runs, row) for row_runs, row in rows if row.groups] or rows[:1]
    filled = []
    for row_runs, row in rows:
        row = replace(row, others=[group for _, other in rows if other is not row for group in other.groups])
        warnings = row_warnings(row, row_runs.wanted, experiment.titles)
        findings += [Finding("note", text, wrong, row=row.key) for text, wrong in warnings]
        filled.append(row)
    return filled


def _groups(where: str, arm: str, row: Row, items: Sequence[RecordFile], findings: list[Finding]) -> list[Group]:
    """The numbers of one cell: one, or several with different settings if its runs cannot be averaged."""
    spec, groups = row.spec, list[Group]()
    runs = scored_runs(items, findings)
    of_whole, keys = groups_of(of_newest_recipe([run for run in runs if not run.incomplete], where, findings))
    of_some, _ = groups_of(of_newest_recipe([run for run in runs if run.incomplete], where, findings))
    if keys:
        text = f"{where}: runs that differ in {', '.join(keys)} are not averaged"
        findings.append(Finding("note", text, wrong=True, row=row.key))
    for group in [*of_whole, *of_some]:
        kept = [(_shown(record, spec), run) for record, run in zip(group.records, group.examples, strict=True)]
        scored = [(record, run) for record, run in kept if record is not None]
        if lacking := len(kept) - len(scored):
            text = f"{where}: {lacking} runs have no {spec.split} score by {spec.metric or 'the metric'}"
            findings.append(Finding("note", text, wrong=True))
        if scored:
            unlike = {key: value for key, value in group.settings.items() if key in (*keys, FOLD, "fingerprint")}
            examples = [run if spec.split == "test" else None for _, run in scored]  # examples are those of test
            settings = {**row.settings, **unlike}
            groups.append(Group(arm, settings, [record for record, _ in scored], examples, group.single))
    return groups


def _shown(record: RunRecord, spec: ExperimentRow) -> RunRecord | None:
    """The record with the row's metric and split in place of its main score; None if it has no such score."""
    metric, scores = spec.metric or record.metric, record.scores.get(spec.split, {})
    shown_scores = {**record.scores, record.judged: scores}
    return replace(record, metric=metric, scores=shown_scores) if metric in scores else None


def scored_runs(records: Sequence[RecordFile], findings: list[Finding]) -> list[ScoredRun]:
    """The finished runs with their examples; those on the folds of a dataset are joined, one run for each seed."""
    finished = [item for item in records if item.record.status == "finished"]
    runs = [ScoredRun(item.record, _examples_of(item, findings), runs_dir=item.runs_dir) for item in finished]
    joined, alone = join_folds(runs)
    for run in alone:
        identity, metric = run.record.identity, run.record.metric
        text = (
            f"{identity.title}: left out, because {metric} over several folds needs the counts of their examples, and "
            f"{EXAMPLES_NAME} is missing or has none. Delete the folder of the run, and run it again"
        )
        findings.append(Finding("note", text, wrong=True, row=identity.row))
    for run in joined:
        if run.incomplete:
            identity, settings = run.record.identity, settings_of(run.record)
            others = [other for other in joined if other.incomplete and _of_folds(other) == _of_folds(run)]
            keys = sorted({key for other in others for key in differences(settings, settings_of(other.record))})
            text = (
                f"{identity.title}: {len(run.single)} of {run.record.folds} folds, {run.record.metric} "
                f"{run.record.score:.2f} over their examples alone; no part of a mean over whole sets of folds"
            )
            text += f". Other folds differ in {', '.join(keys)}" * bool(keys)
            findings.append(Finding("note", text, wrong=bool(keys), row=identity.row))
    return joined


def _of_folds(run: ScoredRun) -> Identity:
    """The name that all folds of the run have."""
    return replace(run.single[0].identity, fold=None)


def _examples_of(item: RecordFile, findings: list[Finding]) -> list[Example] | None:
    """The run's test examples, or None; reports scores that the examples contradict."""
    record = item.record
    try:
        examples = item.examples
    except ExamplesUnreadable as error:
        findings.append(Finding("unreadable", str(error), wrong=True, row=record.identity.row))
        return None
    for text in unlike_metrics(record, examples or ()):
        findings.append(Finding("note", f"{item.path}: {text}; {REMEDY}", wrong=True, row=record.identity.row))
    return examples


class _Lenders:
    """The groups that single runs borrow their deviation from, with examples.

    They are those of all runs of the task, not of a row's alone: a gain has one interval in every table.
    """

    def __init__(self, files: Sequence[RecordFile]) -> None:
        finished = (item for item in files if item.record.status == "finished")
        self._files = [item for item in finished if item.record.identity.fold is None]
        self._known: dict[tuple[object, ...], list[Lender]] = {}

    def of(self, key: tuple[str, str], spec: ExperimentRow) -> list[Lender]:
        """Those of a task on a data set, by the metric and on the split of a row."""
        wanted = (key, spec.metric, spec.split)
        if wanted not in self._known:
            cells: dict[tuple[str, str], list[ScoredRun]] = defaultdict(list)
            items = {item.record.fingerprint: item for item in self._files if item.record.identity.row == key}
            for item in items.values():
                identity = item.record.identity
                if record := _shown(item.record, spec):
                    cells[identity.features, fingerprint(identity.typed_variant)].append(ScoredRun(record, None))
            groups = (group for cell in cells.values() for group in groups_of(of_newest_recipe(cell, "", []))[0])
            self._known[wanted] = []
            for lender in lenders_of(groups):
                examples = [_examples_of(items[run.fingerprint], []) for run in lender.group.records]
                self._known[wanted].append(replace(lender, group=replace(lender.group, examples=examples)))
        return self._known[wanted]


def of_newest_recipe(runs: Sequence[ScoredRun], where: str, findings: list[Finding]) -> list[ScoredRun]:
    """Those of a cell's runs that have the newest recipe among them; reports the others: no mean mixes recipes."""
    newest = max((run.record.recipe for run in runs), default=1)
    for recipe in sorted({run.record.recipe for run in runs} - {newest}):
        old = [run.record for run in runs if run.record.recipe == recipe]
        text = f"{where}: recipe {recipe} is left out ({runs_in_words(old)}); the others have recipe {newest}"
        findings.append(Finding("note", text, wrong=True, row=old[0].identity.row))
    return [run for run in runs if run.record.recipe == newest]


def groups_of(runs: Sequence[ScoredRun]) -> tuple[list[Group], list[str]]:
    """Runs of one name in groups that differ only in the seed, and the settings in which the groups differ.

    The groups are labelled by these. A run of an earlier version, which has no list of its inputs, counts as having
    read what the others read.
    """
    runs = sorted(runs, key=lambda run: run.record.identity.seed)
    known = {name: digest for run in reversed(runs) for name, digest in contents_of(run.record).items()}
    equal: dict[str, tuple[Parts, list[ScoredRun]]] = {}
    for run in runs:
        parts_of_run = {**comparable_parts(run.record), "inputs": {**known, **contents_of(run.record)}}
        equal.setdefault(fingerprint(parts_of_run), (parts_of_run, []))[1].append(run)
    parts = [parts_of_run for parts_of_run, _ in equal.values()]
    differing = sorted({key for other in parts for key in differences(parts[0], other)})
    groups = []
    for leaves, (_, group) in zip(map(flattened, parts), equal.values(), strict=True):
        unlike = {name: shown(leaves[name]) if name in leaves else "absent" for name in differing}
        first, single = group[0].record, [record for run in group for record in run.single]
        records, examples = [run.record for run in group], [run.examples for run in group]
        settings = {**first.identity.typed_variant, **unlike}
        groups.append(Group(first.identity.features, settings, records, examples, single))
    if len({group.label for group in groups}) < len(groups):  # values with the same text, such as 1 and "1"
        hashes = [{"fingerprint": key[:12]} for key in equal]
        groups = [replace(one, settings={**one.settings, **last}) for one, last in zip(groups, hashes, strict=True)]
    return groups, differing


def failure_text(item: RecordFile) -> str:
    """The run that failed, why, and its record."""
    error = item.record.error
    assert error is not None  # a failed run has one
    return f"{item.record.identity.title}: {error.type}: {' '.join(error.message.split())} ({item.path})"


def _default_title(cell: Cell) -> str:
    """The name of the task on the data, and what else the row sets."""
    keys = {key.lstrip("+"): value for key, _, value in (override.partition("=") for override in cell.row.overrides)}
    others = names.settings_title({key: value for key, value in keys.items() if key not in ("task", "data", "trial")})
    return ", ".join(filter(None, [names.task_title(*cell.identity.row), others]))


def _known_scores(key: tuple[str, str], spec: ExperimentRow, settings: Mapping[str, str]) -> names.PaperScore | None:
    """The numbers of paper/scores.toml, if they apply to a row with these settings."""
    if spec.metric or spec.split != "test" or any(name in settings for name in PARTIAL):
        return None
    return names.load_paper().compared(*key)


def _own_scores(row: Row, groups: Sequence[Group]) -> names.PaperScore:
    """The numbers in the experiment's file, with the margin of their metric."""
    spec, paper, metric = row.spec, names.load_paper(), row.spec.metric or (groups[0].metric if groups else "")
    margin = next((score.margin for score in paper.score if score.metric == metric), 0.0)
    compared = row.data in paper.comparable_data
    return names.PaperScore(row.task, metric, spec.split, spec.paper, spec.source, compared, margin, spec.paper_std)


def _missing(
    experiment: Experiment, filled: Sequence[tuple[Cell, Sequence[RecordFile]]], where: Sequence[str]
) -> list[Finding]:
    """The number of cells that are empty or lack seeds, and the command that fills them; none if there are none."""
    cells: dict[tuple[object, ...], list[list[RunRecord]]] = defaultdict(list)
    for cell, items in filled:
        if not cell.row.published_only:
            cells[id(cell.row), cell.arm, *cell.extra_overrides].append([item.record for item in items])
    failed, lacking, empty = False, 0, []
    for key, runs in cells.items():
        finished = [[record for record in run if record.status == "finished"] for run in runs]
        newest = [[record.recipe for record in run if not names.old_recipe(record)] for run in finished]
        lacking += sum(max([1, *chain(*newest)]) not in recipes for recipes in newest)
        failed = failed or finished != runs
        empty += [key] * (not any(finished))
    if not lacking:
        return []
    command = typed_sweep(experiment, [*experiment.given, *where, *["retry=failed"] * failed])
    parts = [f"{len(empty)} of {len(cells)} cells are empty"] * bool(empty)
    old = any(names.old_recipe(record) for runs in cells.values() for record in chain(*runs))
    parts += [f"{lacking} of {sum(map(len, cells.values()))} runs are missing{' or of an older recipe' * old}"]
    wrong = any(key[1] in experiment.compare for key in empty)
    return [Finding("empty" if empty else "seeds", f"{', '.join(parts)}; to fill them: {command}", wrong)]


def typed_sweep(experiment: Experiment, words: Sequence[str]) -> str:
    """The command that runs an experiment, or cells without one, with further words."""
    first = [f"experiment={hydra_value(experiment.name)}"] if experiment.name else []
    return f"python -m tasks.run -m {shlex.join([*first, *words])}"


def commands_of(groups: Sequence[Group]) -> list[str]:
    """The commands that repeat the groups' runs; arms with the same seeds and settings share one."""
    arms: dict[tuple[tuple[int, ...], tuple[str, ...]], list[str]] = {}
    for group in groups:
        seeds_under: dict[tuple[str, ...], list[int]] = {}  # seeds of one arm may have run on different devices
        for record in group.records:
            seeds_under.setdefault(tuple(_typed_settings(record)), []).append(record.identity.seed)
        for typed, numbers in seeds_under.items():
            arms.setdefault((tuple(numbers), typed), []).append(group.records[0].identity.features)
    commands = []
    for (seeds, settings), features in arms.items():
        identity = groups[0].records[0].identity
        several = len(seeds) > 1 or len(features) > 1 or any(word.startswith(f"{FOLD}=") for word in settings)
        sweep = " -m" if several else ""
        named = [f"task={identity.task}", f"data={identity.data}", f"features={','.join(features)}"]
        words = [*named, f"seed={','.join(map(str, seeds))}", *settings]
        commands.append(f"python -m tasks.run{sweep} {' '.join(map(shlex.quote, words))}")
    return commands


def commit_of(groups: Sequence[Group]) -> str:
    """The commits of the runs, as text, with the recipe if it is an older one."""
    commits = {(record.commit, group.old_recipe) for group in groups for record in group.runs}
    known = sorted(f"{commit[:10]}{f' ({recipe})' * bool(recipe)}" for commit, recipe in commits if commit)
    unknown = ["no commit recorded"] if any(commit is None for commit, _ in commits) else []
    return ", ".join([f"at {' and '.join(known)}"] * bool(known) + unknown)


def _typed_settings(record: RunRecord) -> list[str]:
    """The settings of a run without arm and seed, including folds, device and threads."""
    data = record.settings("data")
    whole = record.folds if FOLD not in record.identity.variant else None  # else some, which the variant has
    settings = [f"{FOLD}={','.join(map(str, range(whole)))}"] if whole else []
    settings += [f"{_typed(key, data)}={value}" for key, value in record.identity.typed_variant.items()]
    settings += [] if data.get("shipped", True) else ["data_dir=DIR"]
    if record.environment:
        settings += [f"threads={record.environment.threads}"] * (record.environment.threads != 1)
        settings += ["device=cpu" if record.environment.device == "cpu" else "device=cuda"]
    return settings


def _typed(key: str, data: Mapping[str, object]) -> str:
    """The key on the command line; datasets of a task's YAML are set under `datasets`."""
    if key.startswith("data.") and data.get("task") is None:
        return f"datasets.{data.get('name')}.{key.removeprefix('data.')}"
    return key
