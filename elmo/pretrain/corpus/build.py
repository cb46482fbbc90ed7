"""Build a token store from text files: `build_store(CorpusSettings(sources=[...]), folder)`.

Two passes. The first cuts the text into blocks and tokenises them into shards, in parallel (`shards`); the second drops
repeated paragraphs, holds some out, numbers words by frequency and writes all sentences in a seeded random order
(`merge`). Unfinished work is in `<folder>.partial`, and the store is renamed to `<folder>` when it is complete. Running
again continues it. A process that finds another one building waits for its store (`<folder>.lock`).
"""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from elmo.common.files import explain_full_disk, plain_json, read_own_json, require_space, sha256_of, write_json
from elmo.common.processes import available_cores, locked
from elmo.common.progress import Meter, print_line
from elmo.pretrain.corpus.merge import merge
from elmo.pretrain.corpus.shards import make_shards
from elmo.pretrain.corpus.sources import SourceFile, find_sources
from elmo.pretrain.corpus.token_store import (
    DTYPES,
    FORMAT,
    VERSION,
    CorpusSettings,
    TokenStore,
    read_header,
    require,
    sealed,
)
from elmo.tokeniser import MAX_WORD_BYTES, TOKENISER_VERSION

_SHARD_VERSION: Final = 5
_DISK_PER_TEXT: Final = 1.9  # bytes on disk, shards and store together, for a byte of text: measured 1.7 on English


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
    exclude = tuple(find_sources(settings.exclude)) if settings.exclude else ()
    if not folder.exists():
        with _only_builder(folder, console):
            if not folder.exists():  # another process may have built it since
                _build(settings, sources, exclude, folder, console)
                store = TokenStore.open(folder)
                print_line(console, f"{folder}: {_summary(store)}.")
                return store
    store = _finished(folder, settings, sources, exclude)
    print_line(console, f"{folder}: the token store is complete ({_summary(store)}); nothing to do.")
    return store


@contextlib.contextmanager
def _only_builder(folder: Path, console: Console) -> Iterator[None]:
    """Let one process at a time build a store; the others wait."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = folder.with_name(folder.name + ".lock")
    waiting = f"{folder}: waiting for another process that builds this token store"
    with locked(lock, lambda: print_line(console, waiting)):
        yield
        lock.unlink(missing_ok=True)  # the store exists now, so no process needs the lock any more


def _build(
    settings: CorpusSettings,
    sources: Sequence[SourceFile],
    exclude: tuple[SourceFile, ...],
    folder: Path,
    console: Console,
) -> None:
    """Build a store that does not exist, where no other process builds it."""
    work = folder.with_name(folder.name + ".partial")
    text_bytes = sum(source.text_bytes() for source in sources)
    blocks = math.ceil(text_bytes / settings.block_bytes)
    workers = max(1, min(settings.workers or available_cores(), blocks))
    full = "no room left on this disk. Make room and run again: it continues with the shards that are done"
    with (
        explain_full_disk(f"{work}: {full}. Delete that folder to give up."),
        _work_folder(work, _shard_identity(settings, sources, exclude)),
    ):
        done = sum(path.stat().st_size for path in work.glob("*.npz"))
        need = text_bytes * _DISK_PER_TEXT - done
        require_space(work, need, "the corpus", "make room or name a folder on another disk")
        with Meter(console, "tokenising", sum(source.size for source in sources)) as meter:
            shards = make_shards(sources, exclude, work, settings, workers, meter)
        unfinished = work / "store"
        unfinished.mkdir()
        with Meter(console, "merging", 2 * len(shards)) as meter:
            counts = merge(shards, unfinished, settings, [source.weight for source in sources], meter)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "tokeniser": TOKENISER_VERSION,
            "settings": settings.identity(),
            "sources": [source.description() for source in sources],
            **({"exclude": [text.description() for text in exclude]} if exclude else {}),
            "counts": counts,
            "files": {name: sha256_of(unfinished / name) for name in DTYPES},
        }
        write_json(unfinished / "header.json", sealed(plain_json(header)))
        unfinished.rename(folder)
        shutil.rmtree(work)


def _finished(
    folder: Path, settings: CorpusSettings, sources: Sequence[SourceFile], exclude: Sequence[SourceFile]
) -> TokenStore:
    """Return the store that exists in `folder`, after checking its settings and sources."""
    header = read_header(folder)
    require(folder, "settings", header["settings"], settings.identity())
    require(folder, "rules", {"tokeniser": header["tokeniser"]}, {"tokeniser": TOKENISER_VERSION})
    for what, found, files in (
        ("sources", header["sources"], sources),
        ("excluded texts", header.get("exclude", []), exclude),
    ):
        require(folder, what, _described(found), _described([file.description() for file in files]))
    return TokenStore.open(folder)


def _described(files: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return hashes and weights by position and name, since files of several folders may share a name."""
    return {
        f"source {i}, {file['name']}": f"sha256 {file['sha256'][:16]}"
        + (f", weight {file['weight']:g}" if file.get("weight", 1) != 1 else "")
        for i, file in enumerate(files)
    }


def _shard_identity(
    settings: CorpusSettings, sources: Sequence[SourceFile], exclude: Sequence[SourceFile]
) -> dict[str, Any]:
    """Return what shards depend on: less than a store, so a killed run may continue with another vocabulary or seed."""
    return {
        "shards": _SHARD_VERSION,
        "tokeniser": TOKENISER_VERSION,
        "tokenise": settings.tokenise,
        "max_tokens": settings.max_tokens,
        "max_word_bytes": MAX_WORD_BYTES,
        "block_bytes": settings.block_bytes,
        **{f"source {i}, {source.name}": source.sha256 for i, source in enumerate(sources)},
        **{f"exclude {i}, {text.name}": text.sha256 for i, text in enumerate(exclude)},
    }


@contextlib.contextmanager
def _work_folder(work: Path, identity: Mapping[str, Any]) -> Iterator[None]:
    """Create `work`, check that its shards have this `identity`, and remove a half-written store."""
    work.mkdir(exist_ok=True)
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


def _summary(store: TokenStore) -> str:
    counts = store.header["counts"]
    repeated = f", {counts['duplicates']:,} repeated paragraphs left out" if counts["duplicates"] else ""
    return (
        f"{counts['train_tokens']:,} tokens in {counts['train_sentences']:,} sentences to train on, "
        f"{counts['heldout_tokens']:,} held out, {counts['types']:,} different words, "
        f"vocabulary {store.vocabulary_size:,}, "
        f"unknown {counts['train_unknown']:.2%} and {counts['heldout_unknown']:.2%}{repeated}"
    )
