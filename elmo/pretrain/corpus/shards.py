"""First pass of a corpus build: tokenise blocks of text into shards on disk, in several processes.

A shard appears under its name only when it is complete, so a run after a crash keeps the shards that exist. Each shard
numbers its own words; the second pass gives words the same ids in all shards.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import signal
from collections import defaultdict, deque
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.common.errors import InputError
from elmo.common.files import read_own_json, replacing, write_json
from elmo.common.processes import end_with_parent
from elmo.common.progress import Meter
from elmo.pretrain.corpus.sources import CONTINUES, Block, SourceFile, lines, read_blocks
from elmo.tokeniser import Tokenise, Tokeniser, parts

_ALL_DONE = "complete.json"


@dataclass(frozen=True)
class Shard:
    """The tokens of one block, by sentence and paragraph, as ids into `words`."""

    tokens: NDArray[np.uint32]
    sentence_lengths: NDArray[np.uint32]  # tokens of each sentence
    paragraph_lengths: NDArray[np.uint32]  # sentences of each paragraph
    keys: NDArray[np.uint64]  # hash of each paragraph's bytes: equal for equal paragraphs
    places: NDArray[np.uint8]  # of each paragraph: CONTINUES, NEW_DOCUMENT or NEW_FILE
    words: list[bytes]

    @classmethod
    def load(cls, path: Path) -> Shard:
        """Return the shard in `path`."""
        with np.load(path, allow_pickle=False) as file:
            words = file["words"].tobytes().split(b"\n")  # no word holds white space
            return cls(
                file["tokens"],
                file["sentence_lengths"],
                file["paragraph_lengths"],
                file["keys"],
                file["places"],
                words if words[0] else [],
            )

    def save(self, path: Path) -> None:
        """Write the shard so that `path` exists only when it is complete."""
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(
                file,
                tokens=self.tokens,
                sentence_lengths=self.sentence_lengths,
                paragraph_lengths=self.paragraph_lengths,
                keys=self.keys,
                places=self.places,
                words=np.frombuffer(b"\n".join(self.words), np.uint8),
            )


class Outline(NamedTuple):
    """A shard without its tokens and words."""

    keys: NDArray[np.uint64]
    places: NDArray[np.uint8]
    paragraph_lengths: NDArray[np.uint32]
    sentence_lengths: NDArray[np.uint32]


def outline(path: Path) -> Outline:
    """Return the paragraphs and sentences of the shard in `path`, leaving its tokens on disk."""
    with np.load(path, allow_pickle=False) as file:
        return Outline(*(file[name] for name in Outline._fields))


def make_shards(
    sources: Iterable[SourceFile],
    folder: Path,
    *,
    tokenise: Tokenise,
    max_tokens: int,
    block_bytes: int,
    workers: int,
    meter: Meter,
) -> list[Path]:
    """Return the shards of all text in reading order; existing ones in `folder` are kept."""
    complete = folder / _ALL_DONE
    if complete.exists():
        return _paths(folder, int(read_own_json(complete)["shards"]))
    for left_over in folder.glob("*.partial"):
        left_over.unlink()
    make = functools.partial(make_shard, folder=folder, tokenise=tokenise, max_tokens=max_tokens)
    count = 0
    with _Pool(workers) as pool:
        for block in read_blocks(sources, block_bytes):
            count += 1
            if _path(folder, block.index).exists():
                meter.advance(block.cost)
                continue
            for cost, tokens in pool.submit(make, block):
                meter.advance(cost, tokens)
        for cost, tokens in pool.drain():
            meter.advance(cost, tokens)
    write_json(complete, {"shards": count})
    return _paths(folder, count)


def make_shard(block: Block, folder: Path, tokenise: Tokenise, max_tokens: int) -> tuple[int, int]:
    """Write `block` as a shard into `folder`; return its cost and its number of tokens."""
    shard = tokenise_block(block, tokenise, max_tokens)
    shard.save(_path(folder, block.index))
    return block.cost, len(shard.tokens)


def tokenise_block(block: Block, tokenise: Tokenise, max_tokens: int) -> Shard:
    """Return the shard of a block."""
    paragraph = _tokeniser(tokenise).paragraph
    flat: list[str] = []
    sentence_lengths: list[int] = []
    paragraph_lengths: list[int] = []
    keys, places = bytearray(), bytearray()
    for piece in block.pieces:
        place = CONTINUES
        for line in lines(piece):
            place = max(place, line.place)  # a line without a word may begin the document
            before = len(sentence_lengths)
            for sentence in paragraph(line.text):
                for part in parts(sentence, max_tokens):
                    flat += part
                    sentence_lengths.append(len(part))
            if len(sentence_lengths) > before:
                paragraph_lengths.append(len(sentence_lengths) - before)
                keys += hashlib.blake2b(line.raw, digest_size=8).digest()
                places.append(place)
                place = CONTINUES
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    tokens = np.fromiter(map(numbers.__getitem__, flat), np.uint32, len(flat))
    return Shard(
        tokens,
        np.array(sentence_lengths, np.uint32),
        np.array(paragraph_lengths, np.uint32),
        np.frombuffer(bytes(keys), "<u8").astype(np.uint64),
        np.frombuffer(bytes(places), np.uint8),
        [word.encode() for word in numbers],
    )


class _Pool:
    """Runs jobs in processes and returns their results in order, with a bounded number of jobs in flight.

    With one worker the jobs run in this process, which is easy to debug.
    """

    def __init__(self, workers: int) -> None:
        self._ahead = 2 * workers
        self._waiting: deque[Future[tuple[int, int]]] = deque()
        self._executor: ProcessPoolExecutor | None = None
        if workers > 1:
            # Spawned, not forked: the caller may have threads or a GPU.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *error: object) -> None:
        if self._executor:
            self._executor.shutdown(cancel_futures=True)

    def submit(self, job: functools.partial[tuple[int, int]], block: Block) -> list[tuple[int, int]]:
        """Start a job; return results that are due, if too many jobs are in flight."""
        if self._executor is None:
            return [job(block)]
        self._waiting.append(self._executor.submit(job, block))
        return self._results(self._ahead)

    def drain(self) -> list[tuple[int, int]]:
        """Return the results of all jobs still running."""
        return self._results(0)

    def _results(self, leave: int) -> list[tuple[int, int]]:
        results = []
        try:
            while len(self._waiting) > leave:
                results.append(self._waiting.popleft().result())
        except BrokenProcessPool as error:
            raise InputError(
                "A worker process was ended from outside (out of memory?). Run the command again, with fewer workers "
                "if memory was short: it continues with the shards that are done."
            ) from error
        return results


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent ends the workers
    end_with_parent()


@functools.lru_cache(maxsize=2)
def _tokeniser(tokenise: Tokenise) -> Tokeniser:
    return Tokeniser(tokenise)


def _path(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.npz"


def _paths(folder: Path, count: int) -> list[Path]:
    return [_path(folder, index) for index in range(count)]
