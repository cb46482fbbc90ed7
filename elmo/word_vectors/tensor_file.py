"""Vectors in a file of tensors, float16: a quarter of the size of text. `python -m tasks.word2vec` writes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, save

from elmo.common.checks import WIDEST
from elmo.common.errors import InputError
from elmo.word_vectors.content import Content, opened
from elmo.word_vectors.text_file import Vector

TENSORS = ".safetensors"  # how the name of such a file ends


def as_tensors(words: Sequence[str], vectors: npt.NDArray[np.float32]) -> bytes:
    """The content of a file: `words`, UTF-8 with a newline after each, and `vectors`, float16, (words, dim)."""
    spelled = "".join(f"{word}\n" for word in words).encode("utf-8", "surrogatepass")
    return save({"words": np.frombuffer(spelled, dtype=np.uint8), "vectors": vectors.astype(np.float16)})


class TensorVectors:
    """The vectors in such a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._content = path, Content(path)
        self.dim = self._read()[1].shape[1]

    def sha256(self) -> str:
        """That of the file."""
        return self._content.sha256()

    fingerprint = sha256

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words."""
        known, vectors = self._read()
        wanted = set(known if words is None else words)
        return {word: vector.astype(np.float32) for word, vector in zip(known, vectors, strict=True) if word in wanted}

    def _read(self) -> tuple[list[str], npt.NDArray[np.float16]]:
        """The words and their vectors, (words, dim)."""
        with opened(self._path, self._content) as file:
            content = file.read()
        try:
            tensors = load(content)
            words = tensors["words"].tobytes().decode("utf-8", "surrogatepass").split("\n")[:-1]
            vectors = tensors["vectors"]
        except (SafetensorError, KeyError, UnicodeDecodeError) as error:
            raise InputError(
                f"{self._path}: expected the tensors words and vectors, as python -m tasks.word2vec writes them, found "
                f"{error}. Make or copy the file again"
            ) from error
        if vectors.dtype != np.float16 or vectors.ndim != 2 or not 2 <= vectors.shape[1] <= WIDEST:
            raise InputError(
                f"{self._path}: expected float16 vectors of 2 to {WIDEST:,} numbers, found {vectors.dtype} of shape "
                f"{vectors.shape}. Make or copy the file again"
            )
        if len(words) != len(vectors) or not np.isfinite(vectors).all():
            raise InputError(
                f"{self._path}: expected a finite vector for each of {len(words):,} words, found {len(vectors):,} "
                "vectors or others. Make or copy the file again"
            )
        return words, vectors
