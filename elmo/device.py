"""Which device to compute on."""

from __future__ import annotations

import torch

from elmo.errors import InputError

CHOICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """The torch device for auto, cpu or cuda; auto takes a GPU where there is one.

    Raises:
        InputError: an unknown name, or cuda on a machine without a usable GPU.
    """
    if name not in CHOICES:
        raise InputError(f"device must be one of {', '.join(CHOICES)}, found {name!r}")
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InputError("device=cuda was asked for, but torch finds no usable GPU here; use cpu or auto")
    return torch.device("cuda" if available and name != "cpu" else "cpu")
