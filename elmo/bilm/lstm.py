"""LSTM with a projected, clipped state: one direction of one layer, over a batch packed by length.

torch's LSTM with `proj_size` is the same recurrence without clipping. The trained models need the clipping, so the
steps are written out here. On a CPU they run in compiled C (`elmo.bilm.fast`) if there is a compiler and weights
are float32, otherwise in torch; in both the products may be in int8. A GPU runs both directions in parallel
(`elmo.bilm.lstm`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo.bilm import fast
from elmo.bilm.fast import Prepared, in_blocks, pointwise
from elmo.bilm.recurrence import Clips, in_parallel
from elmo.common.device import upload
from elmo.common.int8 import FINE, LEVELS, in_steps, product

# Maximum number of gate values that are computed ahead of their steps (256 MB), so that this memory does not grow with
# the text. The compiled kernel has a separate limit.
GATES_AHEAD = 2**26

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReadingOrder:
    """The order in which the LSTMs read a batch: step by step, and within a step the longest sentences first.

    Attributes:
        order: sentence numbers, longest first.
        step_sizes: how many sentences are still running at each step.
        positions: the token of each packed row, as a position in the concatenated sentences of the batch; first for
            reading forward, then for reading every sentence from its end.
        rows: the inverse: the packed row of each token, for both directions.
    """

    order: Numbers  # (sentences,)
    step_sizes: list[int]  # (steps,)
    positions: Numbers  # (2, tokens)
    rows: Numbers  # (2, tokens)

    @classmethod
    def of(cls, lengths: Sequence[int] | Numbers) -> ReadingOrder:
        """The order for sentences of these lengths, each at least one token long, without padding."""
        given = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-given, kind="stable")
        ended = np.cumsum(np.bincount(given))  # number of sentences up to each length
        step_sizes = len(given) - ended[:-1]
        first_row = np.cumsum(step_sizes) - step_sizes  # of each step
        # For each token: its step from the start of its sentence and from the end, and the rank of its sentence.
        ends = np.repeat(np.cumsum(given), given)
        at = np.arange(len(ends))
        step, left = at - ends + np.repeat(given, given), ends - 1 - at
        rank = np.repeat(np.argsort(order), given)
        rows = np.stack([first_row[step] + rank, first_row[left] + rank])
        positions = np.empty_like(rows)
        positions[np.arange(2)[:, None], rows] = at
        return cls(order, step_sizes.tolist(), positions, rows)


def in_parts(step_sizes: Sequence[int], tokens: int) -> Iterator[tuple[slice, Sequence[int]]]:
    """Groups of successive steps with at most `tokens` tokens, or one step: their packed rows and step sizes."""
    first_step = first_row = row = 0
    for step, size in enumerate(step_sizes):
        if step > first_step and row + size - first_row > tokens:
            yield slice(first_row, row), step_sizes[first_step:step]
            first_step, first_row = step, row
        row += size
    if step_sizes:
        yield slice(first_row, row), step_sizes[first_step:]


@dataclass(frozen=True)
class TransposedWeights:
    """The weights of an LSTM, transposed for products in torch; of both directions with a first axis of 2."""

    by_input: Tensor  # (input_dim, 4 * cell_dim)
    recurrent: Tensor  # (projection_dim, 4 * cell_dim)
    bias: Tensor  # (4 * cell_dim,), with one added for the forget gate
    projection: Tensor  # (cell_dim, projection_dim)
    steps: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)  # of gates and projection, if they are in int8


class ProjectedLstm(nn.Module):
    """An LSTM whose recurrent state is a clipped projection of its clipped cell.

    Gates are stacked in torch's order: input, forget, cell candidate, output. As in TensorFlow, one is added to the
    bias of the forget gate when it is used; the parameter has the value of the file.
    """

    def __init__(self, input_dim: int, cell_dim: int, projection_dim: int, clips: Clips) -> None:
        super().__init__()
        self.input_dim, self.clips = input_dim, clips
        self.weight = nn.Parameter(torch.empty(4 * cell_dim, input_dim + projection_dim))  # reads [input; state]
        self.bias = nn.Parameter(torch.empty(4 * cell_dim))
        self.projection = nn.Parameter(torch.empty(projection_dim, cell_dim))
        self.use_int8(False)

    def use_int8(self, int8: bool) -> None:
        """Whether products are in int8 from now on; see `elmo.bilm.model.Bilm.use_int8`."""
        self.int8 = int8
        self._panels: Prepared[fast.LstmPanels] = Prepared()
        self._transposed: Prepared[TransposedWeights] = Prepared()

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor]:
        """The weight, the bias and the projection."""
        return self.weight, self.bias, self.projection

    @property
    def cell_dim(self) -> int:
        """Width of the cell."""
        return self.projection.shape[1]

    @property
    def projection_dim(self) -> int:
        """Width of the output and recurrent state."""
        return self.projection.shape[0]

    @torch.no_grad()
    def forward(self, x: Tensor, step_sizes: Sequence[int], state: Tensor, cell: Tensor) -> Tensor:
        """The outputs of all packed tokens, (tokens, projection_dim).

        Args:
            x: packed inputs, (tokens, input_dim).
            step_sizes: how many sentences run at each step; see `ReadingOrder`.
            state: recurrent state of each sentence, (sentences, projection_dim); overwritten with the state after the
                last token of each sentence.
            cell: cell of each sentence, (sentences, cell_dim); overwritten in the same way.
        """
        compiled = fast.compiled(x, self.weight)
        if compiled is not None:
            panels = self._panels.of(
                self.weights, lambda: compiled.lstm_panels(self.weight, self.used_bias(), self.projection, self.int8)
            )
            return compiled.lstm(x.contiguous(), step_sizes, panels, state, cell, self.clips)
        columns = self._transposed.of(self.weights, self._transpose_weights)
        outputs = x.new_empty(x.shape[0], self.projection_dim)
        for rows, sizes in in_parts(step_sizes, GATES_AHEAD // len(self.bias)):
            self._in_torch(x[rows], sizes, state, cell, outputs[rows], columns)
        return outputs

    def used_bias(self) -> Tensor:
        """The bias with one added for the forget gate, (4 * cell_dim,)."""
        bias = self.bias.detach().clone()
        bias[self.cell_dim : 2 * self.cell_dim] += 1.0
        return bias

    def _transpose_weights(self) -> TransposedWeights:
        weight, projection = self.weight.detach(), self.projection.detach()
        steps: tuple[Tensor, Tensor] | tuple[None, None] = None, None
        if self.int8:
            (weight, of_gates), (projection, of_projection) = in_steps(weight), in_steps(projection)
            steps = of_gates, of_projection
        # Copies, not views: OpenBLAS multiplies few rows by a transposed view several times slower.
        return TransposedWeights(
            weight[:, : self.input_dim].t().contiguous(),
            weight[:, self.input_dim :].t().contiguous(),
            self.used_bias(),
            projection.t().contiguous(),
            steps,
        )

    def _in_torch(
        self, x: Tensor, sizes: Sequence[int], state: Tensor, cell: Tensor, outputs: Tensor, weights: TransposedWeights
    ) -> None:
        cell_clip, projection_clip = self.clips
        # The inputs of all steps in one product; only the recurrent half depends on the step before.
        # (tokens, 4 * cell_dim)
        of_gates, of_projection = weights.steps
        if of_gates is None:
            from_input = in_blocks(lambda some: torch.addmm(weights.bias, some, weights.by_input), x)
        else:
            from_input = product(x, weights.by_input, of_gates) + weights.bias
        start = 0
        for size in sizes:
            gates = _times(state[:size], weights.recurrent, of_gates)  # (size, 4 * cell_dim)
            gates += from_input[start : start + size]
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)  # (size, cell_dim) each
            running = cell[:size].mul_(forget_gate.sigmoid_()).addcmul_(input_gate.sigmoid_(), candidate.tanh_())
            if cell_clip is not None:
                running.clamp_(-cell_clip, cell_clip)
            hidden = output_gate.sigmoid_().mul_(running.tanh())  # (size, cell_dim)
            # With 8 bits, rounding the hidden vector would cause nearly all of the error.
            projected = _times(hidden, weights.projection, of_projection, FINE)
            if projection_clip is not None:
                projected.clamp_(-projection_clip, projection_clip)
            state[:size] = outputs[start : start + size] = projected
            start += size


def _times(rows: Tensor, weight: Tensor, step: Tensor | None, levels: int = LEVELS) -> Tensor:
    """The product with a weight, in int8 if it has steps; no row depends on the others."""
    return in_blocks(lambda some: some @ weight, rows) if step is None else product(rows, weight, step, levels)


# Maximum number of gate values that are computed ahead of their steps (1 GB), so that this memory does not grow with
# the text. Larger products are not faster.
GATES_AHEAD_ON_GPU = 2**28


class LstmPair:
    """Runs the `ProjectedLstm` of a layer, of the same shape, in parallel: one for each direction, mostly two."""

    def __init__(self, *lstms: ProjectedLstm) -> None:
        self.lstms = lstms
        self._stacked: Prepared[TransposedWeights] = Prepared()

    @torch.no_grad()
    def __call__(self, x: Tensor, step_sizes: Sequence[int], state: Tensor, cell: Tensor) -> Tensor:
        """The outputs of all packed tokens, (directions, tokens, projection_dim).

        Args:
            x: packed inputs of each direction, in its reading order, (directions, tokens, input_dim).
            step_sizes: how many sentences run at each step; see `ReadingOrder`.
            state: recurrent state of each sentence, (directions, sentences, projection_dim); overwritten with the state
                after the last token of each sentence.
            cell: cell of each sentence, (directions, sentences, cell_dim); overwritten in the same way.
        """
        weights = self._stacked.of([tensor for lstm in self.lstms for tensor in lstm.parameters()], self._stack)
        outputs = x.new_empty(*x.shape[:2], state.shape[2])
        for rows, sizes in in_parts(step_sizes, GATES_AHEAD_ON_GPU // (len(x) * 4 * cell.shape[2])):
            running = slice(sizes[0])
            self._run(x[:, rows], sizes, state[:, running], cell[:, running], outputs[:, rows], weights)
        return outputs

    def with_gradients(self, x: Tensor) -> Tensor:
        """The outputs for padded inputs, (directions, steps, sentences, projection_dim); see `in_parallel`."""
        weight, bias, projection = map(torch.stack, zip(*(lstm.weights for lstm in self.lstms), strict=True))
        return in_parallel(x, weight.to(x.dtype), bias, projection.to(x.dtype), self.lstms[0].clips)

    def _run(
        self, x: Tensor, sizes: Sequence[int], state: Tensor, cell: Tensor, outputs: Tensor, weights: TransposedWeights
    ) -> None:
        cell_clip, projection_clip = self.lstms[0].clips
        gates, between = torch.bmm(x, weights.by_input), pointwise(x.device)  # (directions, tokens, 4 * cell_dim)
        hidden = torch.empty_like(cell)
        before, start = state, 0
        for size in sizes:
            of_step, running = gates[:, start : start + size], cell[:, :size]
            of_step.baddbmm_(before[:, :size], weights.recurrent)
            between.forward(of_step, weights.bias, running, running, hidden[:, :size], cell_clip, keep_gates=False)
            before = outputs[:, start : start + size]  # (directions, size, projection_dim), read by the next step
            torch.bmm(hidden[:, :size], weights.projection, out=before)
            if projection_clip is not None:
                before.clamp_(-projection_clip, projection_clip)
            start += size
        counts = np.asarray(sizes, dtype=np.int64)
        sentences = np.arange(sizes[0], dtype=np.int64)
        last_step = np.searchsorted(-counts, -sentences) - 1  # sizes decrease; a step of size n has sentences 0..n-1
        last_rows = (np.cumsum(counts) - counts)[last_step] + sentences
        state.copy_(outputs.index_select(1, upload(last_rows, x.device)))

    def _stack(self) -> TransposedWeights:
        weight = torch.stack([lstm.weight for lstm in self.lstms]).transpose(1, 2)
        input_dim = self.lstms[0].input_dim
        return TransposedWeights(
            weight[:, :input_dim],
            weight[:, input_dim:],
            torch.stack([lstm.used_bias() for lstm in self.lstms]),
            torch.stack([lstm.projection for lstm in self.lstms]).transpose(1, 2),
        )
