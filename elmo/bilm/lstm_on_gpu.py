"""Both directions of an LSTM layer side by side, over a batch packed by length: what a GPU runs.

Steps are short there, and each of their kernels waits for the host to launch it. So a step of both directions is three
launches, or four where the projection is clipped: a product with the states, added to what the inputs gave for all
steps at once; what lies between the products (`elmo.bilm.pointwise`); and the projection. Without any clipping it is
the LSTM that cuDNN has, which then runs instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from elmo.bilm.lstm import Numbers, ProjectedLstm, in_parts
from elmo.bilm.pointwise import pointwise
from elmo.bilm.prepared_weights import Prepared
from elmo.common.device import upload
from elmo.common.precision import recurrences_in_single_precision

# Gates are computed ahead of their steps, but no more values of them than this, which are 1 GB: what a text takes
# beside its layers shall not grow with it, and a product of that size is as fast as any.
GATES_AHEAD = 2**28
CUDNN_WHERE_UNCLIPPED = True  # a benchmark switches it off to compare


@dataclass(frozen=True)
class _Stacked:
    """The weights of both directions, as their products read them."""

    by_input: Tensor  # (2, input_dim, 4 * cell_dim)
    recurrent: Tensor  # (2, projection_dim, 4 * cell_dim)
    bias: Tensor  # (2, 4 * cell_dim), the forget gate's one added
    projection: Tensor  # (2, cell_dim, projection_dim)


class LstmPair:
    """Runs two `ProjectedLstm` of one shape, the forward and the backward one of a layer, at once."""

    def __init__(self, forward: ProjectedLstm, backward: ProjectedLstm) -> None:
        self.lstms = forward, backward
        self._stacked: Prepared[_Stacked] = Prepared()
        self._cudnn: Prepared[list[nn.LSTM]] = Prepared()

    @torch.no_grad()
    def __call__(self, x: Tensor, step_sizes: Sequence[int], state: Tensor, cell: Tensor) -> Tensor:
        """The outputs of all packed tokens, (2, tokens, projection_dim).

        Args:
            x: packed inputs of each direction, in its own order of reading, (2, tokens, input_dim).
            step_sizes: how many sentences run at each step; see `Packing`.
            state: recurrent state of each sentence, (2, sentences, projection_dim); it is overwritten, and so ends as
                the state after each sentence's own last token.
            cell: cell of each sentence, (2, sentences, cell_dim); likewise overwritten.
        """
        walk = self._by_cudnn if self._cudnn_has_it(x) else self._by_steps
        outputs = x.new_empty(*x.shape[:2], state.shape[2])
        for rows, sizes in in_parts(step_sizes, GATES_AHEAD // (2 * 4 * cell.shape[2])):
            running = slice(sizes[0])
            walk(x[:, rows], sizes, state[:, running], cell[:, running], outputs[:, rows])
        return outputs

    def _cudnn_has_it(self, x: Tensor) -> bool:
        clipped = any(lstm.cell_clip is not None or lstm.projection_clip is not None for lstm in self.lstms)
        there = x.device.type == "cuda" and torch.backends.cudnn.is_available()  # type: ignore[no-untyped-call]
        return CUDNN_WHERE_UNCLIPPED and there and not clipped

    def _by_steps(self, x: Tensor, sizes: Sequence[int], state: Tensor, cell: Tensor, outputs: Tensor) -> None:
        weights, between = self._stacked.of(self._weights(), self._stack), pointwise(x.device)
        cell_clip, projection_clip = self.lstms[0].cell_clip, self.lstms[0].projection_clip
        gates = torch.bmm(x, weights.by_input)  # (2, tokens, 4 * cell_dim)
        hidden = torch.empty_like(cell)
        before, start = state, 0
        for size in sizes:
            of_step, running = gates[:, start : start + size], cell[:, :size]
            of_step.baddbmm_(before[:, :size], weights.recurrent)
            between.forward(of_step, weights.bias, running, running, hidden[:, :size], cell_clip, keep_gates=False)
            before = outputs[:, start : start + size]  # (2, size, projection_dim): the next step reads it there
            torch.bmm(hidden[:, :size], weights.projection, out=before)
            if projection_clip is not None:
                before.clamp_(-projection_clip, projection_clip)
            start += size
        state.copy_(outputs.index_select(1, upload(_last_rows(sizes), x.device)))

    def _by_cudnn(self, x: Tensor, sizes: Sequence[int], state: Tensor, cell: Tensor, outputs: Tensor) -> None:
        lstms = self._cudnn.of(self._weights(), self._make_cudnn)
        with recurrences_in_single_precision():
            for lstm, inputs, into, *ends in zip(lstms, x, outputs, state, cell, strict=True):
                packed = PackedSequence(inputs, torch.tensor(sizes))
                read, found = lstm(packed, tuple(end[None] for end in ends))
                into.copy_(read.data)
                for end, values in zip(ends, found, strict=True):
                    end.copy_(values[0])

    def _weights(self) -> list[Tensor]:
        return [tensor for lstm in self.lstms for tensor in (lstm.weight, lstm.bias, lstm.projection)]

    def _stack(self) -> _Stacked:
        weight = torch.stack([lstm.weight for lstm in self.lstms]).transpose(1, 2)
        input_dim = self.lstms[0].input_dim
        return _Stacked(
            weight[:, :input_dim],
            weight[:, input_dim:],
            torch.stack([lstm.used_bias() for lstm in self.lstms]),
            torch.stack([lstm.projection for lstm in self.lstms]).transpose(1, 2),
        )

    def _make_cudnn(self) -> list[nn.LSTM]:
        return [torchs_own(lstm) for lstm in self.lstms]


def torchs_own(lstm: ProjectedLstm) -> nn.LSTM:
    """An LSTM of torch's with the weights of ours, without its clipping."""
    shape = {"input_size": lstm.input_dim, "hidden_size": lstm.cell_dim, "proj_size": lstm.projection_dim}
    # It would draw values; the generator of the model around this one must not notice.
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
    last_step = np.searchsorted(-counts, -sentences) - 1  # sizes fall, and a step has the sentences below its size
    rows: Numbers = (np.cumsum(counts) - counts)[last_step] + sentences
    return rows
