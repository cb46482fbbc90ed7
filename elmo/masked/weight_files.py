"""Weight files of masked LMs: tensors by the names of the module, with options next to them, as for biLMs."""

from __future__ import annotations

from pathlib import Path

import torch

from elmo.bilm.model import Bilm
from elmo.bilm.options import json_object
from elmo.bilm.weight_files import (
    Entry,
    find_weights,
    load_bilm,
    options_text,
    read_weights,
    save_weights,
    weights_file,
)
from elmo.masked.model import MaskedLm
from elmo.masked.options import KIND, MaskedOptions


def load_masked(weights: Path | str) -> MaskedLm:
    """Loads a masked LM from a weights file, from a folder that contains one, or by the name of a shipped one.

    Raises:
        InputError: a file is missing or damaged, or a tensor does not have the shape that the options define.
    """
    path = weights_file(find_weights(weights))
    text, where = options_text(path)
    options = MaskedOptions.from_json(json_object(text, where), where)
    state = read_weights(path, _entries(options))
    model = MaskedLm(options)
    model.load_state_dict(state)
    return model


def load_either(weights: Path | str) -> Bilm | MaskedLm:
    """The biLM or the masked LM of these weights, as their options define."""
    path = find_weights(weights)
    return load_masked(path) if is_masked(path) else load_bilm(path)


def is_masked(weights: Path | str) -> bool:
    """Whether these weights are those of a masked LM, by their options."""
    return KIND in json_object(*options_text(weights_file(find_weights(weights))))


def save_masked(model: MaskedLm, path: Path | str, dtype: torch.dtype = torch.float32) -> None:
    """Writes a masked LM to a .safetensors file, and options.json next to it.

    Args:
        model: the masked LM.
        path: the weights file.
        dtype: torch.float16 halves the file, torch.int8 halves it again; it is read back as float32.
    """
    save_weights(Path(path), _entries(model.options), model.state_dict(), model.options.to_json(), dtype)


def _entries(options: MaskedOptions) -> list[Entry]:
    """Every tensor of a masked LM; the matrices of blocks and highways and word vectors may be int8, as in a biLM."""
    with torch.device("meta"):  # shapes alone
        state = MaskedLm(options).state_dict()
    found = []
    for name, tensor in state.items():
        rounded = tensor.dim() == 2 and (name.startswith("blocks.") or ".highways." in name or "words." in name)
        shape = tuple(tensor.shape)
        found.append(Entry(name, shape, name, scale_shape=(shape[0], 1) if rounded else None))
    return found
