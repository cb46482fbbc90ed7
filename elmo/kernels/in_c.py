"""The biLM and the loop over the steps of a head's recurrence in compiled C: float32 on a CPU, the biLM also int8.

The library is built from the C files of this folder with the local compiler on first use, and cached. It is code, so it
is kept in a folder that no other user can write. Without a compiler, or with ELMO_KERNEL=0, torch
computes everything. Its values differ only in the last bits, since it sums in another order. In both cases the layers
of a sentence are the same bits in any batch and with any number of threads. At the widths of task heads a step in torch
is mostly the overhead of a dozen calls.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import math
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from elmo.common.device import processor
from elmo.common.files import replacing
from elmo.common.int8 import LEVELS, NOT_NEGATIVE, in_steps

_float, _long, _pointer = ctypes.c_float, ctypes.c_long, ctypes.c_void_p

# Bounds of the cell and of the projected state, None for no bound.
Clips = tuple[float | None, float | None]

# The tensors that a recurrence keeps for its backward pass: those that steps take over, and others.
Saved = tuple[Tensor, Tensor]


class PackedSteps(Protocol):
    """Packed sentences, longest first: step t holds `sizes[t]` of them from row `starts[t]` on.

    Attributes:
        steps: starts and sizes, (2, steps), int32, on the device of what is packed.
    """

    sizes: Sequence[int]
    starts: Sequence[int]
    steps: Tensor


@dataclass(frozen=True)
class Panels:
    """A weight matrix and its bias in the layout of the library.

    Attributes:
        values: (panels, inputs, values of a panel); int32 for weights in int8, see int8.h.
        bias: one value a column, padded to whole panels.
        columns: outputs of the product.
        depth: inputs of the product.
    """

    values: Tensor
    bias: Tensor
    columns: int
    depth: int

    @property
    def int8(self) -> bool:
        """Whether the weights are in int8."""
        return self.values.dtype == torch.int32


@dataclass(frozen=True)
class LstmPanels:
    """The weights of a `ProjectedLstm` in the layout of the library."""

    by_input: Panels
    recurrent: Panels
    projection: Panels
    cell_dim: int


@dataclass(frozen=True)
class EncoderPanels:
    """The weights of a `CharacterEncoder` in the layout of the library."""

    tables: list[Panels]  # of the convolutions, see `_window_table`
    highways: list[tuple[Panels, Panels]]  # carry and transform
    projection: Panels | None
    activation: str


class CompiledBilm:
    """The biLM's functions of the library, on tensors: float32, on the CPU and contiguous."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.lanes: int = library.elmo_lanes()
        self._product = library.elmo_product
        self._product.argtypes = [_long] + [_pointer] * 4 + [_long] * 3
        self._lstm = library.elmo_lstm
        self._lstm.argtypes = [_long] + [_pointer] * 2 + [_long] + [_pointer] * 5 + [_long] * 3 + [_float] * 2
        self._lstm.argtypes += [_pointer] * 3
        self._product.errcheck = self._lstm.errcheck = _require_memory  # type: ignore[assignment]
        self._windows = library.elmo_windows
        self._windows.argtypes = [_pointer, _long, _long, ctypes.c_int64, _pointer, _pointer, _long, _long, _long]
        self._windows.argtypes += [ctypes.c_int, _pointer, _long]
        self._highway = library.elmo_highway
        self._highway.argtypes = [_pointer] * 3 + [_long]
        self._windows.restype = self._highway.restype = None

    def panels(self, weight: Tensor, bias: Tensor | None = None, step: Tensor | None = None) -> Panels:
        """Converts a weight matrix, (outputs, inputs), and its bias for `product`; with steps, one of `in_steps`."""
        columns, depth = weight.shape
        missing = -columns % (4 * self.lanes)
        values = weight.detach()
        if step is not None:
            head = torch.cat([step.view(torch.int32), values.sum(dim=1, keepdim=True, dtype=torch.int32)], dim=1)
            values = torch.cat([head, pad(values, (0, -depth % DEEP)).contiguous().view(torch.int32)], dim=1)
        values = pad(values, (0, 0, 0, missing)).view(-1, 4 * self.lanes, values.shape[1]).transpose(1, 2)
        bias = torch.zeros(columns, dtype=torch.float32, device="cpu") if bias is None else bias.detach()
        return Panels(values.contiguous(), pad(bias, (0, missing)).contiguous(), columns, depth)

    def lstm_panels(self, weight: Tensor, bias: Tensor, projection: Tensor, int8: bool = False) -> LstmPanels:
        """Converts the weights of a `ProjectedLstm`; `bias` has one added for the forget gate."""
        cell_dim, input_dim = projection.shape[1], weight.shape[1] - projection.shape[0]
        missing = -cell_dim % self.lanes

        def by_cells(values: Tensor) -> Tensor:
            """Reorders from gate by gate to groups of cells with their four gates."""
            gates = pad(values.detach().reshape(4, cell_dim, -1), (0, 0, 0, missing))
            return gates.view(4, -1, self.lanes, gates.shape[2]).transpose(0, 1).flatten(0, 2)

        rows = by_cells(weight)
        step: Tensor | None = None
        of_projection: Tensor | None = None
        if int8:  # one step for input and state together, as in files
            (rows, step), (projection, of_projection) = in_steps(rows), in_steps(projection)
        return LstmPanels(
            self.panels(rows[:, :input_dim], by_cells(bias).squeeze(1), step),
            self.panels(rows[:, input_dim:], None, step),
            self.panels(projection, None, of_projection),
            cell_dim,
        )

    def encoder_panels(
        self,
        characters: Tensor,
        convolutions: Iterable[nn.Conv1d],
        highways: Iterable[tuple[nn.Linear, nn.Linear]],
        projection: nn.Module,
        activation: str,
        int8: bool = False,
    ) -> EncoderPanels:
        """Converts the weights of a `CharacterEncoder`; highways are pairs of carry and transform."""

        def panels(linear: nn.Linear) -> Panels:
            weight, step = in_steps(linear.weight) if int8 else (linear.weight, None)
            return self.panels(weight, linear.bias, step)

        return EncoderPanels(
            [self._window_table(characters, convolution) for convolution in convolutions],
            [(panels(carry), panels(transform)) for carry, transform in highways],
            self.panels(projection.weight, projection.bias) if isinstance(projection, nn.Linear) else None,
            activation,
        )

    def _window_table(self, characters: Tensor, convolution: nn.Conv1d) -> Panels:
        """The contribution of each character to each filter at each place of a window, (width, characters, filters)."""
        weight, bias = convolution.weight.detach(), cast(Tensor, convolution.bias).detach()
        missing = -len(weight) % (4 * self.lanes)
        # In double precision, rounded once: summing these has fewer rounding errors than the convolution.
        values = torch.einsum("cd,fdw->wcf", characters.detach().double(), weight.double()).float()
        return Panels(pad(values, (0, missing)).contiguous(), pad(bias, (0, missing)), *weight.shape[:2])

    def product(self, x: Tensor, weights: Panels, levels: int = LEVELS) -> Tensor:
        """The product with weights, plus their bias: (rows, inputs) -> (rows, columns); levels: see `int8.product`."""
        out = x.new_empty(len(x), weights.columns)
        _check(x, (len(x), weights.depth))
        pointers = _pointers(x, weights.values, weights.bias, out)
        self._product(levels if weights.int8 else 0, *pointers, len(x), weights.depth, weights.columns)
        return out

    def lstm(
        self, x: Tensor, sizes: Sequence[int], weights: LstmPanels, state: Tensor, cell: Tensor, clips: Clips
    ) -> Tensor:
        """As `ProjectedLstm.forward`; state and cell are overwritten."""
        sentences, state_dim = max(sizes, default=0), weights.projection.columns
        _check(x, (sum(sizes), weights.by_input.depth))
        _check(state, (sentences, state_dim))
        _check(cell, (sentences, weights.cell_dim))
        outputs = x.new_empty(len(x), state_dim)
        steps = torch.tensor(sizes, dtype=torch.int64, device="cpu")
        parts = weights.by_input.values, weights.by_input.bias, weights.recurrent.values
        bounds = (math.inf if clip is None else clip for clip in clips)
        self._lstm(
            *(weights.by_input.int8, *_pointers(x, steps), len(sizes)),
            *_pointers(*parts, weights.projection.values, weights.projection.bias),
            *(weights.by_input.depth, weights.cell_dim, state_dim, *bounds),
            *_pointers(state, cell, outputs),
        )
        return outputs

    def encode(self, ids: Tensor, weights: EncoderPanels) -> Tensor:
        """As `CharacterEncoder.forward`."""
        words, characters = ids.shape
        # The user may have set another default type or device; the library would write past the tensor.
        x = torch.empty(words, sum(table.columns for table in weights.tables), dtype=torch.float32, device="cpu")
        first = 0
        for table in weights.tables:
            width, n_characters, _ = table.values.shape
            self._windows(
                # The last character is padding.
                *(ids.data_ptr(), words, characters, n_characters - 1, table.values.data_ptr(), table.bias.data_ptr()),
                *(width, n_characters, table.columns, weights.activation == "tanh"),
                *(x.data_ptr() + first * x.element_size(), x.shape[1]),
            )
            first += table.columns
        levels = LEVELS if weights.activation == "tanh" else NOT_NEGATIVE  # of int8
        for carry, transform in weights.highways:
            gate, transformed = self.product(x, carry, levels), self.product(x, transform, levels)
            self._highway(*_pointers(gate, transformed, x), x.numel())
        return self.product(x, weights.projection) if weights.projection else x


class CompiledLoops:
    """The functions of the library, on tensors: float32, on the CPU and contiguous."""

    def __init__(self, compiled: ctypes.CDLL) -> None:
        self.lanes: int = compiled.heads_lanes()
        self._lstm = compiled.heads_lstm_forward, compiled.heads_lstm_backward
        self._gru = compiled.heads_gru_forward, compiled.heads_gru_backward
        steps = [_pointer] * 2 + [_long] * 2
        for (forward, backward), pointers in ((self._lstm, 6), (self._gru, 5)):
            forward.argtypes = steps + [_pointer] * pointers
            backward.argtypes = steps + [_pointer] * (pointers + 1)
            forward.errcheck = backward.errcheck = _require_memory  # type: ignore[assignment]

    def forward(
        self, gates: Tensor, weight: Tensor, bias: Tensor | None, packing: PackedSteps, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The last states, all states, and the tensors for the backward pass; overwrites `gates`."""
        states = gates.new_empty(len(gates), gates.shape[1], weight.shape[2])
        kept = torch.empty_like(states)
        if bias is not None:
            _walk(self._gru[0], packing, [weight, bias], [gates, kept, states])
            return states, states, kept
        cells = torch.empty_like(states)
        _walk(self._lstm[0], packing, [weight], [gates, cells, kept, states], [mask])
        return cells, states, kept

    def backward(
        self, grad: Tensor, gates: Tensor, kept: Saved, weight: Tensor, packing: PackedSteps, mask: Tensor | None = None
    ) -> Tensor:
        """The gradients of the gates; overwrites `grad`."""
        grad_gates = torch.empty_like(gates)
        rows = [gates, *kept, grad, grad_gates]
        gru = weight.shape[1] == 3 * weight.shape[2]
        _walk((self._gru if gru else self._lstm)[1], packing, [weight], rows, [] if gru else [mask])
        return grad_gates


def bilm() -> CompiledBilm | None:
    """The compiled biLM, or None, with one line in the log, if there is none or ELMO_KERNEL=0."""
    return None if (compiled := library()) is None else _bilm_of(compiled)


def loops(x: Tensor) -> CompiledLoops | None:
    """The compiled loops, or None if there are none for such a tensor."""
    fits = x.device.type == "cpu" and x.dtype == torch.float32 and x.is_contiguous()
    return _loops_of(compiled) if fits and (compiled := library()) is not None else None


_bilm_of, _loops_of = cache(CompiledBilm), cache(CompiledLoops)


def _walk(
    function: Callable[..., int],
    packing: PackedSteps,
    weights: Sequence[Tensor],
    rows: Sequence[Tensor],
    masks: Sequence[Tensor | None] = (),
) -> None:
    """Calls a function for each direction; `rows` are tensors over packed tokens, `masks` over sentences."""
    packed, (ways, _, hidden) = packing.starts[-1] + packing.sizes[-1], weights[0].shape
    counts = [*(weight.shape[1] for weight in weights), *[packed] * len(rows), *[packing.sizes[0]] * len(masks)]
    tensors = [*weights, *rows, *masks]
    for tensor, count in zip(tensors, counts, strict=True):
        if tensor is not None:
            _check(tensor, (ways, count, *tensor.shape[2:]))
    starts, sizes = (part.data_ptr() for part in packing.steps)
    for way in range(ways):
        pointers = [None if tensor is None else tensor[way].data_ptr() for tensor in tensors]
        function(starts, sizes, len(packing.sizes), hidden, *pointers)


def _pointers(*tensors: Tensor) -> list[int]:
    return [tensor.data_ptr() for tensor in tensors]


def _check(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Checks a tensor before its pointer goes to the library, which cannot check it."""
    actual = tuple(tensor.shape), tensor.dtype, tensor.device.type, tensor.is_contiguous()
    if actual != (shape, torch.float32, "cpu", True):
        raise ValueError(f"expected contiguous float32 values of shape {shape} on the CPU, found {actual}")


def _require_memory(failed: int, function: object, arguments: object) -> None:
    """Checks the result of a C function; ctypes calls this."""
    if failed:
        raise MemoryError("compiled code could not allocate memory; use smaller batches")


DEEP = 16  # inputs of int8 weights are padded to a multiple of it
SWITCH = "ELMO_KERNEL"
SOURCES = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
# -fno-schedule-insns: on ARM gcc otherwise loads values too early, and the sums of a product do not fit into registers.
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-schedule-insns", "-fPIC", "-shared")
# Flags for all instructions of this processor; the first that works is used. None: the baseline of the architecture.
FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native", None)
TIMEOUT_S = 120.0  # of a compiler

_log = logging.getLogger(__name__)
_loading = threading.Lock()


class NoKernelError(Exception):
    """No library can be compiled; the message contains the reason."""


def library() -> ctypes.CDLL | None:
    """The library, or None, with a line in the log, if there is none or ELMO_KERNEL=0."""
    if os.environ.get(SWITCH) == "0":
        return None
    with _loading:  # several threads may call at once
        return _load()


@cache
def _load() -> ctypes.CDLL | None:
    # Users may share $ELMO_CACHE, so each has a separate folder.
    folder = Path(os.environ.get("ELMO_CACHE") or "~/.cache/elmo-suite", f"kernel-{os.geteuid()}")
    try:
        if _is_private(folder):
            return load_library(folder.expanduser())
        _log.warning("compiled code is not cached in %s: expected a folder of this user with mode 0700", folder)
        with tempfile.TemporaryDirectory() as temporary:  # the library stays loaded after its file is removed
            return load_library(Path(temporary))
    except (NoKernelError, OSError, subprocess.SubprocessError) as error:
        _log.warning("no compiled code, torch is used, which is slower: %s", error)
        return None


def _is_private(folder: Path) -> bool:
    """Whether only this user has access to the folder, which is made if it is missing."""
    try:
        folder = folder.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()  # of a link, not of where it leads
    except (OSError, RuntimeError):  # some users have no home
        return False
    return state.st_uid == os.geteuid() and not state.st_mode & 0o077


def load_library(folder: Path, *defines: str) -> ctypes.CDLL:
    """The library, built if this folder has none for these sources, this compiler and processor.

    Args:
        folder: where libraries are cached.
        defines: additional options for the compiler, such as -DLANES=8.

    Raises:
        NoKernelError: there is no compiler, or it fails.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoKernelError(f"no C compiler was found (looked for {', '.join(COMPILERS)})")
    path = folder / f"elmo-{_cache_key(compiler, *defines)}.so"
    if not path.exists():
        with replacing(path) as partial:  # two processes may build it at once; both files are valid
            _compile([compiler, *FLAGS, *defines], partial)
    return ctypes.CDLL(str(path))


def _cache_key(compiler: str, *defines: str) -> str:
    """A hash of everything that a library depends on: the sources, the flags, the compiler and the processor."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]"))))
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=TIMEOUT_S).stdout
    made_with = FLAGS, defines, FOR_THIS_PROCESSOR, compiler, version, platform.machine(), processor()
    digest.update(repr(made_with).encode())
    return digest.hexdigest()[:24]


def _compile(command: list[str], target: Path) -> None:
    sources, problem = sorted(map(str, SOURCES.glob("*.c"))), ""
    for choice in FOR_THIS_PROCESSOR:
        complete = [*command, *([choice] if choice else []), "-o", str(target), *sources, "-lm"]
        done = subprocess.run(complete, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode == 0:
            return
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        problem = errors[0] if errors else f"exit status {done.returncode}"
    raise NoKernelError(f"{command[0]} fails: {problem}")
