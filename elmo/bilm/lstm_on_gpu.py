"""LSTM on a GPU: both directions of a layer in parallel, over a batch packed by length.

On a GPU steps are so short that launching kernels dominates. So a step of both directions takes three launches, or four
if the projection is clipped: a product with the states, added to the products with the inputs, which are computed for
all steps at once; the pointwise part (`elmo.bilm.fast`); and the projection. Without clipping, cuDNN's LSTM is used
instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from elmo.bilm.fast import pointwise
from elmo.bilm.lstm import Numbers, ProjectedLstm, TransposedWeights, in_parts
from elmo.bilm.prepared_weights import Prepared
from elmo.common.device import recurrences_in_single_precision, upload

# Maximum number of gate values that are computed ahead of their steps (1 GB), so that this memory does not grow with
# the text. Larger products are not faster.
GATES_AHEAD = 2**28
CUDNN_WHERE_UNCLIPPED = True  # a benchmark sets it to False to compare


class LstmPair:
    """Runs two `ProjectedLstm` of the same shape, the forward and the backward one of a layer, in parallel."""

    def __init__(self, forward: ProjectedLstm, backward: ProjectedLstm) -> None:
        self.lstms = forward, backward
        self._stacked: Prepared[TransposedWeights] = Prepared()
        self._cudnn: Prepared[list[nn.LSTM]] = Prepared()

    @torch.no_grad()
    def __call__(self, x: Tensor, step_sizes: Sequence[int], state: Tensor, cell: Tensor) -> Tensor:
        """The outputs of all packed tokens, (2, tokens, projection_dim).

        Args:
            x: packed inputs of each direction, in its reading order, (2, tokens, input_dim).
            step_sizes: how many sentences run at each step; see `ReadingOrder`.
            state: recurrent state of each sentence, (2, sentences, projection_dim); overwritten with the state after
                the last token of each sentence.
            cell: cell of each sentence, (2, sentences, cell_dim); overwritten in the same way.
        """
        run = self._run_cudnn if self._can_use_cudnn(x) else self._run_steps
        outputs = x.new_empty(*x.shape[:2], state.shape[2])
        for rows, sizes in in_parts(step_sizes, GATES_AHEAD // (2 * 4 * cell.shape[2])):
            running = slice(sizes[0])
            run(x[:, rows], sizes, state[:, running], cell[:, running], outputs[:, rows])
        return outputs

    def _can_use_cudnn(self, x: Tensor) -> bool:
        clipped = any(lstm.cell_clip is not None or lstm.projection_clip is not None for lstm in self.lstms)
        available = x.device.type == "cuda" and torch.backends.cudnn.is_available()  # type: ignore[no-untyped-call]
        return CUDNN_WHERE_UNCLIPPED and available and not clipped

    def _run_steps(self, x: Tensor, sizes: Sequence[int], state: Tensor, cell: Tensor, outputs: Tensor) -> None:
        weights, between = self._stacked.of(self._weights(), self._stack), pointwise(x.device)
        cell_clip, projection_clip = self.lstms[0].cell_clip, self.lstms[0].projection_clip
        gates = torch.bmm(x, weights.by_input)  # (2, tokens, 4 * cell_dim)
        hidden = torch.empty_like(cell)
        before, start = state, 0
        for size in sizes:
            of_step, running = gates[:, start : start + size], cell[:, :size]
            of_step.baddbmm_(before[:, :size], weights.recurrent)
            between.forward(of_step, weights.bias, running, running, hidden[:, :size], cell_clip, keep_gates=False)
            before = outputs[:, start : start + size]  # (2, size, projection_dim), read by the next step
            torch.bmm(hidden[:, :size], weights.projection, out=before)
            if projection_clip is not None:
                before.clamp_(-projection_clip, projection_clip)
            start += size
        state.copy_(outputs.index_select(1, upload(_last_rows(sizes), x.device)))

    def _run_cudnn(self, x: Tensor, sizes: Sequence[int], state: Tensor, cell: Tensor, outputs: Tensor) -> None:
        lstms = self._cudnn.of(self._weights(), lambda: [unclipped_torch_lstm(lstm) for lstm in self.lstms])
        with recurrences_in_single_precision():
            for lstm, inputs, into, *ends in zip(lstms, x, outputs, state, cell, strict=True):
                packed = PackedSequence(inputs, torch.tensor(sizes))
                read, found = lstm(packed, tuple(end[None] for end in ends))
                into.copy_(read.data)
                for end, values in zip(ends, found, strict=True):
                    end.copy_(values[0])

    def _weights(self) -> list[Tensor]:
        return [tensor for lstm in self.lstms for tensor in (lstm.weight, lstm.bias, lstm.projection)]

    def _stack(self) -> TransposedWeights:
        weight = torch.stack([lstm.weight for lstm in self.lstms]).transpose(1, 2)
        input_dim = self.lstms[0].input_dim
        return TransposedWeights(
            weight[:, :input_dim],
            weight[:, input_dim:],
            torch.stack([lstm.used_bias() for lstm in self.lstms]),
            torch.stack([lstm.projection for lstm in self.lstms]).transpose(1, 2),
        )


def unclipped_torch_lstm(lstm: ProjectedLstm) -> nn.LSTM:
    """An `nn.LSTM` with the weights of a `ProjectedLstm`, without clipping."""
    shape = {"input_size": lstm.input_dim, "hidden_size": lstm.cell_dim, "proj_size": lstm.projection_dim}
    # On the meta device, so that it draws no initial values: that would change the random state of the caller.
    made = nn.LSTM(**shape, device="meta", dtype=lstm.weight.dtype).to_empty(device=lstm.weight.device)
    made.requires_grad_(False).eval()
    by_input, recurrent = lstm.weight[:, : lstm.input_dim], lstm.weight[:, lstm.input_dim :]
    parts = by_input, recurrent, lstm.used_bias(), torch.zeros_like(lstm.bias), lstm.projection
    for name, values in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"), parts, strict=True):
        getattr(made, f"{name}_l0").copy_(values)
    made.flatten_parameters()
    return made


def _last_rows(sizes: Sequence[int]) -> Numbers:
    """The packed row of each sentence's last token, (sentences,)."""
    counts = np.asarray(sizes, dtype=np.int64)
    sentences = np.arange(sizes[0], dtype=np.int64)
    last_step = np.searchsorted(-counts, -sentences) - 1  # sizes decrease; a step of size n has sentences 0..n-1
    rows: Numbers = (np.cumsum(counts) - counts)[last_step] + sentences
    return rows
