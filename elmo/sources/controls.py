"""Controls: sources as wide as a trained biLM, with one property removed. `CONTROLS` lists them by name.

The context ladder, `in_context`, is for any source: it reads each word alone, with some neighbours, in a permuted
sentence, or in the whole one.
"""

import hashlib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import torch
from torch import Tensor, nn

from elmo.bilm.model import Bilm, random_bilm
from elmo.bilm.options import SIZES
from elmo.bilm.sentences import Sentence, in_batches
from elmo.bilm.weight_files import load_bilm
from elmo.published import SHIPPED, shipped_names
from elmo.sources.source import FrozenSource, fingerprint_of

MATCHING_TEXT = SHIPPED / "neighbours.txt"


def only_a_size(weights: str) -> bool:
    """Whether this names a size alone. Shipped weights of that name come first, with their shape and clipping."""
    return weights in SIZES and weights not in shipped_names()


def untrained(weights: str, draw: int) -> Bilm:
    """An untrained biLM of the same shape; its tokens are nearly all alike."""
    bilm = random_bilm(weights if only_a_size(weights) else load_bilm(weights).options, draw)
    bilm.remember_words()
    return bilm


def shuffled(weights: str, draw: int) -> Bilm:
    """The trained biLM with the values of each tensor permuted: it keeps their scale and nothing that it learned."""
    bilm = load_bilm(weights)
    generator = torch.Generator().manual_seed(draw)
    for _, tensor in sorted(bilm.state_dict().items()):
        tensor.copy_(tensor.flatten()[torch.randperm(tensor.numel(), generator=generator)].view_as(tensor))
    bilm.remember_words()
    return bilm


class Matched(nn.Module):
    """The shuffled biLM, each layer minus its mean and scaled to the mean length of the trained biLM's vectors.

    Without that, its layers are several times as long as the trained ones, and share a large mean.

    Args:
        weights: of the trained biLM.
        draw: the seed of the permutation.
        text: a file with one sentence per line, words split at whitespace: mean and lengths are measured on it. Never
            the batch, so that a sentence keeps its vectors, and never the data of a task.
    """

    def __init__(self, weights: str, draw: int, text: Path = MATCHING_TEXT) -> None:
        super().__init__()
        self.source = shuffled(weights, draw)
        self._weights, self._text = weights, text.read_bytes()
        self._measured: tuple[Tensor, Tensor] | None = None  # on first use: a fingerprint does not need it

    @property
    def widths(self) -> tuple[int, ...]:
        """Those of the biLM: a layer with two equal halves has a mean with two equal halves, too."""
        return self.source.widths

    def fingerprint(self) -> str:
        """The sha256 of the shuffled weights and of the text."""
        return hashlib.sha256(b"matched\0" + self.source.fingerprint().encode() + b"\0" + self._text).hexdigest()

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, centred and scaled, (layers, tokens, dim)."""
        layers = self.source.token_layers(sentences)
        if self._measured is None:
            text = [line.split() for line in self._text.decode().splitlines()]
            shuffled, trained = (
                bilm.to(layers.device).token_layers(text).double() for bilm in (self.source, load_bilm(self._weights))
            )  # (layers, tokens, dim)
            mean = shuffled.mean(dim=1, keepdim=True)  # (layers, 1, dim)
            self._measured = mean, _mean_length(trained) / _mean_length(shuffled - mean)
        mean, scale = (measured.to(layers) for measured in self._measured)
        return (layers - mean) * scale


def _mean_length(layers: Tensor) -> Tensor:
    """The mean length of the vectors of each layer, (layers, 1, 1)."""
    lengths: Tensor = torch.linalg.vector_norm(layers, dim=2, keepdim=True)
    return lengths.mean(dim=1, keepdim=True)


CONTROLS: dict[str, Callable[[str, int], FrozenSource]] = {"shuffled": shuffled, "matched": Matched}

WHOLE = "whole"
CONTEXTS = re.compile("whole|isolated|permuted|window[1-9][0-9]*")
_MOST_TOKENS = 16_384  # read at once: a window repeats each word, and so takes more memory than the sentence


def in_context(source: FrozenSource, context: str) -> FrozenSource:
    """The source as it reads each word in a context; see `InContext`."""
    return source if context == WHOLE else InContext(source, context)


def context_fingerprint(fingerprint: str, context: str) -> str:
    """The fingerprint of a source in a context."""
    return fingerprint if context == WHOLE else hashlib.sha256(f"{context}\0{fingerprint}".encode()).hexdigest()


class InContext(nn.Module):
    """A source that reads less than the whole sentence around each word, with the same weights, layers and widths.

    Args:
        source: the layers.
        context: isolated reads each word as a sentence of its own: depth without context. windowK reads K neighbours on
            each side. permuted reads the sentence with its words in another order, drawn from a hash of the sentence,
            and returns the vectors to their words.
    """

    def __init__(self, source: FrozenSource, context: str) -> None:
        super().__init__()
        self.source, self._context = source, context
        if context != "permuted":
            self._reach = int(context.removeprefix("window")) if context != "isolated" else 0

    @property
    def widths(self) -> tuple[int, ...]:
        """Those of the source."""
        return self.source.widths

    def fingerprint(self) -> str:
        """The sha256 of the source's fingerprint and the context."""
        return context_fingerprint(fingerprint_of(self.source), self._context)

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, each read in its context, (layers, tokens, dim)."""
        times = 1 if self._context == "permuted" else 2 * self._reach + 1
        portions = list(in_batches(_MOST_TOKENS // times, sentences)) or [[]]
        return torch.cat([self._layers(some) for some in portions], dim=1)

    def _layers(self, sentences: Sequence[Sentence]) -> Tensor:
        places = [place for sentence in sentences for place in self._contexts(tuple(sentence))]
        pieces = list(dict.fromkeys(piece for piece, _ in places))  # many words have the same context
        starts = dict(zip(pieces, accumulate(map(len, pieces), initial=0), strict=False))
        layers = self.source.token_layers(pieces)  # (layers, tokens of all pieces, dim)
        rows = torch.tensor([starts[piece] + index for piece, index in places], dtype=torch.long)
        return layers.index_select(1, rows.to(layers.device))

    def _contexts(self, sentence: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
        """For each word what is read, and the word's place in it."""
        if self._context == "permuted":
            order = list(range(len(sentence)))
            digest = hashlib.sha256("\0".join(sentence).encode("utf-8", "surrogatepass")).digest()
            random.Random(int.from_bytes(digest)).shuffle(order)
            read = tuple(sentence[index] for index in order)
            yield from ((read, place) for _, place in sorted(zip(order, range(len(order)), strict=True)))
            return
        for index in range(len(sentence)):
            first = max(0, index - self._reach)
            yield sentence[first : index + self._reach + 1], index - first
