"""Static word vectors as a source: they join those of the head as ELMo does, frozen and scaled by the mix."""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from elmo.bilm.sentences import Sentence, check_sentences
from elmo.word_vectors import Vector, open_vectors


class Static:
    """One layer: the vector of each word, zero without one.

    Args:
        vectors: a name or a file, see `elmo.word_vectors.open_vectors`. All of them are held in memory.
        lowercase: whether words are looked up in lower case.
    """

    def __init__(self, vectors: str, lowercase: bool = True) -> None:
        self.vectors, self._lowercase = open_vectors(vectors, "vectors"), lowercase
        self.widths = (self.vectors.dim,)
        self._known: dict[str, Vector] | None = None  # read on first use

    def fingerprint(self) -> str:
        """The sha256 of the vectors' fingerprint and of the casing."""
        return hashlib.sha256(f"static 1 {self._lowercase} {self.vectors.fingerprint()}".encode()).hexdigest()

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The vectors of all tokens, (1, tokens, dim)."""
        check_sentences(sentences)
        if self._known is None:
            self._known = self.vectors.pick()
        words = [word.lower() if self._lowercase else word for sentence in sentences for word in sentence]
        layer = np.zeros((1, len(words), self.vectors.dim), dtype=np.float32)
        for row, word in enumerate(words):
            if (vector := self._known.get(word)) is not None:
                layer[0, row] = vector
        return torch.from_numpy(layer)
