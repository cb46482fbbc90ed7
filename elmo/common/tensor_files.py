"""Tensor files: written atomically, checked for damage and for the expected content when read."""

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from elmo.common.errors import InputError, naming, reworded
from elmo.common.files import replacing, require_file

DIGEST_BYTES = hashlib.sha256().digest_size  # at the end of a file: the hash of all bytes before them


def write_tensors(path: Path, content: Mapping[str, Any]) -> None:
    """Writes tensors, numbers and texts by name, and then the hash of the file, since torch.load compares no bytes."""
    saved = io.BytesIO()  # torch's error for a full disk does not mention it
    torch.save(dict(content), saved)
    saved.write(hashlib.sha256(saved.getbuffer()).digest())
    with replacing(path) as partial:
        partial.write_bytes(saved.getbuffer())


def read_tensors(path: Path, parts: Mapping[str, type], device: torch.device | str, remedy: str) -> dict[str, Any]:
    """Reads what `write_tensors` wrote and compares its hash; runs no code in the file.

    Args:
        path: the file.
        parts: what must be in it, and of which type.
        device: where its tensors go.
        remedy: what to do about a damaged file, without a full stop at the end.

    Raises:
        InputError: the file cannot be read, or something is missing in it.
    """
    require_file(path)
    saved = path.read_bytes()
    with naming(path, remedy):
        if hashlib.sha256(memoryview(saved)[:-DIGEST_BYTES]).digest() != saved[-DIGEST_BYTES:]:
            problem = "one that is damaged, or of another program" if saved else "an empty file"
            raise InputError(f"expected a file that this suite wrote, found {problem}")
        with reworded(UnpicklingError, lambda _: "expected tensors, numbers and texts alone, found code"):
            content: dict[str, Any] = torch.load(io.BytesIO(saved), map_location=device, weights_only=True)
        for name, kind in parts.items():
            if not isinstance(content.get(name), kind):
                present = f"a {type(content[name]).__name__}" if name in content else "nothing"
                raise InputError(f"expected a {kind.__name__} as {name}, found {present}")
    return content


def check_tensors(tensors: Mapping[str, Any], expected: Mapping[str, Tensor]) -> None:
    """Raises an InputError unless names, types and shapes are equal: copying would broadcast a tensor of size 1."""
    for name in sorted(tensors.keys() | expected.keys()):
        there, here = (_described(values[name]) if name in values else "none" for values in (tensors, expected))
        if there != here:
            raise InputError(f"the tensor {name}: expected {here}, found {there}")


def check_finite_weights(weights: Mapping[str, Tensor]) -> None:
    """Raises an InputError if a weight is NaN or infinite."""
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(f"tensor {name!r} holds NaN or infinite values, and so would all layers")


def _described(value: object) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"
