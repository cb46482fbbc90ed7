"""Benchmark of representations: frozen parameters, and milliseconds for 1,000 tokens, all in one run.

Models have the shapes of the published ones and random weights, which cost the same: nothing is downloaded. The figures
are the costs in results/paper/representations.toml.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import nn

from elmo import load_bilm
from elmo.masked.model import random_masked
from elmo.pretrain.training.settings import Masked
from elmo.sources.character_lm import Flair
from elmo.sources.cove import Cove
from tests.benchmarks import text
from tests.benchmarks.measuring.rows import Measurement
from tests.benchmarks.measuring.timing import in_turn, second

SENTENCES = 128
# Words and dimensions of tables of vectors; word2vec has the words of our text.
STATIC = {"glove-6b-50d": (400_000, 50), "wink-100d": (341_479, 100), "word2vec": (208_781, 300)}
GLOVE_840B = 2_196_017, 300  # the table that CoVe's encoder reads
FLAIR_UNITS, COVE_UNITS = 1024, 300


def rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """A row for each representation alone, on the same sentences; an arm costs the sum of what it joins."""
    sentences = text.sentences(SENTENCES)
    tokens = sum(map(len, sentences))
    paths: dict[str, Callable[[], Any]] = {}
    sizes: dict[str, int] = {}
    for name, (words, dim) in STATIC.items():
        paths[name] = partial(
            getitem, torch.zeros(words, dim, device=device), torch.randint(words, (tokens,), device=device)
        )
        sizes[name] = words * dim
    with TemporaryDirectory() as folder:
        for name, (source, size) in sources(Path(folder), text.words(sentences)).items():
            paths[name] = partial(source.to(device).token_layers, sentences)
            sizes[name] = size
            paths[name]()  # reads vectors, builds kernels
        rounds = in_turn(paths, device, "representations", rounds=5 if full else 1)
    unit = f"{second(device).removesuffix('s')}ms/1,000 tokens"
    for name, size in sizes.items():
        shape = f"{size / 1e6:,.1f} M parameters, {SENTENCES} sentences"
        yield Measurement(f"representation, {name}", shape, unit, rounds.median(name) / tokens * 1e6)


def sources(folder: Path, words: list[str]) -> Mapping[str, tuple[nn.Module, int]]:
    """The shipped biLM, which forgets words between rounds; the others at random."""
    bilm = load_bilm("small")
    masked = random_masked(Masked().options(bilm.options, longest=200), seed=1)
    lstm = nn.LSTM(GLOVE_840B[1], COVE_UNITS, 2, bidirectional=True)
    torch.save(lstm.state_dict(), folder / "lstm.pth")
    numbers = " ".join(["0.5"] * GLOVE_840B[1])
    (folder / "vectors.txt").write_text("".join(f"{word} {numbers}\n" for word in words), encoding="utf-8")
    sizes = {"elmo, small": size_of(bilm), "masked, small": size_of(masked)}
    sizes["cove"] = size_of(lstm) + GLOVE_840B[0] * GLOVE_840B[1]
    sizes["flair, news-fast"] = sum(save_character_lm(folder, way) for way in ("forward", "backward"))
    made = {
        "elmo, small": bilm,
        "masked, small": masked,
        "cove": Cove(str(folder / "lstm.pth"), str(folder / "vectors.txt")),
        "flair, news-fast": Flair(str(folder)),
    }
    return {name: (source, sizes[name]) for name, source in made.items()}


def save_character_lm(folder: Path, way: str) -> int:
    """Saves an LM of the shape of flair's fast ones; returns its size without the softmax."""
    characters = [chr(number) for number in range(32, 307)]
    lstm = nn.LSTM(100, FLAIR_UNITS)
    arrays = {f"rnn.{name}": tensor.detach().numpy() for name, tensor in lstm.named_parameters()}
    arrays["encoder.weight"] = np.zeros((len(characters), 100), dtype=np.float32)
    np.savez(folder / f"{way}.npz", **arrays)
    (folder / f"{way}.chars.json").write_text(json.dumps(characters), encoding="utf-8")
    return sum(array.size for array in arrays.values())


def size_of(model: nn.Module) -> int:
    return sum(tensor.numel() for tensor in model.state_dict().values())
