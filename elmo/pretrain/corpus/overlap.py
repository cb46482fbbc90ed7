"""Overlap between texts: `shared(lines, sources)` finds lines that share 45 characters in a row with another text.

Perplexity is too low on text that the biLM was trained on, and on other paragraphs of the same articles.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from elmo.pretrain.corpus import sources
from elmo.pretrain.corpus.sources import SourceFile, read_blocks

WINDOW: Final = 45  # characters
_STRIDE: Final = 16
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
