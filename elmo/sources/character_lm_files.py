"""Files of character LMs: those of flair, read without unpickling them, and plain arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.common.errors import InputError, excerpt
from elmo.common.files import UNREADABLE, expanded, read_json, require_file
from elmo.common.tensor_files import check_finite_weights, check_tensors, naming
from elmo.download.folder import obtain
from elmo.download.published import CHARACTER_LMS
from elmo.sources.torch_files import InertObject, read_torch_file

SETTING = "features.frozen.flair.source.weights"


@dataclass(frozen=True)
class SavedLm:
    """A character LM as its file has it.

    Attributes:
        is_forward: whether it reads from left to right.
        characters: by their numbers; 0 is for all other characters.
        tensors: encoder.weight and, for each layer of the LSTM, rnn.weight_ih_l0 and so on, gates in torch's order.
        delimiter: what it reads in front of a sentence.
    """

    is_forward: bool
    characters: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    delimiter: str = "\n"

    @property
    def hidden(self) -> int:
        """The width of a state."""
        return self.tensors["rnn.weight_hh_l0"].shape[1]

    @property
    def n_layers(self) -> int:
        """The number of LSTM layers."""
        return sum(name.startswith("rnn.weight_hh_l") for name in self.tensors)

    def check(self) -> None:
        """Raises an InputError unless the tensors are finite and those of an LSTM over these characters."""
        shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}
        if any(len(shapes.get(name, ())) != 2 or 0 in shapes[name] for name in ("encoder.weight", "rnn.weight_hh_l0")):
            raise InputError(f"expected the matrices encoder.weight and rnn.weight_hh_l0, found {excerpt(shapes)}")
        width, wide = self.tensors["encoder.weight"].shape[-1], self.hidden
        expected = {"encoder.weight": torch.empty(len(self.characters), width, device="meta")}
        for layer in range(self.n_layers):
            of_layer: dict[str, tuple[int, ...]] = {"bias_ih": (4 * wide,), "bias_hh": (4 * wide,)}
            of_layer |= {"weight_ih": (4 * wide, wide if layer else width), "weight_hh": (4 * wide, wide)}
            expected |= {f"rnn.{name}_l{layer}": torch.empty(shape, device="meta") for name, shape in of_layer.items()}
        check_tensors({name: tensor.float() for name, tensor in self.tensors.items()}, expected)
        check_finite_weights(self.tensors)


def read_pair(weights: str) -> tuple[SavedLm, SavedLm]:
    """The forward and the backward LM of a name or of a folder.

    A folder has either two files of flair (.pt), or forward.npz and backward.npz with the tensors and next to each its
    characters in number order, forward.chars.json and backward.chars.json.

    Raises:
        InputError: there is no such folder, or its files are not those of two character LMs.
    """
    folder = expanded(weights, SETTING)
    if not folder.is_dir():
        if weights not in CHARACTER_LMS:
            raise InputError(
                f"{SETTING}: expected a folder with a forward and a backward character LM, or one of "
                f"{', '.join(CHARACTER_LMS)}, which are downloaded, found {weights!r}"
            )
        folder = obtain(weights)
    files = sorted([*folder.glob("*.pt"), *folder.glob("*.npz")])
    found = [_read(file) for file in files]
    pair = [lm for way in (True, False) for lm in found if lm.is_forward is way]
    if [lm.is_forward for lm in pair] != [True, False]:
        raise InputError(
            f"{folder}: expected one forward and one backward character LM (.pt or .npz), found "
            f"{', '.join(file.name for file in files) or 'neither'}. Name another folder with {SETTING}"
        )
    return pair[0], pair[1]


def _read(file: Path) -> SavedLm:
    content = read_torch_file(file) if file.suffix == ".pt" else None
    with naming(file, f"Get the file again, or name another folder with {SETTING}"):
        saved = _of_flair(content) if file.suffix == ".pt" else _of_arrays(file)
        saved.check()
    return saved


def _of_flair(content: object) -> SavedLm:
    """An LM as flair's LanguageModel.save writes it."""
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise InputError(f"expected a language model of flair, with a state_dict, found {excerpt(content)}")
    kind = str(content.get("recurrent_type") or "lstm").lower()
    if kind != "lstm" or content.get("nout") is not None:
        raise InputError(
            f"expected an LSTM without a projection, found recurrent_type={kind}, nout={content.get('nout')}"
        )
    holder = content.get("tokenizer", content)  # newer versions put the dictionary into a tokenizer
    dictionary = (holder.attributes if isinstance(holder, InertObject) else holder).get("dictionary")
    items = dictionary.attributes.get("idx2item") if isinstance(dictionary, InertObject) else None
    if not isinstance(items, list):
        raise InputError(f"expected the characters of the model, found {excerpt(dictionary)}")
    characters = tuple(item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in items)
    delimiter = content.get("document_delimiter") or "\n"
    return SavedLm(bool(content.get("is_forward_lm")), characters, _needed(content["state_dict"]), delimiter)


def _of_arrays(file: Path) -> SavedLm:
    """An LM as arrays in NAME.npz and characters in NAME.chars.json; NAME begins with forward or backward."""
    listed = file.with_suffix(".chars.json")
    try:
        characters = read_json(listed)
    except (OSError, ValueError) as error:
        raise InputError(f"expected its characters in {listed.name}, a list in JSON: {error}") from error
    if not isinstance(characters, list):
        raise InputError(f"expected its characters in {listed.name}, a list in JSON, found {excerpt(characters)}")
    require_file(file)
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except UNREADABLE as error:
        raise InputError("expected arrays of numpy.savez, found another file or a damaged one") from error
    return SavedLm(file.stem.startswith("forward"), tuple(map(str, characters)), _needed(tensors))


def _needed(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors in front of the softmax."""
    return {
        name: tensor
        for name, tensor in tensors.items()
        if name.startswith(("encoder.", "rnn.")) and isinstance(tensor, Tensor)
    }
