"""The biLM, or a masked LM trained in its place, as a source of frozen layers."""

from __future__ import annotations

from pathlib import Path

from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import WEIGHTS_SUFFIXES, find_weights, options_text, weights_file
from elmo.common.files import FileState, states_of
from elmo.sources.masked import MaskedLm, load_either


def trained(weights: str) -> Bilm | MaskedLm:
    """The biLM or the masked LM of weights by name or path."""
    model = load_either(weights)
    model.remember_words()
    return model


def files(weights: str) -> list[Path]:
    """The files that are read: the weights, and the options if they are in a file of their own."""
    path = weights_file(find_weights(weights))
    options = Path(options_text(path)[1])
    return [path, options] if options.is_file() else [path]


def file_states(weights: str) -> tuple[FileState, ...]:
    """The states of the files of a biLM: while these are equal, so is its fingerprint."""
    path = find_weights(weights).absolute()
    folder = path if path.is_dir() else path.parent
    suffixes = (*WEIGHTS_SUFFIXES, ".json")
    return states_of(file for file in folder.iterdir() if file.suffix in suffixes)
