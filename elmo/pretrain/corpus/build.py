"""A token store from text files: `build_store(CorpusSettings(sources=[...]), folder)`.

Two passes. The first cuts the text into blocks and tokenises them into shards, in parallel (`shards`); the second drops
repeated paragraphs, holds some out, numbers words by frequency and writes all sentences in a seeded random order
(`merge`). Unfinished work lies in `<folder>.partial`; `<folder>` itself appears by one rename when it is complete.
Running again does what is missing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from rich.console import Console

from elmo.common.errors import InputError
from elmo.common.files import read_json
from elmo.common.meter import Meter
from elmo.common.threads import available_cores
from elmo.pretrain.corpus.merge import merge
from elmo.pretrain.corpus.shards import make_shards
from elmo.pretrain.corpus.sources import BLOCK_BYTES, SourceFile, find_sources
from elmo.pretrain.corpus.token_store import DTYPES, FORMAT, VERSION, TokenStore, read_header, require
from elmo.tokeniser import MAX_WORD_BYTES, TOKENISER_VERSION, Tokenise

HELDOUT_UNITS: Final = ("document", "paragraph")
_SHARD_VERSION: Final = 2
_ROOM_PER_TEXT: Final = 1.9  # bytes on disk, shards and store together, for a byte of text: measured 1.7 on English


@dataclass(frozen=True)
class CorpusSettings:
    """What goes into a token store and how; equal sources and settings give equal bytes, whatever `workers` says.

    Attributes:
        sources: Files (.txt, .gz, .xz) and folders of them, one paragraph or sentence a line.
        tokenise: "ptb" for running text, "whitespace" for text that is already split into sentences and tokens.
        vocabulary: Number of words that are targets, the most frequent of the training text (special ids not counted).
        min_count: Words rarer than this in the training text are left out of the vocabulary even if there is room.
        heldout_fraction: Share of the text set aside, by a seeded hash. 0 sets nothing aside.
        heldout_unit: "document": whole ones are set aside, so that no other part of them is trained on. A blank line or
            the end of a file ends a document. A file of more than 500 paragraphs without a blank line is cut into
            stretches, and so is all text that has fewer than 20 documents; they are so long that about ten are held
            out, at most 500 paragraphs. "paragraph": single ones, as in stores made before there was a choice.
        seed: Decides which paragraphs are held out and the order of training sentences.
        max_tokens: Longer sentences are cut into equal parts of at most this length; nothing is dropped. 200 touches
            one sentence in 25,000 of English prose, mostly lists, and bounds what one batch can need.
        block_bytes: Text that one process handles at a time, and so the size of a shard.
        workers: Processes; None for one per core this process may use.
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
        if self.tokenise not in get_args(Tokenise):
            raise InputError(f"tokenise={self.tokenise!r}: expected one of {', '.join(get_args(Tokenise))}.")
        if self.heldout_unit not in HELDOUT_UNITS:
            raise InputError(f"heldout_unit={self.heldout_unit!r}: expected one of {', '.join(HELDOUT_UNITS)}.")
        least = {"vocabulary": 1, "min_count": 1, "seed": 0, "max_tokens": 2, "block_bytes": 1024, "workers": 1}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise InputError(f"{name}={value}: expected {low} or more.")
        if not (math.isfinite(self.heldout_fraction) and 0 <= self.heldout_fraction < 1):
            raise InputError(f"heldout_fraction={self.heldout_fraction}: expected 0 <= fraction < 1.")

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide what a store holds, besides its sources."""
        without = ["sources", "workers"]
        if self.heldout_unit == "paragraph":
            without.append("heldout_unit")  # as in stores made before there was a choice
        return {key: value for key, value in asdict(self).items() if key not in without}


def build_store(settings: CorpusSettings, folder: str | Path, console: Console | None = None) -> TokenStore:
    """Return the token store in `folder`, built first unless it is there already.

    Args:
        settings: What the store shall hold. A store made with other settings or sources is an error, never overwritten.
        folder: Where the store shall lie; it exists only once it is complete.
        console: Where progress goes: a bar on a terminal, else a line per tenth. None is standard error.
    """
    folder = Path(folder)
    console = console or Console(stderr=True)
    sources = find_sources(settings.sources)
    work = folder.with_name(folder.name + ".partial")
    if folder.exists():
        store = _finished(folder, settings, sources)
        console.print(f"{folder}: the token store is complete ({_summary(store)}); nothing to do.", soft_wrap=True)
        return store
    with _room_errors(work), _work_folder(work, _shard_identity(settings, sources)):
        _check_room(work, sources)
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
    console.print(f"{folder}: {_summary(store)}.", soft_wrap=True)
    return store


def _workers(settings: CorpusSettings, sources: list[SourceFile]) -> int:
    """Return how many processes pay: no more than cores, and none without a block to work on."""
    blocks = math.ceil(sum(source.text_bytes() for source in sources) / settings.block_bytes)
    return max(1, min(settings.workers or available_cores(), blocks))


def _finished(folder: Path, settings: CorpusSettings, sources: list[SourceFile]) -> TokenStore:
    """Return the store that is already in `folder`, after checking that it is the one asked for."""
    header = read_header(folder)
    found = _hashes((source["name"], source["sha256"]) for source in header["sources"])
    require(folder, "settings", header["settings"], settings.identity())
    require(folder, "rules", {"tokeniser": header["tokeniser"]}, {"tokeniser": TOKENISER_VERSION})
    require(folder, "sources", found, _hashes((source.name, source.sha256) for source in sources))
    return TokenStore.open(folder)


def _hashes(files: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return hashes by position and name: files of several folders may share a name."""
    return {f"source {i}, {name}": f"sha256 {sha256[:16]}" for i, (name, sha256) in enumerate(files)}


def _shard_identity(settings: CorpusSettings, sources: list[SourceFile]) -> dict[str, Any]:
    """Return what shards depend on: less than a store, so a killed run may go on with another vocabulary or seed."""
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
    """Hold `work` for this process alone, holding shards of `identity` or nothing; a half-written store is removed."""
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go by the system however this process ends
        except BlockingIOError as error:
            raise InputError(
                f"{work}: another process is building this store; wait for it, or name another folder."
            ) from error
        made_of = work / "identity.json"
        if not any(work.glob("*.npz")):  # no finished shard, nothing to keep: the text may have been mended since
            for left_over in work.glob("*.json"):
                left_over.unlink()
        if made_of.exists():
            require(work, "settings", read_json(made_of), identity)
        else:
            temporary = made_of.with_suffix(".tmp")
            temporary.write_text(json.dumps(identity, indent=1), encoding="utf-8")
            temporary.replace(made_of)
        shutil.rmtree(work / "store", ignore_errors=True)
        try:
            yield
        finally:
            shutil.rmtree(work / "store", ignore_errors=True)


@contextlib.contextmanager
def _room_errors(work: Path) -> Iterator[None]:
    """Turn a full disk into a message that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(
            f"{work}: no room left on this disk ({error.strerror}). Make room and run again: it continues with the "
            "shards that are done. Delete that folder to give up."
        ) from error


def _check_room(work: Path, sources: list[SourceFile]) -> None:
    """Raise an error if the disk is clearly too small, before hours of work rather than after."""
    there = sum(path.stat().st_size for path in work.glob("*.npz"))
    need = sum(source.text_bytes() for source in sources) * _ROOM_PER_TEXT - there
    free = shutil.disk_usage(work).free
    if free < need:
        raise InputError(
            f"{work}: about {need / 1e9:.2f} GB needed for the corpus, {free / 1e9:.2f} GB free; make room or name "
            "a folder on another disk."
        )


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
    (folder / "header.json").write_text(json.dumps(header, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _summary(store: TokenStore) -> str:
    counts = store.header["counts"]
    return (
        f"{counts['train_tokens']:,} tokens in {counts['train_sentences']:,} sentences to train on, "
        f"{counts['heldout_tokens']:,} held out, {counts['types']:,} different words, "
        f"vocabulary {store.vocabulary_size:,}, "
        f"unknown {counts['train_unknown']:.2%} and {counts['heldout_unknown']:.2%}"
    )
