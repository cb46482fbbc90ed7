"""Vectors in text files: one word per line, as GloVe, word2vec and fastText write them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.common.checks import WIDEST
from elmo.common.errors import InputError
from elmo.word_vectors.content import Content, opened

Vector = npt.NDArray[np.float32]
_REMEDY = "Remove the line, or use another file"


class TextVectors:
    """Vectors in a text file, plain or gzipped: one word per line and its numbers, with or without a header line.

    Args:
        path: the file.
        dim: width of its vectors; by default that of its first line, whose word must then have no spaces.
    """

    def __init__(self, path: Path, dim: int | None = None) -> None:
        self._path, self._content = path, Content(path)
        with _lines(self._path) as lines:
            first = next(lines, b"").split(b" ")
            second = next(lines, b"").split(b" ")
        # word2vec and fastText begin with a line "count dim". Vectors of one number are not supported.
        self._has_header = len(first) == 2
        self._count = int(first[0][:20]) if self._has_header and first[0].isdigit() else None
        fields = second if self._has_header else first
        self.dim = dim or len(fields) - 1
        if not 2 <= self.dim <= WIDEST or not _is_number(fields[-1]):
            start = b" ".join(first)[:60].decode("utf-8", "replace")
            raise InputError(
                f"{path}: expected lines: a word and 2 to {WIDEST:,} numbers, found {len(fields) - 1:,} in {start!r}. "
                "Use another file; binary ones must end in .bin"
            )

    def sha256(self) -> str:
        """That of the file."""
        return self._content.sha256()

    fingerprint = sha256

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words, read in one pass through the file.

        Some words of GloVe 840B contain spaces, so the last `dim` fields of a line are the numbers.
        """
        # For speed, lines are bytes, and most are not split: GloVe 840B has 2.2 million lines of 300 numbers.
        wanted = {word.encode("utf-8", "surrogatepass"): word for word in words or ()}
        beginnings = {word.partition(b" ")[0] for word in wanted}
        found: dict[str, Vector] = {}
        count = 0
        with _lines(self._path, self._content) as lines:
            for number, line in enumerate(lines, start=1):
                if (number == 1 and self._has_header) or not line:
                    continue
                count += 1
                if (fields := line.count(b" ")) < self.dim:
                    raise InputError(
                        f"{self._at(number)}: expected a word and {self.dim} numbers, found {fields}: {_start(line)}. "
                        f"{_REMEDY}"
                    )
                if words is not None and line[: line.index(b" ")] not in beginnings:
                    continue
                spelled, *numbers = line.rsplit(b" ", self.dim)
                word = spelled.decode("utf-8", "replace") if words is None else wanted.get(spelled)
                if word is None or word in found:
                    continue
                try:
                    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is rejected
                        vector = np.array(numbers, dtype=np.float32)
                except ValueError as error:
                    raise InputError(
                        f"{self._at(number)}: expected {self.dim} numbers, found a value that is none: {_start(line)}. "
                        f"{_REMEDY}"
                    ) from error
                if not np.isfinite(vector).all():
                    value = numbers[int(np.isfinite(vector).argmin())].decode("utf-8", "replace")
                    raise InputError(
                        f"{self._at(number)}: expected finite numbers for {word!r}, found {value:.80}. {_REMEDY}"
                    )
                found[word] = vector
        if self._count not in (None, count):  # such as a file that was cut at the end of a line
            raise InputError(
                f"{self._path}: expected {self._count:,} words, the number in its first line, found {count:,}. Get the "
                "file again; if its lines were chosen on purpose, correct the first line"
            )
        return found

    def _at(self, number: int) -> str:
        return f"{self._path}, line {number}"


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _start(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))


@contextmanager
def _lines(path: Path, content: Content | None = None) -> Iterator[Iterator[bytes]]:
    """The lines of a file, stripped; only a newline ends a line, not U+2028 or the like."""
    with opened(path, content) as file:
        yield (line.rstrip(b" \r\n") for line in file)
