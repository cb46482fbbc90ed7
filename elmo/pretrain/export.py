"""Export of a finished run: the biLM in two formats, or the masked LM in one, and its output layer.

    export/NAME/            options.json, weights.safetensors in float16 or int8, card.md: `load_bilm`, `load_masked`
    export/bilm-tf/         options.json, weights.hdf5 in single precision: for bilm-tf and AllenNLP
    export/NAME-softmax/    the output layer, for perplexity and further training; weights in at most eight bits:
        vocabulary.txt.gz   one word per line, in the order of rows
        output.hdf5         weight (words, dim) int8, scale (words,) and bias (words,) float16; attribute `tokenise`

Rows are compressed. If they are larger than `export.softmax_mb` allows, rare words are rounded more coarsely: the cost
of an error in perplexity grows with the square of its size times the frequency of its word, and frequency falls as one
over the rank, so the error may grow as the square root of the rank.
"""

from __future__ import annotations

import gzip
import shutil
import zlib
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo.bilm.model import Bilm
from elmo.bilm.sentences import Sentence
from elmo.bilm.weight_files import LEVELS, PRECISIONS, find_weights, require_own_values, save_bilm
from elmo.common.errors import InputError
from elmo.common.files import replacing
from elmo.download.published import BILMS
from elmo.names import shipped_names
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.language_model import LanguageModel, OutputLayer
from elmo.sources.masked import MaskedLm, load_either, save_masked
from elmo.sources.source import FrozenSource

VOCABULARY, WEIGHTS = "vocabulary.txt.gz", "output.hdf5"
# Of compression: with few levels, 9 is 30 times slower and saves 9 %.
_EFFORT = 4
_SAMPLE = 1 << 21  # weights, to estimate the size of a file


@dataclass(frozen=True)
class Output:
    """An output layer, the words of its rows, and how text must be tokenised to give such words."""

    layer: OutputLayer
    vocabulary: list[str]
    tokenise: str


def save_output(output: Output, folder: Path, most_bytes: int | None = None) -> None:
    """Writes an output layer to a folder of at most `most_bytes` bytes, as far as rounding allows; None: any size."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{word}\n" for word in output.vocabulary).encode()
    with replacing(folder / VOCABULARY) as partial:
        partial.write_bytes(gzip.compress(text, 9, mtime=0))  # no time stamp: equal contents give equal files
    weight, bias = output.layer.weight.detach().float().cpu(), output.layer.bias.detach().float().cpu()
    levels = torch.full((len(weight),), float(LEVELS))
    if most_bytes is not None:
        levels = _fitting(weight, most_bytes - (folder / VOCABULARY).stat().st_size)
    with replacing(folder / WEIGHTS) as partial, h5py.File(partial, "w") as file:
        rounded, scale = _rounded(weight, levels)
        chunk = (min(1024, len(weight)), weight.shape[1])  # whole rows, of words that are rounded alike
        file.create_dataset("weight", data=rounded.numpy(), chunks=chunk, compression="gzip", compression_opts=_EFFORT)
        file.create_dataset("scale", data=scale.numpy())
        file.create_dataset("bias", data=bias.half().numpy())
        file.attrs["tokenise"] = output.tokenise


def _fitting(weight: Tensor, most_bytes: int) -> Tensor:
    """The levels of each row, as fine as `most_bytes` allow, (words,)."""

    def levels(fine: int) -> Tensor:
        ranks = torch.arange(1, len(weight) + 1)
        return (LEVELS * (fine / ranks).sqrt()).round().clamp(2, LEVELS)

    def fits(fine: int) -> bool:
        return _estimated(weight, levels(fine)) <= most_bytes

    choices = [len(weight)]  # words with all levels; fewer give a smaller file
    while choices[-1] > 1:
        choices.append(choices[-1] * 7 // 8)
    # The first is tried alone: a second level count in a file may cost more than it saves.
    return levels(
        choices[0] if fits(choices[0]) else choices[bisect_left(choices, True, 1, len(choices) - 1, key=fits)]
    )


def _rounded(weight: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
    """The rows in integer steps, and the size of a step in each row."""
    # Round the step before dividing by it, so that its rounding adds no error.
    scale = (weight.abs().amax(dim=1).clamp(min=1e-3) / levels).half()
    return (weight / scale.float()[:, None]).round().clamp(-LEVELS, LEVELS).to(torch.int8), scale


def _estimated(weight: Tensor, levels: Tensor) -> int:
    """Estimates the size of the file in bytes from a sample of its rows, slightly too high."""
    every = max(1, weight.numel() // _SAMPLE)
    sample = _rounded(weight[::every], levels[::every])[0].numpy().tobytes()
    per_row = len(zlib.compress(sample, _EFFORT)) / len(weight[::every]) + 4  # scale and bias
    return int(per_row * 1.004 * len(weight)) + 20_000


def load_output(folder: Path) -> Output:
    """Loads the output layer in a folder.

    Raises:
        InputError: a file is missing, damaged, or does not fit the other.
    """
    missing = [name for name in (VOCABULARY, WEIGHTS) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder}: expected the output layer of a biLM here ({VOCABULARY} and {WEIGHTS}), "
            f"found no {' and no '.join(missing)}; name another folder, or other weights. {_shipped_with_output()}"
        )
    try:
        text = gzip.decompress((folder / VOCABULARY).read_bytes()).decode()
        with h5py.File(folder / WEIGHTS, "r") as file:
            for name in ("weight", "scale", "bias"):
                require_own_values(file[name], folder / WEIGHTS)
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


def softmax_folder(weights: Path) -> Path:
    """Default folder of the output layer of a biLM: NAME-softmax next to its folder NAME."""
    folder = (weights if weights.is_dir() else weights.parent).resolve()  # "." and ".." have no name
    return folder.with_name(f"{folder.name}-softmax")


def find_output(weights: str | Path) -> Path:
    """Folder of the output layer of a model given by path or name; a biLM published without is not downloaded."""
    if str(weights) in BILMS and not Path(weights).exists():
        raise InputError(
            f"{weights}: published without an output layer, so it can embed, but not predict or be trained further; "
            f"name other weights, or the folder of an output layer. {_shipped_with_output()}"
        )
    return softmax_folder(find_weights(weights))


def _shipped_with_output() -> str:
    names = [name for name in shipped_names() if (softmax_folder(find_weights(name)) / WEIGHTS).is_file()]
    return f"Shipped with an output layer: {', '.join(names) or 'none'}"


def load_model(weights: str | Path, softmax: str | Path | None = None) -> tuple[LanguageModel, Output]:
    """An exported biLM or masked LM with its output layer, and that layer's vocabulary.

    Args:
        weights: file or folder of the model, or a name.
        softmax: folder of the output layer; by default NAME-softmax next to the model's.
    """
    folder = Path(softmax) if softmax is not None else find_output(weights)
    found = find_weights(weights)
    output, core = load_output(folder), load_either(found)
    width, expected = output.layer.weight.shape[1], core.options.output_dim
    if width != expected:
        raise InputError(
            f"{folder}: an output layer of width {width}, but the model in {found} needs one of {expected}; "
            "name the output layer that was exported with it"
        )
    return LanguageModel(core, output.layer), output


def export(
    core: Bilm | MaskedLm,
    output: Output,
    folder: Path,
    name: str,
    softmax_mb: float | None = None,
    weights: str = "float16",
) -> Path:
    """Writes all files except the card into a folder that appears only when it is complete; it replaces an earlier one.

    Args:
        core: the network.
        output: its output layer.
        folder: of the export.
        name: of the model.
        softmax_mb: most megabytes of the output layer; None: any size.
        weights: precision of weights.safetensors; bilm-tf's file is always in float32.

    Returns:
        The folder of the model.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    file = partial / name / "weights.safetensors"
    if isinstance(core, Bilm):
        save_bilm(core, file, PRECISIONS[weights])
        save_bilm(core, partial / "bilm-tf" / "weights.hdf5")
    else:
        save_masked(core, file, PRECISIONS[weights])
    save_output(output, partial / f"{name}-softmax", None if softmax_mb is None else int(softmax_mb * 1e6))
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return folder / name


def rounding_errors(rounded: FrozenSource, exact: FrozenSource, sentences: Sequence[Sentence]) -> list[float]:
    """Of each layer, the length of the error of all its vectors over the length of all its vectors."""
    found, wanted = (source.token_layers(sentences).double().flatten(1) for source in (rounded, exact))
    errors: list[float] = ((found - wanted).norm(dim=1) / wanted.norm(dim=1)).tolist()
    return errors
