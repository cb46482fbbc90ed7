"""Overlap between texts: `shared(lines, sources)` finds lines that share 45 characters in a row with another text.

Perplexity is too low on text that the biLM was trained on, and on other paragraphs of the same articles.

`Excluded(texts)` finds such lines too, but compares letters and digits only: one text may be tokenised, the other not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from elmo.pretrain.corpus import sources
from elmo.pretrain.corpus.sources import SourceFile, read_blocks

WINDOW: Final = 45  # characters
_STRIDE: Final = 16
_OTHER: Final = re.compile(r"[\W_]+")  # neither letters nor digits
_PROBE: Final = WINDOW - _STRIDE + 1  # every shared window contains a probe that begins at a multiple of the stride


def shared(lines: Sequence[str], others: Iterable[SourceFile]) -> list[bool]:
    """Whether each line shares `WINDOW` characters in a row with a line of the other text."""
    probes = {line[i : i + _PROBE] for line in lines for i in range(len(line) - _PROBE + 1)}
    windows = {line[i : i + WINDOW] for line in lines for i in range(len(line) - WINDOW + 1)}
    found: set[str] = set()
    for block in read_blocks(others):
        for piece in block.pieces:
            text = "\n".join(line.text for line in sources.lines(piece))
            for at in [i for i in range(0, len(text), _STRIDE) if text[i : i + _PROBE] in probes]:
                found.update(text[i : i + WINDOW] for i in range(max(at - _STRIDE + 1, 0), at + 1))
    found &= windows
    return [any(line[i : i + WINDOW] in found for i in range(len(line) - WINDOW + 1)) for line in lines]


class Excluded:
    """Texts that a corpus must not have: `line in Excluded(texts)`.

    A line is in them if it shares `WINDOW` letters and digits in a row with one of the files. Case, white space and
    punctuation do not count, so the tokens `do n't , " he said` match `don't," he said`. The lines of a file are
    joined, so a paragraph matches although the file has a sentence or a token per line. A line with fewer letters and
    digits is never in them.
    """

    def __init__(self, texts: Iterable[SourceFile]) -> None:
        """Reads the files."""
        joined: list[str] = []
        for block in read_blocks(texts):
            for piece in block.pieces:
                if piece.start == 0:
                    joined.append("\n")  # between files, no window crosses it
                joined += [_letters(line.text) for line in sources.lines(piece)]
        self._text = "".join(joined)
        self._probes = {self._text[i : i + _PROBE] for i in range(len(self._text) - _PROBE + 1)}

    def __contains__(self, line: str) -> bool:
        letters = _letters(line)
        last = len(letters) - WINDOW
        return any(
            letters[i : i + WINDOW] in self._text
            for at in range(0, len(letters) - _PROBE + 1, _STRIDE)
            if letters[at : at + _PROBE] in self._probes
            for i in range(max(at - _STRIDE + 1, 0), min(at, last) + 1)
        )


def _letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return _OTHER.sub("", text.lower())
