"""Export of a finished run: the biLM in two formats, and its output layer.

export/NAME/            options.json, weights.safetensors in half precision, card.md: for `load_bilm`
export/NAME-softmax/    the output layer and its vocabulary (`output`)
export/bilm-tf/         options.json, weights.hdf5 in single precision: for bilm-tf and AllenNLP
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from elmo.bilm.weight_files import save_bilm
from elmo.pretrain.model.language_model import LanguageModel
from elmo.pretrain.model.output import Output, save_output


def export(model: LanguageModel, vocabulary: list[str], tokenise: str, folder: Path, name: str) -> Path:
    """Writes all files but the card into a folder that appears only when it is complete; it replaces an earlier one.

    Returns:
        The folder of the biLM.
    """
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    save_bilm(model.bilm, partial / name / "weights.safetensors", torch.float16)
    save_bilm(model.bilm, partial / "bilm-tf" / "weights.hdf5")
    save_output(Output(model.output, vocabulary, tokenise), partial / f"{name}-softmax")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return folder / name
