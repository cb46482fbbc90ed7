"""One direction of one LSTM layer with projected, clipped state, over a batch packed by length.

torch's own LSTM with `proj_size` is this recurrence without the clipping; the clipping is part of the trained model, so
the steps are spelled out here. On a CPU they run in compiled C where there is a compiler (`elmo.kernels.cpu`), in torch
otherwise; other precisions always have torch. A GPU runs both directions side by side (`elmo.bilm.lstm_on_gpu`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo.bilm.prepared_weights import Prepared
from elmo.kernels.cpu import LstmPanels, kernel

# Libraries multiply a few rows by other kernels, which add in another order, than they do many. With at least this many
# rows in every product a sentence's vectors do not depend, to the last bit, on how many others are computed with it.
LEAST_ROWS = 16
# Gates are computed ahead of their steps, but no more values of them than this, which are 256 MB: what a text takes
# beside its layers shall not grow with it. (The compiled kernel has a bound of its own.)
GATES_AHEAD = 2**26

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Packing:
    """The order in which a batch of sentences is read: step by step, at each step the longest sentences first.

    Attributes:
        order: sentence numbers, longest first.
        step_sizes: how many sentences are still running at each step.
        positions: which token each packed row holds, as a position in the batch's concatenated sentences; first for
            reading forward, then for reading every sentence from its own end.
        rows: the packed row of each token, likewise.
    """

    order: Numbers  # (sentences,)
    step_sizes: list[int]  # (steps,)
    positions: Numbers  # (2, tokens)
    rows: Numbers  # (2, tokens)

    @classmethod
    def of(cls, lengths: Sequence[int] | Numbers) -> Packing:
        """The packing of sentences of these lengths, each at least one token long; it takes no room for padding."""
        given = np.asarray(lengths, dtype=np.int64)
        order = np.argsort(-given, kind="stable")
        ended = np.cumsum(np.bincount(given))  # sentences of at most so many tokens
        step_sizes = len(given) - ended[:-1]
        first_row = np.cumsum(step_sizes) - step_sizes  # of each step
        # Of each token its step, counted from its sentence's start and from its end, and its sentence's place in line.
        ends = np.repeat(np.cumsum(given), given)
        at = np.arange(len(ends))
        step, left = at - ends + np.repeat(given, given), ends - 1 - at
        place = np.repeat(np.argsort(order), given)
        rows = np.stack([first_row[step] + place, first_row[left] + place])
        positions = np.empty_like(rows)
        positions[np.arange(2)[:, None], rows] = at
        return cls(order, step_sizes.tolist(), positions, rows)


def in_parts(step_sizes: Sequence[int], tokens: int) -> Iterator[tuple[slice, Sequence[int]]]:
    """Packed rows and sizes of successive steps, so many at a time that they have at most `tokens`, or one step."""
    first_step = first_row = row = 0
    for step, size in enumerate(step_sizes):
        if step > first_step and row + size - first_row > tokens:
            yield slice(first_row, row), step_sizes[first_step:step]
            first_step, first_row = step, row
        row += size
    if step_sizes:
        yield slice(first_row, row), step_sizes[first_step:]


@dataclass(frozen=True)
class _Columns:
    """The weights as torch multiplies by them fastest."""

    by_input: Tensor  # (input_dim, 4 * cell_dim)
    recurrent: Tensor  # (projection_dim, 4 * cell_dim)
    bias: Tensor  # (4 * cell_dim,), the forget gate's one added
    projection: Tensor  # (cell_dim, projection_dim)


class ProjectedLstm(nn.Module):
    """An LSTM whose recurrent state is a clipped projection of its clipped cell.

    Gates are stacked in torch's order: input, forget, cell candidate, output. As in TensorFlow the forget gate gets one
    added when it is used; the stored bias stays what the file holds.
    """

    def __init__(
        self,
        input_dim: int,
        cell_dim: int,
        projection_dim: int,
        cell_clip: float | None,
        projection_clip: float | None,
    ) -> None:
        super().__init__()
        self.input_dim = input_dim
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.weight = nn.Parameter(torch.empty(4 * cell_dim, input_dim + projection_dim))  # reads [input; state]
        self.bias = nn.Parameter(torch.empty(4 * cell_dim))
        self.projection = nn.Parameter(torch.empty(projection_dim, cell_dim))
        self._panels: Prepared[LstmPanels] = Prepared()
        self._columns: Prepared[_Columns] = Prepared()

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
            step_sizes: how many sentences run at each step; see `Packing`.
            state: recurrent state of each sentence, (sentences, projection_dim); it is overwritten, and so ends as the
                state after each sentence's own last token.
            cell: cell of each sentence, (sentences, cell_dim); likewise overwritten.
        """
        compiled = kernel() if x.device.type == "cpu" and x.dtype == torch.float32 == self.weight.dtype else None
        weights = self.weight, self.bias, self.projection
        if compiled is not None:
            panels = self._panels.of(
                weights, lambda: compiled.lstm_panels(self.weight, self.used_bias(), self.projection)
            )
            return compiled.lstm(x.contiguous(), step_sizes, panels, state, cell, self.cell_clip, self.projection_clip)
        columns = self._columns.of(weights, self._make_columns)
        outputs = x.new_empty(x.shape[0], self.projection_dim)
        for rows, sizes in in_parts(step_sizes, GATES_AHEAD // len(self.bias)):
            self._in_torch(x[rows], sizes, state, cell, columns, outputs[rows])
        return outputs

    def used_bias(self) -> Tensor:
        """The bias with the forget gate's one added, (4 * cell_dim,)."""
        bias = self.bias.detach().clone()
        bias[self.cell_dim : 2 * self.cell_dim] += 1.0
        return bias

    def _make_columns(self) -> _Columns:
        # Copies, not views: OpenBLAS multiplies a few rows by a transposed view several times slower.
        return _Columns(
            self.weight[:, : self.input_dim].t().contiguous(),
            self.weight[:, self.input_dim :].t().contiguous(),
            self.used_bias(),
            self.projection.t().contiguous(),
        )

    def _in_torch(
        self, x: Tensor, step_sizes: Sequence[int], state: Tensor, cell: Tensor, weights: _Columns, outputs: Tensor
    ) -> None:
        # The inputs of all steps in one product; only the recurrent half has to wait for the step before.
        from_input = torch.addmm(weights.bias, _enough(x), weights.by_input)  # (tokens, 4 * cell_dim)
        start = 0
        for size in step_sizes:
            inputs = _enough(from_input[start : start + size])
            gates = torch.addmm(inputs, _enough(state[:size]), weights.recurrent)[:size]  # (size, 4 * cell_dim)
            input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)  # (size, cell_dim) each
            running = cell[:size].mul_(forget_gate.sigmoid_()).addcmul_(input_gate.sigmoid_(), candidate.tanh_())
            if self.cell_clip is not None:
                running.clamp_(-self.cell_clip, self.cell_clip)
            hidden = output_gate.sigmoid_().mul_(running.tanh())  # (size, cell_dim)
            projected = torch.mm(_enough(hidden), weights.projection)[:size]
            if self.projection_clip is not None:
                projected.clamp_(-self.projection_clip, self.projection_clip)
            state[:size] = outputs[start : start + size] = projected
            start += size


def _enough(rows: Tensor) -> Tensor:
    """The rows, with zero rows behind them where they are fewer than LEAST_ROWS on a CPU."""
    missing = LEAST_ROWS - len(rows) if rows.device.type == "cpu" else 0
    return nn.functional.pad(rows, (0, 0, 0, missing)) if missing > 0 else rows
