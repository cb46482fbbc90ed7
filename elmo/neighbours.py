"""The command `python -m elmo.neighbours`: the nearest uses of a word in context, and by static vectors.

Find similar uses of a word: for each use of WORD in SENTENCES (one per line, words split at whitespace), show the
nearest other uses by the cosine of the biLM's top layer, and once, for comparison, the nearest words by static vectors,
which do not distinguish senses (the paper's Table 4). Any language; WORD must occur in the file with the same spelling.

example: python -m elmo.neighbours sentences.txt play --line 12 -k 5

Split Chinese text into words with a segmenter first: spaces between words, one sentence per line. Words are cut after
48 bytes of UTF-8 (16 Chinese characters). The shipped biLM was trained on English text. For another language, train
your own and pass it with --weights. For example, with mine.txt and a word that occurs in it:

  python -m elmo.pretrain corpus=mine.txt tokenise=whitespace out=run name=mine size=tiny budget.minutes=30
  python -m elmo.neighbours mine.txt WORD --weights run/export/mine --vectors none
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from elmo.common.checks import DEVICES, at_least
from elmo.common.errors import InputError, command_parser
from elmo.published import GLOVE_50D, VECTOR_NAMES, VECTORS, weights_choices

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from elmo.bilm.model import Bilm

Floats: TypeAlias = "NDArray[np.float32]"
GLOVE = "glove"
WORDS_AROUND = 8
QUERIES = 5  # uses that are shown


@dataclass(frozen=True)
class Use:
    """A word in its sentence.

    Attributes:
        line: number of the sentence, counted from 1.
        position: of the word in it, counted from 0.
        words: the sentence.
    """

    line: int
    position: int
    words: list[str]

    def context(self, left: str, right: str) -> str:
        """The word between two marks, with the words around it."""
        before = self.words[max(0, self.position - WORDS_AROUND) : self.position]
        after = self.words[self.position + 1 : self.position + 1 + WORDS_AROUND]
        return " ".join([*before, f"{left}{self.words[self.position]}{right}", *after])

    def __str__(self) -> str:
        return f"{self.line:>6}  {self.context('[', ']')}"


def uses_of(sentences: Sequence[Sequence[str]], word: str, bilm: "Bilm") -> tuple[list[Use], Floats]:
    """The uses of a word and their vectors in the top layer, of length one, (uses, dim).

    Args:
        sentences: in words; those without the word are not embedded.
        word: as spelled in the sentences.
        bilm: embeds the sentences.
    """
    uses: list[Use] = []
    vectors: list[Floats] = []
    for line, words in enumerate(sentences, start=1):
        if word in words:
            top = bilm.token_layers([words])[-1]  # (tokens, dim)
            places = [i for i, other in enumerate(words) if other == word]
            uses += [Use(line, place, list(words)) for place in places]
            vectors += list(top.cpu().numpy()[places])
    return uses, _unit(vectors, bilm.dim)


def nearest(query: Floats, candidates: Floats, k: int, leave_out: Sequence[int] = ()) -> list[tuple[int, float]]:
    """The k candidates of highest cosine and that cosine, best first; all vectors have length one."""
    scores = candidates @ query  # (candidates,)
    scores[list(leave_out)] = -math.inf
    best = (-scores).argsort(kind="stable")[:k]
    return [(int(i), float(scores[i])) for i in best if math.isfinite(scores[i])]


def static_vectors(name: str) -> tuple[list[str], Floats]:
    """Words and their vectors of length one, (words, dim): "glove" is GloVe 50-d, other names as in `open_vectors`."""
    from elmo.word_vectors import open_vectors  # numpy: not for --help

    file = open_vectors(GLOVE_50D if name == GLOVE else name, "--vectors")
    vectors = file.pick()
    return list(vectors), _unit(list(vectors.values()), file.dim)


def nearest_words(name: str, word: str, k: int) -> list[tuple[str, float]]:
    """The k words nearest to a word, or to its lower-cased form, by static vectors; none if it has no vector."""
    words, matrix = static_vectors(name)
    spelled = next((form for form in (word, word.lower()) if form in words), None)
    if spelled is None:
        return []
    row = words.index(spelled)
    return [(words[i], cosine) for i, cosine in nearest(matrix[row], matrix, k, leave_out=[row])]


def _unit(rows: Sequence[Floats], dim: int) -> Floats:
    """The rows as a matrix, (rows, dim), each of length one."""
    import numpy as np  # not for --help

    matrix = np.array(rows, dtype=np.float32).reshape(-1, dim)
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)


def _show(options: argparse.Namespace) -> None:
    from elmo.bilm.weight_files import load_bilm  # torch takes a second, which --help should not need
    from elmo.common.device import choose_device
    from elmo.embed.one_file import read_lines

    at_least(1, "-k", options.k)
    sentences = [line.words for line in read_lines(options.sentences)]
    bilm = load_bilm(options.weights).to(choose_device(options.device))
    uses, vectors = uses_of(sentences, options.word, bilm)
    queries = [i for i, use in enumerate(uses) if options.line in (None, use.line)]
    if len(uses) < 2 or not queries:
        lines = ", ".join(str(use.line) for use in uses[:10]) or "none"
        raise InputError(
            f"{options.sentences}: expected two uses of {options.word!r} or more in this spelling, one of them in the "
            f"line asked for, found some in lines: {lines}. Name another word or --line"
        )
    for query in queries[:QUERIES]:
        print(f"{options.word}:\n         {uses[query]}")
        for index, cosine in nearest(vectors[query], vectors, options.k, leave_out=[query]):
            print(f"  {cosine:.3f}  {uses[index]}")
    if len(queries) > QUERIES:
        print(f"... and {len(queries) - QUERIES} more uses; choose one with --line")
    if options.vectors != "none":
        best = nearest_words(options.vectors, options.word, options.k)
        shown = ", ".join(f"{word} {cosine:.3f}" for word, cosine in best)
        print(f"static vectors: {shown or f'{options.vectors} has none for {options.word!r}'}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("elmo.neighbours", str(__doc__))
    parser.add_argument("sentences", metavar="SENTENCES", type=Path, help="one per line, words split at whitespace")
    parser.add_argument("word", metavar="WORD", help="as spelled in the sentences")
    parser.add_argument("--weights", metavar="W", default="small", help=f"{weights_choices()}; default: small")
    parser.add_argument("--line", metavar="N", type=int, help="show only the uses in this line, counted from 1")
    kinds = f"glove, none, a file or a name: {', '.join([*VECTOR_NAMES, *VECTORS])} (default: glove)"
    parser.add_argument("--vectors", metavar="V", default=GLOVE, help=kinds)
    parser.add_argument("-k", type=int, default=5, help="neighbours of each use (default: 5)")
    parser.add_argument("--device", choices=DEVICES, default="auto", help="default: a GPU if there is one")
    return parser.run(arguments, _show)


if __name__ == "__main__":
    sys.exit(main())
