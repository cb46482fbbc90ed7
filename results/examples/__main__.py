"""`python -m results.examples A B`: test examples that run B fixes and breaks, next to gold and run A."""

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import print_lines
from results.examples.compare import (
    BOTH_RIGHT,
    BOTH_WRONG,
    BROKEN,
    FIXED,
    OUTCOMES,
    ComparedExample,
    Comparison,
    compare_runs,
    read_run,
)
from results.examples.differences import Fields, OutputPiece, example_texts, output_lines
from results.records.printing import printable_lines

ALL = "all"
SHOWN = {outcome.replace(" ", "-"): outcome for outcome in OUTCOMES.values() if outcome != BOTH_RIGHT}
SIGNS = {"": "", "wrong": "+", "missing": "-"}
DEFAULT_LIMIT = 20

_DESCRIPTION = """\
Shows test examples of two runs on the same test files: gold, what run A predicts, and what run B predicts. An example
is right if its score is 100. A and B are the folders of the runs. Both must have kept their predictions, as every run
does now: predictions.jsonl.gz next to the record."""

_EPILOG = """\
examples, for two runs R1=results/runs/mini/TASK/FEATURES/seed-1 and R2 with other features:
  python -m results.examples R1 R2                                 how many B fixes and breaks, and 20 of them
  python -m results.examples R1 R2 --show broken --limit 0         all that B breaks
  python -m results.examples R1 R2 --show both-wrong --format json"""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("results.examples", _DESCRIPTION, _EPILOG)
    parser.add_argument("first", metavar="A", type=Path, help="folder of a run, with record.json")
    parser.add_argument("second", metavar="B", type=Path, help="folder of the run to compare with it")
    parser.add_argument(
        "--show", choices=(*SHOWN, ALL), default=ALL, help="which examples; default: all, fixed ones first"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=DEFAULT_LIMIT,
        help=f"at most N examples; 0: no limit; default: {DEFAULT_LIMIT}",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="default: text")
    options = parser.parse_args(argv)

    def work() -> None:
        if options.limit < 0:
            raise InputError(f"--limit: expected 0 or more, found {options.limit}")
        comparison = compare_runs(read_run(options.first), read_run(options.second))
        wanted = [one for one in comparison.examples if options.show == ALL or one.outcome == SHOWN[options.show]]
        chosen = wanted[: options.limit or None]
        layout = as_json if options.format == "json" else as_text
        print_lines([printable_lines(layout(comparison, chosen, len(wanted) - len(chosen)))])

    return exit_status("results.examples", work)


def as_json(comparison: Comparison, chosen: Sequence[ComparedExample], left_out: int) -> str:
    """The comparison as a JSON object; `left_out` counts the examples that were asked for and are not shown."""
    names = {"task": comparison.title, "metric": comparison.metric, "runs": comparison.runs}
    examples = [{"outcome": one.outcome, **asdict(one)} for one in chosen]
    content = {**names, "counts": comparison.counts, "left_out": left_out, "examples": examples}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def as_text(comparison: Comparison, chosen: Sequence[ComparedExample], left_out: int) -> str:
    """The comparison for people: counts, then each example with gold and both outputs."""
    first, second = comparison.runs
    lines = [f"{comparison.title}, {len(comparison.examples):,} test examples", f"  A  {first}", f"  B  {second}", ""]
    higher, lower = comparison.moved
    meaning = {
        FIXED: "A wrong, B right",
        BROKEN: "A right, B wrong",
        BOTH_WRONG: f"B scores higher on {higher:,}, lower on {lower:,}" if higher or lower else "",
    }
    lines += [f"  {name:10}  {count:6,}  {meaning.get(name, '')}".rstrip() for name, count in comparison.counts.items()]
    lines += ["", f"Right: {comparison.metric} 100. In A and B: + is wrong, - is missing.", ""]
    width = max(60, min(120, shutil.get_terminal_size((100, 24)).columns))
    for one in chosen:
        lines += [*_example_lines(one, comparison.metric, width), ""]
    if left_out:
        lines.append(f"{left_out:,} more; --limit 0 shows all")
    return "\n".join(lines).rstrip() + "\n"


def _example_lines(one: ComparedExample, metric: str, width: int) -> Iterator[str]:
    before, after = one.scores
    yield f"{one.outcome}  {one.id}  {metric} {before:.1f} -> {after:.1f}"
    rows = [*example_texts(one.example), *_rows("gold", one, one.gold, True)]
    for name, output, right in zip("AB", one.predicted, one.right, strict=True):
        rows += _rows(name, one, output, right)
    room = max(len(name) for name, _ in rows)
    for name, text in rows:
        indent = f"  {name:{room}}  "
        yield textwrap.fill(text, width, initial_indent=indent, subsequent_indent=" " * len(indent)) or indent.rstrip()


def _rows(name: str, one: ComparedExample, output: Fields, right: bool) -> list[tuple[str, str]]:
    lines = output_lines(one.example, output, one.gold, right)
    return [("" if number else name, _joined(line)) for number, line in enumerate(lines)]


def _joined(line: Sequence[OutputPiece]) -> str:
    return " | ".join(SIGNS[piece.mark] + piece.text for piece in line)


if __name__ == "__main__":
    sys.exit(main())
