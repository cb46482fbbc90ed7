"""The range of float16, in which layers may be stored."""

import math

from elmo.common.errors import InputError

HALF_OVERFLOWS = 65_520.0  # this and larger values round to infinity in float16


def require_half_holds(peak: float, key: str | None = None) -> None:
    """Raises an InputError if the largest value of layers is NaN or becomes infinite in float16.

    Args:
        peak: the value.
        key: of the layers in the config of a run; None for those of elmo.embed.
    """
    if math.isnan(peak):
        raise InputError(
            f"{key or 'layers'}: expected numbers, found NaN. Check the weights and the code that computes the layers"
        )
    if peak >= HALF_OVERFLOWS:
        remedy = f"{key}.precision=float32" if key else "--precision float32 with elmo.embed"
        raise InputError(
            f"{key or 'layers'}: float16 cannot hold values that reach {peak:g}; expected at most 65504. Use {remedy}"
        )
