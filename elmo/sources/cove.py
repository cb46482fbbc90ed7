"""CoVe (McCann et al. 2017): the states of a translation model's encoder, a BiLSTM of two layers over word vectors."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from elmo.bilm.model import weights_hash
from elmo.bilm.sentences import Sentence
from elmo.common.errors import InputError, excerpt, naming
from elmo.common.tensor_files import check_finite_weights, check_tensors
from elmo.download import path_or_published
from elmo.published import TRANSLATION_ENCODERS
from elmo.sources.static import Static
from elmo.sources.torch_files import read_torch_file

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
        self._static = Static(vectors, lowercase=False)
        (dim,) = self._static.widths
        path = path_or_published(weights, TRANSLATION_ENCODERS, "CoVe")
        if path.is_dir():
            path /= TRANSLATION_ENCODERS["cove/wmt-lstm"][0].name
        content = read_torch_file(path)
        remedy = (
            f"Expected was a bidirectional LSTM of {N_LAYERS} layers over vectors of {dim} numbers: get the file "
            "again, or set weights to another file, or vectors to those that the encoder reads"
        )
        with naming(path, remedy):
            recurrent = content.get("weight_hh_l0") if isinstance(content, dict) else None
            if not isinstance(recurrent, Tensor) or recurrent.dim() != 2:
                raise InputError(
                    f"expected an LSTM's tensors, such as the matrix weight_hh_l0, found {excerpt(content)}"
                )
            tensors = {name: tensor.float() for name, tensor in content.items() if isinstance(tensor, Tensor)}
            hidden = recurrent.shape[1]
            check_tensors(tensors, nn.LSTM(dim, hidden, N_LAYERS, bidirectional=True, device="meta").state_dict())
            check_finite_weights(tensors)
        widths = dim, 2 * hidden
        self.encoder = nn.ModuleList(nn.LSTM(it, hidden, batch_first=True, bidirectional=True) for it in widths)
        for number, layer in enumerate(self.encoder):
            ends = (f"_l{number}", f"_l{number}_reverse")
            of_layer = {name: tensor for name, tensor in tensors.items() if name.endswith(ends)}
            layer.load_state_dict({name.replace(f"_l{number}", "_l0"): it for name, it in of_layer.items()})
        self.widths = (2 * hidden,) * N_LAYERS

    def fingerprint(self) -> str:
        """The sha256 of the encoder's weights and of the vectors."""
        return weights_hash(self.encoder.state_dict(), f"cove 1 {self._static.vectors.fingerprint()}")

    @torch.no_grad()
    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The states of both layers at all words, (2, tokens, twice the width of a direction)."""
        vectors = self._static.token_layers(sentences)[0].to(next(self.encoder.parameters()).device)
        if not len(vectors):
            return vectors.new_zeros(N_LAYERS, 0, self.widths[0])
        lengths = [len(sentence) for sentence in sentences if sentence]
        packed = pack_sequence(list(torch.split(vectors, lengths)), enforce_sorted=False)
        layers = []
        for layer in self.encoder:
            packed, _ = layer(packed)
            layers.append(torch.cat(unpack_sequence(packed)))
        return torch.stack(layers)
