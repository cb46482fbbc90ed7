"""Uses of a word and the nearest other ones: the work of `python -m tasks.probes.table4`."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import elmo
from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import load_bilm
from elmo.common.device import choose_device
from elmo.common.errors import InputError
from elmo.common.files import require_writable
from elmo.embed.one_file import read_lines
from elmo.neighbours import GLOVE, Floats, Use, nearest, nearest_words, uses_of
from tasks.probes.wsd import SENSE, entry_of, read_sentences
from tasks.running.config import typed_config
from tasks.task import SPLITS

SENTENCES = Path(elmo.__file__).parent / "pretrained" / "neighbours.txt"
# The senses in SENTENCES, by the last line of each, counted from 1.
SHIPPED_SENSES = {
    "play": {"sport": 8, "theatre": 16},
    "bank": {"money": 23, "river": 30},
    "spring": {"season": 36, "water": 40, "coil": 44},
}
MINI_TASKS = ("ner", "sst5", "snli", "srl", "coref")  # SQuAD's passages are no sentences
TABLE = "table4.md"
STATIC_NEIGHBOURS, NEIGHBOURS, SENSES_SHOWN = 8, 2, 3


@dataclass(frozen=True)
class WordUses:
    """The uses of a word in some sentences.

    Attributes:
        word: as spelled in the sentences.
        source: the name of the sentences.
        uses: all uses, at least two.
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

    @property
    def parts_of_speech(self) -> list[str]:
        """Of each use, as its sense says; empty where the sense is not known or no key of WordNet."""
        return [entry_of(sense).rsplit("%", 1)[1] if SENSE.fullmatch(sense) else "" for sense in self.senses]

    def nearest_label(self, use: int, labels: Sequence[str]) -> str:
        """The label (a sense, a part of speech) of the nearest other use that has one; empty if there is none."""
        return next((labels[j] for j in self.neighbours[use] if labels[j]), "")

    def right(self, labels: Sequence[str]) -> int:
        """The number of labelled uses whose nearest labelled use has the same label."""
        return sum(label == self.nearest_label(i, labels) for i, label in enumerate(labels) if label)

    def shown(self, use: int) -> str:
        """A use with the words around it and, if it is known, its sense."""
        sense = self.senses[use]
        return self.uses[use].context("*", "*") + (f" ({sense})" if sense else "")


def by_chance(labels: Sequence[str]) -> float:
    """The expected number of `right` if the nearest labelled use were drawn at random."""
    counts = Counter(filter(None, labels))
    return sum(count * (count - 1) for count in counts.values()) / max(counts.total() - 1, 1)


def find_uses(
    word: str, source: str, sentences: Iterable[Sequence[str]], sense_of: Callable[[Use], str], bilm: Bilm
) -> WordUses:
    """The uses of a word in these sentences, with the vectors of the biLM's top layer."""
    uses, vectors = uses_of(list(sentences), word, bilm)
    if len(uses) < 2:
        raise InputError(f"{source}: expected two uses of {word!r} or more, found {len(uses)}. Name another word")
    return WordUses(word, source, uses, vectors, list(map(sense_of, uses)))


def shipped_uses(word: str, bilm: Bilm) -> WordUses:
    """The uses in the sentences that come with the suite: those with a sense first, then the mini data's."""
    shipped = [tuple(line.words) for line in read_lines(SENTENCES)]
    added = [words for words in mini_sentences() if word in words and words not in shipped]
    ends = SHIPPED_SENSES.get(word, {})

    def sense_of(use: Use) -> str:
        return next((sense for sense, last in ends.items() if use.line <= last), "")

    return find_uses(word, "the shipped sentences", shipped + added, sense_of, bilm)


@cache
def mini_sentences() -> list[tuple[str, ...]]:
    """The sentences of the mini data, each once."""
    runs = [typed_config([f"task={name}", "data=mini"]) for name in MINI_TASKS]
    examples = ((run, it) for run in runs for split in SPLITS for it in run.source.load(run.task, split).examples)
    return list(dict.fromkeys(sentence for run, example in examples for sentence in run.task.texts(example)))


def semcor_uses(word: str, path: Path, bilm: Bilm) -> WordUses:
    """The uses in SemCor that have a sense."""
    sentences = [sentence for sentence in read_sentences(path) if word in sentence.words]
    senses = {
        (number, instance.start): instance.senses[0]
        for number, sentence in enumerate(sentences, start=1)
        for instance in sentence.instances
        if instance.end == instance.start + 1
    }
    texts = [sentence.words for sentence in sentences]
    return find_uses(word, "SemCor", texts, lambda use: senses.get((use.line, use.position), ""), bilm)


def table(of: WordUses, static: Sequence[str]) -> str:
    """Table 4 as Markdown: what is asked for and the nearest to it, for the first use of the most frequent senses."""
    rows = [("GloVe", of.word, ", ".join(static) or "it has no vector")]
    for sense, count in Counter(filter(None, of.senses)).most_common(SENSES_SHOWN):
        if count > 1:
            query = list(of.senses).index(sense)
            first, *more = map(of.shown, of.neighbours[query][:NEIGHBOURS])
            rows += [("biLM", of.shown(query), first), *(("biLM", "", other) for other in more)]
    escapes = str.maketrans({"|": "\\|", "`": "'", "*": "**"})
    header = "| | use | nearest |\n|---|---|---|\n"
    return header + "".join(f"| {' | '.join(cell.translate(escapes) for cell in row)} |\n" for row in rows)


def summary(of: WordUses) -> str:
    """A sentence: how often the nearest use has the same sense and, if uses differ in it, the same part of speech."""
    senses, parts = of.senses, of.parts_of_speech
    known = len(list(filter(None, senses)))
    text = (
        f"{of.right(senses)} of {known} uses of {of.word!r} with a sense have a nearest such use of the same sense "
        f"({by_chance(senses):.1f} expected of one drawn at random)"
    )
    if len({*filter(None, parts)}) > 1:
        text += f", {of.right(parts)} one of the same part of speech ({by_chance(parts):.1f})"
    return text + (f"; {len(senses) - known} more uses have no sense" if known < len(senses) else "")


def show(options: argparse.Namespace) -> None:
    """Prints the tables, and writes one if that is asked for."""
    if options.write:
        require_writable("--write", options.write)
    bilm = load_bilm(options.weights).to(choose_device(options.device))
    static = [word for word, _ in nearest_words(GLOVE, options.word, STATIC_NEIGHBOURS)]
    shipped = shipped_uses(options.word, bilm)
    sources = [shipped, *([semcor_uses(options.word, options.semcor, bilm)] if options.semcor else [])]
    for of in sources:
        print(f"{of.source}, {len(of.uses)} uses:\n\n{table(of, static)}\n{summary(of)}\n")
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        counts = ". ".join(f"In {of.source} {summary(of)}" for of in sources)
        text = f"{table(shipped, static)}\nBy the top layer of `{options.weights}`. {counts}.\n"
        (options.write / TABLE).write_text(text, encoding="utf-8")
