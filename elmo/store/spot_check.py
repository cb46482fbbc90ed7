"""Checks of stored layers: a few are computed again, since a source may change and keep its fingerprint."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.bilm.fast import compiled
from elmo.common.device import processor
from elmo.common.errors import InputError

# Of the length of a token's vector. Other kernels, batches and threads gave 5e-6 with trained weights. On a GPU,
# permuted ones, as of the control, amplify the last bits to about 1e-2 in single values. A step of float16 is 1e-3.
TOLERANCE = 1e-2
LONGEST = 20  # tokens: the check takes a fraction of a second, with torch alone a second
HALF_OVERFLOWS = 65_520.0  # this and larger values round to infinity in float16


def three_of(by_length: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The shortest, the middle and the longest of these sentences, of those that are not long if there are any."""
    short = [key for key in by_length if len(key) <= LONGEST] or by_length[:3]
    return list(dict.fromkeys((short[0], short[len(short) // 2], short[-1])))


def computed_with(device: torch.device) -> str:
    """What decides the last bits of a biLM's layers: the device, the version of torch, the compiled code."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    kernel = compiled()
    code = kernel.name if kernel is not None else hashlib.sha256(repr(processor()).encode()).hexdigest()[:12]
    return f"cpu, torch {torch.__version__}, {code}"


def largest_difference(layers: Tensor, expected: Tensor, widths: Sequence[int]) -> float:
    """The largest difference of a token's vector in a layer of two sets, (tokens, width), relative to its length."""
    layers, expected = layers.float(), expected.float()
    if torch.equal(layers, expected):
        return 0.0
    pairs = zip(*(torch.split(rows, list(widths), dim=1) for rows in (layers, expected)), strict=True)
    parts = [(one - other).norm(dim=1) / other.norm(dim=1) for one, other in pairs]
    return float(torch.cat(parts).nan_to_num(torch.inf).amax())


def require_half_holds(peak: float, name: str = "layers") -> None:
    """Raises an InputError, with this name of the layers, if their largest value is NaN or infinite in float16."""
    if math.isnan(peak):
        raise InputError(
            f"{name}: expected numbers, found NaN. Check the weights and the code that computes the layers"
        )
    if peak >= HALF_OVERFLOWS:
        raise InputError(
            f"{name}: float16 cannot hold values that reach {peak:g}; expected at most 65504. Use precision float32"
        )
