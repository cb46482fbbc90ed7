"""python -m tasks.coref.gap RUN FILE: scores a saved coreference model on the ambiguous pronouns of GAP.

GAP (Webster et al. 2018) has a pronoun and two names in each text, and labels: whether the pronoun means each name.
The model gets the text alone and predicts its chains. A name counts as meant if the pronoun is in its chain. Scores
are those of GAP's own scorer: F1 over both names of all texts, of masculine and of feminine pronouns, and their ratio,
the bias.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.common.device import CHOICES
from elmo.common.errors import InputError, command_parser, excerpt, exit_status
from elmo.common.files import utf8_lines
from tasks.coref.data import CorefExample, document_of_tokens
from tasks.coref.spans import Chains, Span
from tasks.data.offset_tokens import OffsetTokeniser
from tasks.metrics import f1_of_counts
from tasks.running.predict import load_model
from tasks.running.schema import add_config_dir

COLUMNS = ("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref", "B", "B-offset", "B-coref", "URL")
MASCULINE = ("he", "him", "his")
FEMININE = ("she", "her", "hers")


@dataclass(frozen=True)
class GapExample:
    """A text with a pronoun and two names, as places in its tokens.

    Attributes:
        document: the text, without chains.
        feminine: whether the pronoun is.
        pronoun: its tokens.
        names: the tokens of A and B.
        meant: whether the pronoun means A, and B.
    """

    document: CorefExample
    feminine: bool
    pronoun: Span
    names: tuple[Span, Span]
    meant: tuple[bool, bool]


def read_gap(path: Path) -> list[GapExample]:
    """The texts of a GAP file.

    Raises:
        InputError: a line is malformed; the message names file, line and remedy.
    """
    tokenise = OffsetTokeniser()
    examples = []
    for number, line in enumerate(utf8_lines(path), start=1):
        cells = line.split("\t")
        try:
            if len(cells) != len(COLUMNS) or (number == 1 and tuple(cells) != COLUMNS):
                what = "the header" if number == 1 else f"{len(COLUMNS)} columns,"
                raise ValueError(f"expected {what} {', '.join(COLUMNS)}, found {len(cells)} columns")
            if number > 1:
                examples.append(_example(dict(zip(COLUMNS, cells, strict=True)), tokenise))
        except ValueError as error:
            raise InputError(
                f"{path}, line {number}: {error}: {excerpt(line)}. Take the file as it was published, with tabs "
                "between its columns"
            ) from error
    if not examples:
        raise InputError(f"{path}: expected a header and at least one text, found none. Use another file")
    return examples


def _example(row: dict[str, str], tokenise: OffsetTokeniser) -> GapExample:
    form = row["Pronoun"].lower()
    if form not in MASCULINE + FEMININE:
        known = ", ".join(MASCULINE + FEMININE)
        raise ValueError(f"expected one of {known} as Pronoun, found {excerpt(row['Pronoun'])}")
    tokens = tokenise(row["Text"])
    pronoun, a, b = (tokens.covering(*_place(row, column)) for column in ("Pronoun", "A", "B"))
    document = document_of_tokens(row["ID"], tokens)
    return GapExample(document, form in FEMININE, pronoun, (a, b), (_truth(row, "A-coref"), _truth(row, "B-coref")))


def _place(row: dict[str, str], column: str) -> tuple[int, int]:
    """The characters of a name or pronoun in the text."""
    wanted, given = row[column], row[f"{column}-offset"]
    begin = int(given) if given.isdecimal() else -1
    if not wanted or begin < 0 or row["Text"][begin : begin + len(wanted)] != wanted:
        expected = f"expected the place of {excerpt(wanted)} in the text as {column}-offset"
        raise ValueError(f"{expected}, found {excerpt(given)}")
    return begin, begin + len(wanted)


def _truth(row: dict[str, str], column: str) -> bool:
    if row[column].upper() not in ("TRUE", "FALSE"):
        raise ValueError(f"expected TRUE or FALSE as {column}, found {excerpt(row[column])}")
    return row[column].upper() == "TRUE"


def chain_with(chains: Chains, span: Span) -> int | None:
    """The number of the chain with the mention that fits a name best, None if there is none.

    A mention fits if it is the name, if it contains it (a title belongs to a name in one corpus and not in another), or
    if it is within it; the narrowest that contains it is best, then the widest within it.
    """
    start, end = span
    fitting = []
    for number, chain in enumerate(chains):
        for first, past in chain:
            contains = first <= start and end <= past
            if contains or (start <= first and past <= end):
                fitting.append((not contains, abs((past - first) - (end - start)), number))
    return min(fitting)[-1] if fitting else None


def judged(example: GapExample, chains: Chains) -> tuple[bool, bool]:
    """Whether the pronoun is in the chain of A, and in that of B.

    The pronoun must be a mention itself: one that contains it, such as "her sister", is another person.
    """
    own = next((number for number, chain in enumerate(chains) if example.pronoun in chain), None)
    a, b = (own is not None and chain_with(chains, name) == own for name in example.names)
    return a, b


def gap_scores(
    examples: Sequence[GapExample], judgements: Sequence[tuple[bool, bool]]
) -> tuple[dict[str, dict[str, float]], float | None]:
    """F1, precision and recall of all texts and by gender, and the bias: feminine by masculine F1, None if that is 0.

    Each text counts twice, once for each name.
    """
    pairs = [
        (example.feminine, right, found)
        for example, judgement in zip(examples, judgements, strict=True)
        for right, found in zip(example.meant, judgement, strict=True)
    ]
    scores = {
        "overall": _scores([(right, found) for _, right, found in pairs]),
        "masculine": _scores([(right, found) for feminine, right, found in pairs if not feminine]),
        "feminine": _scores([(right, found) for feminine, right, found in pairs if feminine]),
    }
    masculine = scores["masculine"]["f1"]
    return scores, scores["feminine"]["f1"] / masculine if masculine else None


def _scores(pairs: Sequence[tuple[bool, bool]]) -> dict[str, float]:
    both = sum(right and found for right, found in pairs)
    return f1_of_counts(both, sum(found for _, found in pairs), sum(right for right, _ in pairs))


def judge(
    examples: Sequence[GapExample], run: Path, device: str, config_dir: Path | None = None
) -> list[tuple[bool, bool]]:
    """The judgements of a run's saved model."""
    predicted = load_model(run, device, "coref", config_dir).decode([example.document for example in examples])
    return [judged(example, chains) for example, chains in zip(examples, predicted, strict=True)]


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    description, _, more = str(__doc__).partition("\n\n")
    parser = command_parser("tasks.coref.gap", description, more)
    about = "folder of a coreference run made with keep_weights=true"
    parser.add_argument("run", metavar="RUN", type=Path, help=about)
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="GAP's texts: gap-development.tsv, gap-validation.tsv or gap-test.tsv"
    )
    parser.add_argument("--device", choices=CHOICES, default="auto", help="default: a GPU if there is one")
    add_config_dir(parser)
    options = parser.parse_args(given)
    return exit_status("tasks.coref.gap", lambda: _print_scores(options))


def _print_scores(options: argparse.Namespace) -> None:
    examples = read_gap(options.file)
    scores, bias = gap_scores(examples, judge(examples, options.run, options.device, options.config_dir))
    print(f"{len(examples):,} texts of {options.file}")
    print(f"{'':10} precision  recall      F1")
    for name, own in scores.items():
        print(f"{name:10} {own['precision']:9.2f} {own['recall']:7.2f} {own['f1']:7.2f}")
    print(f"bias, feminine F1 / masculine F1: {'undefined' if bias is None else f'{bias:.3f}'}")


if __name__ == "__main__":
    sys.exit(main())
