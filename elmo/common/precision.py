"""Single precision that is single precision: cuDNN would otherwise multiply in TF32, with ten bits of 23."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def recurrences_in_single_precision() -> Iterator[None]:
    """Within it cuDNN's LSTM rounds as its inputs' type says."""
    rnn = getattr(torch.backends.cudnn, "rnn", None)
    # Since 2.9 each kind of operation has a setting, and whoever uses those may not ask for the old one any more.
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
