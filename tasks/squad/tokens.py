"""Tokens with their places: words for the model, character offsets into the text as it is.

The words are those that the biLM was trained on (`elmo.tokeniser`: Penn Treebank style, typographic quotes plain),
but cut further at hyphens, dashes and slashes, where answers begin and end ("1990-2000", "Anglo-Saxon"). Offsets are
found by walking along the raw text, so whatever a word looks like to the model, its place is exact.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache

from elmo.tokeniser import MAX_WORD_BYTES, Tokeniser
from tasks.interface import Sentence

# The signs that the tokeniser of the biLM writes otherwise, and those that it leaves out.
_TYPOGRAPHIC = {"‘": "'", "’": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"'}  # noqa: RUF001
_INVISIBLE = frozenset("\u200b\ufeff\u00ad")
_PAIRS = ("''", "``")  # LaTeX's double quotes
# Within a word, where answers may begin or end. A web address is cut too: no answer is the worse for it.
_INNER_CUT = re.compile(r"([-‐-―−/~°])")  # noqa: RUF001
_LONG = re.compile(rf"\S{{{MAX_WORD_BYTES // 4},}}")


@dataclass(frozen=True)
class Tokens:
    """The words of a text and where each begins and ends in it."""

    words: Sentence
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.words)

    def aligned(self, begin: int, end: int) -> bool:
        """Whether tokens begin and end exactly at these characters."""
        first, past = self.covering(begin, end)
        return self.place(first, past) == (begin, end)

    def covering(self, begin: int, end: int) -> tuple[int, int]:
        """The fewest tokens that hold all of these characters, first and one past the last; the nearest one if none."""
        first = min(bisect_right(self.ends, begin), len(self) - 1)
        return first, max(bisect_left(self.begins, end), first + 1)

    def place(self, first: int, past: int) -> tuple[int, int]:
        """The characters that these tokens and what is between them cover."""
        return self.begins[first], self.ends[past - 1]


class OffsetTokeniser:
    """Gives the tokens of texts; remembers the chunks that it has seen, so keep one for a whole file."""

    def __init__(self) -> None:
        self._tokeniser = Tokeniser("ptb")

    def __call__(self, text: str) -> Tokens:
        """The tokens of a text: every sign but white space and invisible ones lies in exactly one."""
        words: list[str] = []
        begins: list[int] = []
        ends: list[int] = []
        position = 0
        # Cut before the tokeniser does: it would drop the rest of a chunk that is longer than any word it keeps.
        for sentence in self._tokeniser.paragraph(_LONG.sub(_shorter, text)):
            for word in sentence:
                for part in _parts(word):
                    begin = _skip(text, position)
                    end = _walk(text, begin, part)
                    if end is None:  # the full stop that "U.S." gets at the end of a sentence is not in the text
                        continue
                    words.append(part)
                    begins.append(begin)
                    ends.append(end)
                    position = end
        if _skip(text, position) < len(text):
            raise RuntimeError(f"tokens and text part ways at character {position}: {text[position : position + 60]!r}")
        return Tokens(tuple(words), tuple(begins), tuple(ends))


@lru_cache(maxsize=200_000)
def _parts(word: str) -> tuple[str, ...]:
    """A word cut at its hyphens and the like; what is made of nothing else ("--") stays whole."""
    if not any(map(str.isalnum, word)):
        return (word,)
    return tuple(filter(None, _INNER_CUT.split(word)))


def _shorter(chunk: re.Match[str]) -> str:
    """A chunk that fits into a word, or else its pieces that do, with spaces between them."""
    if len(chunk[0].encode()) <= MAX_WORD_BYTES:
        return chunk[0]
    return " ".join(re.findall(rf".{{1,{MAX_WORD_BYTES // 4}}}", chunk[0]))


def _skip(text: str, position: int) -> int:
    while position < len(text) and (text[position].isspace() or text[position] in _INVISIBLE):
        position += 1
    return position


def _walk(text: str, position: int, word: str) -> int | None:
    """Where the word that begins here ends, or None if another one begins here."""
    for sign in word:
        position = _visible(text, position)
        raw = _plain(text, position)
        if raw != sign:
            position = _visible(text, position + 1)
            if sign != '"' or raw + _plain(text, position) not in _PAIRS:
                return None
        position += 1
    return position


def _visible(text: str, position: int) -> int:
    while position < len(text) and text[position] in _INVISIBLE:
        position += 1
    return position


def _plain(text: str, position: int) -> str:
    """The sign at a place as the biLM's tokeniser writes it; nothing behind the end."""
    sign = text[position : position + 1]
    return _TYPOGRAPHIC.get(sign, sign)
