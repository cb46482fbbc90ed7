"""Tokeniser with character offsets: words for the model, and their places in the raw text.

The words are those of the biLM's tokeniser (`elmo.tokenise`: Penn Treebank style, plain quotes), by default split
further at hyphens, dashes and slashes, where answers begin and end ("1990-2000", "Anglo-Saxon"). Offsets are found in
the raw text itself, so they are exact even if the word for the model is spelled differently.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache

from elmo.tokeniser import INVISIBLE, MAX_WORD_BYTES, TYPOGRAPHIC, Tokeniser
from tasks.batch import Sentence

_PAIRS = ("''", "``")  # LaTeX's double quotes
# Where answers may begin or end within a word. This also splits web addresses, which is harmless.
_INNER_CUT = re.compile(r"([-‐-―−/~°])")  # noqa: RUF001
_LONG = re.compile(rf"\S{{{MAX_WORD_BYTES // 4},}}")

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tokens:
    """The words of a text and where each begins and ends in it; no places if the text was given in words."""

    words: Sentence
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.words)

    @property
    def offsets(self) -> Offsets:
        """The first character of each word and the one after its last."""
        return tuple(zip(self.begins, self.ends, strict=True))

    def aligned(self, begin: int, end: int) -> bool:
        """Whether tokens begin and end exactly at these characters."""
        first, past = self.covering(begin, end)
        return self.place(first, past) == (begin, end)

    def covering(self, begin: int, end: int) -> tuple[int, int]:
        """The smallest span of tokens, (first, one past the last), around these characters; the nearest if none."""
        first = min(bisect_right(self.ends, begin), len(self) - 1)
        return first, max(bisect_left(self.begins, end), first + 1)

    def place(self, first: int, past: int) -> tuple[int, int]:
        """The characters from the first to the last of these tokens."""
        return self.begins[first], self.ends[past - 1]


class OffsetTokeniser:
    """Tokenises texts. It caches the chunks of earlier texts, so use one for a whole file.

    Args:
        inner_cuts: whether words are split at hyphens, dashes and slashes.
    """

    def __init__(self, inner_cuts: bool = True) -> None:
        self._tokeniser = Tokeniser("ptb")
        self._inner_cuts = inner_cuts

    def __call__(self, text: str) -> Tokens:
        """The tokens of a text. Each character is in exactly one, except white space and invisible characters."""
        words: list[str] = []
        begins: list[int] = []
        ends: list[int] = []
        position = 0
        # Split long chunks first: the tokeniser would truncate them.
        for sentence in self._tokeniser.paragraph(_LONG.sub(_shorter, text)):
            for word in sentence:
                for part in _parts(word) if self._inner_cuts else (word,):
                    begin = _skip(text, position)
                    end = _walk(text, begin, part)
                    if end is None:  # the tokeniser adds a full stop after "U.S." at the end of a sentence
                        continue
                    words.append(part)
                    begins.append(begin)
                    ends.append(end)
                    position = end
        if _skip(text, position) < len(text):
            raise RuntimeError(f"tokens and text differ at character {position}: {text[position : position + 60]!r}")
        return Tokens(tuple(words), tuple(begins), tuple(ends))


@lru_cache(maxsize=200_000)
def _parts(word: str) -> tuple[str, ...]:
    """A word split at hyphens and the like; a word of nothing else ("--") stays whole."""
    if not any(map(str.isalnum, word)):
        return (word,)
    return tuple(filter(None, _INNER_CUT.split(word)))


def _shorter(chunk: re.Match[str]) -> str:
    """A chunk that fits into one word, or its pieces that do, joined by spaces."""
    if len(chunk[0].encode()) <= MAX_WORD_BYTES:
        return chunk[0]
    return " ".join(re.findall(rf".{{1,{MAX_WORD_BYTES // 4}}}", chunk[0]))


def _skip(text: str, position: int) -> int:
    while position < len(text) and (text[position].isspace() or text[position] in INVISIBLE):
        position += 1
    return position


def _walk(text: str, position: int, word: str) -> int | None:
    """The end of the word if it begins at this position, else None."""
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
    while position < len(text) and text[position] in INVISIBLE:
        position += 1
    return position


def _plain(text: str, position: int) -> str:
    """The character at a position as the biLM's tokeniser writes it; empty after the end."""
    sign = text[position : position + 1]
    return TYPOGRAPHIC.get(sign, sign)
