"""Test examples of two runs on the same test set: which ones the second run fixes, and which it breaks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from elmo.common.errors import InputError
from results.analysis.names import arm_title, metric_of, metric_title, old_recipe, task_title
from results.analysis.rows import Group
from results.records.collect import FoundRecord
from results.records.example_scores import Example, ExamplesUnreadable, Prediction, read_examples, read_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME, RECORD_NAME
from results.records.metric import Metric
from results.records.record import RecordUnreadable, RunRecord, read_record
from results.tables.rerun_commands import commands_of

FIXED, BROKEN, BOTH_WRONG, BOTH_RIGHT = "fixed", "broken", "both wrong", "both right"
OUTCOMES = {  # (is the first run right, is the second), in the order of display
    (False, True): FIXED,
    (True, False): BROKEN,
    (False, False): BOTH_WRONG,
    (True, True): BOTH_RIGHT,
}


@dataclass(frozen=True)
class ComparedExample:
    """A test example and what both runs predict for it.

    Attributes:
        id: Its name.
        example: Its words or texts.
        gold: The correct output.
        predicted: The output of each run.
        right: Whether each run is right.
        scores: The score of each run on this example alone, in percent.
    """

    id: str
    example: Mapping[str, object]
    gold: Mapping[str, object]
    predicted: tuple[Mapping[str, object], Mapping[str, object]]
    right: tuple[bool, bool]
    scores: tuple[float, float]

    @property
    def outcome(self) -> str:
        """One of OUTCOMES."""
        return OUTCOMES[self.right]


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same test examples.

    Attributes:
        title: The task and its data, for people.
        metric: The main metric, for people.
        runs: The names of both runs, for people.
        examples: Fixed, broken, both wrong, both right; in each, the largest difference of scores first.
    """

    title: str
    metric: str
    runs: tuple[str, str]
    examples: Sequence[ComparedExample]

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of examples of each outcome."""
        found = Counter(example.outcome for example in self.examples)
        return {outcome: found[outcome] for outcome in OUTCOMES.values()}

    @cached_property
    def moved(self) -> tuple[int, int]:
        """Of the examples that both have wrong: on how many the second run scores higher, and on how many lower."""
        scores = [example.scores for example in self.examples if example.outcome == BOTH_WRONG]
        return sum(after > before for before, after in scores), sum(after < before for before, after in scores)


def read_run(folder: Path) -> FoundRecord:
    """The finished run in a folder.

    Raises:
        InputError: There is none.
    """
    path = folder / RECORD_NAME
    try:
        record = read_record(path)
    except (RecordUnreadable, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        expected = f"expected the folder of a run, such as RUNS_DIR/DATA/TASK/FEATURES/seed-1, with {RECORD_NAME}"
        raise InputError(f"{folder}: {expected}, found: {reason}") from error
    if record.status == "failed":
        raise InputError(f"{folder}: expected a finished run, found one that failed. Run it again")
    return FoundRecord(path, record)


def compare_runs(first: FoundRecord, second: FoundRecord) -> Comparison:
    """Both runs, example by example.

    Raises:
        InputError: They are of different test sets, or one has no predictions or no scores of single examples.
    """
    _check_same_test_set(first, second)
    (before, scores), (after, new_scores) = map(_kept, (first, second))
    if [one.id for one in before] != [one.id for one in after]:
        raise InputError(
            f"{first.path.parent} and {second.path.parent}: expected the same test examples, found {len(before):,} and "
            f"{len(after):,} with different names. Name two runs with the same data and limit"
        )
    metric, new_metric = _metric(first, scores), _metric(second, new_scores)
    examples = [
        ComparedExample(
            one.id,
            one.example,
            one.gold,
            (one.predicted, two.predicted),
            (metric.is_right(score), new_metric.is_right(new_score)),
            (_score(metric, score), _score(new_metric, new_score)),
        )
        for one, two, score, new_score in zip(before, after, scores, new_scores, strict=True)
    ]
    order = list(OUTCOMES.values())
    examples.sort(key=lambda one: (order.index(one.outcome), -abs(one.scores[1] - one.scores[0])))
    record = first.record
    title = task_title(record.identity.data, record.identity.task, record)
    return Comparison(title, metric_title(record.metric, record), _names(first.record, second.record), examples)


def _check_same_test_set(first: FoundRecord, second: FoundRecord) -> None:
    records = (first.record, second.record)
    one, other = ((own.identity.task, own.metric, own.data_hashes.get("test")) for own in records)
    if one != other:
        raise InputError(
            f"{first.path.parent} and {second.path.parent}: expected two runs of one task on the same test files, "
            f"found {first.record.identity.title} and {second.record.identity.title}. Name two runs that differ in "
            "features, settings or seed alone"
        )


def _kept(run: FoundRecord) -> tuple[list[Prediction], list[Example]]:
    """The predictions of a run and their scores."""
    folder = run.path.parent
    try:
        predictions = read_predictions(folder / PREDICTIONS_NAME, run.record.fingerprint)
        scores = read_examples(folder / EXAMPLES_NAME, run.record.fingerprint)
    except ExamplesUnreadable as error:
        raise InputError(str(error)) from error
    missing = [name for name, found in ((PREDICTIONS_NAME, predictions), (EXAMPLES_NAME, scores)) if found is None]
    if predictions is None or scores is None:
        (command,) = commands_of([Group(run.record.identity.features, {}, [run.record])])
        raise InputError(
            f"{folder}: expected {' and '.join(missing)} next to the record, found none; runs of earlier versions, and "
            "published ones whose data do not come with the suite, have no predictions. To make them, run it again in "
            f"a new folder:\n  {command} runs_dir=NEW"
        )
    if len(predictions) != len(scores):
        raise InputError(
            f"{folder}: expected a score for each of {len(predictions):,} predictions, found {len(scores):,}. Restore "
            "the files from a copy, or delete the folder and run again"
        )
    return predictions, scores


def _metric(run: FoundRecord, scores: Sequence[Example]) -> Metric:
    metric = metric_of(run.record, set.intersection(*map(set, scores)))
    if metric is None:
        raise InputError(
            f"{run.path.with_name(EXAMPLES_NAME)}: expected the counts that {run.record.metric} follows from, found "
            f"{', '.join(scores[0])}. Declare the metric in `metrics` of the task's class"
        )
    return metric


def _score(metric: Metric, example: Example) -> float:
    """The score of one example; 100 where there is nothing to find and nothing was found."""
    return 100.0 if metric.is_right(example) else metric.of_examples([example]) or 0.0


def _names(first: RunRecord, second: RunRecord) -> tuple[str, str]:
    """The arms, with settings; with seeds where the two would have one name."""
    names = [_name(record) for record in (first, second)]
    if names[0] == names[1]:
        names = [f"{name}, seed {record.identity.seed}" for name, record in zip(names, (first, second), strict=True)]
    return names[0], names[1]


def _name(record: RunRecord) -> str:
    settings = [f"{key}={value}" for key, value in record.identity.typed_variant.items()]
    return " ".join(filter(None, [arm_title(record.identity.features, record), *settings, old_recipe(record)]))
