"""Export of a finished run: a biLM in two formats, another language model in one, and its output layer.

    export/NAME/            options.json, weights.safetensors in float16 or int8, card.md: `load_lm`
    export/bilm-tf/         options.json, weights.hdf5 in single precision: a biLM for bilm-tf and AllenNLP
    export/NAME-softmax/    the output layer, for perplexity and further training; weights in at most eight bits:
        vocabulary.txt.gz   one word per line, in the order of rows
        output.hdf5         weight (words, dim) int8, scale (words,) and bias (words,) float16; attribute `tokenise`

Rows are compressed.
"""

import gzip
import json
import os
import platform
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import PRECISIONS, find_weights, save_bilm
from elmo.common.errors import InputError, reworded
from elmo.common.files import UNREADABLE, replacing
from elmo.common.int8 import LEVELS
from elmo.pretrain.corpus.text import WINDOW
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.language_model import LanguageModel, OutputLayer
from elmo.pretrain.objective import OBJECTIVES
from elmo.published import BILMS, shipped_names
from elmo.sources.grid import GridLm, load_lm, save_lm

VOCABULARY, WEIGHTS = "vocabulary.txt.gz", "output.hdf5"


@dataclass(frozen=True)
class Output:
    """An output layer, the words of its rows, and how text must be tokenised to give such words."""

    layer: OutputLayer
    vocabulary: list[str]
    tokenise: str


def save_output(output: Output, folder: Path) -> None:
    """Writes an output layer to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{word}\n" for word in output.vocabulary).encode()
    with replacing(folder / VOCABULARY) as partial:
        partial.write_bytes(gzip.compress(text, 9, mtime=0))  # no time stamp: equal contents give equal files
    weight, bias = output.layer.weight.detach().float().cpu(), output.layer.bias.detach().float().cpu()
    # Round the step before dividing by it, so that its rounding adds no error.
    scale = (weight.abs().amax(dim=1).clamp(min=1e-3) / LEVELS).half()
    rounded = (weight / scale.float()[:, None]).round().clamp(-LEVELS, LEVELS).to(torch.int8)
    with replacing(folder / WEIGHTS) as partial, h5py.File(partial, "w") as file:
        chunk = (min(1024, len(weight)), weight.shape[1])  # whole rows, of words that are rounded alike
        file.create_dataset("weight", data=rounded.numpy(), chunks=chunk, compression="gzip", compression_opts=4)
        file.create_dataset("scale", data=scale.numpy())
        file.create_dataset("bias", data=bias.half().numpy())
        file.attrs["tokenise"] = output.tokenise


def load_output(folder: Path) -> Output:
    """Loads the output layer in a folder.

    Raises:
        InputError: a file is missing, damaged, or does not fit the other.
    """
    if not ((folder / VOCABULARY).is_file() and (folder / WEIGHTS).is_file()):
        raise InputError(
            f"{folder}: expected the output layer of a biLM here, {VOCABULARY} and {WEIGHTS}; name another folder, or "
            f"other weights. {_shipped_with_output()}"
        )
    with reworded(UNREADABLE, lambda error: f"{folder}: the output layer is damaged: {error}; copy it again"):
        vocabulary = gzip.decompress((folder / VOCABULARY).read_bytes()).decode().split("\n")[:-1]
        with h5py.File(folder / WEIGHTS, "r") as file:
            weight, scale, bias = (np.asarray(file[name]) for name in ("weight", "scale", "bias"))
            tokenise = str(file.attrs["tokenise"])
        sound = tuple(vocabulary[: len(SPECIALS)]) == SPECIALS and weight.ndim == 2
        if not (sound and len(vocabulary) == len(weight) == len(scale) == len(bias)):
            raise ValueError(f"{len(vocabulary)} words and weights of shape {weight.shape} do not belong together")
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
    """An exported language model with its output layer, and that layer's vocabulary.

    Args:
        weights: file or folder of the model, or a name.
        softmax: folder of the output layer; by default NAME-softmax next to the model's.
    """
    folder = Path(softmax) if softmax is not None else find_output(weights)
    path = find_weights(weights)
    output, core = load_output(folder), load_lm(path)
    width, expected = output.layer.weight.shape[1], core.options.output_dim
    if width != expected:
        raise InputError(
            f"{folder}: an output layer of width {width}, but the model in {path} needs one of {expected}; "
            "name the output layer that was exported with it"
        )
    return LanguageModel(core, output.layer), output


def export(core: Bilm | GridLm, output: Output, folder: Path, name: str, weights: str = "float16") -> Path:
    """Writes all files except the card into a folder that appears only when it is complete; it replaces an earlier one.

    Args:
        core: the network.
        output: its output layer.
        folder: of the export.
        name: of the model.
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
        save_lm(core, file, PRECISIONS[weights])
    save_output(output, partial / f"{name}-softmax")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return folder / name


_MEASURED = {"before": "given weights, before training", "trained": "trained weights", "exported": "these files"}


def hardware(device: torch.device) -> str:
    """The machine in one line."""
    if device.type == "cuda":
        return f"1 x {torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    return f"CPU ({platform.machine()}, {os.cpu_count()} cores), torch {torch.__version__}"


def card(facts: Mapping[str, Any]) -> str:
    """The text of card.md, from the content of finished.json."""
    settings, position, counts = facts["settings"], facts["position"], facts["counts"]
    objective, init = OBJECTIVES[settings["objective"]], settings["init"]
    measured = [
        {"": _MEASURED[name], **objective.figures(values)}
        | {"predictions": values["tokens"], "words that are <UNK>": values["unknown_rate"]}
        for name, values in facts[objective.kind.replace(" ", "_")].items()
    ]
    files = [
        {"file": item["name"], "bytes": item["bytes"], "sha256": f"`{item['sha256']}`"}
        | {"weight": "left out" if left_out else f"{item.get('weight', 1):g}"}
        for left_out, kind in ((False, "sources"), (True, "exclude"))
        for item in facts[kind]
    ]
    trained = {
        "parameters without the output layer": facts["parameters"],
        "words predicted": facts["vocabulary"],
        "steps": position["step"],
        "tokens seen, </S> counted": position["tokens"],
        "passes over the text": f"{facts['passes']:.2g}",
        "minutes": f"{position['seconds'] / 60:.1f}",
        "tokens a second": round(facts["tokens_per_second"]),
        "hardware": facts["hardware"],
    }
    trained |= {f"{settings['network']}, {name}": f"{value}" for name, value in facts["shape"].items()}
    for group in ("model", "transformer", "training", "export"):
        trained |= {f"`{group}.{name}`": f"{value}" for name, value in settings[group].items()}
    shown = ("objective", "network", "input", "init", "vocabulary_of", "tokenise", "heldout_unit", "heldout_seed")
    trained |= {f"`{name}`": f"{settings[name]}" for name in (*shown, "seed")}
    hardly = f"\n**Hardly trained:** training ended after {facts['passes']:.2%} of one pass over the text.\n"
    licence = f"other\nlicense_name: {json.dumps(settings['licence'])}" if settings["licence"] else "unknown"
    return f"""---
library_name: elmo-benchmark
pipeline_tag: feature-extraction
tags: [elmo, {settings["objective"]}, {settings["network"]}]
license: {licence}
---
# {objective.title} {settings["name"]}

## Held-out {objective.kind}

{_table(measured) if measured else "Not measured: no text was held out."}
{"" if facts["passes"] >= 1 or init else hardly}
Terms: {objective.terms};
held out: {settings["heldout_fraction"]:.2%} of the text by {settings["heldout_unit"]}, chosen by a hash.

## Text

{_table(files)}

A weight is how often each training sentence occurs in a pass, and counts include the copies. Left out are paragraphs
that share {WINDOW} letters and digits in a row with a file. Licence: {settings["licence"] or "not stated"}.

{_table([{"": name.replace("_", " "), "count": value} for name, value in counts.items()])}

## Training

{_table([{"": name, "value": value} for name, value in trained.items()])}

```
python -m elmo.pretrain {shlex.join(facts["command"])}
```
"""


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = [rows[0].keys(), ["---"] * len(rows[0]), *(map(_shown, row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _shown(value: object) -> str:
    return f"{value:.2%}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
