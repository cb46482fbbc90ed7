"""The grid: small language models that differ in objective and network alone, their options and their weight files.

|             | forward: the next word | joined: the next of each direction | masked: hidden words           |
|-------------|------------------------|------------------------------------|--------------------------------|
| lstm        | a stack                | two stacks: `elmo.bilm.model.Bilm` | two that read each other       |
| transformer | a causal stack         | two causal stacks                  | a stack that reads both sides  |

`GridLm` is all of them but the biLM. It reads the vectors of a biLM's encoder of words, and a sentence between <S> and
</S>. LSTMs are those of a biLM without clips: a layer above the first adds its input. Blocks of transformers are
pre-norm: each adds to a residual stream and reads it through a layer norm without parameters. Positions are rotations
of queries and keys (RoPE), so there is no table of positions.
"""

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
from elmo.bilm.lstm import LstmPair, Numbers, ProjectedLstm, ReadingOrder
from elmo.bilm.model import Bilm, draw_weights, weights_hash
from elmo.bilm.options import NETWORKS, OBJECTIVES, REMEDY, BilmOptions, cell_of
from elmo.bilm.sentences import END_OF_SENTENCE, START_OF_SENTENCE, Sentence, check_sentences, numbered_words
from elmo.bilm.weight_files import Entry, find_weights, load_bilm, read_options, read_weights, save_weights
from elmo.common.checks import Layers, Width, at_least, check_ranges, count, one_of, width
from elmo.common.device import frozen_arithmetic, side_by_side, upload
from elmo.common.errors import InputError, naming, reworded

BASE = 10_000.0  # of RoPE's wavelengths
SHAPES = {"lstm": ("cell_dim",), "transformer": ("n_heads", "feedforward_dim")}  # options of each network


@dataclass(frozen=True)
class GridOptions:
    """The settings that define the tensor shapes and the computation of a `GridLm`.

    Attributes:
        encoder: of words, as in a biLM; its projection_dim is the width of what a block reads. Its LSTMs are unused.
        n_layers: blocks of a stack; there is one layer more, the encoder's.
        output_dim: width of what the output layer reads.
        longest: words of the longest sentence in training; longer texts are read in windows of this length.
        objective: forward, joined or masked.
        network: lstm or transformer.
        n_heads: of attention, in a stack; each has an even width.
        feedforward_dim: inner width of the feed-forward part of a transformer's block.
        cell_dim: of an LSTM, per direction.
        exported: how many layers a source has, the first, the last and those in equal steps between; 0 means all.
    """

    encoder: BilmOptions
    n_layers: Layers
    output_dim: Width
    longest: Annotated[int, width, partial(at_least, 2)]
    objective: Annotated[str, partial(one_of, OBJECTIVES)] = "masked"
    network: Annotated[str, partial(one_of, NETWORKS)] = "transformer"
    n_heads: int = 0
    feedforward_dim: int = 0
    cell_dim: int = 0
    exported: int = 0

    def __post_init__(self) -> None:
        check_ranges(self.network, self)
        for name in SHAPES[self.network]:
            width(f"{self.network}.{name}", getattr(self, name))
        if self.exported:
            count(self.n_layers + 1, f"{self.network}.exported", self.exported, least=2)
        if self.network == "transformer":
            width_of_heads, dim = 2 * self.n_heads, self.encoder.projection_dim
            if dim % width_of_heads:
                raise InputError(
                    f"transformer.dim: expected a multiple of 2 x n_heads ({width_of_heads}), since positions rotate "
                    f"pairs of values of each head, found {dim}"
                )

    @property
    def dim(self) -> int:
        """Width of every layer."""
        return self.encoder.projection_dim * (2 if self.objective == "joined" else 1)

    @property
    def n_stacks(self) -> int:
        """The number of stacks of blocks: two if joined, and two of LSTMs to read both sides."""
        return 2 if self.objective == "joined" or (self.objective, self.network) == ("masked", "lstm") else 1

    @property
    def layers(self) -> list[int]:
        """The numbers of the layers that a source has."""
        last = (self.exported or self.n_layers + 1) - 1
        return [round(i * self.n_layers / last) for i in range(last + 1)]

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "options") -> "GridOptions":
        """The options in a parsed options.json; `where` names it in an error."""
        objective, network = cell_of(content)
        if (objective, network) == cell_of({}):
            raise InputError(f"{where}: expected a language model of the grid, found a biLM; load_bilm reads biLMs")
        what = "not the options of a language model of the grid"
        with naming(where, REMEDY), reworded((KeyError, TypeError, ValueError), lambda error: f"{what}: {error}"):
            shape = {key: value for key, value in content[network].items() if key != "objective"}
            encoder = encoder_options(content, shape.pop("dim"), where)
            wrong = [f"{key}={value!r}" for key, value in shape.items() if type(value) is not int]
            if wrong:
                raise TypeError(f"expected whole numbers under {network!r}, found {', '.join(wrong)}")
            return cls(encoder, objective=objective, network=network, **shape)

    def to_json(self) -> dict[str, Any]:
        """The content of options.json."""
        content = self.encoder.to_json()
        del content["lstm"]
        shape = {key: value for key, value in asdict(self).items() if value and key not in ("encoder", "network")}
        if (self.objective, self.network) == ("masked", "transformer"):
            del shape["objective"]  # as in the first files, so that their fingerprints stay
        return {self.network: {"dim": self.encoder.projection_dim, **shape}, **content}

    def canonical(self) -> str:
        """A normal form: equal options give equal strings, however their file was written."""
        return json.dumps(self.to_json(), sort_keys=True)


def encoder_options(content: Mapping[str, Any], dim: int, where: str = "options") -> BilmOptions:
    """The options of a word encoder of this width, from an options.json; settings of LSTMs are left at defaults."""
    without = {key: value for key, value in content.items() if key not in NETWORKS}
    return BilmOptions.from_json({**without, "lstm": {"dim": 1, "projection_dim": dim}}, where)


# (sentences, positions) of each group of consecutive rows; sentences of a group are equally long.
Shapes = Sequence[tuple[int, int]]


class TransformerBlock(nn.Module):
    """Weights of one block; queries, keys and values are one product."""

    def __init__(self, dim: int, feedforward_dim: int) -> None:
        super().__init__()
        self.attention_in = nn.Linear(dim, 3 * dim)
        self.attention_out = nn.Linear(dim, dim)
        self.feed_in = nn.Linear(dim, feedforward_dim)
        self.feed_out = nn.Linear(feedforward_dim, dim)


class GridLm(nn.Module):
    """A language model of the grid as a source of frozen layers; see `elmo.FrozenSource`.

    Layer 0 is the encoder's vector, layer j what block j + 1 reads, of two joined stacks [forward; backward]. In a
    transformer each is the residual stream after layer norm.
    """

    def __init__(self, options: GridOptions) -> None:
        super().__init__()
        self.options = options
        reads, n_stacks, n_layers = options.encoder.projection_dim, options.n_stacks, options.n_layers
        with torch.random.fork_rng(devices=[]):  # the caller's random state must not change
            self.encoder = encoder_of(options.encoder)
            if options.objective == "masked":
                self.mask = nn.Parameter(torch.zeros(reads))  # read in place of a masked word
            blocks: list[nn.Module] = [
                ProjectedLstm(reads, options.cell_dim, options.dim // n_stacks, (None, None))
                if options.network == "lstm"
                else TransformerBlock(reads, options.feedforward_dim)
                for _ in range(n_stacks * n_layers)
            ]
            self.blocks = nn.ModuleList(blocks)  # of the forward stack, then those of the other
            self.head = nn.Linear(reads, options.output_dim)  # for predictions alone
        self._stacks = [blocks[start : start + n_layers] for start in range(0, len(blocks), n_layers)]
        self._lstms = [LstmPair(*cast(list[ProjectedLstm], layer)) for layer in zip(*self._stacks, strict=True)]
        self.requires_grad_(False)
        self._memory: WordMemory | None = None

    def remember_words(self) -> None:
        """Caches the vectors of words from now on; weights must not change afterwards."""
        self._memory = WordMemory(self.encoder)

    @property
    def widths(self) -> tuple[int, ...]:
        """Width to store for each layer: half for the encoder's of two joined stacks, the same vector twice."""
        return (self.options.encoder.projection_dim, *[self.options.dim] * (len(self.options.layers) - 1))

    @property
    def device(self) -> torch.device:
        """The device of weights and layers."""
        return self.head.weight.device

    def fingerprint(self) -> str:
        """The sha256 of the current options and weights; it does not depend on the precision of the file."""
        return weights_hash(self.state_dict(), self.options.canonical())

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (layers, tokens, dim).

        Nothing is masked. A sentence longer than `options.longest` is read in windows, see `windows`.
        """
        check_sentences(sentences)
        wanted = self.options.layers
        if not any(sentences):
            return self.head.weight.new_zeros(len(wanted), 0, self.options.dim)
        rows = _Rows.of(sentences, self.options.longest)
        with frozen_arithmetic(self.device):
            vectors = (self._memory or self.encoder).encode_words(rows.words)  # (words, dim of the encoder)
            x = vectors[upload(rows.numbers, self.device)]
            kept = upload(rows.kept, self.device)
            result = x.new_empty(len(wanted), len(kept), self.options.dim)
            for number, layer in enumerate(self._read(x, rows.shapes)):
                if number in wanted:
                    torch.index_select(layer, 0, kept, out=result[wanted.index(number)])
        return result

    def _read(self, x: Tensor, shapes: Shapes) -> Iterator[Tensor]:
        """Yields layer after layer of what is read, (rows, dim), without gradients."""
        order = ReadingOrder.of(np.repeat([length for _, length in shapes], [n for n, _ in shapes]))
        if self.options.network == "lstm":
            yield from self._read_by_lstms(x, order)
        elif self.options.n_stacks == 1:
            yield from self.layers(x, shapes)
        else:
            # The same rows from the end of each sentence; the other way round it is the same permutation.
            back = np.empty_like(order.rows[0])
            back[order.positions[1]] = order.positions[0]
            turned = upload(back, x.device)
            for ahead, behind in zip(self.layers(x, shapes), self.layers(x[turned], shapes, stack=1), strict=True):
                yield torch.cat([ahead, behind[turned]], dim=1)

    def _read_by_lstms(self, x: Tensor, order: ReadingOrder) -> Iterator[Tensor]:
        positions, rows = (upload(numbers[: len(self._stacks)], x.device) for numbers in (order.positions, order.rows))
        yield x
        for layer, lstms in enumerate(self._lstms):
            read = x[positions]  # (stacks, rows, dim), each stack in its order of reading
            widths = lstms.lstms[0].projection_dim, lstms.lstms[0].cell_dim
            ends = [x.new_zeros(len(read), len(order.order), n) for n in widths]
            if x.device.type == "cpu":
                arguments = zip(lstms.lstms, read, *ends, strict=True)
                jobs = [partial(lstm, one, order.step_sizes, *end) for lstm, one, *end in arguments]
                outputs: Iterable[Tensor] = side_by_side(jobs)
            else:
                outputs = lstms(read, order.step_sizes, *ends)
            y = torch.cat([one[at] for one, at in zip(outputs, rows, strict=True)], dim=1)
            x = y + x if layer else y
            yield x

    def layers(
        self,
        x: Tensor,
        shapes: Shapes,
        there: Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        dropout: float = 0.0,
        stack: int = 0,
    ) -> Iterator[Tensor]:
        """Yields layer after layer of a stack of a transformer, (rows, dim) in single precision.

        Args:
            x: vectors of words, sentence after sentence, (rows, dim).
            shapes: groups of sentences.
            there: true for positions that are attended to, (sentences, positions) of a single group; None for all, and
                if each position attends only to those before it.
            dtype: of all products.
            dropout: on the input, and on what each half of a block adds to the stream.
            stack: the number of the stack.
        """
        dim = self.options.encoder.projection_dim // self.options.n_heads
        rotations = [_rotations(length, dim, x.device, dtype) for _, length in shapes]
        mask = None  # added to scores, (sentences, heads, queries, keys)
        if there is not None:
            mask = torch.zeros_like(there, dtype=dtype).masked_fill(~there, -torch.inf)[:, None, None, :]
        x = normed = functional.dropout(_norm(x.float()), dropout)
        yield normed
        for block in cast(Iterable[TransformerBlock], self._stacks[stack]):
            read = _linear(block.attention_in, normed, dtype)  # (rows, 3 * dim)
            joined = _linear(block.attention_out, self._attended(read, shapes, rotations, mask), dtype)
            x = x + functional.dropout(joined, dropout)
            inner = functional.gelu(_linear(block.feed_in, _norm(x), dtype))
            x = x + functional.dropout(_linear(block.feed_out, inner, dtype), dropout)
            normed = _norm(x)
            yield normed

    def _attended(self, read: Tensor, shapes: Shapes, rotations: Sequence[Tensor], mask: Tensor | None) -> Tensor:
        """The output of attention at each position, all heads next to each other, (rows, dim)."""
        outputs, start, causal = [], 0, self.options.objective != "masked"
        for (n, length), cos_sin in zip(shapes, rotations, strict=True):
            parts = read[start : start + n * length].view(n, length, 3, self.options.n_heads, -1)
            query, key, value = parts.permute(2, 0, 3, 1, 4)  # (sentences, heads, positions, head_dim) each
            query, key = _rotated(query, cos_sin), _rotated(key, cos_sin)
            out = functional.scaled_dot_product_attention(query, key, value, mask, is_causal=causal)
            outputs.append(out.transpose(1, 2).reshape(n * length, -1))
            start += n * length
        return torch.cat(outputs)

    def hidden(self, vectors: Tensor, inputs: Tensor, places: Tensor, dropout: float) -> Tensor:
        """The input of the output layer for each target in pretraining, (targets, output_dim), with gradients.

        Args:
            vectors: of the distinct words, (types, dim); their precision is that of all products.
            inputs: indices into `vectors`. If masked, (sentences, steps), where len(vectors) is a masked word and one
                more is padding. Else (directions, steps, sentences), each direction in its order of reading.
            places: of the targets in the flat inputs; unused unless masked, since every input has a target.
            dropout: see `layers`; for LSTMs on the inputs of each layer and of the head.
        """
        # Single precision: the gradient of a frequent word is a sum over thousands of positions.
        table, dtype, there = vectors.float(), vectors.dtype, None
        masked = self.options.objective == "masked"
        if masked:
            table = torch.cat([table, self.mask[None], torch.zeros_like(self.mask)[None]])
            there = inputs <= len(vectors)
        by_sentence = inputs[None] if masked else inputs.transpose(1, 2)  # (directions, sentences, steps)
        tops = []
        for stack, read in enumerate(by_sentence):
            x = table.index_select(0, read.flatten())
            if self.options.network == "lstm":
                tops.append(self._lstm_top(x.to(dtype).view(*read.shape, -1), there, dropout).flatten(0, 1))
            else:
                *_, top = self.layers(x, [tuple(read.shape)], there, dtype, dropout, stack)
                tops.append(top)
        if masked:
            return _linear(self.head, tops[0].index_select(0, places), dtype)
        top = torch.stack(tops).view(*by_sentence.shape, -1).transpose(1, 2)  # (directions, steps, sentences, dim)
        return _linear(self.head, top.flatten(0, 2), dtype)

    def _lstm_top(self, x: Tensor, there: Tensor | None, dropout: float) -> Tensor:
        """The top layer of the LSTMs with gradients, (sentences, steps, dim), from x of the same shape."""
        x = x.transpose(0, 1)  # (steps, sentences, dim)
        if there is not None:  # where each position is if a sentence is read from its end; padding stays behind
            at, lengths = torch.arange(len(x), device=x.device)[:, None], there.sum(dim=1)
            turn = torch.where(at < lengths, lengths - 1 - at, at)[:, :, None]
        for layer, lstms in enumerate(self._lstms):
            x = functional.dropout(x, dropout)
            if there is None:
                y = lstms.with_gradients(x[None])[0]
            else:
                ahead, behind = lstms.with_gradients(torch.stack([x, x.take_along_dim(turn, 0)]))
                y = torch.cat([ahead, behind.take_along_dim(turn, 0)], dim=2)
            x = y + x if layer else y
        return functional.dropout(x, dropout).transpose(0, 1)


def _norm(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:])


def _linear(layer: nn.Linear, x: Tensor, dtype: torch.dtype) -> Tensor:
    weight, bias = layer.weight.to(dtype), layer.bias.to(dtype)
    return in_blocks(lambda some: functional.linear(some, weight, bias), x.to(dtype))


def _rotations(length: int, head_dim: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Cosine and sine of each position's angles, (2, positions, head_dim / 2)."""
    half = head_dim // 2
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
    def of(cls, sentences: Sequence[Sentence], longest: int) -> "_Rows":
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


def random_lm(options: BilmOptions | GridOptions, seed: int) -> Bilm | GridLm:
    """An untrained language model; equal for equal seeds."""
    model = Bilm(options) if isinstance(options, BilmOptions) else GridLm(options)
    draw_weights(model, seed)
    with torch.no_grad():
        for block in model.modules():
            if isinstance(block, TransformerBlock):
                for layer in (block.attention_out, block.feed_out):  # all together add about as much as the stream has
                    layer.weight /= math.sqrt(2 * options.n_layers)
    return model


def load_lm(weights: Path | str) -> Bilm | GridLm:
    """Loads the language model of a weights file, of a folder that contains one, or of the name of a shipped one.

    Raises:
        InputError: a file is missing or damaged, or a tensor does not have the shape that the options define.
    """
    path = find_weights(weights)
    content, where = read_options(path)
    if cell_of(content) == cell_of({}):
        return load_bilm(path)
    options = GridOptions.from_json(content, where)
    state = read_weights(path, _entries(options))
    model = GridLm(options)
    model.load_state_dict(state)
    return model


def save_lm(model: GridLm, path: Path | str, dtype: torch.dtype = torch.float32) -> None:
    """Writes a language model of the grid to a .safetensors file, and options.json next to it.

    Args:
        model: any but the biLM, which `elmo.save_bilm` writes.
        path: the weights file.
        dtype: torch.float16 halves the file, torch.int8 halves it again; it is read back as float32.
    """
    save_weights(Path(path), _entries(model.options), model.state_dict(), model.options.to_json(), dtype)


def _entries(options: GridOptions) -> list[Entry]:
    """Every tensor of a model; the matrices of blocks and highways and word vectors may be int8, as in a biLM."""
    with torch.device("meta"):  # shapes alone
        state = GridLm(options).state_dict()
    entries = []
    for name, tensor in state.items():
        rounded = tensor.dim() == 2 and (name.startswith("blocks.") or ".highways." in name or "words." in name)
        shape = tuple(tensor.shape)
        entries.append(Entry(name, shape, name, scale_shape=(shape[0], 1) if rounded else None))
    return entries
