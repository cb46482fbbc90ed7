"""The biLM, or another language model of the grid, as a source of frozen layers, and a biLM that a task tunes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.model import Bilm
from elmo.bilm.sentences import END_OF_SENTENCE, START_OF_SENTENCE, Sentence, check_sentences, numbered_words
from elmo.bilm.weight_files import find_weights, read_options
from elmo.common.device import upload
from elmo.common.errors import InputError
from elmo.sources.grid import GridLm, load_lm
from elmo.sources.source import FrozenSource, name_of


def trained(weights: str) -> Bilm | GridLm:
    """The language model of weights by name or path."""
    model = load_lm(weights)
    model.remember_words()
    return model


def in_int8(source: FrozenSource) -> FrozenSource:
    """The source with the products of its biLM in int8; see `Bilm.use_int8`."""
    bilms = [part for part in source.modules() if isinstance(part, Bilm)] if isinstance(source, nn.Module) else []
    if not bilms:
        raise InputError(f"precision int8: expected a biLM, found {name_of(source)}. Use float16 or float32")
    for bilm in bilms:
        bilm.use_int8()
    return source


def files(weights: str) -> list[Path]:
    """The files that are read: the weights, and the options if they are in a file of their own."""
    path = find_weights(weights)
    options = Path(read_options(path)[1])
    return [path, options] if options.is_file() else [path]


class TunedBilm(nn.Module):
    """The layers of a biLM, computed as in pretraining: the same values except for rounding, with gradients.

    Args:
        bilm: its weights are those that are tuned.
    """

    def __init__(self, bilm: Bilm) -> None:
        super().__init__()
        self.bilm = bilm
        nn.Module.requires_grad_(bilm)  # the biLM's own method raises an error

    @property
    def widths(self) -> tuple[int, ...]:
        """Those of the biLM."""
        return self.bilm.widths

    def fingerprint(self) -> str:
        """That of the current weights."""
        return self.bilm.fingerprint()

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """All parameters, bottom first: the encoder of words, then each layer of LSTMs in both directions."""
        parts = [[self.bilm.encoder], *zip(*self.bilm.directions, strict=True)]
        return [[parameter for module in part for parameter in module.parameters()] for part in parts]

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (layers, tokens, dim), with gradients."""
        check_sentences(sentences)
        bilm = self.bilm
        if not any(sentences):
            return torch.zeros(bilm.n_layers, 0, bilm.dim, device=bilm.device)
        number = numbered_words(sentences)
        steps = max(map(len, sentences)) + 2
        # Sentences are padded at the end of either reading, where no token reads it.
        inputs = np.full((2, steps, len(sentences)), number[END_OF_SENTENCE], dtype=np.int64)
        places = []  # of the tokens in the reading of either direction: step * sentences + sentence, (2, tokens)
        for column, sentence in enumerate(sentences):
            marked = [number[word] for word in (START_OF_SENTENCE, *sentence, END_OF_SENTENCE)]
            inputs[0, : len(marked), column], inputs[1, : len(marked), column] = marked, marked[::-1]
            forward = np.arange(1, len(sentence) + 1)
            places.append(np.stack([forward, forward[::-1]]) * len(sentences) + column)
        vectors = bilm.encoder.encode_words(list(number))  # (words, projection_dim)
        at = upload(np.concatenate(places, axis=1), bilm.device)  # (2, tokens)
        read = upload(inputs, bilm.device)
        bottom = vectors.index_select(0, read[0].flatten().index_select(0, at[0]))
        layers = [torch.cat([bottom, bottom], dim=1)]
        for outputs in bilm.lstm_layers(vectors, read):  # (2, steps, sentences, projection_dim) each
            both = [one.flatten(0, 1).index_select(0, rows) for one, rows in zip(outputs, at, strict=True)]
            layers.append(torch.cat(both, dim=1))
        return torch.stack(layers)
