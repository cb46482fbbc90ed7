"""An output layer and its vocabulary in a folder of their own: text, and weights in at most eight bits.

    vocabulary.txt.gz   one word a line, in the order of rows
    output.hdf5         weight (words, dim) int8, scale (words,) and bias (words,) float16; attribute `tokenise`

The biLM needs neither; they are for those who want to measure its perplexity or to train it on.

Rows are compressed. Where they would still take too much room, rare words are rounded more coarsely: what an error
costs in perplexity goes with the square of its size times the frequency of its word, and frequency falls as one over
the rank, so the size may rise as the square root of the rank.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo.bilm.weight_files import find_weights, load_bilm
from elmo.common.errors import InputError
from elmo.common.files import replacing
from elmo.download import BILMS
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.model.language_model import LanguageModel
from elmo.pretrain.model.softmax import OutputLayer

VOCABULARY, WEIGHTS = "vocabulary.txt.gz", "output.hdf5"
LEVELS = 127  # on either side of zero, at most
ROOM = 13_000_000  # bytes that the folder may take


@dataclass(frozen=True)
class Output:
    """An output layer, the words of its rows, and how text must be cut to give such words."""

    layer: OutputLayer
    vocabulary: list[str]
    tokenise: str


def save_output(output: Output, folder: Path, room: int = ROOM) -> None:
    """Writes an output layer to a folder that takes at most `room` bytes, as far as rounding can bring it there."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{word}\n" for word in output.vocabulary).encode()
    with replacing(folder / VOCABULARY) as partial:
        partial.write_bytes(gzip.compress(text, 9, mtime=0))  # no time stamp: equal contents give equal files
    left = room - (folder / VOCABULARY).stat().st_size
    weight, bias = output.layer.weight.detach().float().cpu(), output.layer.bias.detach().float().cpu()
    ranks = torch.arange(1, len(weight) + 1)
    fine = len(weight)  # words that get all levels
    while True:
        levels = (LEVELS * (fine / ranks).sqrt()).round().clamp(2, LEVELS)
        if fine <= 1 or _estimated(weight, levels) <= left:
            break
        fine = fine * 7 // 8
    with replacing(folder / WEIGHTS) as partial, h5py.File(partial, "w") as file:
        rounded, scale = _rounded(weight, levels)
        chunk = (min(1024, len(weight)), weight.shape[1])  # whole rows of like words, which are rounded alike
        file.create_dataset("weight", data=rounded.numpy(), chunks=chunk, compression="gzip", compression_opts=9)
        file.create_dataset("scale", data=scale.numpy())
        file.create_dataset("bias", data=bias.half().numpy())
        file.attrs["tokenise"] = output.tokenise


def _rounded(weight: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """The rows in whole steps, and the step of each row."""
    # The step is rounded before it is divided by, so that its own rounding costs nothing.
    scale = (weight.abs().amax(dim=1).clamp(min=1e-3) / levels).half()
    return (weight / scale.float()[:, None]).round().clamp(-LEVELS, LEVELS).to(torch.int8), scale


def _estimated(weight: Tensor, levels: Tensor) -> int:
    """About how many bytes the file will have, a little more rather than less, from a look at some of its rows."""
    every = max(1, len(weight) // 16_384)
    sample = _rounded(weight[::every], levels[::every])[0].numpy().tobytes()
    per_row = len(zlib.compress(sample, 9)) / len(weight[::every]) + 4  # scale and bias
    return int(per_row * 1.004 * len(weight)) + 20_000


def load_output(folder: Path) -> Output:
    """The output layer in a folder.

    Raises:
        InputError: a file is missing, damaged, or does not fit the other.
    """
    missing = [name for name in (VOCABULARY, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder}: expected the output layer of a biLM here ({VOCABULARY} and {WEIGHTS}), "
            f"found no {' and no '.join(missing)}; name its folder"
        )
    try:
        text = gzip.decompress((folder / VOCABULARY).read_bytes()).decode()
        with h5py.File(folder / WEIGHTS, "r") as file:
            weight, scale, bias = (np.asarray(file[name]) for name in ("weight", "scale", "bias"))
            tokenise = str(file.attrs["tokenise"])
    except (OSError, EOFError, zlib.error, KeyError, UnicodeDecodeError) as error:
        raise InputError(f"{folder}: the output layer is damaged: {error}; copy it again") from error
    vocabulary = text.split("\n")[:-1]
    if weight.ndim != 2 or not len(vocabulary) == len(weight) == len(scale) == len(bias):
        raise InputError(
            f"{folder}: {len(vocabulary)} words, weights of shape {weight.shape}, {len(scale)} scales, {len(bias)} "
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
        weights: file or folder of the biLM, or a name.
        softmax: folder of the output layer; by default NAME-softmax beside the biLM's.
    """
    if softmax is None and str(weights) in BILMS and not Path(weights).exists():  # told before it is downloaded
        raise InputError(
            f"{weights}: published without an output layer, so it can embed, but not predict or be trained further; "
            "name the folder of an output layer"
        )
    found = find_weights(weights)
    folder = Path(softmax) if softmax is not None else folder_beside(found)
    output, bilm = load_output(folder), load_bilm(found)
    width, expected = output.layer.weight.shape[1], bilm.options.projection_dim
    if width != expected:
        raise InputError(
            f"{folder}: an output layer of width {width}, but the biLM in {found} has a projection_dim of {expected}; "
            "name the output layer that was exported with it"
        )
    return LanguageModel(bilm, output.layer), output
