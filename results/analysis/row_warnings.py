"""Warnings about a row: declared ones, mixed commits or vectors, uncommitted changes, other differences of arms."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

from results.analysis.names import arm_title
from results.analysis.rows import WARNED, Row, unlike_vectors
from results.records.identity import differences
from results.records.record import RunRecord
from results.records.settings import settings_of

LEARNED_NOTHING = (
    "(one class for all test examples, or a score of 0), so gains over it or of it mean nothing. Try more epochs or "
    "smaller batches"
)


def row_warnings(row: Row, wanted: Collection[str], titles: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Warnings about the row's numbers, each with whether `--check` should fail: mixed code or vectors, unequal arms.

    Args:
        row: The row.
        wanted: Settings in which its arms differ on purpose.
        titles: Arm -> its name for people, where it is not that of its features.
    """
    # of texts that differ in numbers alone, as those of folds, the first
    data: dict[str, str] = {}
    for text in (text for group in row.groups for run in group.runs for text in run.data_warnings):
        data.setdefault(re.sub(r"\d+", "", text), text)
    warnings = [(f"{row.name or row.task_title}: data: {text}", False) for text in data.values()]
    nothing = []  # the arms that learned nothing
    for group in row.groups:
        title = titles.get(group.features) or arm_title(group.features, group.records[0])
        where = f"{row.title}, {title}"
        commits = [(record.commit or "no commit")[:10] for record in group.runs]
        vectors = [str(record.hashed.get("vectors"))[:10] for record in group.runs]
        for what, sources in {"commits": commits, "trainings of the vectors": vectors}.items():
            by_source: dict[str, list[RunRecord]] = defaultdict(list)
            for record, source in zip(group.runs, sources, strict=True):
                by_source[source].append(record)
            if len(by_source) > 1:
                mixed = ", ".join(f"{source} ({runs_in_words(own)})" for source, own in by_source.items())
                warnings.append((f"{where}: one mean over several {what}: {mixed}", True))
        dirty = [run for run in group.runs if run.environment and run.environment.dirty]
        warnings += [(f"{where}: {WARNED} {text}", False) for text in group.warnings]
        if idle := [run for run in group.runs if run.learned_nothing]:
            nothing.append(f"{title} ({runs_in_words(idle)})")
        if dirty:
            warnings.append((f"{where}: code with uncommitted changes ({runs_in_words(dirty)})", True))
        for record in group.runs:
            others = {key for own in record.earlier for key in differences(vars(own), vars(record.environment))}
            if others:
                which = f"{runs_in_words([record])} was continued in another environment"
                warnings.append((f"{where}: {which} ({', '.join(sorted(others))})", False))
    if nothing:
        warnings.append((f"{row.title}: {', '.join(nothing)} learned nothing {LEARNED_NOTHING}", False))
    base, second = row.compared
    for arm in dict.fromkeys([second, *(group.features for group in row.groups)]):
        matched = row.comparing(base, arm).matched if arm != base else None
        if matched is None:
            continue
        first, other = matched
        names = " and ".join(titles.get(own) or arm_title(own) for own in (base, arm))
        where = f"{row.title}: {names}"
        if unlike := unlike_vectors(first, other):
            warnings.append((f"{where}: no gain, because {unlike}", True))
        elif arm == second and first.recipe == other.recipe:
            keys = _arm_differences(first.records[0], other.records[0], wanted)
            warnings += [(f"{where}: arms differ in {', '.join(keys)}", True)] * bool(keys)
        elif arm == second and first.label == other.label:
            text = f"{where}: no gain, because their recipes differ: {first.recipe} and {other.recipe}"
            warnings.append((text, True))
    return warnings


def runs_in_words(records: Collection[RunRecord]) -> str:
    """The seeds and folds in words: seed 1; seeds 1, 3; seeds 2 to 5, folds 0 to 9."""
    folds = {record.identity.fold for record in records if record.identity.fold is not None}
    seeds = _listed("seed", {record.identity.seed for record in records})
    return f"{seeds}, {_listed('fold', folds)}" if folds else seeds


def _listed(name: str, numbers: Collection[int]) -> str:
    first, last = min(numbers), max(numbers)
    if len(numbers) > 2 and last - first + 1 == len(numbers):
        return f"{name}s {first} to {last}"
    return f"{name}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _arm_differences(first: RunRecord, second: RunRecord, wanted: Collection[str]) -> list[str]:
    """The settings and data in which two arms differ beside their features.

    A setting that only one of them has was added to the suite between the two runs; its default is the old behaviour.
    """
    sides = ({**settings_of(own), "data": own.data_hashes, "metric": own.metric} for own in (first, second))
    return [
        key
        for key, values in differences(*sides).items()
        if "absent" not in values and not key.startswith("features.") and key not in wanted
    ]
