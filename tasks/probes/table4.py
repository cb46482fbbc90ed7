"""The paper's Table 4: nearest uses of a word in context next to GloVe's nearest words; python -m tasks.probes.table4.

`--write` keeps what it finds in the shipped sentences, for results/tables.md and for the report's explorer: these
sentences were written for the suite. Sentences of SemCor are printed only; what is kept of them is a count.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

import numpy as np

import elmo
from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import load_bilm, weights_choices
from elmo.common.device import CHOICES, choose_device
from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import write_json
from elmo.embed.lines import InputLine, read_lines
from elmo.neighbours import GLOVE, Floats, Use, nearest, static_vectors, uses_of
from tasks.batch import SPLITS
from tasks.data.datasets import DataSource
from tasks.probes.wsd import SENSE, entry_of, read_sentences
from tasks.running.config import typed_config

SENTENCES = Path(elmo.__file__).parent / "pretrained" / "neighbours.txt"
# The senses in SENTENCES, by the last line of each, counted from 1.
SHIPPED_SENSES = {
    "play": {"sport": 8, "theatre": 16},
    "bank": {"money": 23, "river": 30},
    "spring": {"season": 36, "water": 40, "coil": 44},
}
MINI_TASKS = ("ner", "sst5", "snli", "srl", "coref")  # SQuAD's passages are no sentences
TABLE, EXPLORER = "table4.md", "senses.json"
STATIC_NEIGHBOURS = 8

_DESCRIPTION = """\
Shows Table 4 of the paper: for each sense of WORD one use, the nearest other uses by the biLM's top layer, and once the
nearest words by GloVe, which has one vector for all senses. The sentences come with the suite, some with senses, those
of the mini data without; --semcor adds SemCor, with WordNet's senses."""

_EPILOG = """\
examples:
  python -m tasks.probes.table4
  python -m tasks.probes.table4 --semcor DIR/pos_wsd/semcor/semcor.jsonl
  python -m tasks.probes.table4 --write results/published     table4.md and senses.json, from the shipped sentences"""


@dataclass(frozen=True)
class WordUses:
    """The uses of a word in some sentences.

    Attributes:
        word: as spelled in the sentences.
        source: the name of the sentences.
        uses: all uses.
        vectors: of the uses, of length one, (uses, dim).
        senses: of each use; empty where it is not known.
    """

    word: str
    source: str
    uses: Sequence[Use]
    vectors: Floats
    senses: Sequence[str]

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """For each use all others, the nearest first."""
        count = len(self.uses)
        return [[j for j, _ in nearest(self.vectors[i], self.vectors, count, [i])] for i in range(count)]

    @cached_property
    def points(self) -> Floats:
        """The uses in two dimensions, their first principal components, (uses, 2)."""
        centred = self.vectors - self.vectors.mean(axis=0)
        left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
        found: Floats = np.zeros((len(self.uses), 2), dtype=np.float32)
        shown = min(2, lengths.size)
        found[:, :shown] = left[:, :shown] * lengths[:shown]
        return found

    @property
    def parts_of_speech(self) -> list[str]:
        """Of each use, as its sense says; empty where the sense is not known or no key of WordNet."""
        return [entry_of(sense).rsplit("%", 1)[1] if SENSE.fullmatch(sense) else "" for sense in self.senses]

    def nearest_sense(self, use: int) -> str:
        """The sense of the nearest other use whose sense is known; empty if there is none."""
        return self._nearest(use, self.senses)

    def right(self, labels: Sequence[str]) -> tuple[int, int]:
        """How many uses with a label (a sense, a part of speech) have a nearest such use of the same, and of how many.

        Args:
            labels: of the uses; empty where it is not known.
        """
        known = [i for i, label in enumerate(labels) if label]
        return sum(labels[i] == self._nearest(i, labels) for i in known), len(known)

    def _nearest(self, use: int, labels: Sequence[str]) -> str:
        return next((labels[j] for j in self.neighbours[use] if labels[j]), "")

    def queries(self, most: int) -> list[int]:
        """The first use of each sense that has two uses or more, the most frequent senses first."""
        counts = Counter(sense for sense in self.senses if sense)
        return [list(self.senses).index(sense) for sense, count in counts.most_common(most) if count > 1]


def by_chance(labels: Sequence[str]) -> float:
    """How many uses with a label would be right on average if the nearest such use were drawn at random."""
    counts = Counter(filter(None, labels))
    return sum(count * (count - 1) for count in counts.values()) / max(counts.total() - 1, 1)


def find_uses(
    word: str, source: str, lines: Sequence[InputLine], senses: Mapping[tuple[int, int], str], bilm: Bilm
) -> WordUses:
    """The uses of a word in these lines.

    Args:
        word: as spelled in the lines.
        source: the name of the lines.
        lines: sentences.
        senses: by the number of a line, counted from 1, and the position of the word in it.
        bilm: its top layer gives the vectors.
    """
    uses, vectors = uses_of(lines, word, bilm, bilm.n_layers - 1)
    if len(uses) < 2:
        raise InputError(f"{source}: expected two uses of {word!r} or more, found {len(uses)}. Name another word")
    return WordUses(word, source, uses, vectors, [senses.get((use.line, use.position), "") for use in uses])


def shipped_uses(word: str, bilm: Bilm) -> WordUses:
    """The uses in the sentences that come with the suite: those with a sense first, then the mini data's."""
    lines = list(read_lines(SENTENCES))
    known = {tuple(line.words) for line in lines}
    added = [words for words in mini_sentences() if word in words and words not in known]
    lines += [InputLine(number, list(words)) for number, words in enumerate(added, start=len(lines))]
    senses = {}
    for line in lines[: len(known)]:
        for position, found in enumerate(line.words):
            ends = SHIPPED_SENSES.get(found, {})
            sense = next((sense for sense, last in ends.items() if line.number < last), "")
            senses[line.number + 1, position] = sense
    return find_uses(word, "the shipped sentences", lines, senses, bilm)


@cache
def mini_sentences() -> list[tuple[str, ...]]:
    """The sentences of the mini data, each once."""
    found: dict[tuple[str, ...], None] = {}
    for name in MINI_TASKS:
        config = typed_config([f"task={name}", "data=mini"])
        source = DataSource(config.data, config.data_dir)
        examples = chain.from_iterable(source.load(config.task, split).examples for split in SPLITS)
        found |= dict.fromkeys(chain.from_iterable(map(config.task.texts, examples)))
    return list(found)


def semcor_uses(word: str, path: Path, bilm: Bilm) -> WordUses:
    """The uses in SemCor that have a sense."""
    sentences = [sentence for sentence in read_sentences(path) if word in sentence.words]
    lines = [InputLine(number, list(sentence.words)) for number, sentence in enumerate(sentences)]
    senses = {
        (number, instance.start): instance.senses[0]
        for number, sentence in enumerate(sentences, start=1)
        for instance in sentence.instances
        if instance.end == instance.start + 1
    }
    return find_uses(word, "SemCor", lines, senses, bilm)


def glove_words(word: str) -> list[str]:
    """The nearest words by GloVe; empty if it lacks the word."""
    words, matrix = static_vectors(GLOVE)
    if word not in words:
        return []
    row = words.index(word)
    return [words[i] for i, _ in nearest(matrix[row], matrix, STATIC_NEIGHBOURS, [row])]


def table(found: WordUses, static: Sequence[str], k: int, most: int) -> list[tuple[str, str, str]]:
    """The lines of Table 4: what is asked for, its sense, and the nearest to it."""
    lines = [("GloVe", found.word, ", ".join(static) or "it has no vector for the word")]
    for query in found.queries(most):
        asked, *near = (_with_sense(found, use) for use in (query, *found.neighbours[query][:k]))
        lines += [("biLM", asked if number == 0 else "", line) for number, line in enumerate(near)]
    return lines


def summary(found: WordUses) -> str:
    """How often the nearest use has the same sense and, if uses differ in it, the same part of speech."""
    same, known = found.right(found.senses)
    unknown = len(found.uses) - known
    without = f"; {unknown} more uses have no sense" if unknown else ""
    share = f"{same} of {known} uses of {found.word!r} with a sense have a nearest such use of the same sense"
    parts = found.parts_of_speech
    spoken = f", {found.right(parts)[0]} one of the same part of speech ({by_chance(parts):.1f})"
    return (
        f"{share} ({by_chance(found.senses):.1f} expected of one drawn at random)"
        f"{spoken if len({*filter(None, parts)}) > 1 else ''}{without}"
    )


def explorer(found: WordUses, static: Sequence[str]) -> dict[str, object]:
    """The uses of a word as the report shows them."""
    points = found.points / max(float(np.abs(found.points).max()), 1e-12)
    return {
        "word": found.word,
        "senses": list(dict.fromkeys(filter(None, found.senses))),
        "static": list(static),
        "summary": summary(found),
        "uses": [
            {
                "text": use.context("*", "*"),
                "x": round(float(x), 3),
                "y": round(float(y), 3),
                "sense": found.senses[i] or found.nearest_sense(i),
                "known": bool(found.senses[i]),
                "nearest": found.neighbours[i][0],
            }
            for i, (use, (x, y)) in enumerate(zip(found.uses, points, strict=True))
        ],
    }


def _with_sense(found: WordUses, use: int) -> str:
    """A use with the words around it and, if it is known, its sense."""
    sense = found.senses[use]
    return found.uses[use].context("*", "*") + (f" ({sense})" if sense else "")


def _markdown(lines: Sequence[tuple[str, str, str]], note: str) -> str:
    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("`", "'").replace("*", "**")

    rows = [f"| {source} | {cell(asked)} | {cell(near)} |" for source, asked, near in lines]
    return "\n".join(["| | use | nearest |", "|---|---|---|", *rows, "", f"{note}."]) + "\n"


def _show(options: argparse.Namespace) -> None:
    bilm = load_bilm(options.weights).to(choose_device(options.device))
    static = glove_words(options.word)
    shipped = shipped_uses(options.word, bilm)
    sources = [shipped, *([semcor_uses(options.word, options.semcor, bilm)] if options.semcor else [])]
    for found in sources:
        print(f"{found.source}, {len(found.uses)} uses:")
        for source, asked, near in table(found, static, options.k, options.queries):
            print(f"  {source:6}{asked}\n        -> {near}" if asked else f"        -> {near}")
        print(f"  {summary(found)}\n")
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        counts = ". ".join(f"In {found.source} {summary(found)}" for found in sources)
        note = f"By the top layer of `{options.weights}`. {counts}"
        text = _markdown(table(shipped, static, options.k, options.queries), note)
        (options.write / TABLE).write_text(text, encoding="utf-8")
        words = [explorer(shipped_uses(word, bilm), glove_words(word)) for word in SHIPPED_SENSES]
        write_json(options.write / EXPLORER, {"weights": options.weights, "words": words})
        print(f"{options.write / TABLE}, {options.write / EXPLORER}")


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.probes.table4", _DESCRIPTION, _EPILOG)
    parser.add_argument("word", metavar="WORD", nargs="?", default="play", help="default: play, as in the paper")
    parser.add_argument("--semcor", metavar="FILE", type=Path, help="SemCor as JSON lines, as task=wsd_probe reads it")
    parser.add_argument("--write", metavar="DIR", type=Path, help=f"write {TABLE} and {EXPLORER}; no text of SemCor")
    parser.add_argument("--weights", metavar="W", default="small", help=f"{weights_choices()}; default: small")
    parser.add_argument("-k", type=int, default=2, help="neighbours of each use (default: 2)")
    parser.add_argument("--queries", metavar="N", type=int, default=3, help="senses to show (default: 3)")
    parser.add_argument("--device", choices=CHOICES, default="auto", help="default: a GPU if there is one")
    options = parser.parse_args(given)
    if options.k < 1 or options.queries < 1:
        parser.error("-k and --queries must be at least 1")
    return exit_status("tasks.probes.table4", lambda: _show(options))


if __name__ == "__main__":
    sys.exit(main())
