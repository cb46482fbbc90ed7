"""Test examples that run B fixes and breaks, next to gold and run A: `python -m results.examples A B`.

Shows test examples of two runs on the same test files: gold, what run A predicts, and what run B predicts. An example
is right if its score is 100. A and B are the folders of the runs. Both must have kept their predictions, as every run
does now: predictions.jsonl.gz next to the record. Outputs are JSON of any task, so what is shown follows from their
shape: labels, tags of words, spans, chains of spans.

examples, for two runs R1=results/runs/mini/TASK/FEATURES/seed-1 and R2 with other features:
  python -m results.examples R1 R2                                 how many B fixes and breaks, and 20 of them
  python -m results.examples R1 R2 --show broken --limit 0         all that B breaks
  python -m results.examples R1 R2 --show both-wrong
"""

import argparse
import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.common.checks import at_least
from elmo.common.errors import InputError, command_parser
from results.names import arm_title, metric_of, metric_title, old_recipe, task_title
from results.records.collect import RecordFile
from results.records.example_scores import Prediction, read_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME, RECORD_NAME
from results.records.printing import write
from results.records.record import RecordUnreadable, RunRecord, read_record

OUTCOMES = {  # (is the first run right, is the second), in the order of display
    (False, True): "fixed",
    (True, False): "broken",
    (False, False): "both wrong",
    (True, True): "both right",
}
SHOWN = ("fixed", "broken", "both-wrong", "all")
DEFAULT_LIMIT = 20
WORDS = "tokens"  # the field with the words of an example, which spans count

Fields = Mapping[str, object]
Piece = tuple[str, str]  # of an output, such as a span: "+" if it is wrong, "-" if it is missing, or ""; its text
Spans = Mapping[tuple[str, int, int], Mapping[str, Any]]  # by label, start and end


@dataclass(frozen=True)
class ComparedExample:
    """A test example and what both runs predict for it.

    Attributes:
        predictions: The prediction of each run.
        right: Whether each run is right.
        scores: The score of each run on this example alone, in percent.
    """

    predictions: tuple[Prediction, Prediction]
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
        title: The display name of the task and its data.
        metric: The display name of the main metric.
        runs: The display names of both runs.
        examples: Fixed, broken, both wrong, both right; in each, the largest difference of scores first.
    """

    title: str
    metric: str
    runs: tuple[str, str]
    examples: Sequence[ComparedExample]

    @property
    def counts(self) -> dict[str, int]:
        """The number of examples of each outcome."""
        counts = Counter(example.outcome for example in self.examples)
        return {outcome: counts[outcome] for outcome in OUTCOMES.values()}


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("results.examples", __doc__ or "")
    parser.add_argument("first", metavar="A", type=Path, help="folder of a run, with record.json")
    parser.add_argument("second", metavar="B", type=Path, help="folder of the run to compare with it")
    about = "which examples; default: all, fixed ones first"
    parser.add_argument("--show", choices=SHOWN, default="all", help=about)
    about = f"at most N examples; 0: no limit; default: {DEFAULT_LIMIT}"
    parser.add_argument("--limit", metavar="N", type=int, default=DEFAULT_LIMIT, help=about)
    return parser.run(argv, _show)


def _show(options: argparse.Namespace) -> None:
    at_least(0, "--limit", options.limit)
    comparison = compare_runs(read_run(options.first), read_run(options.second))
    wanted = [one for one in comparison.examples if options.show in ("all", one.outcome.replace(" ", "-"))]
    chosen = wanted[: options.limit or None]
    write(_as_text(comparison, chosen, len(wanted) - len(chosen)), sys.stdout, exact=True)


def read_run(folder: Path) -> RecordFile:
    """The finished run in a folder.

    Raises:
        InputError: There is none.
    """
    expected = f"{folder}: expected the folder of a finished run, such as RUNS_DIR/DATA/TASK/FEATURES/seed-1"
    try:
        record = read_record(folder / RECORD_NAME)
    except (RecordUnreadable, OSError) as error:
        raise InputError(f"{expected}, found: {error}") from error
    if record.error is not None:
        raise InputError(f"{expected}, found: a run that failed: {record.error.last_line}")
    return RecordFile(folder / RECORD_NAME, record)


def compare_runs(first: RecordFile, second: RecordFile) -> Comparison:
    """Both runs, example by example.

    Raises:
        InputError: They are of different test sets, or one has no predictions or no scores of single examples.
    """
    record, other = first.record, second.record
    before, after = map(_kept, (first, second))
    one, two = (
        (run.identity.task, run.metric, run.data_hashes.get("test"), [prediction.id for prediction, _, _ in kept])
        for run, kept in ((record, before), (other, after))
    )
    if one != two:
        raise InputError(
            f"{first.path.parent} and {second.path.parent}: expected two runs of one task on the same test examples, "
            f"found {record.identity.title} and {other.identity.title}. Name two runs that differ in features, "
            "settings or seed alone"
        )
    pairs = zip(before, after, strict=True)
    examples = [ComparedExample((a, b), (right, now), (was, score)) for (a, right, was), (b, now, score) in pairs]
    order = list(OUTCOMES.values())
    examples.sort(key=lambda one: (order.index(one.outcome), -abs(one.scores[1] - one.scores[0])))
    title, metric = task_title(record.identity.data, record.identity.task, record), metric_title(record.metric, record)
    names = [_name(run) for run in (record, other)]
    if names[0] == names[1]:
        names = [f"{name}, seed {run.identity.seed}" for name, run in zip(names, (record, other), strict=True)]
    return Comparison(title, metric, (names[0], names[1]), examples)


def _kept(run: RecordFile) -> list[tuple[Prediction, bool, float]]:
    """The predictions of a run, whether each is right, and its score."""
    folder, record = run.path.parent, run.record
    predictions = read_predictions(folder / PREDICTIONS_NAME, record.fingerprint)
    scores = run.examples
    metric = metric_of(record, set.intersection(*map(set, scores))) if scores else None
    if predictions is None or scores is None or metric is None or len(predictions) != len(scores):
        raise InputError(
            f"{folder}: expected {PREDICTIONS_NAME} and {EXAMPLES_NAME} next to the record, with as many predictions "
            f"as scores, and the counts of {record.metric} in these. Runs of earlier versions, and published ones "
            "whose data do not come with the suite, have no predictions. To make them, run it again with runs_dir=NEW"
        )
    rights = list(map(metric.is_right, scores))  # also where there is nothing to find and nothing was found
    shares = [100.0 if right else metric.of_examples([it]) or 0.0 for it, right in zip(scores, rights, strict=True)]
    return list(zip(predictions, rights, shares, strict=True))


def _name(record: RunRecord) -> str:
    """The arm, with settings."""
    settings = [f"{key}={value}" for key, value in record.identity.typed_variant.items()]
    return " ".join(filter(None, [arm_title(record.identity.features, record), *settings, old_recipe(record)]))


def _as_text(comparison: Comparison, chosen: Sequence[ComparedExample], left_out: int) -> str:
    """The comparison as text: counts, then each example with gold and both outputs."""
    first, second = comparison.runs
    lines = [f"{comparison.title}, {len(comparison.examples):,} test examples", f"  A  {first}", f"  B  {second}", ""]
    counts = zip(comparison.counts.items(), ["A wrong, B right", "A right, B wrong", "", ""], strict=True)
    lines += [f"  {name:10}  {count:6,}  {what}".rstrip() for (name, count), what in counts]
    lines += ["", f"Right: {comparison.metric} 100. In A and B: + is wrong, - is missing.", ""]
    width = max(60, min(120, shutil.get_terminal_size((100, 24)).columns))
    for one in chosen:
        lines += [*_example_lines(one, comparison.metric, width), ""]
    if left_out:
        lines.append(f"{left_out:,} more; --limit 0 shows all")
    return "\n".join(lines).rstrip() + "\n"


def _example_lines(one: ComparedExample, metric: str, width: int) -> Iterator[str]:
    before, after = one.scores
    first, second = one.predictions
    yield f"{one.outcome}  {first.id}  {metric} {before:.1f} -> {after:.1f}"
    rows, outputs = example_texts(first.example), (first.gold, first.predicted, second.predicted)
    for name, output, right in zip(("gold", "A", "B"), outputs, (True, *one.right), strict=True):
        lines = output_lines(first.example, output, first.gold, right)
        texts = [" | ".join(sign + text for sign, text in line) for line in lines]
        rows += zip([name, *[""] * (len(texts) - 1)], texts, strict=True)
    room = max(len(name) for name, _ in rows)
    for name, text in rows:
        indent = f"  {name:{room}}  "
        yield textwrap.fill(text, width, initial_indent=indent, subsequent_indent=" " * len(indent)) or indent.rstrip()


def example_texts(example: Fields) -> list[tuple[str, str]]:
    """The texts of an example, each with its name: all words, words at a position, and other texts."""
    words = _words(example)
    texts = [("text", " ".join(words))] if words else []
    for name, value in example.items():
        if isinstance(value, str):
            texts.append((name, value))
        elif isinstance(value, int) and 0 <= value < len(words):
            texts.append((name, words[value]))
    return texts


def output_lines(example: Fields, output: Fields, gold: Fields, right: bool) -> list[list[Piece]]:
    """The pieces of an output, in lines: one for each chain, otherwise one for each field.

    Args:
        example: The words or texts.
        output: What is shown.
        gold: What it is compared with.
        right: Whether the output scores as right; it then has no marks, though it may differ from gold.
    """
    lines: list[list[Piece]] = []
    for name, value in output.items():
        lines += _field_lines(value, gold.get(name), _words(example), len(output) == 1)
    if right:
        lines = [[("", text) for sign, text in line if sign != "-"] for line in lines]
    elif not any(sign for line in lines for sign, _ in line):  # gold has another form, such as several answers
        lines = [[("+", text) for _, text in line] for line in lines]
    return [line for line in lines if line] or [[("+" * (not right), "(none)")]]


def _field_lines(value: object, gold: object, words: Sequence[str], alone: bool) -> list[list[Piece]]:
    if isinstance(value, list):
        other = gold if isinstance(gold, list) else []
        items = [*value, *other]
        if all(map(_is_span, items)):
            return [_pieces(_by_key(value), _by_key(other))]
        if all(isinstance(item, list) and all(map(_is_span, item)) for item in items):
            return _chain_lines(*([_by_key(chain) for chain in chains if chain] for chains in (value, other)))
        if all(isinstance(item, str) for item in items) and len(value) != len(words):
            return [[("", text) for text in value]]  # any of them is right
        if all(isinstance(item, str) for item in items):  # tags of words, unless another field says the same by spans
            right = other if len(other) == len(value) else value
            tags = zip(words, value, right, strict=True)
            return [[("+" * (tag != gold_tag), f"{word}/{tag}") for word, tag, gold_tag in tags]] * alone
        if all(isinstance(item, int | float) for item in items):
            return []  # a place in a text that another field has
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return [[("+" * (gold is not None and gold != value), text)]]


def _chain_lines(chains: Sequence[Spans], gold: Sequence[Spans]) -> list[list[Piece]]:
    """A line for each chain, paired with the gold chain that shares most mentions with it; gold chains without one."""
    shared = [(len(one.keys() & other.keys()), i, j) for i, one in enumerate(chains) for j, other in enumerate(gold)]
    partner: dict[int, int] = {}
    for count, i, j in sorted(shared, key=lambda item: (-item[0], item[1:])):
        if count and i not in partner and j not in partner.values():
            partner[i] = j
    pairs: list[tuple[Spans, Spans]] = [(one, gold[partner[i]] if i in partner else {}) for i, one in enumerate(chains)]
    pairs += [({}, other) for j, other in enumerate(gold) if j not in partner.values()]
    pairs.sort(key=lambda pair: min(key[1:] for key in (*pair[0], *pair[1])))
    return [_pieces(one, other) for one, other in pairs]


def _by_key(spans: Sequence[Any]) -> Spans:
    """The spans by label and place; two are the same if these are."""
    return {(str(span.get("label", "")), span["start"], span["end"]): span for span in spans}


def _pieces(predicted: Spans, gold: Spans) -> list[Piece]:
    """The spans in the order of the text, with those of gold that are missing."""
    pieces = []
    for key, span in sorted({**gold, **predicted}.items(), key=lambda item: item[0][1:]):
        sign = "-" if key not in predicted else "" if key in gold else "+"
        pieces.append((sign, f"{span.get('label', '')} {span['text']}".strip()))
    return pieces


def _is_span(value: object) -> bool:
    return isinstance(value, Mapping) and {"text", "start", "end"} <= value.keys()


def _words(example: Fields) -> list[str]:
    words = example.get(WORDS)
    return [str(word) for word in words] if isinstance(words, list) else []


if __name__ == "__main__":
    sys.exit(main())
