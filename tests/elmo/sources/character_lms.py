"""Tiny character LMs at random, as files."""

import json

import numpy as np
import torch

CHARACTERS = ("<unk>", " ", "\n", *"abcdefgé.")


def tensors_of(seed, hidden=5, layers=1, width=3):
    """The tensors of a character LM at random, with a softmax that is not needed."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"encoder.weight": (len(CHARACTERS), width), "decoder.weight": (len(CHARACTERS), hidden)}
    for layer in range(layers):
        shapes[f"rnn.weight_ih_l{layer}"] = (4 * hidden, hidden if layer else width)
        shapes[f"rnn.weight_hh_l{layer}"] = (4 * hidden, hidden)
        shapes[f"rnn.bias_ih_l{layer}"] = shapes[f"rnn.bias_hh_l{layer}"] = (4 * hidden,)
    return {name: torch.randn(shape, generator=generator).half().float() for name, shape in shapes.items()}


def save_arrays(folder, layers=1):
    folder.mkdir()
    for seed, way in enumerate(("forward", "backward")):
        arrays = {name: tensor.numpy().astype(np.float16) for name, tensor in tensors_of(seed, layers=layers).items()}
        np.savez(folder / f"{way}.npz", **arrays)
        (folder / f"{way}.chars.json").write_text(json.dumps(CHARACTERS), encoding="utf-8")
    return folder
