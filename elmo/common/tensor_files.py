"""Tensor files: written atomically, checked for damage and for the expected content when read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import torch
from torch import Tensor

from elmo.common.errors import InputError
from elmo.common.files import UNREADABLE, replacing, require_file

_SEAL = b"sha256 "
_DIGEST = hashlib.sha256().digest_size


def write_tensors(path: Path, content: Mapping[str, Any]) -> None:
    """Writes tensors, numbers and texts by name, with checksums."""
    with replacing(path) as partial:
        with partial.open("wb") as file:
            try:
                torch.save(dict(content), file)
            except RuntimeError as error:
                if isinstance(error.__context__, OSError):  # such as a full disk, which torch's error does not mention
                    raise OSError(*error.__context__.args) from error
                raise
        _seal(partial)


def read_tensors(path: Path, parts: Mapping[str, type], device: torch.device | str, remedy: str) -> dict[str, Any]:
    """Reads what `write_tensors` wrote and compares its checksums; runs no code in the file.

    Args:
        path: the file.
        parts: what must be in it, and of which type.
        device: where its tensors go.
        remedy: what to do about a damaged file, without a full stop at the end.

    Raises:
        InputError: the file cannot be read, or something is missing in it.
    """
    require_file(path)
    with path.open("rb") as file, naming(path, remedy):
        try:
            _compare_checksums(file)
            content = torch.load(file, map_location=device, weights_only=True)
        except (InputError, torch.OutOfMemoryError):  # not a damaged file
            raise
        except UNREADABLE as error:
            found = "an empty file" if path.stat().st_size == 0 else "one that is damaged"
            raise InputError(f"expected a file that this suite wrote, found {found}") from error
        if not isinstance(content, dict):
            raise InputError(f"expected {', '.join(parts)}, found a {type(content).__name__}")
        for name, kind in parts.items():
            if not isinstance(content.get(name), kind):
                found = f"a {type(content[name]).__name__}" if name in content else "nothing"
                raise InputError(f"expected a {kind.__name__} as {name}, found {found}")
    return content


@contextmanager
def naming(where: Path | str, remedy: str) -> Iterator[None]:
    """Adds the file, or what it is called, and the remedy to the message of an InputError about its content."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}. {remedy}") from error


def check_tensors(found: Mapping[str, Any], expected: Mapping[str, Tensor]) -> None:
    """Raises an InputError unless names, types and shapes are equal: copying would broadcast a tensor of size 1."""
    for name in sorted(found.keys() | expected.keys()):
        there, here = (_described(values[name]) if name in values else "none" for values in (found, expected))
        if there != here:
            raise InputError(f"the tensor {name}: expected {here}, found {there}")


def check_finite_weights(weights: Mapping[str, Tensor]) -> None:
    """Raises an InputError if a weight is NaN or infinite."""
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(f"tensor {name!r} holds NaN or infinite values, and so would all layers")


def check_optimizer(found: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> None:
    """Raises an InputError unless the tensors of an optimizer's state have the shapes of its parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, state in found["state"].items():
        parts = {name: value for name, value in state.items() if name != "step"}
        if number >= len(parameters):
            raise InputError(f"the optimizer's state: expected {len(parameters)} parameters, found number {number}")
        check_tensors(parts, dict.fromkeys(parts, parameters[number]))


def _described(value: object) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')} of shape {tuple(value.shape)}"


def _seal(path: Path) -> None:
    """Appends the hash of all bytes, as the comment of the zip that torch.save writes.

    The zip's own checksums cover tensors, not the headers with their offsets.
    """
    with ZipFile(path, "a") as archive:
        archive.comment = _SEAL + bytes(_DIGEST)
    with path.open("r+b") as file:
        digest = _hash_without_seal(file)
        file.seek(-_DIGEST, os.SEEK_END)
        file.write(digest)


def _hash_without_seal(file: IO[bytes]) -> bytes:
    left = file.seek(0, os.SEEK_END) - _DIGEST
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (chunk := file.read(min(left, 1 << 20))):
        digest.update(chunk)
        left -= len(chunk)
    return digest.digest()


def _compare_checksums(file: IO[bytes]) -> None:
    """Raises an error unless a file is what was written: torch.load compares no checksums."""
    with ZipFile(file) as archive:
        if not archive.comment.startswith(_SEAL):
            raise InputError(
                "expected the hash of its content at its end, found none: another program wrote it, or an "
                "earlier version of the suite"
            )
        if archive.comment[len(_SEAL) :] != _hash_without_seal(file):
            raise BadZipFile("the bytes are not what was written")
        if any(member.compress_type != ZIP_STORED for member in archive.infolist()):
            raise BadZipFile("torch.save does not compress")
        bad = archive.testzip()
    if bad is not None:
        raise BadZipFile(f"{bad} is not what was written")
    file.seek(0)
