"""Warnings about a row: declared ones, mixed commits or vectors, uncommitted changes, other differences of arms."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

from results.analysis.names import arm_title, with_training_names
from results.analysis.rows import WARNED, Row, unlike_vectors
from results.records.identity import Parts, differences, flattened
from results.records.record import RunRecord

NAMES = ("features.name", "features.title", "task.title")  # no settings, like keys that end in `.warning`
# Settings that choose the vectors; the other settings of features say how the vectors are used.
SOURCES = ("weights", "vectors", "dim", "untrained", "untrained_seed", "model")

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
            keys, wrong = _arm_differences(first.records[0], other.records[0], wanted)
            warnings += [(f"{where}: arms differ in {', '.join(keys)}", wrong)] * bool(keys)
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


def _arm_differences(first: RunRecord, second: RunRecord, wanted: Collection[str]) -> tuple[list[str], bool]:
    """The settings in which two arms differ unexpectedly, and whether that makes their gain doubtful.

    Arms of different kinds (with a biLM and without) always differ in `features`. Arms of the same kind should differ
    in their weights or vectors. If they share those, the comparison is between settings: reported, but not wrong.
    """
    sides = _settings_and_content(first), _settings_and_content(second)
    found = differences(*sides)
    # A setting that only one of them has was added to the suite between the two runs; its default is the old behaviour.
    # Other features may set it in their own file, though.
    other_file = first.identity.features != second.identity.features
    keys = [
        key for key, values in found.items() if "absent" not in values or (other_file and key.startswith("features."))
    ]
    keys = [key for key in keys if not key.startswith("recipes.")]
    keys = [key for key in keys if key not in (*NAMES, *wanted) and not key.endswith(".warning")]
    other = [key for key in keys if key.split(".")[0] not in ("features", "vectors", "weights", "transformer")]
    if _feature_parts(sides[0]) != _feature_parts(sides[1]):
        return other, True
    of_arm = [key for key in keys if key not in other]
    sources = [key for key in of_arm if not key.startswith("features.") or key.split(".")[-1] in SOURCES]
    settings = [key for key in keys if key not in sources]
    return settings, bool(other or sources)


def _settings_and_content(record: RunRecord) -> Parts:
    """A run's settings and content hashes by the keys that a user types, without paths of data and classes.

    The fingerprint's own copy of settings, which only runs with a user's YAML have, writes lists as text.
    """
    return {
        **{key: record.settings(key) for key in ("features", "trainer")},
        "task": {key: value for key, value in record.settings("task").items() if key != "_target_"},
        "data.reader": record.settings("data").get("reader", {}),
        **{key: value for key, value in with_training_names(record.fingerprinted).items() if key != "settings"},
        "metric": record.metric,
    }


def _feature_parts(parts: Parts) -> set[str]:
    """The parts of the features, such as words and characters."""
    return {key.split(".")[1] for key in flattened(parts) if key.startswith("features.") and key.count(".") > 1}
