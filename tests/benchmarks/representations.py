"""Benchmark of representations: frozen parameters, and milliseconds for 1,000 tokens, all in one run.

Models have the shapes of the published ones and random weights, which cost the same: nothing is downloaded. A row is an
arm of results/paper/representations.toml, and its figures are the costs there. An arm costs the sum of its parts, each
of which is measured once. Transformers read one sub-word for each word; real text has about 1.3.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from operator import getitem
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from elmo import load_bilm
from elmo.pretrain.settings import TransformerShape, shaped
from elmo.sources.character_lm import Flair
from elmo.sources.cove import Cove
from elmo.sources.grid import random_lm
from elmo.sources.transformer import Transformer
from tests.benchmarks import text
from tests.benchmarks.measuring.rows import Measurement
from tests.benchmarks.measuring.timing import in_turn, second
from tests.elmo.sources.tiny_transformers import word_pieces

SENTENCES = 64
# Words and dimensions of tables of vectors; word2vec has the words of our text.
STATIC = {"glove-6b-50d": (400_000, 50), "wink-100d": (341_479, 100), "word2vec": (208_781, 300)}
GLOVE_840B = 2_196_017, 300  # the table that CoVe's encoder reads; the arm reads it, too, in place of other vectors
FLAIR_UNITS, COVE_UNITS = 1024, 300
# The sizes of bert-base-cased and all-mpnet-base-v2, as far as they are not their classes' defaults.
TRANSFORMERS: Mapping[str, Mapping[str, int]] = {"bert": {"vocab_size": 28_996}, "mpnet": {"vocab_size": 30_527}}
# What the arms join.
ARMS = {
    "glove": ["glove-6b-50d"],
    "glove_100d": ["wink-100d"],
    "word2vec": ["word2vec"],
    "cove": ["cove"],
    "taglm": ["glove-6b-50d", "small"],
    "elmo": ["glove-6b-50d", "small"],
    "elmo_medium": ["glove-6b-50d", "medium"],
    "static_elmo": ["word2vec", "small"],
    "flair": ["glove-6b-50d", "flair"],
    "flair_elmo": ["glove-6b-50d", "flair", "small"],
    "masked": ["glove-6b-50d", "masked"],
    "bert": ["glove-6b-50d", "bert"],
    "mpnet": ["glove-6b-50d", "mpnet"],
}


def rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """A row for each arm, all on the same sentences."""
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
    for arm, parts in ARMS.items():
        if all(part in sizes for part in parts):
            shape = f"{sum(sizes[part] for part in parts) / 1e6:,.1f} M parameters, {SENTENCES} sentences"
            total = sum(rounds.median(part) for part in parts)
            yield Measurement(f"representation, {arm}", shape, unit, total / tokens * 1e6)


def sources(folder: Path, words: list[str]) -> Mapping[str, tuple[nn.Module, int]]:
    """The shipped biLMs, which forget words between rounds; the others at random. Transformers only if installed."""
    small, medium = load_bilm("small"), load_bilm("medium")
    shape = TransformerShape(exported=7)  # all layers, as in the published runs
    masked = random_lm(shaped(small.options, "masked", "transformer", 200, shape), seed=1)
    lstm = nn.LSTM(GLOVE_840B[1], COVE_UNITS, 2, bidirectional=True)
    torch.save(lstm.state_dict(), folder / "lstm.pth")
    numbers = " ".join(["0.5"] * GLOVE_840B[1])
    (folder / "vectors.txt").write_text("".join(f"{word} {numbers}\n" for word in words), encoding="utf-8")
    flair_size = sum(save_character_lm(folder, way) for way in ("forward", "backward"))
    found: dict[str, tuple[nn.Module, int]] = {
        "small": (small, size_of(small)),
        "medium": (medium, size_of(medium)),
        "masked": (masked, size_of(masked)),
        "cove": (
            Cove(str(folder / "lstm.pth"), str(folder / "vectors.txt")),
            size_of(lstm) + GLOVE_840B[0] * GLOVE_840B[1],
        ),
        "flair": (Flair(str(folder)), flair_size),
    }
    if find_spec("transformers"):
        for name in TRANSFORMERS:
            transformer = save_transformer(folder / name, name, words)
            found[name] = (transformer, size_of(transformer.model))
    return found


def save_transformer(folder: Path, name: str, words: list[str]) -> Transformer:
    """A transformer of the base size, with a tokeniser that knows the words; saved and loaded."""
    import transformers

    kinds = {"bert": transformers.BertConfig, "mpnet": transformers.MPNetConfig}
    transformers.AutoModel.from_config(kinds[name](**TRANSFORMERS[name])).save_pretrained(folder)
    tokenizer, marks = word_pieces(words)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(folder)
    return Transformer(str(folder))


class Dictionary:
    """The characters of an LM, in place of flair's class of this name, which the reader does not import."""

    idx2item: list[str]


def save_character_lm(folder: Path, way: str) -> int:
    """Saves an LM of the shape of flair's fast ones; returns its size without the softmax."""
    characters = Dictionary()
    characters.idx2item = [chr(number) for number in range(32, 307)]
    lstm = nn.LSTM(100, FLAIR_UNITS)
    tensors = {f"rnn.{name}": tensor.detach() for name, tensor in lstm.named_parameters()}
    tensors["encoder.weight"] = torch.zeros(len(characters.idx2item), 100)
    content = {"state_dict": tensors, "is_forward_lm": way == "forward", "dictionary": characters}
    torch.save(content, folder / f"{way}.pt")
    return sum(tensor.numel() for tensor in tensors.values())


def size_of(model: nn.Module) -> int:
    return sum(tensor.numel() for tensor in model.state_dict().values())
