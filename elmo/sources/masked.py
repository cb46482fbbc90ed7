"""The masked LM: a transformer encoder over the word vectors of a biLM's encoder, its options and its weight files.

Blocks are pre-norm: each adds to a residual stream and reads it through a layer norm without parameters. Positions are
rotations of queries and keys (RoPE), so there is no table of positions. A sentence is read between <S> and </S>.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.encoder import WordMemory, encoder_of
from elmo.bilm.fast import in_blocks
from elmo.bilm.lstm import Numbers
from elmo.bilm.model import Bilm, draw_weights, weights_hash
from elmo.bilm.options import REMEDY, BilmOptions
from elmo.bilm.sentences import END_OF_SENTENCE, START_OF_SENTENCE, Sentence, check_sentences, numbered_words
from elmo.bilm.weight_files import Entry, find_weights, load_bilm, read_options, read_weights, save_weights
from elmo.common.checks import Layers, Width, at_least, check_ranges, width
from elmo.common.device import frozen_arithmetic, upload
from elmo.common.errors import InputError

BASE = 10_000.0  # of RoPE's wavelengths
KIND = "transformer"
"""The key of options.json that a masked LM has and a biLM does not."""


@dataclass(frozen=True)
class MaskedOptions:
    """The settings that define the tensor shapes and the computation of a masked LM.

    Attributes:
        encoder: of words, as in a biLM; its projection_dim is the width of every layer. Settings of LSTMs are unused.
        n_layers: transformer blocks; there is one layer more, the encoder's.
        n_heads: of attention; each has an even width.
        feedforward_dim: inner width of the feed-forward part of a block.
        output_dim: width of what the output layer reads.
        longest: words of the longest sentence in training; longer texts are read in windows of this length.
    """

    encoder: BilmOptions
    n_layers: Layers
    n_heads: Width
    feedforward_dim: Width
    output_dim: Width
    longest: Annotated[int, width, partial(at_least, 2)]

    def __post_init__(self) -> None:
        check_ranges(KIND, self)
        check_heads(KIND, self.dim, self.n_heads)

    @property
    def dim(self) -> int:
        """Width of every layer."""
        return self.encoder.projection_dim

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "options") -> MaskedOptions:
        """The options in a parsed options.json; `where` names it in an error."""
        if KIND not in content:
            raise InputError(f"{where}: expected a masked LM, found a biLM or another model; load_bilm reads biLMs")
        try:
            shape = dict(content[KIND])
            encoder = encoder_options(content, shape.pop("dim"), where)
            wrong = [f"{key}={value!r}" for key, value in shape.items() if type(value) is not int]
            if wrong:
                raise InputError(f"expected whole numbers under {KIND!r}, found {', '.join(wrong)}")
            return cls(encoder, **shape)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{where}: not the options of a masked LM: {error}. {REMEDY}") from error

    def to_json(self) -> dict[str, Any]:
        """The content of options.json."""
        content = self.encoder.to_json()
        del content["lstm"]
        shape = {key: value for key, value in asdict(self).items() if key != "encoder"}
        return {KIND: {"dim": self.dim, **shape}, **content}

    def canonical(self) -> str:
        """A normal form: equal options give equal strings, however their file was written."""
        return json.dumps(self.to_json(), sort_keys=True)


def check_heads(key: str, dim: int, n_heads: int) -> None:
    """Raises an InputError unless a width is a multiple of the heads; `key` is where the user sets both."""
    if dim % (2 * n_heads):
        raise InputError(
            f"{key}.dim: expected a multiple of 2 x n_heads ({2 * n_heads}), since positions rotate pairs of values of "
            f"each head, found {dim}"
        )


def encoder_options(content: Mapping[str, Any], dim: int, where: str = "options") -> BilmOptions:
    """The options of a word encoder of this width, from an options.json; settings of LSTMs are left at defaults."""
    without = {key: value for key, value in content.items() if key != KIND}
    return BilmOptions.from_json({**without, "lstm": {"dim": 1, "projection_dim": dim}}, where)


Shapes = Sequence[tuple[int, int]]
"""(sentences, positions) of each group of consecutive rows; sentences of a group are equally long."""


class TransformerBlock(nn.Module):
    """Weights of one block; queries, keys and values are one product."""

    def __init__(self, dim: int, feedforward_dim: int) -> None:
        super().__init__()
        self.attention_in = nn.Linear(dim, 3 * dim)
        self.attention_out = nn.Linear(dim, dim)
        self.feed_in = nn.Linear(dim, feedforward_dim)
        self.feed_out = nn.Linear(feedforward_dim, dim)


class MaskedLm(nn.Module):
    """A masked LM as a source of frozen layers; see `elmo.FrozenSource`.

    Layer 0 is the encoder's vector, layer j the residual stream after block j, all after layer norm: layer j is what
    block j + 1 reads.
    """

    def __init__(self, options: MaskedOptions) -> None:
        super().__init__()
        self.options = options
        with torch.random.fork_rng(devices=[]):  # the caller's random state must not change
            self.encoder = encoder_of(options.encoder)
            self.mask = nn.Parameter(torch.zeros(options.dim))  # read in place of a masked word
            blocks = (TransformerBlock(options.dim, options.feedforward_dim) for _ in range(options.n_layers))
            self.blocks = nn.ModuleList(blocks)
            self.head = nn.Linear(options.dim, options.output_dim)  # for predictions alone
        self.requires_grad_(False)
        self._memory: WordMemory | None = None

    def remember_words(self) -> None:
        """Caches the vectors of words from now on; weights must not change afterwards."""
        self._memory = WordMemory(self.encoder)

    @property
    def widths(self) -> tuple[int, ...]:
        """Width to store for each layer."""
        return (self.options.dim,) * (self.options.n_layers + 1)

    @property
    def device(self) -> torch.device:
        """The device of weights and layers."""
        return self.mask.device

    def fingerprint(self) -> str:
        """The sha256 of the current options and weights; it does not depend on the precision of the file."""
        return weights_hash(self.state_dict(), self.options.canonical())

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (layers, tokens, dim).

        Nothing is masked. A sentence longer than `options.longest` is read in windows, see `windows`.
        """
        check_sentences(sentences)
        if not any(sentences):
            return self.mask.new_zeros(len(self.widths), 0, self.options.dim)
        found = _Rows.of(sentences, self.options.longest)
        with frozen_arithmetic(self.device):
            vectors = (self._memory or self.encoder).encode_words(found.words)  # (words, dim)
            x = vectors[upload(found.numbers, self.device)]
            kept = upload(found.kept, self.device)
            result = x.new_empty(len(self.widths), len(kept), self.options.dim)
            for into, layer in zip(result, self.layers(x, found.shapes), strict=True):
                torch.index_select(layer, 0, kept, out=into)
        return result

    def layers(
        self,
        x: Tensor,
        shapes: Shapes,
        there: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        dropout: float = 0.0,
    ) -> Iterator[Tensor]:
        """Yields layer after layer, (rows, dim) in single precision.

        Args:
            x: vectors of words, sentence after sentence, (rows, dim).
            shapes: groups of sentences.
            there: true for positions that are attended to, (sentences, positions) of a single group; None for all.
            dtype: of all products.
            dropout: on the input, and on what each half of a block adds to the stream.
        """
        rotations = [_rotations(length, self.options, x.device, dtype) for _, length in shapes]
        mask = None  # added to scores, (sentences, heads, queries, keys)
        if there is not None:
            mask = torch.zeros_like(there, dtype=dtype).masked_fill(~there, -torch.inf)[:, None, None, :]
        x = normed = functional.dropout(_norm(x.float()), dropout)
        yield normed
        for block in cast(Iterable[TransformerBlock], self.blocks):
            read = _linear(block.attention_in, normed, dtype)  # (rows, 3 * dim)
            joined = _linear(block.attention_out, self._attended(read, shapes, rotations, mask), dtype)
            x = x + functional.dropout(joined, dropout)
            inner = functional.gelu(_linear(block.feed_in, _norm(x), dtype))
            x = x + functional.dropout(_linear(block.feed_out, inner, dtype), dropout)
            normed = _norm(x)
            yield normed

    def _attended(self, read: Tensor, shapes: Shapes, rotations: Sequence[Tensor], mask: Tensor | None) -> Tensor:
        """What each position takes from its sentence, all heads next to each other, (rows, dim)."""
        found, start = [], 0
        for (n, length), cos_sin in zip(shapes, rotations, strict=True):
            parts = read[start : start + n * length].view(n, length, 3, self.options.n_heads, -1)
            query, key, value = parts.permute(2, 0, 3, 1, 4)  # (sentences, heads, positions, head_dim) each
            out = functional.scaled_dot_product_attention(_rotated(query, cos_sin), _rotated(key, cos_sin), value, mask)
            found.append(out.transpose(1, 2).reshape(n * length, -1))
            start += n * length
        return torch.cat(found)

    def hidden(self, vectors: Tensor, inputs: Tensor, places: Tensor, dropout: float) -> Tensor:
        """What the output layer reads for each target in pretraining, (targets, output_dim), with gradients.

        Args:
            vectors: of the distinct words, (types, dim); their precision is that of all products.
            inputs: indices into `vectors`, (sentences, steps); len(vectors) is a masked word, one more is padding.
            places: of the targets in the flat inputs.
            dropout: see `layers`.
        """
        # Single precision: the gradient of a frequent word is a sum over thousands of positions.
        padding = torch.zeros_like(self.mask)
        x = torch.cat([vectors.float(), self.mask[None], padding[None]]).index_select(0, inputs.flatten())
        n_sentences, steps = inputs.shape
        *_, top = self.layers(x, [(n_sentences, steps)], inputs <= len(vectors), vectors.dtype, dropout)
        return _linear(self.head, top.index_select(0, places), vectors.dtype)


def _norm(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])


def _linear(layer: nn.Linear, x: Tensor, dtype: torch.dtype) -> Tensor:
    weight, bias = layer.weight.to(dtype), layer.bias.to(dtype)
    return in_blocks(lambda some: functional.linear(some, weight, bias), x.to(dtype))


def _rotations(length: int, options: MaskedOptions, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Cosine and sine of each position's angles, (2, positions, head_dim / 2)."""
    half = options.dim // options.n_heads // 2
    rates = BASE ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
    angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * rates
    return torch.stack([angles.cos(), angles.sin()]).to(dtype)


def _rotated(x: Tensor, cos_sin: Tensor) -> Tensor:
    """Rotates pairs of values by their position: value i goes with value i + head_dim / 2."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos_sin
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


class Window(NamedTuple):
    """Words `start` to `end` of a text, of which `first` to `last` get their layers here."""

    start: int
    end: int
    first: int
    last: int


def windows(length: int, longest: int) -> list[Window]:
    """Overlapping windows over a text: one if it fits, else equally spaced ones that overlap by at least half.

    A word's layers come from the window in which it is farthest from a cut.
    """
    count = 1 if length <= longest else 1 + math.ceil((length - longest) / (longest / 2))
    size = min(length, longest)
    starts = [round(i * (length - size) / max(1, count - 1)) for i in range(count)]
    bounds = [0, *((a + b + size) // 2 for a, b in pairwise(starts)), length]
    return [Window(start, start + size, *bounds[i : i + 2]) for i, start in enumerate(starts)]


class _Rows(NamedTuple):
    """A batch of sentences as rows: windows with marks, sorted by length so that equal ones form groups.

    Attributes:
        words: the distinct words.
        numbers: index into `words` of each row.
        shapes: groups of rows.
        kept: the row of each token, in the order of the sentences.
    """

    words: list[str]
    numbers: Numbers
    shapes: list[tuple[int, int]]
    kept: Numbers

    @classmethod
    def of(cls, sentences: Sequence[Sentence], longest: int) -> _Rows:
        number_of = numbered_words(sentences)
        parts = [(sentence, part) for sentence in sentences if sentence for part in windows(len(sentence), longest)]
        lengths = np.array([part.end - part.start + 2 for _, part in parts], dtype=np.int64)
        order = np.argsort(lengths, kind="stable")
        starts = np.empty_like(lengths)  # the row where each window begins
        starts[order] = np.cumsum(lengths[order]) - lengths[order]
        numbers = np.empty(lengths.sum(), dtype=np.int64)
        kept = [np.zeros(0, dtype=np.int64)]
        for (sentence, part), row in zip(parts, starts.tolist(), strict=True):
            read = [START_OF_SENTENCE, *sentence[part.start : part.end], END_OF_SENTENCE]
            numbers[row : row + len(read)] = [number_of[word] for word in read]
            kept.append(row + 1 - part.start + np.arange(part.first, part.last))
        sizes, counts = np.unique(lengths, return_counts=True)
        shapes = list(zip(counts.tolist(), sizes.tolist(), strict=True))
        return cls(list(number_of), numbers, shapes, np.concatenate(kept))


def random_masked(options: MaskedOptions, seed: int) -> MaskedLm:
    """An untrained masked LM; equal for equal seeds."""
    model = MaskedLm(options)
    draw_weights(model, seed)
    with torch.no_grad():
        for block in cast(Iterable[TransformerBlock], model.blocks):
            for layer in (block.attention_out, block.feed_out):  # all together add about as much as the stream has
                layer.weight /= math.sqrt(2 * options.n_layers)
    return model


def load_masked(weights: Path | str) -> MaskedLm:
    """Loads a masked LM from a weights file, from a folder that contains one, or by the name of a shipped one.

    Raises:
        InputError: a file is missing or damaged, or a tensor does not have the shape that the options define.
    """
    path = find_weights(weights)
    options = MaskedOptions.from_json(*read_options(path))
    state = read_weights(path, _entries(options))
    model = MaskedLm(options)
    model.load_state_dict(state)
    return model


def load_either(weights: Path | str) -> Bilm | MaskedLm:
    """The biLM or the masked LM of these weights, as their options define."""
    path = find_weights(weights)
    return load_masked(path) if is_masked(path) else load_bilm(path)


def is_masked(weights: Path | str) -> bool:
    """Whether these weights are those of a masked LM, by their options."""
    return KIND in read_options(find_weights(weights))[0]


def save_masked(model: MaskedLm, path: Path | str, dtype: torch.dtype = torch.float32) -> None:
    """Writes a masked LM to a .safetensors file, and options.json next to it.

    Args:
        model: the masked LM.
        path: the weights file.
        dtype: torch.float16 halves the file, torch.int8 halves it again; it is read back as float32.
    """
    save_weights(Path(path), _entries(model.options), model.state_dict(), model.options.to_json(), dtype)


def _entries(options: MaskedOptions) -> list[Entry]:
    """Every tensor of a masked LM; the matrices of blocks and highways and word vectors may be int8, as in a biLM."""
    with torch.device("meta"):  # shapes alone
        state = MaskedLm(options).state_dict()
    found = []
    for name, tensor in state.items():
        rounded = tensor.dim() == 2 and (name.startswith("blocks.") or ".highways." in name or "words." in name)
        shape = tuple(tensor.shape)
        found.append(Entry(name, shape, name, scale_shape=(shape[0], 1) if rounded else None))
    return found
