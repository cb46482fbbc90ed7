"""An output layer and its vocabulary in a folder of their own: text to read, and weights in eight bits with a scale a row.

    vocabulary.txt.gz   one word a line, in the order of rows
    output.hdf5         weight (words, dim) int8, scale (words,) and bias (words,) float16; attribute `tokenise`

The biLM needs neither; they are for those who want to measure its perplexity or to train it on.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch

from elmo.errors import InputError
from elmo.files import replacing
from elmo.pretrain.model import LanguageModel
from elmo.pretrain.softmax import OutputLayer
from elmo.pretrain.store import SPECIALS
from elmo.weights import find_weights, load_bilm

VOCABULARY, WEIGHTS = "vocabulary.txt.gz", "output.hdf5"
LEVELS = 127


@dataclass(frozen=True)
class Output:
    """An output layer, the words of its rows, and how text must be cut to give such words."""

    layer: OutputLayer
    vocabulary: list[str]
    tokenise: str


def save_output(output: Output, folder: Path) -> None:
    """Writes an output layer to a folder."""
    weight = output.layer.weight.detach().float().cpu()
    # The rounded scale is the one that is divided by, so that rounding it costs nothing.
    scale = (weight.abs().amax(dim=1).clamp(min=1e-6) / LEVELS).half()
    levels = (weight / scale.float()[:, None]).round().clamp(-LEVELS, LEVELS).to(torch.int8)
    folder.mkdir(parents=True, exist_ok=True)
    # No time stamp: equal contents give equal files.
    text = "".join(f"{word}\n" for word in output.vocabulary).encode()
    with replacing(folder / VOCABULARY) as partial:
        partial.write_bytes(gzip.compress(text, 9, mtime=0))
    with replacing(folder / WEIGHTS) as partial, h5py.File(partial, "w") as file:
        file.create_dataset("weight", data=levels.numpy(), compression="gzip", compression_opts=9)
        file.create_dataset("scale", data=scale.numpy())
        file.create_dataset("bias", data=output.layer.bias.detach().cpu().half().numpy())
        file.attrs["tokenise"] = output.tokenise


def load_output(folder: Path) -> Output:
    """The output layer in a folder.

    Raises:
        InputError: a file is missing, damaged, or does not fit the other.
    """
    try:
        text = gzip.decompress((folder / VOCABULARY).read_bytes()).decode()
        with h5py.File(folder / WEIGHTS, "r") as file:
            weight, scale, bias = (np.asarray(file[name]) for name in ("weight", "scale", "bias"))
            tokenise = str(file.attrs["tokenise"])
    except FileNotFoundError as error:
        raise InputError(
            f"{folder}: expected the output layer of a biLM here ({VOCABULARY} and {WEIGHTS}), "
            f"found no {Path(str(error.filename)).name}; name its folder"
        ) from error
    except (OSError, EOFError, zlib.error, KeyError, UnicodeDecodeError) as error:
        raise InputError(f"{folder}: the output layer is damaged: {error}; copy it again") from error
    vocabulary = text.split("\n")[:-1]
    if weight.ndim != 2 or not len(vocabulary) == len(weight) == len(scale) == len(bias):
        raise InputError(
            f"{folder}: {len(vocabulary)} words, but weights of shape {weight.shape}, {len(scale)} scales and {len(bias)} "
            "biases; the files do not belong together"
        )
    if tuple(vocabulary[: len(SPECIALS)]) != SPECIALS:
        raise InputError(f"{folder / VOCABULARY}: expected it to begin with {', '.join(SPECIALS)}")
    layer = OutputLayer(*weight.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight.astype(np.float32) * scale.astype(np.float32)[:, None]))
        layer.bias.copy_(torch.from_numpy(bias.astype(np.float32)))
    return Output(layer, vocabulary, tokenise)


def folder_beside(weights: Path) -> Path:
    """Where the output layer of a biLM is, by default: NAME-softmax beside its folder NAME."""
    folder = weights if weights.is_dir() else weights.parent
    return folder.with_name(f"{folder.resolve().name}-softmax")


def load_model(weights: str | Path, softmax: str | Path | None = None) -> tuple[LanguageModel, Output]:
    """An exported biLM with its output layer, and that layer's vocabulary.

    Args:
        weights: file or folder of the biLM, or a shipped name.
        softmax: folder of the output layer; by default NAME-softmax beside the biLM's.
    """
    found = find_weights(weights)
    output = load_output(Path(softmax) if softmax is not None else folder_beside(found))
    return LanguageModel(load_bilm(found), output.layer), output
