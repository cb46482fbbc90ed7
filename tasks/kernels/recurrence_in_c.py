"""The loop over the steps of a recurrence in compiled C; see `tasks.modules.fast.Loops`.

At the widths of task heads a step in torch is mostly the overhead of a dozen calls. The library is built on first use
(see `elmo.common.c_library`) and computes in float32 on a CPU. For other tensors, without a compiler, or with
ELMO_KERNEL=0, `recurrence_in_torch` computes the same values up to the last bits. The bits of a sentence's result do
not depend on its batch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from elmo.common.c_library import library
from tasks.modules.packing import Packing

SOURCE = Path(__file__).with_name("loops.c")


class CompiledLoops:
    """The functions of the library, on tensors: float32, on the CPU and contiguous."""

    def __init__(self, compiled: ctypes.CDLL) -> None:
        self.lanes: int = compiled.heads_lanes()
        self._lstm = compiled.heads_lstm_forward, compiled.heads_lstm_backward
        self._gru = compiled.heads_gru_forward, compiled.heads_gru_backward
        steps, pointer = [ctypes.c_void_p] * 2 + [ctypes.c_long] * 2, ctypes.c_void_p
        for (forward, backward), pointers in ((self._lstm, 6), (self._gru, 5)):
            forward.argtypes = steps + [pointer] * pointers
            backward.argtypes = steps + [pointer] * (pointers + 1)

    def forward(
        self, gates: Tensor, weight: Tensor, bias: Tensor | None, packing: Packing, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What a step takes over, the states, and what the backward pass needs; overwrites `gates`."""
        states = gates.new_empty(len(gates), gates.shape[1], weight.shape[2])
        kept = torch.empty_like(states)
        if bias is not None:
            _walk(self._gru[0], packing, [weight, bias], [gates, kept, states])
            return states, states, kept
        cells = torch.empty_like(states)
        _walk(self._lstm[0], packing, [weight], [gates, cells, kept, states], [mask])
        return cells, states, kept

    def backward(
        self,
        grad: Tensor,
        gates: Tensor,
        carried: Tensor,
        kept: Tensor,
        weight: Tensor,
        packing: Packing,
        mask: Tensor | None = None,
    ) -> Tensor:
        """The gradients of the gates; overwrites `grad`."""
        grad_gates = torch.empty_like(gates)
        rows = [gates, carried, kept, grad, grad_gates]
        if weight.shape[1] == 3 * weight.shape[2]:
            _walk(self._gru[1], packing, [weight], rows)
        else:
            _walk(self._lstm[1], packing, [weight], rows, [mask])
        return grad_gates


def compiled_loops(x: Tensor) -> CompiledLoops | None:
    """The compiled loops, or None if there are none for such a tensor."""
    if x.device.type != "cpu" or x.dtype != torch.float32 or not x.is_contiguous():
        return None
    compiled = library(SOURCE)
    return None if compiled is None else _functions(compiled)


@cache
def _functions(compiled: ctypes.CDLL) -> CompiledLoops:
    return CompiledLoops(compiled)


def _walk(
    function: Callable[..., int],
    packing: Packing,
    weights: Sequence[Tensor],
    rows: Sequence[Tensor],
    masks: Sequence[Tensor | None] = (),
) -> None:
    """Calls a function for each direction; `rows` are tensors over packed tokens, `masks` over sentences."""
    packed, (ways, _, hidden) = packing.starts[-1] + packing.sizes[-1], weights[0].shape
    counts = [*(weight.shape[1] for weight in weights), *[packed] * len(rows), *[packing.sizes[0]] * len(masks)]
    tensors = [*weights, *rows, *masks]
    for tensor, count in zip(tensors, counts, strict=True):
        if tensor is None:
            continue
        found = tuple(tensor.shape[:2]), tensor.dtype, tensor.device.type, tensor.is_contiguous()
        if found != ((ways, count), torch.float32, "cpu", True):  # C would read a wrong pointer silently
            raise ValueError(
                f"expected contiguous float32 values of shape ({ways}, {count}, ...) on the CPU, found {found}"
            )
    starts, sizes = (part.data_ptr() for part in packing.steps)
    for way in range(ways):
        pointers = [None if tensor is None else tensor[way].data_ptr() for tensor in tensors]
        if function(starts, sizes, len(packing.sizes), hidden, *pointers):
            raise MemoryError("the recurrence could not allocate memory; use smaller batches: trainer.batch_size")
