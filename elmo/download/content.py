"""Checks of file contents, for files that are published without a hash."""

from __future__ import annotations

import math
from pathlib import Path

import h5py

from elmo.common.files import parse_json

# Maximum bytes of a file of unknown size. The largest published biLM has 374 MB, and its options have 400 bytes.
MOST = {".json": 1 << 20, ".hdf5": 1 << 30, ".pt": 1 << 30, ".pth": 1 << 30}
SHOWN = 40  # bytes of a wrong file in a message


def wrong_kind(path: Path, kind: str, dim: int | None = None) -> str | None:
    """Describes what is wrong with a file of options, weights or vectors; None if its content matches its kind.

    Args:
        path: the file.
        kind: .json, .hdf5, .pt, .pth, or .txt for word vectors; other kinds are not checked.
        dim: width of the vectors.
    """
    if kind == ".json" and not _is_options(path):
        wanted = "the options of a biLM (JSON)"
    elif kind == ".hdf5" and not _is_hdf5(path):
        wanted = "a complete HDF5 file"
    elif kind in (".pt", ".pth") and not _is_of_torch(path):
        wanted = "a file of torch.save"
    elif kind == ".txt" and dim is not None and not _is_vectors(path, dim):
        wanted = f"a text of words, each with {dim} numbers"
    else:
        return None
    with path.open("rb") as file:
        return f"expected {wanted}, found {path.stat().st_size:,} bytes that begin with {file.read(SHOWN)!r}"


def _is_options(path: Path) -> bool:
    if path.stat().st_size > MOST[".json"]:
        return False
    try:
        content = parse_json(path.read_bytes())
    except ValueError:
        return False
    return isinstance(content, dict) and "lstm" in content


def _is_hdf5(path: Path) -> bool:
    try:
        h5py.File(path, "r").close()  # compares the length of the file with the one in its header
    except OSError:
        return False
    return True


def _is_of_torch(path: Path) -> bool:
    """Checks the beginning only: a zip, or a pickle of protocol 2 or later."""
    with path.open("rb") as file:
        return file.read(2) in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04")


def _is_vectors(path: Path, dim: int) -> bool:
    """Checks the first line only: GloVe files have gigabytes."""
    with path.open("rb") as file:
        word, *numbers = file.readline(100_000).split(b" ")
    try:
        return bool(word) and len(numbers) == dim and all(map(math.isfinite, map(float, numbers)))
    except ValueError:
        return False
