"""The biLM: computes the layers of every token of a sentence, without gradients."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, product
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.encoder import CharacterEncoder, WordMemory, encoder_of
from elmo.bilm.lstm import LstmPair, Numbers, ProjectedLstm, ReadingOrder
from elmo.bilm.options import SIZES, BilmOptions
from elmo.bilm.sentences import END_OF_SENTENCE, Sentence, check_sentences, numbered_words, padded
from elmo.common.device import at_once, frozen_arithmetic, side_by_side, upload
from elmo.common.errors import InputError

FORWARD, BACKWARD = 0, 1
INT8_FORMAT = "int8 1"  # raise its number when the layers in int8 change
SENTENCES_IN_A_SHARE = 12  # with fewer, a thread spends most of its time reading weights


class CarriedState:
    """LSTM states carried from batch to batch: row i of a batch continues row i of the batch before, as in bilm-tf.

    Pass the same object to successive calls. Without one every sentence starts from zero, and its vectors depend on
    that sentence alone; with one they depend on everything read before.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], list[Tensor]] = {}  # state and cell of each direction and layer

    def take(self, directions: Sequence[int], layer: int, order: Numbers, start: Sequence[Tensor]) -> None:
        """Overwrites states and cells at the start of a batch with the last batch's final ones, as far as there are.

        Args:
            directions: those that `start` contains.
            layer: number of the LSTM layer.
            order: the sentence of each row.
            start: state and cell, (directions, sentences, width) each.
        """
        for row, direction in enumerate(directions):
            for into, saved in zip(start, self._rows.get((direction, layer), ()), strict=False):
                known = order < len(saved)
                into[row, upload(np.flatnonzero(known), into.device)] = saved[upload(order[known], into.device)]

    def put(self, directions: Sequence[int], layer: int, order: Numbers, end: Sequence[Tensor]) -> None:
        """Keeps the final states and cells of a batch; further rows of an earlier, larger batch stay."""
        back = upload(np.argsort(order), end[0].device)
        for row, direction in enumerate(directions):
            last = [values[row, back] for values in end]
            earlier = self._rows.get((direction, layer), last)
            self._rows[direction, layer] = [
                torch.cat([now, before[len(now) :]]) for now, before in zip(last, earlier, strict=True)
            ]


class Bilm(nn.Module):
    """A frozen bidirectional language model.

    Layer 0 is the encoder's vector, repeated twice; layer j is [forward; backward] of LSTM layer j.
    """

    def __init__(self, options: BilmOptions) -> None:
        super().__init__()
        self.options = options
        # Modules draw initial values, which are overwritten later. That must not change the random state of the caller,
        # or the same seed would give a model another start with ELMo than without.
        with torch.random.fork_rng(devices=[]):
            self.encoder = encoder_of(options)
        width = options.projection_dim  # of the inputs and outputs of all layers

        def lstm() -> ProjectedLstm:
            return ProjectedLstm(width, options.cell_dim, width, (options.cell_clip, options.projection_clip))

        forward, backward = ([lstm() for _ in range(options.n_layers)] for _ in (FORWARD, BACKWARD))
        self.directions = nn.ModuleList(map(nn.ModuleList, (forward, backward)))  # [direction][layer]
        self._pairs = [LstmPair(*lstms) for lstms in zip(forward, backward, strict=True)]
        self.requires_grad_(False)
        self.int8 = False
        self._memory: WordMemory | None = None

    def use_int8(self) -> Self:
        """Computes the products of LSTMs and highways in int8 from now on, on a CPU; returns itself.

        The integers of a file in int8 are used as they are. Activations are rounded row by row, so the vectors of a
        sentence still have the same bits in any batch. States, cells and all else stay float32.
        """
        self.int8 = True
        for module in self.modules():
            if isinstance(module, ProjectedLstm | CharacterEncoder):
                module.use_int8(True)
        self._memory = self._memory and WordMemory(self.encoder)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Rejects gradients: layers are computed without them, so the weights would never change.

        Raises:
            InputError: `requires_grad` is true.
        """
        if requires_grad:
            raise InputError(
                "the biLM is frozen: its layers carry no gradients, so training would not change it. Train the mixes "
                "of elmo.Elmo; to train the biLM itself, run python -m elmo.pretrain"
            )
        return super().requires_grad_(False)

    def remember_words(self) -> None:
        """Caches the vectors of words from now on; weights must not change afterwards."""
        self._memory = WordMemory(self.encoder)

    @property
    def dim(self) -> int:
        """Width of a layer."""
        return 2 * self.options.projection_dim

    @property
    def n_layers(self) -> int:
        """Number of layers: the encoder's and one for each LSTM layer."""
        return self.options.n_layers + 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Width to store for each layer: half for the encoder's, which is the same vector twice."""
        return (self.options.projection_dim, *[self.dim] * self.options.n_layers)

    @property
    def device(self) -> torch.device:
        """The device of weights and layers."""
        return next(self.parameters()).device

    def fingerprint(self) -> str:
        """The sha256 of the current options and weights, and of int8; it does not depend on the file format."""
        return weights_hash(self.state_dict(), self.options.canonical() + INT8_FORMAT * self.int8)

    def layers(self, sentences: Sequence[Sentence], state: CarriedState | None = None) -> Tensor:
        """The layers of a padded batch, (n_layers, sentences, tokens, dim), zero at padding."""
        return padded(self.token_layers(sentences, state), sentences)

    def token_layers(self, sentences: Sequence[Sentence], state: CarriedState | None = None) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (n_layers, tokens, dim).

        Args:
            sentences: lists of words; an empty one has no tokens.
            state: None starts every sentence from zero; see `CarriedState`.

        Raises:
            InputError: a sentence is a string, not a list of words, or precision is int8 and the device no CPU.
        """
        check_sentences(sentences)
        if self.int8 and self.device.type != "cpu":
            raise InputError(
                f"precision int8: expected a CPU, found {self.device}. Use device cpu, or precision float32"
            )
        if not sentences or (state is None and not any(map(len, sentences))):
            return next(self.parameters()).new_zeros(self.n_layers, 0, self.dim)
        text = _Text.of(sentences)
        with frozen_arithmetic(self.device):
            vectors = (self._memory or self.encoder).encode_words(text.words)  # (words, projection_dim)
            result = vectors.new_empty(self.n_layers, len(text.inside), self.dim)
            result[0] = vectors[upload(text.numbers[text.inside], self.device)].repeat(1, 2)
            self._read_all(text, vectors, state, result)
        return result

    def _read_all(self, text: _Text, vectors: Tensor, carried: CarriedState | None, result: Tensor) -> None:
        """Writes the layers of the LSTMs: on a CPU each direction of each share of sentences in a thread of its own."""
        if self.device.type != "cpu":
            self._read([FORWARD, BACKWARD], text, vectors, carried, result)
            return
        # Carried states need all sentences together.
        shares = min(at_once() // 2, len(text.lengths) // SENTENCES_IN_A_SHARE) if carried is None else 1
        work = product(text.shares(max(1, shares)), (FORWARD, BACKWARD))
        side_by_side([partial(self._read, [way], share, vectors, carried, result) for share, way in work])

    def _read(
        self, directions: list[int], text: _Text, vectors: Tensor, carried: CarriedState | None, result: Tensor
    ) -> None:
        """Writes the layers of one direction, or of both in parallel, step by step, to the text's rows."""
        options, packing = self.options, text.packing
        # (directions, words and marks, projection_dim), packed
        x = vectors[upload(text.numbers[packing.positions[directions]], self.device)]
        kept = upload(packing.rows[directions][:, text.inside], self.device)
        for layer, pair in enumerate(self._pairs):
            # State and cell of every sentence, longest sentences first, (directions, sentences, width) each.
            ends = [x.new_zeros(len(x), len(packing.order), n) for n in (options.projection_dim, options.cell_dim)]
            if carried is not None:
                carried.take(directions, layer, packing.order, ends)
            if len(directions) == 2:
                output = pair(x, packing.step_sizes, *ends)
            else:
                output = pair.lstms[directions[0]](x[0], packing.step_sizes, *(end[0] for end in ends))[None]
            if carried is not None:
                carried.put(directions, layer, packing.order, ends)
            x = output + x if options.skip_connections and layer > 0 else output
            for direction, values, inside in zip(directions, x, kept, strict=True):
                half = slice(direction * options.projection_dim, (direction + 1) * options.projection_dim)
                result[layer + 1, text.rows, half] = values.index_select(0, inside)

    def lstm_layers(self, vectors: Tensor, inputs: Tensor, dropout: float = 0.0) -> list[Tensor]:
        """The outputs of each LSTM layer with gradients, (2, steps, sentences, projection_dim) each.

        Args:
            vectors: of the distinct words, (types, projection_dim); their precision is that of all products.
            inputs: indices into `vectors`, (2, steps, sentences); see `elmo.pretrain.batches.TokenBatch`.
            dropout: on the inputs of each layer.
        """
        options, dtype = self.options, vectors.dtype
        # Single precision until here: the gradient of a frequent word is a sum over thousands of positions.
        x = vectors.float().index_select(0, inputs.flatten()).to(dtype).view(*inputs.shape, -1)
        outputs = []
        for layer, pair in enumerate(self._pairs):
            x = functional.dropout(x, dropout)
            y = pair.with_gradients(x)
            x = y + x if options.skip_connections and layer > 0 else y
            outputs.append(x)
        return outputs

    def hidden(self, vectors: Tensor, inputs: Tensor, places: Tensor, dropout: float) -> Tensor:
        """The input of the output layer in pretraining, (2 * steps * sentences, projection_dim), with gradients.

        Args:
            vectors: see `lstm_layers`.
            inputs: see `lstm_layers`.
            places: empty, since every input has a target.
            dropout: on the inputs of each layer and on the result.
        """
        return functional.dropout(self.lstm_layers(vectors, inputs, dropout)[-1].flatten(0, 2), dropout)


@dataclass(frozen=True)
class _Text:
    """A batch of sentences as one sequence of words; the LSTMs also read the marks around each sentence.

    Attributes:
        words: the distinct words.
        numbers: index into `words` at each position.
        inside: the positions that are not marks.
        lengths: positions of each sentence, marks included.
        rows: where its tokens are among those of the whole batch.
    """

    words: list[str]
    numbers: Numbers  # (positions,)
    inside: Numbers  # (tokens,)
    lengths: Numbers  # (sentences,)
    rows: slice

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> _Text:
        lengths = np.array([len(sentence) + 2 for sentence in sentences], dtype=np.int64)
        ends = np.cumsum(lengths)
        number_of = numbered_words(sentences)
        inside = np.delete(np.arange(ends[-1]), np.concatenate([ends - lengths, ends - 1]))
        numbers = np.zeros(ends[-1], dtype=np.int64)
        numbers[ends - 1] = number_of[END_OF_SENTENCE]
        running = map(number_of.__getitem__, chain.from_iterable(sentences))
        numbers[inside] = np.fromiter(running, dtype=np.int64, count=len(inside))
        return cls(list(number_of), numbers, inside, lengths, slice(None))

    @cached_property
    def packing(self) -> ReadingOrder:
        """The order in which the LSTMs read it."""
        return ReadingOrder.of(self.lengths)

    def shares(self, count: int) -> Iterator[_Text]:
        """Splits the batch into `count` parts of about as many sentences each."""
        first = 0
        for lengths in np.array_split(self.lengths, count):
            last = first + int(lengths.sum())
            rows = slice(*np.searchsorted(self.inside, (first, last)))
            yield _Text(self.words, self.numbers[first:last], self.inside[rows] - first, lengths, rows)
            first = last


def weights_hash(weights: Mapping[str, Tensor], options: str) -> str:
    """The sha256 of options and of all weights, independent of their precision in a file."""
    digest = hashlib.sha256(options.encode())
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def random_bilm(size: str | BilmOptions, seed: int) -> Bilm:
    """An untrained biLM of a named size (tiny, small, medium, original) or of any options; equal for equal seeds.

    The control of the benchmark: its vectors are as wide as ELMo's, but not trained. Weights are drawn as bilm-tf
    initialises them, so that activations have the scale of a biLM before training.
    """
    if isinstance(size, str):
        if size not in SIZES:
            raise InputError(f"unknown biLM size {size!r}; expected one of {', '.join(SIZES)}, or BilmOptions")
        size = SIZES[size]
    bilm = Bilm(size)
    draw_weights(bilm, seed)
    return bilm


def draw_weights(module: nn.Module, seed: int) -> None:
    """Draws all weights of a biLM, or of another model with its encoder, in the order of their names."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            if name.endswith("carry.bias"):
                parameter.fill_(-2.0)  # highways start by passing their input through
            elif name.endswith("bias"):
                parameter.zero_()
            elif name.endswith("characters.weight"):
                parameter.uniform_(-1.0, 1.0, generator=generator)
            else:
                fan_in = parameter[0].numel()
                bound = math.sqrt(3.0 / fan_in)  # unit gain
                parameter.uniform_(-bound, bound, generator=generator)
