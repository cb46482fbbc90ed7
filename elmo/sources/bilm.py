"""The biLM as a source of frozen layers."""

from __future__ import annotations

from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import WEIGHTS_SUFFIXES, find_weights, load_bilm

FileState = tuple[str, int, int]  # path, time of the last change, size


def trained(weights: str) -> Bilm:
    """The biLM of weights by name or path."""
    bilm = load_bilm(weights)
    bilm.remember_words()
    return bilm


def file_states(weights: str) -> tuple[FileState, ...]:
    """The state of the files of a biLM: while they are equal, so is its fingerprint."""
    path = find_weights(weights).absolute()
    folder = path if path.is_dir() else path.parent
    suffixes = (*WEIGHTS_SUFFIXES, ".json")
    files = [file for file in sorted(folder.iterdir()) if file.suffix in suffixes]
    return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)
