"""First pass of a corpus build: tokenise blocks of text into shards on disk, in several processes.

A shard appears under its name only when it is complete, so a run after a crash keeps the shards that exist. Each shard
numbers its own words; the second pass gives words the same ids in all shards.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.common.errors import InputError
from elmo.common.files import UNREADABLE, replacing
from elmo.common.processes import ahead, end_with_parent
from elmo.common.progress import Meter
from elmo.pretrain.corpus.text import CONTINUES, Block, Excluded, SourceFile, lines, read_blocks
from elmo.pretrain.corpus.token_store import CorpusSettings
from elmo.tokeniser import Tokenise, Tokeniser, parts

_tokeniser = functools.cache(Tokeniser)
_excluded = functools.cache(Excluded)


@dataclass(frozen=True)
class Shard:
    """The tokens of one block, by sentence and paragraph, as ids into `words`."""

    tokens: NDArray[np.uint32]
    sentence_lengths: NDArray[np.uint32]  # tokens of each sentence
    paragraph_lengths: NDArray[np.uint32]  # sentences of each paragraph
    keys: NDArray[np.uint64]  # hash of each paragraph's bytes: equal for equal paragraphs
    places: NDArray[np.uint8]  # of each paragraph: CONTINUES, NEW_DOCUMENT or NEW_FILE
    sources: NDArray[np.uint32]  # of each paragraph: the number of its file
    excluded: NDArray[np.bool_]  # whether each paragraph occurs in an excluded text
    place_after: NDArray[np.uint8]  # (1,), of the lines without a word after the last paragraph; CONTINUES without any
    words: list[bytes]

    @classmethod
    def load(cls, path: Path) -> Shard:
        """Return the shard in `path`."""
        with _opened(path) as file:
            arrays: dict[str, Any] = dict(file)
            words = arrays.pop("words").tobytes().split(b"\n")  # no word holds white space
            return cls(**arrays, words=words if words[0] else [])

    def save(self, path: Path) -> None:
        """Write the shard so that `path` exists only when it is complete."""
        content = {**vars(self), "words": np.frombuffer(b"\n".join(self.words), np.uint8)}
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, **content)


def load_arrays(path: Path, *names: str) -> list[NDArray[Any]]:
    """Return some arrays of the shard in `path`, leaving the others on disk."""
    with _opened(path) as file:
        return [file[name] for name in names]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Mapping[str, NDArray[Any]]]:
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            yield file
    except UNREADABLE as error:
        raise InputError(
            f"{path}: expected a shard of tokenised text, found a damaged file. Delete {path.parent}, and run again"
        ) from error


def make_shards(
    sources: Iterable[SourceFile],
    exclude: tuple[SourceFile, ...],
    folder: Path,
    settings: CorpusSettings,
    workers: int,
    meter: Meter,
) -> list[Path]:
    """Return the shards of all text in reading order; existing ones in `folder` are kept."""
    for left_over in folder.glob("*.partial"):
        left_over.unlink()
    shards: list[Path] = []

    def missing() -> Iterator[Block]:
        for block in read_blocks(sources, settings.block_bytes):
            shards.append(_path(folder, block.index))
            if shards[-1].exists():
                meter.advance(block.cost)
            else:
                yield block

    make = functools.partial(make_shard, folder=folder, settings=settings, exclude=exclude)
    for cost, tokens in _in_processes(make, missing(), workers):
        meter.advance(cost, tokens)
    return shards


def make_shard(
    block: Block, folder: Path, settings: CorpusSettings, exclude: tuple[SourceFile, ...]
) -> tuple[int, int]:
    """Write `block` as a shard into `folder`; return its cost and its number of tokens."""
    shard = tokenise_block(block, settings.tokenise, settings.max_tokens, exclude)
    shard.save(_path(folder, block.index))
    return block.cost, len(shard.tokens)


def tokenise_block(block: Block, tokenise: Tokenise, max_tokens: int, exclude: tuple[SourceFile, ...]) -> Shard:
    """Return the shard of a block."""
    paragraph = _tokeniser(tokenise).paragraph
    excludes = _excluded(exclude) if exclude else None
    flat: list[str] = []
    sentence_lengths: list[int] = []
    paragraph_lengths: list[int] = []
    keys: list[int] = []
    places, excluded = bytearray(), bytearray()
    sources: list[int] = []
    place = CONTINUES
    for piece in block.pieces:
        for line in lines(piece):
            place = max(place, line.place)  # a line without a word may begin the document
            before = len(sentence_lengths)
            for sentence in paragraph(line.text):
                for part in parts(sentence, max_tokens):
                    flat += part
                    sentence_lengths.append(len(part))
            if len(sentence_lengths) > before:
                paragraph_lengths.append(len(sentence_lengths) - before)
                keys.append(line.key)
                places.append(place)
                sources.append(piece.source)
                excluded.append(excludes is not None and line.text in excludes)
                place = CONTINUES
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    tokens = np.fromiter(map(numbers.__getitem__, flat), np.uint32, len(flat))
    return Shard(
        tokens,
        np.array(sentence_lengths, np.uint32),
        np.array(paragraph_lengths, np.uint32),
        np.array(keys, np.uint64),
        np.frombuffer(bytes(places), np.uint8),
        np.array(sources, np.uint32),
        np.frombuffer(bytes(excluded), np.bool_),
        np.array([place], np.uint8),
        [word.encode() for word in numbers],
    )


def _in_processes(
    job: Callable[[Block], tuple[int, int]], blocks: Iterable[Block], workers: int
) -> Iterator[tuple[int, int]]:
    """Yield the result of a job for each block, in order; a bounded number of blocks is in memory.

    With one worker the jobs run in this process, which is easy to debug.
    """
    if workers == 1:
        yield from map(job, blocks)
        return
    context = multiprocessing.get_context("spawn")  # not forked: the caller may have threads or a GPU
    try:
        with ProcessPoolExecutor(workers, context, end_with_parent) as pool:
            yield from ahead(pool, job, blocks, 2 * workers)
    except BrokenProcessPool as error:
        raise InputError(
            "A worker process was killed (out of memory?). Run the command again, with fewer workers "
            "if memory was short: it continues with the shards that are done."
        ) from error


def _path(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.npz"
