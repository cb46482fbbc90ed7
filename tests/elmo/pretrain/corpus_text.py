"""Text of the corpus tests (generated, different in every paragraph, the same on every run), and stores of it."""

from __future__ import annotations

import random
from pathlib import Path

from rich.console import Console

from elmo.pretrain.corpus.token_store import CorpusSettings, build_store

NOUNS = ("river", "engine", "teacher", "window", "harbour", "signal", "garden", "letter", "market", "bridge", "violin")
VERBS = ("crossed", "repaired", "watched", "carried", "followed", "painted", "answered", "measured")
QUIET = Console(quiet=True)


def paragraph(number: int) -> str:
    """Return paragraph `number`: one to four sentences, one word of its own."""
    rng = random.Random(number)
    sentences = [
        f"The {rng.choice(NOUNS)} {rng.choice(VERBS)} Mr. {rng.choice(NOUNS).title()}'s {rng.choice(NOUNS)}."
        for _ in range(rng.randint(1, 4))
    ]
    return " ".join([*sentences, f"It was no. {number} (word{number}), wasn't it?"])


def write(path: Path, numbers: range) -> Path:
    path.write_text("".join(paragraph(number) + "\n" for number in numbers), encoding="utf-8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder by name: stores are compared byte by byte."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def build(folder, *sources, **changes):
    default = {"heldout_fraction": 0.1, "heldout_unit": "paragraph", "block_bytes": 4096, "workers": 1}
    settings = CorpusSettings(sources=sources, **{**default, **changes})
    return build_store(settings, folder, QUIET)


def spelled(store, side):
    words = store.words()
    return [tuple(words[number] for number in ids) for ids in side]
