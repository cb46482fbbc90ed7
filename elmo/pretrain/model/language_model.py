"""Trainable biLM: the weights of a `Bilm` with gradients, and a forward pass that is fast to train.

`LanguageModel.bilm` is the biLM that is saved at the end, so nothing needs to be converted. A test checks that the
forward pass here agrees with `elmo.bilm.model`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.characters import PADDING
from elmo.bilm.encoder import CharacterEncoder, Highway
from elmo.bilm.lstm import ProjectedLstm
from elmo.bilm.model import Bilm, random_bilm
from elmo.bilm.options import BilmOptions
from elmo.masked.model import MaskedLm
from elmo.pretrain.corpus.token_store import UNKNOWN
from elmo.pretrain.model.recurrence import both_directions
from elmo.pretrain.model.softmax import OutputLayer
from elmo.pretrain.model.spelling import Profile


class LanguageModel(nn.Module):
    """A biLM and its output layer, with gradients."""

    def __init__(self, bilm: Bilm, output: OutputLayer) -> None:
        super().__init__()
        self.bilm = bilm
        nn.Module.requires_grad_(bilm)  # the biLM's own method raises an error
        self.output = output

    @classmethod
    def random(cls, options: BilmOptions, n_words: int, seed: int) -> LanguageModel:
        """An untrained model; equal for equal seeds."""
        return cls(random_bilm(options, seed), OutputLayer.random(n_words, options.projection_dim, seed))

    @property
    def core(self) -> Bilm:
        """What is exported to compute layers: everything except the output layer."""
        return self.bilm

    def hidden(self, vectors: Tensor, inputs: Tensor, places: Tensor, dropout: float) -> Tensor:
        """What the output layer reads for each target, (targets, projection_dim); see `lstm_layers`.

        Args:
            vectors: of the distinct words.
            inputs: indices into `vectors`; every one has a target.
            places: empty.
            dropout: also on the result.
        """
        return functional.dropout(lstm_layers(self.bilm, vectors, inputs, dropout)[-1].flatten(0, 2), dropout)


def lstm_layers(bilm: Bilm, vectors: Tensor, inputs: Tensor, dropout: float = 0.0) -> list[Tensor]:
    """Outputs of each LSTM layer, (2, steps, sentences, projection_dim) each.

    Args:
        bilm: has the LSTMs.
        vectors: of the distinct words, (types, projection_dim).
        inputs: indices into `vectors`, (2, steps, sentences); see `batches.TokenBatch`.
        dropout: on the inputs of each layer.
    """
    options, dtype = bilm.options, vectors.dtype
    # Single precision until here: the gradient of a frequent word is a sum over thousands of positions.
    x = vectors.float().index_select(0, inputs.flatten()).to(dtype)
    x = x.view(*inputs.shape, options.projection_dim)
    found = []
    for layer in range(options.n_layers):
        x = functional.dropout(x, dropout)
        lstms = [cast(ProjectedLstm, cast(nn.ModuleList, direction)[layer]) for direction in bilm.directions]
        y = both_directions(
            x,
            torch.stack([lstm.weight for lstm in lstms]).to(dtype),
            torch.stack([lstm.bias for lstm in lstms]),
            torch.stack([lstm.projection for lstm in lstms]).to(dtype),
            (options.cell_clip, options.projection_clip),
        )
        x = y + x if options.skip_connections and layer > 0 else y
        found.append(x)
    return found


def word_vectors(core: Bilm | MaskedLm, types: Tensor, spelled: Tensor, profile: Profile, dtype: torch.dtype) -> Tensor:
    """The encoder's vectors of distinct words, (types, projection_dim), computed in the precision `dtype`.

    Args:
        core: has the encoder.
        types: word numbers, (types,); numbers above the vocabulary have no row in a word table.
        spelled: their character ids, long spellings first, (types, max_characters).
        profile: groups of similar length.
        dtype: of all products.
    """
    encoder = core.encoder
    if isinstance(encoder, CharacterEncoder):
        return _character_vectors(encoder, spelled, profile, dtype)
    rows = torch.where(types < encoder.words.num_embeddings, types, UNKNOWN)
    x = encoder.words.weight.index_select(0, rows).to(dtype)
    if isinstance(encoder.characters, CharacterEncoder):
        x = torch.cat([x, _character_vectors(encoder.characters, spelled, profile, dtype)], dim=1)
    return _projected(encoder.projection, x, dtype)


def _character_vectors(encoder: CharacterEncoder, spelled: Tensor, profile: Profile, dtype: torch.dtype) -> Tensor:
    """Vectors of spelled words: all filters in one product; each group is cut to its longest word."""
    filters, widest = encoder.options.filters, max(width for width, _ in encoder.options.filters)
    # Narrow filters are padded to the widest with zeros: 14 % more arithmetic, but one product instead of seven.
    convolutions = [cast(nn.Conv1d, convolution) for convolution in encoder.convolutions]
    padded = [functional.pad(item.weight, (0, widest - item.kernel_size[0])) for item in convolutions]
    weight = torch.cat(padded).permute(2, 1, 0).flatten(0, 1).to(dtype)  # (widest * char_dim, n_filters)
    found, start = [], 0
    for size, longest in profile:
        group = spelled[start : start + size]
        start += size
        n_windows = min(longest + 1, spelled.shape[1])
        missing = max(0, n_windows + widest - 1 - group.shape[1])
        group = functional.pad(group[:, : n_windows + widest - 1], (0, missing), value=PADDING)
        # Single precision for the lookup: the gradient of a character is a sum over all words.
        x = encoder.characters.weight.index_select(0, group.flatten().int()).to(dtype)
        x = x.view(*group.shape, -1)  # (size, characters, char_dim)
        windows = x.unfold(1, widest, 1).transpose(2, 3).flatten(2)  # (size, n_windows, widest * char_dim)
        y = windows @ weight  # (size, n_windows, n_filters)
        if longest + widest > spelled.shape[1]:  # some windows are outside what the frozen encoder reads
            y = y + _beyond(filters, n_windows, spelled.shape[1], y)
        found.append(y.amax(dim=1))
    x = torch.cat(found) + torch.cat([item.bias for item in convolutions if item.bias is not None]).to(dtype)
    x = torch.relu(x) if encoder.options.activation == "relu" else torch.tanh(x)
    for highway in cast(Iterable[Highway], encoder.highways):
        gate = torch.sigmoid(_projected(highway.carry, x, dtype))
        x = torch.lerp(x, torch.relu(_projected(highway.transform, x, dtype)), gate)
    return _projected(encoder.projection, x, dtype)


def _beyond(filters: Sequence[tuple[int, int]], n_windows: int, n_characters: int, like: Tensor) -> Tensor:
    """Minus infinity where a filter's window would pass the last character, else zero, (n_windows, n_filters)."""
    ends = torch.cat([like.new_full((count,), n_characters - width) for width, count in filters])
    at = torch.arange(n_windows, device=like.device)[:, None]
    return like.new_zeros(n_windows, len(ends)).masked_fill(at > ends, -torch.inf)


def _projected(layer: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    if not isinstance(layer, nn.Linear):  # bilm-tf has no projection if the width stays the same
        return x
    return functional.linear(x, layer.weight.to(dtype), layer.bias.to(dtype))
