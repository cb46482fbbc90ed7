"""Full single precision for cuDNN, which multiplies in TF32 (10 instead of 23 bits) by default."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def recurrences_in_single_precision() -> Iterator[None]:
    """Turns off TF32 for cuDNN's LSTM in the block."""
    rnn = getattr(torch.backends.cudnn, "rnn", None)
    # Since torch 2.9 each kind of operation has a setting, and torch refuses a mix of those with the old one.
    settings, name, exact = (
        (rnn, "fp32_precision", "ieee")
        if hasattr(rnn, "fp32_precision")
        else (torch.backends.cudnn, "allow_tf32", False)
    )
    before = getattr(settings, name)
    setattr(settings, name, exact)
    try:
        yield
    finally:
        setattr(settings, name, before)
