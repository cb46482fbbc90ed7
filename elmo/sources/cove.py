"""CoVe (McCann et al. 2017): the states of a translation model's encoder, a BiLSTM of two layers over word vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo.bilm.model import weights_hash
from elmo.bilm.sentences import Sentence, check_sentences
from elmo.common.errors import InputError, excerpt
from elmo.common.files import expanded
from elmo.common.tensor_files import check_finite_weights, check_tensors, naming
from elmo.download.folder import obtain
from elmo.download.published import TRANSLATION_ENCODERS
from elmo.sources.torch_files import read_torch_file
from elmo.word_vectors import open_vectors
from elmo.word_vectors.text_file import Vector

SETTING = "features.frozen.cove.source"
N_LAYERS = 2


class Cove(nn.Module):
    """The encoder as a source: its two layers, both directions next to each other. CoVe is the second one.

    Args:
        weights: cove/wmt-lstm, downloaded on first use, or a file with the tensors of such an nn.LSTM.
        vectors: the word vectors that the encoder reads, a name or a path; those of the published one are GloVe 840B
            300-d. A word without a vector is zero, as in training. All of them are held in memory: 3 GB.
    """

    def __init__(self, weights: str = "cove/wmt-lstm", vectors: str = "glove/840B.300d") -> None:
        super().__init__()
        self._vectors = open_vectors(vectors, f"{SETTING}.vectors")
        tensors = _tensors(_file(weights))
        hidden = tensors["weight_hh_l0"].shape[1]
        widths = (self._vectors.dim, 2 * hidden)
        self.encoder = nn.ModuleList(nn.LSTM(width, hidden, batch_first=True, bidirectional=True) for width in widths)
        remedy = (
            f"Expected was a bidirectional LSTM of {N_LAYERS} layers over vectors of {self._vectors.dim} numbers: set "
            f"{SETTING}.weights to another file, or {SETTING}.vectors to those that the encoder reads"
        )
        whole = nn.LSTM(self._vectors.dim, hidden, N_LAYERS, bidirectional=True, device="meta")
        with naming(weights, remedy):
            check_tensors(tensors, whole.state_dict())
        for number, layer in enumerate(self.encoder):
            layer.load_state_dict(_of_layer(tensors, number))
        self.widths = (2 * hidden,) * N_LAYERS
        self._known: dict[str, Vector] | None = None  # all vectors, from the first use on

    def fingerprint(self) -> str:
        """The sha256 of the encoder's weights and of the vectors."""
        return weights_hash(self.encoder.state_dict(), f"cove 1 {self._vectors.fingerprint()}")

    @torch.no_grad()
    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The states of both layers at all words, (2, tokens, twice the width of a direction)."""
        check_sentences(sentences)
        device = next(self.encoder.parameters()).device
        texts = [sentence for sentence in sentences if sentence]
        if not texts:
            return torch.zeros(N_LAYERS, 0, self.widths[0], device=device)
        lengths = torch.tensor([len(text) for text in texts])
        read = np.zeros((len(texts), int(lengths.max()), self._vectors.dim), dtype=np.float32)
        for row, text in zip(read, texts, strict=True):
            row[: len(text)] = [self._vector(word) for word in text]
        states = torch.from_numpy(read).to(device)  # (sentences, tokens, dim)
        inside = (torch.arange(states.shape[1]) < lengths[:, None]).to(device)
        found = []
        for layer in self.encoder:
            packed = pack_padded_sequence(states, lengths, batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(layer(packed)[0], batch_first=True)
            found.append(states[inside])
        return torch.stack(found)

    def _vector(self, word: str) -> Vector:
        if self._known is None:
            self._known = self._vectors.pick()
            self._zero = np.zeros(self._vectors.dim, dtype=np.float32)
        return self._known.get(word, self._zero)


def _file(weights: str) -> Path:
    path = expanded(weights, f"{SETTING}.weights")
    if path.is_file():
        return path
    if weights in TRANSLATION_ENCODERS:
        return obtain(weights) / TRANSLATION_ENCODERS[weights][0].name
    names = ", ".join(TRANSLATION_ENCODERS)
    raise InputError(f"{SETTING}.weights: expected a file, or {names}, which is downloaded, found {weights!r}")


def _tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of an nn.LSTM by name."""
    content = read_torch_file(path)
    recurrent = content.get("weight_hh_l0") if isinstance(content, dict) else None
    if isinstance(recurrent, Tensor) and recurrent.dim() == 2:
        tensors = {name: tensor.float() for name, tensor in content.items() if isinstance(tensor, Tensor)}
        with naming(path, "Get the file again, or use another"):
            check_finite_weights(tensors)
        return tensors
    found = f"found {excerpt(content)}. Get the file again, or use another"
    raise InputError(f"{path}: expected an LSTM's tensors, such as the matrix weight_hh_l0, {found}")


def _of_layer(tensors: dict[str, Tensor], layer: int) -> dict[str, Tensor]:
    """The tensors of one layer, under the names of an LSTM of one layer."""
    ends = (f"_l{layer}", f"_l{layer}_reverse")
    return {name.replace(f"_l{layer}", "_l0"): tensor for name, tensor in tensors.items() if name.endswith(ends)}
