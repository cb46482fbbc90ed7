"""Build a token store from text files: `build_store(CorpusSettings(sources=[...]), folder)`.

Two passes. The first cuts the text into blocks and tokenises them into shards, in parallel (`shards`); the second drops
repeated paragraphs, holds some out, numbers words by frequency and writes all sentences in a seeded random order
(`merge`). Unfinished work is in `<folder>.partial`, which is renamed to `<folder>` when it is complete. Running again
continues it.
"""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from rich.console import Console

from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import explain_full_disk, read_own_json, require_space, write_json
from elmo.common.processes import locked
from elmo.common.progress import Meter, print_line
from elmo.common.threads import available_cores
from elmo.pretrain.corpus.merge import merge
from elmo.pretrain.corpus.shards import make_shards
from elmo.pretrain.corpus.sources import BLOCK_BYTES, SourceFile, find_sources
from elmo.pretrain.corpus.token_store import DTYPES, FORMAT, VERSION, TokenStore, read_header, require
from elmo.tokeniser import MAX_WORD_BYTES, TOKENISER_VERSION, Tokenise

HELDOUT_UNITS: Final = ("document", "paragraph")
_SHARD_VERSION: Final = 2
_DISK_PER_TEXT: Final = 1.9  # bytes on disk, shards and store together, for a byte of text: measured 1.7 on English


@dataclass(frozen=True)
class CorpusSettings:
    """Settings of a token store; equal sources and settings give equal bytes, whatever `workers` says.

    Attributes:
        sources: Files (.txt, .gz, .xz) and folders of them, one paragraph or sentence per line.
        tokenise: "ptb" for running text, "whitespace" for text that is already split into sentences and tokens.
        vocabulary: Number of words that are targets, the most frequent of the training text (special ids not counted).
        min_count: Words rarer than this in the training text are left out of the vocabulary even if it is not full.
        heldout_fraction: Share of the text set aside, by a seeded hash. 0 sets nothing aside.
        heldout_unit: "document": whole ones are set aside, so that no other part of them is trained on. A blank line or
            the end of a file ends a document. A file of more than 500 paragraphs without a blank line is cut into
            stretches, and so is all text that has fewer than 20 documents. A stretch has at most 500 paragraphs; its
            length is chosen so that about ten stretches are held out. "paragraph": single paragraphs, as in stores
            made before this setting existed.
        seed: Decides which paragraphs are held out, and the order of training sentences.
        max_tokens: Longer sentences are cut into equal parts of at most this length; nothing is dropped. 200 affects
            one sentence in 25,000 of English prose, mostly lists, and bounds the memory of a batch.
        block_bytes: Text that one process handles at a time: the size of a shard.
        workers: Processes; None for one per core that this process may use.
    """

    sources: Sequence[str | Path]
    tokenise: Tokenise = "ptb"
    vocabulary: int = 100_000
    min_count: int = 1
    heldout_fraction: float = 0.005
    heldout_unit: str = "document"
    seed: int = 1
    max_tokens: int = 200
    block_bytes: int = BLOCK_BYTES
    workers: int | None = None

    def __post_init__(self) -> None:
        checks.one_of(get_args(Tokenise), "tokenise", self.tokenise)
        checks.one_of(HELDOUT_UNITS, "heldout_unit", self.heldout_unit)
        least = {"vocabulary": 1, "min_count": 1, "seed": 0, "max_tokens": 2, "block_bytes": 1024, "workers": 1}
        for name, low in least.items():
            checks.at_least(low, name, getattr(self, name))
        checks.dropout("heldout_fraction", self.heldout_fraction)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the content of a store, apart from its sources."""
        without = ["sources", "workers"]
        if self.heldout_unit == "paragraph":
            without.append("heldout_unit")  # as in stores made before this setting existed
        return {key: value for key, value in asdict(self).items() if key not in without}


def build_store(settings: CorpusSettings, folder: str | Path, console: Console | None = None) -> TokenStore:
    """Return the token store in `folder`, and build it first if it is missing.

    Args:
        settings: Of the store. A store made with other settings or sources is an error, never overwritten.
        folder: Of the store; it exists only when the store is complete.
        console: For progress: a bar on a terminal, else a line per tenth. None is standard error.
    """
    folder = Path(folder)
    console = console or Console(stderr=True)
    sources = find_sources(settings.sources)
    work = folder.with_name(folder.name + ".partial")
    if folder.exists():
        store = _finished(folder, settings, sources)
        print_line(console, f"{folder}: the token store is complete ({_summary(store)}); nothing to do.")
        return store
    full = "no room left on this disk. Make room and run again: it continues with the shards that are done"
    with (
        explain_full_disk(f"{work}: {full}. Delete that folder to give up."),
        _work_folder(work, _shard_identity(settings, sources)),
    ):
        _check_space(work, sources)
        with Meter(console, "tokenising", sum(source.size for source in sources)) as meter:
            shards = make_shards(
                sources,
                work,
                tokenise=settings.tokenise,
                max_tokens=settings.max_tokens,
                block_bytes=settings.block_bytes,
                workers=_workers(settings, sources),
                meter=meter,
            )
        unfinished = work / "store"
        unfinished.mkdir()
        with Meter(console, "merging", 2 * len(shards)) as meter:
            counts = merge(
                shards,
                unfinished,
                vocabulary=settings.vocabulary,
                min_count=settings.min_count,
                heldout_fraction=settings.heldout_fraction,
                by_document=settings.heldout_unit == "document",
                seed=settings.seed,
                meter=meter,
            )
        _write_header(unfinished, settings, sources, counts)
        unfinished.rename(folder)
        shutil.rmtree(work)
    store = TokenStore.open(folder)
    print_line(console, f"{folder}: {_summary(store)}.")
    return store


def _workers(settings: CorpusSettings, sources: list[SourceFile]) -> int:
    """Return the number of processes: at most one per core, and one per block."""
    blocks = math.ceil(sum(source.text_bytes() for source in sources) / settings.block_bytes)
    return max(1, min(settings.workers or available_cores(), blocks))


def _finished(folder: Path, settings: CorpusSettings, sources: list[SourceFile]) -> TokenStore:
    """Return the store that exists in `folder`, after checking its settings and sources."""
    header = read_header(folder)
    found = _hashes((source["name"], source["sha256"]) for source in header["sources"])
    require(folder, "settings", header["settings"], settings.identity())
    require(folder, "rules", {"tokeniser": header["tokeniser"]}, {"tokeniser": TOKENISER_VERSION})
    require(folder, "sources", found, _hashes((source.name, source.sha256) for source in sources))
    return TokenStore.open(folder)


def _hashes(files: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return hashes by position and name, since files of several folders may share a name."""
    return {f"source {i}, {name}": f"sha256 {sha256[:16]}" for i, (name, sha256) in enumerate(files)}


def _shard_identity(settings: CorpusSettings, sources: list[SourceFile]) -> dict[str, Any]:
    """Return what shards depend on: less than a store, so a killed run may continue with another vocabulary or seed."""
    return {
        "shards": _SHARD_VERSION,
        "tokeniser": TOKENISER_VERSION,
        "tokenise": settings.tokenise,
        "max_tokens": settings.max_tokens,
        "max_word_bytes": MAX_WORD_BYTES,
        "block_bytes": settings.block_bytes,
        **{f"source {i}, {source.name}": source.sha256 for i, source in enumerate(sources)},
    }


@contextlib.contextmanager
def _work_folder(work: Path, identity: Mapping[str, Any]) -> Iterator[None]:
    """Lock `work`, check that its shards have this `identity`, and remove a half-written store."""

    def refuse() -> None:
        raise InputError(f"{work}: another process is building this store; wait for it, or name another folder.")

    work.mkdir(parents=True, exist_ok=True)
    with locked(work / "lock", refuse):
        made_of = work / "identity.json"
        if not any(work.glob("*.npz")):  # without a finished shard, other text or settings are fine
            for left_over in work.glob("*.json"):
                left_over.unlink()
        if made_of.exists():
            require(work, "settings", read_own_json(made_of), identity)
        else:
            write_json(made_of, identity)
        shutil.rmtree(work / "store", ignore_errors=True)
        try:
            yield
        finally:
            shutil.rmtree(work / "store", ignore_errors=True)


def _check_space(work: Path, sources: list[SourceFile]) -> None:
    """Raise an error if the disk is clearly too small, before hours of work."""
    done = sum(path.stat().st_size for path in work.glob("*.npz"))
    need = sum(source.text_bytes() for source in sources) * _DISK_PER_TEXT - done
    require_space(work, need, "the corpus", "make room or name a folder on another disk")


def _write_header(folder: Path, settings: CorpusSettings, sources: list[SourceFile], counts: dict[str, Any]) -> None:
    header = {
        "format": FORMAT,
        "version": VERSION,
        "tokeniser": TOKENISER_VERSION,
        "settings": settings.identity(),
        "sources": [{"name": s.name, "bytes": s.size, "sha256": s.sha256} for s in sources],
        "counts": counts,
        "files": {name: (folder / name).stat().st_size // np.dtype(dtype).itemsize for name, dtype in DTYPES.items()},
    }
    write_json(folder / "header.json", header)


def _summary(store: TokenStore) -> str:
    counts = store.header["counts"]
    return (
        f"{counts['train_tokens']:,} tokens in {counts['train_sentences']:,} sentences to train on, "
        f"{counts['heldout_tokens']:,} held out, {counts['types']:,} different words, "
        f"vocabulary {store.vocabulary_size:,}, "
        f"unknown {counts['train_unknown']:.2%} and {counts['heldout_unknown']:.2%}"
    )
