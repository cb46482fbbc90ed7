"""Summary of a collection of records: which runs are averaged, the rows of the table, and findings about them."""

import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from results.analysis.names import arm_title, default_pair, sort_key, task_title
from results.analysis.paper_scores import load_paper
from results.analysis.row_warnings import row_warnings, runs_in_words
from results.analysis.rows import MINI, Group, Lender, Summary, TableRow, column_order, comparable_parts, lenders_of
from results.audit.scores import REMEDY, unlike_metrics
from results.experiments.cell import NAMED, NOT_RECORDED
from results.experiments.experiment import Experiment, values_of
from results.records.collect import Collection, Finding, FoundRecord
from results.records.example_scores import Example, ExamplesUnreadable, read_examples
from results.records.folds import ScoredRun, all_folds, join_folds
from results.records.identity import (
    EXAMPLES_NAME,
    Identity,
    Parts,
    differences,
    fingerprint,
    flattened,
    looked_up,
    same_value,
    shown,
)
from results.records.record import RunRecord
from results.records.settings import contents_of, settings_of
from results.records.sweep_manifest import TypedPlaces

_OF_FEATURES = "features."


@dataclass(frozen=True)
class Selection:
    """What to show.

    Attributes:
        data: Only these data sets; all if empty.
        include_limited: Whether to show runs with a limit.
        compared: The features whose difference is the gain; settings may follow, as in "FEATURES KEY=VALUE".
        best_of: For how many seeds to show the expected best, if any.
        places: Where the user has configs, data and runs, for suggested commands.
        headline: The experiment whose two arms are the main ones, if they have settings; see `_from_headline`.
    """

    data: Sequence[str] = field(default_factory=list)
    include_limited: bool = False
    compared: tuple[str, str] = field(default_factory=default_pair)
    best_of: int | None = None
    places: TypedPlaces = field(default_factory=TypedPlaces)
    headline: Experiment | None = None


def summarise(collection: Collection, selection: Selection) -> Summary:
    """The rows of the table in the paper's order, and the findings about them."""
    findings = list(collection.findings)
    by_row: dict[tuple[str, str], list[FoundRecord]] = defaultdict(list)
    limited = trials = 0
    for item in collection.found:
        identity = item.record.identity
        if selection.data and identity.data not in selection.data:
            continue
        if item.record.trial:
            trials += 1
        elif item.record.limit is not None and not selection.include_limited:
            limited += 1
            if item.record.status == "failed":  # failures are always reported
                findings.append(Finding("failed", failure_text(item), wrong=True))
        else:
            by_row[identity.row].append(item)
    if limited:
        findings.append(
            Finding("note", f"limited runs left out: {limited} (--include-limited shows them)", wrong=False)
        )
    if trials:
        text = f"trials left out: {trials}; they have no test score (--experiment NAME shows those of an experiment)"
        findings.append(Finding("note", text, wrong=False))
    arms = _headline_settings(selection.headline) if selection.headline else {}
    defaults = {own for item in collection.found for own in _feature_defaults(item.record, arms)}
    rows = [_row(*key, by_row[key], selection, findings, defaults) for key in sorted(by_row, key=_row_order)]
    main_arms = {key: value for own in arms.values() for key, value in own.items()}
    note = selection.headline.note if selection.headline and any(row.data != MINI for row in rows) else ""
    summary = Summary(rows, findings, selection.compared, selection.best_of, main_arms, note)
    for row in rows:
        findings += _empty_cells(row, summary.features, selection)
    asked = [f for f in findings if not selection.data or not f.row or f.row[0] in selection.data]
    return replace(summary, findings=asked)


def _row_order(key: tuple[str, str]) -> tuple[object, ...]:
    """Sort key: the paper's data and tasks in its order, then others by name, the mini data last."""
    data, task = key
    paper = load_paper()
    return (data not in paper.comparable_data, data == MINI, data, *sort_key(task, paper.tasks))


def _row(
    data: str,
    task: str,
    found: Sequence[FoundRecord],
    selection: Selection,
    findings: list[Finding],
    defaults: Set[tuple[str, str]],
) -> TableRow:
    key, compared = (data, task), selection.compared
    cells: dict[tuple[str, str], list[ScoredRun]] = defaultdict(list)
    for run in scored_runs(found, findings):
        cells[run.record.identity.features, fingerprint(run.record.identity.typed_variant)].append(run)
    groups: list[Group] = []
    for cell in cells.values():
        first = cell[0].record
        where = f"{task_title(data, task, first)}, {arm_title(first.identity.features, first)}"
        cell_groups, keys = groups_of(of_newest_recipe(cell, where, findings))
        groups += cell_groups
        if keys:
            text = f"{where}: runs that differ in {', '.join(keys)} are not averaged"
            findings.append(Finding("note", text, wrong=True, row=key))
    groups = [_as_compared(group, compared) for group in groups]
    named = dict[str, str]()
    if selection.headline and data != MINI:
        groups, named = _from_headline(groups, selection.headline, data, task, defaults)
    # Plain runs have an empty label and come first.
    groups.sort(key=lambda group: (group.label, column_order(group.features, compared)))
    failed = [item for item in found if item.record.status == "failed"]
    row = TableRow(data, task, groups, failed, load_paper().compared(data, task), compared, named, lenders_of(groups))
    findings += [Finding("failed", failure_text(item), wrong=True, row=key) for item in row.failed]
    wanted = [setting for name in compared for setting in arm_settings(name)[1]]
    findings += [Finding("note", text, wrong, row=key) for text, wrong in row_warnings(row, wanted, {})]
    return row


def arm_settings(name: str) -> tuple[str, dict[str, str]]:
    """The features and the settings of an arm to compare, "FEATURES KEY=VALUE ..."."""
    features, *settings = name.split() or [""]
    return features, {key: value for key, _, value in (setting.partition("=") for setting in settings)}


def _as_compared(group: Group, compared: tuple[str, str]) -> Group:
    """The group as an arm of the comparison, if it has the settings that one of the two names asks for."""
    for name in sorted(compared, key=len, reverse=True):  # the one with more settings first
        features, wanted = arm_settings(name)
        if wanted and group.features == features and wanted.items() <= group.settings.items():
            others = {key: value for key, value in group.settings.items() if key not in wanted}
            return replace(group, features=name, settings=others)
    return group


def _headline_settings(headline: Experiment, row: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Compared arm -> what its runs set in a row with these overrides and record, without task, data and features."""
    typed = {arm: dict(map(values_of, [*row, *headline.arms[arm]])) for arm in headline.compare}
    left_out = (*NAMED, *NOT_RECORDED)
    return {arm: {key: values[0] for key, values in own.items() if key not in left_out} for arm, own in typed.items()}


def _feature_defaults(record: RunRecord, arms: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str]]:
    """The suite's defaults for those settings of features that the headline's arms change, if the run has them."""
    keys = [key for key in arms.get(record.identity.features, {}) if key.startswith(_OF_FEATURES)]
    found = {key: looked_up(record.config, key) for key in keys if key not in record.identity.variant}
    return [(key, shown(value)) for key, value in found.items() if value is not ...]


def _from_headline(
    groups: list[Group], headline: Experiment, data: str, task: str, of_features: Set[tuple[str, str]]
) -> tuple[list[Group], dict[str, str]]:
    """The groups with their settings as changes to the headline's arms, and what the row's name should say.

    The headline's runs become the plain ones, which the main tables show, and runs with the suite's defaults become
    other settings. Arms that the headline lacks, such as controls, should have what its second arm has. A row without
    a pair of the headline's arms stays as it is, and its name says what it has instead. `of_features`: see
    `_feature_defaults`, of the runs of all rows.
    """
    row = next((row.overrides for row in headline.rows if {f"task={task}", f"data={data}"} <= set(row.overrides)), [])
    arms, second = _headline_settings(headline, row), headline.compare[1]
    if not any(arms.values()):
        return groups, {}
    defaults = {
        (key, shown(value))
        for group in groups
        for key in arms.get(group.features, {}).keys() - group.settings.keys()
        if (value := looked_up(group.records[0].config, key)) is not ...
    }
    changed = [_as_changes(group, arms.get(group.features, arms[second]), defaults | of_features) for group in groups]
    found = [
        {own.label for own in changed if own.features == arm and not own.partial and not _unlike(own, settings)}
        for arm, settings in arms.items()
    ]
    if set.intersection(*found):
        return changed, {key: values[0] for key, values in map(values_of, row) if key not in NAMED}
    instead, keys = dict(sorted(defaults)), [key for own in _headline_settings(headline).values() for key in own]
    return groups, {key: instead[key] for key in keys if key in instead}


def _as_changes(group: Group, wanted: Mapping[str, str], defaults: Set[tuple[str, str]]) -> Group:
    """The group without settings that are wanted, and with those that it has instead.

    A setting of its features is only named if it is a default. Any other value belongs to these features, as their own
    vectors do.
    """
    unlike = _unlike(group, wanted)
    kept = {key: value for key, value in group.settings.items() if key in unlike or key not in wanted}
    known = {(key, value) for key, value in unlike.items() if value and not key.startswith(_OF_FEATURES)}
    return replace(group, settings=dict(sorted({**kept, **dict(known | (unlike.items() & defaults))}.items())))


def _unlike(group: Group, wanted: Mapping[str, str]) -> dict[str, str]:
    """The wanted settings that the group's runs do not have, with the values that they have, if any."""
    found = {key: looked_up(group.records[0].config, key) for key in wanted}
    return {
        key: "" if value is ... else shown(value)
        for key, value in found.items()
        if not same_value(key, wanted[key], value)
    }


def scored_runs(found: Sequence[FoundRecord], findings: list[Finding]) -> list[ScoredRun]:
    """The finished runs with their examples; those on the folds of a dataset are joined, one run for each seed."""
    finished = [item for item in found if item.record.status == "finished"]
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
            others = [own for own in joined if own.incomplete and _of_folds(own) == _of_folds(run)]
            keys = sorted({key for own in others for key in differences(settings, settings_of(own.record))})
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


def _examples_of(item: FoundRecord, findings: list[Finding]) -> list[Example] | None:
    """The run's test examples, or None; reports scores that the examples contradict."""
    record, path = item.record, item.path.with_name(EXAMPLES_NAME)
    try:
        examples = read_examples(path, record.fingerprint)
    except ExamplesUnreadable as error:
        findings.append(Finding("unreadable", str(error), wrong=True, row=record.identity.row))
        return None
    for text in unlike_metrics(record, examples or ()):
        findings.append(Finding("note", f"{item.path}: {text}; {REMEDY}", wrong=True, row=record.identity.row))
    return examples


def lenders_among(found: Sequence[FoundRecord], shown: Callable[[RunRecord], RunRecord | None]) -> list[Lender]:
    """The groups of one task's runs that single runs borrow their deviation from, with examples.

    Args:
        found: The runs.
        shown: A run's record with the score to show as its main one; None if it has none.
    """
    cells: dict[tuple[str, str], list[ScoredRun]] = defaultdict(list)
    items = {item.record.fingerprint: item for item in found if item.record.status == "finished"}
    for item in items.values():
        record, identity = shown(item.record), item.record.identity
        if record and identity.fold is None:
            cells[identity.features, fingerprint(identity.typed_variant)].append(ScoredRun(record, None))
    groups = (group for cell in cells.values() for group in groups_of(of_newest_recipe(cell, "", []))[0])
    return [
        replace(own, group=replace(own.group, examples=[_examples_of(items[key], []) for key in _keys(own.group)]))
        for own in lenders_of(groups)
    ]


def _keys(group: Group) -> list[str]:
    return [record.fingerprint for record in group.records]


def of_newest_recipe(runs: Sequence[ScoredRun], where: str, findings: list[Finding]) -> list[ScoredRun]:
    """Those of a cell's runs that have the newest recipe among them; reports the others: no mean mixes recipes."""
    by_recipe: dict[int, list[ScoredRun]] = defaultdict(list)
    for run in runs:
        by_recipe[run.record.recipe].append(run)
    newest = max(by_recipe, default=1)
    for recipe, old in sorted(by_recipe.items()):
        if recipe < newest:
            which = runs_in_words([run.record for run in old])
            text = f"{where}: recipe {recipe} is left out ({which}); the others have recipe {newest}"
            findings.append(Finding("note", text, wrong=True, row=old[0].record.identity.row))
    return by_recipe[newest]


def groups_of(runs: Sequence[ScoredRun]) -> tuple[list[Group], list[str]]:
    """Runs of one name in groups that differ only in the seed, and the settings in which the groups differ.

    The groups are labelled by these. A run of an earlier version, which has no list of its inputs, counts as having
    read what the others read.
    """
    runs = sorted(runs, key=lambda run: run.record.identity.seed)
    known = {name: found for run in reversed(runs) for name, found in contents_of(run.record).items()}
    equal: dict[str, tuple[Parts, list[ScoredRun]]] = {}
    for run in runs:
        own = {**comparable_parts(run.record), "inputs": {**known, **contents_of(run.record)}}
        equal.setdefault(fingerprint(own), (own, []))[1].append(run)
    parts = [own for own, _ in equal.values()]
    differing = sorted({key for other in parts for key in differences(parts[0], other)})
    groups = []
    for leaves, (_, group) in zip(map(flattened, parts), equal.values(), strict=True):
        unlike = {name: shown(leaves[name]) if name in leaves else "absent" for name in differing}
        first, single = group[0].record, [record for run in group for record in run.single]
        records, examples = [run.record for run in group], [run.examples for run in group]
        groups.append(
            Group(first.identity.features, {**first.identity.typed_variant, **unlike}, records, examples, single)
        )
    if len({group.label for group in groups}) < len(groups):  # values with the same text, such as 1 and "1"
        groups = [
            replace(g, settings={**g.settings, "fingerprint": key[:12]}) for key, g in zip(equal, groups, strict=True)
        ]
    return groups, differing


def failure_text(item: FoundRecord) -> str:
    """The run that failed, why, and its record."""
    error = item.record.error
    assert error is not None  # a failed run has one
    return f"{item.record.identity.title}: {error.type}: {' '.join(error.message.split())} ({item.path})"


def _empty_cells(row: TableRow, features: Sequence[str], selection: Selection) -> list[Finding]:
    """The command for each missing plain number; only missing arms of the comparison make `--check` fail."""
    empty = [name for name in features if not _has_plain(row, name)]
    if len(empty) == len(features) and not row.failed and any(row.pair(group.label) for group in row.groups):
        return []  # the row shows a comparison under other settings, and nobody asked for plain runs
    seeds = [record.identity.seed for group in row.groups for record in group.records]
    known = [*(group.records[0] for group in row.groups), *(item.record for item in row.failed)]
    folds = next((record.folds for record in known if record.folds), 0)
    findings = []
    for name in empty:
        arm, settings = arm_settings(name)
        retry = [i.record.identity.seed for i in row.failed if i.record.identity.features == arm]
        seed = min(retry or seeds or [1])
        data = selection.places.datasets.get(row.data, row.data)
        words = [f"task={row.task}", f"features={arm}", f"data={data}", f"seed={seed}"]
        words += [f"{key}={value}" for key, value in settings.items()]
        words += [all_folds(folds)] if folds else []
        words += ["retry=failed"] if retry else []
        words += selection.places.words(shipped=row.data == MINI)
        command = f"python -m tasks.run {'-m ' if folds else ''}{shlex.join(words)}"
        findings.append(Finding("empty", command, wrong=name in row.compared, row=row.key))
    return findings


def _has_plain(row: TableRow, features: str) -> bool:
    wanted = arm_settings(features)[1].keys()
    own = [group for group in row.groups if group.features == features]
    return any(not group.label or group.records[0].identity.variant.keys() <= wanted for group in own)
