"""The loop over the steps of a recurrence in compiled C; see `tasks.modules.recurrence.Loops`.

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
        self._by_gates = {
            4: (compiled.heads_lstm_forward, compiled.heads_lstm_backward),
            3: (compiled.heads_gru_forward, compiled.heads_gru_backward),
        }
        steps, pointer = [ctypes.c_void_p] * 2 + [ctypes.c_long] * 2, ctypes.c_void_p
        for forward, backward in self._by_gates.values():
            forward.argtypes, backward.argtypes = steps + [pointer] * 5, steps + [pointer] * 6

    def forward(
        self, gates: Tensor, weight: Tensor, bias: Tensor | None, packing: Packing
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What a step takes over, the states, and what the backward pass needs; overwrites `gates`."""
        function, _ = self._by_gates[weight.shape[1] // weight.shape[2]]
        states = gates.new_empty(2, gates.shape[1], weight.shape[2])
        kept = torch.empty_like(states)
        if bias is not None:
            _walk(function, packing, [weight, bias], [gates, kept, states])
            return states, states, kept
        cells = torch.empty_like(states)
        _walk(function, packing, [weight], [gates, cells, kept, states])
        return cells, states, kept

    def backward(
        self, grad: Tensor, gates: Tensor, carried: Tensor, kept: Tensor, weight: Tensor, packing: Packing
    ) -> Tensor:
        """The gradients of the state's part of the gates; overwrites `grad`."""
        _, function = self._by_gates[weight.shape[1] // weight.shape[2]]
        grad_gates = torch.empty_like(gates)
        _walk(function, packing, [weight], [gates, carried, kept, grad, grad_gates])
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


def _walk(function: Callable[..., int], packing: Packing, weights: Sequence[Tensor], rows: Sequence[Tensor]) -> None:
    """Calls a function for each direction; `rows` are tensors over packed tokens."""
    packed, hidden = packing.starts[-1] + packing.sizes[-1], weights[0].shape[2]
    for tensor, count in [*((weight, weight.shape[1]) for weight in weights), *((row, packed) for row in rows)]:
        found = tuple(tensor.shape[:2]), tensor.dtype, tensor.device.type, tensor.is_contiguous()
        if found != ((2, count), torch.float32, "cpu", True):  # C would read a wrong pointer silently
            raise ValueError(f"expected contiguous float32 values of shape (2, {count}, ...) on the CPU, found {found}")
    starts, sizes = (part.data_ptr() for part in packing.steps)
    for way in range(2):
        pointers = [tensor[way].data_ptr() for tensor in (*weights, *rows)]
        if function(starts, sizes, len(packing.sizes), hidden, *pointers):
            raise MemoryError("the recurrence could not get the memory it needs; take fewer sentences at once")
