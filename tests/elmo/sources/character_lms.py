"""Tiny character LMs at random, as files."""

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


class Dictionary:
    """In place of flair's, which the reader knows only by its name."""

    def __init__(self):
        self.idx2item = [character.encode() for character in CHARACTERS]


def save_lms(folder, layers=1):
    """A forward and a backward LM as flair writes them."""
    folder.mkdir()
    for seed, way in enumerate(("forward", "backward")):
        content = {"state_dict": tensors_of(seed, layers=layers), "is_forward_lm": way == "forward"}
        torch.save(content | {"dictionary": Dictionary()}, folder / f"{way}.pt")
    return folder
