"""Second pass of a corpus build: merge shards into a token store.

Paragraphs are deduplicated and split into training and held-out text; words are numbered by frequency; sentences are
shuffled.

Whole documents are held out, because other paragraphs of an article make a held-out one easier to predict. A blank
line or the end of a file ends a document. A file of more than 500 paragraphs without a blank line is cut into
stretches, and so is all text that has fewer than 20 documents.

All decisions follow from hashes of paragraphs and from counts, so equal text and settings give equal bytes. Memory
holds a few numbers per paragraph, sentence and distinct word. Tokens are read one shard at a time and written to their
shuffled places in mapped files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from elmo.common.errors import InputError
from elmo.common.files import require_space
from elmo.common.progress import Meter
from elmo.pretrain.corpus.shards import Shard, load_arrays
from elmo.pretrain.corpus.sources import CONTINUES, NEW_DOCUMENT, NEW_FILE
from elmo.pretrain.corpus.token_store import DTYPES, SPECIALS, UNKNOWN, CorpusSettings, offsets_of

LONGEST_STRETCH: Final = 500  # paragraphs: several articles, so that the ends of a stretch cut few of them
FEWEST_DOCUMENTS: Final = 20  # with fewer, a fraction of them cannot be held out

_DROPPED, _TRAIN, _HELDOUT = range(3)
_SIDES: Final = {"train": _TRAIN, "heldout": _HELDOUT}
_ZEROS: Final = bytes(8 << 20)
_SHUFFLE: Final = 1 << 63  # keeps the order of sentences independent of the choice of held-out paragraphs


@dataclass(frozen=True)
class Order:
    """Positions of one side's sentences: `starts` by sentence in reading order, `offsets` of the written file."""

    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def by(cls, rank: NDArray[np.uint64], lengths: NDArray[np.uint32]) -> Order:
        """Return the order of sentences of `lengths` tokens by rising `rank`; equal ranks keep their order."""
        order = np.argsort(rank, kind="stable")
        offsets = offsets_of(lengths[order])
        starts = np.empty(len(lengths), np.int64)
        starts[order] = offsets[:-1]
        return cls(starts, offsets)


class Types:
    """Counts the distinct words of all shards, then numbers them by falling frequency."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {word.encode(): i for i, word in enumerate(SPECIALS)}
        self._counts = np.zeros(1 << 16, np.int64)

    def add(self, words: list[bytes], counts: NDArray[np.int64]) -> None:
        """Add words that occur `counts` times in training text (0: only in held-out text, which needs ids too)."""
        ids = self.ids(words)
        if len(self._numbers) > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros(len(self._numbers), np.int64)])
        self._counts[ids] += counts

    def number(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return all words by id and their counts: special ones first, then by falling count, then by spelling."""
        words = [word for word in self._numbers if word.decode() not in SPECIALS]
        words.sort()
        counts = self._counts[self.ids(words)]
        order = np.argsort(-counts, kind="stable")
        ordered = [word.encode() for word in SPECIALS] + [words[i] for i in order]
        all_counts = np.concatenate([self._counts[: len(SPECIALS)], counts[order]])
        self._numbers = {word: i for i, word in enumerate(ordered)}
        return ordered, all_counts

    def ids(self, words: list[bytes]) -> NDArray[np.int64]:
        """Return the ids of words; unseen words get the next numbers."""
        numbers = self._numbers
        return np.fromiter((numbers.setdefault(word, len(numbers)) for word in words), np.int64, len(words))


def merge(shards: Sequence[Path], folder: Path, settings: CorpusSettings, meter: Meter) -> dict[str, Any]:
    """Write all files of the store but the header into `folder`; return the counts for the header."""
    outlines = [load_arrays(path, "keys", "places", "paragraph_lengths", "sentence_lengths") for path in shards]
    sizes = [len(keys) for keys, *_ in outlines]
    if not sum(sizes):
        raise InputError("The corpus holds no words: all its files are empty or blank. Name files with text.")
    keys, places, paragraph_lengths, lengths = (np.concatenate(arrays) for arrays in zip(*outlines, strict=True))
    seed, fraction, by_document = settings.seed, settings.heldout_fraction, settings.heldout_unit == "document"
    begins, stretch = document_begins(places, fraction) if by_document else (np.ones(len(keys), np.bool_), 1)
    sides = _choose(keys, begins, fraction, seed)
    per_shard = np.split(sides, np.cumsum(sizes)[:-1])
    sentence_sides = np.repeat(sides, paragraph_lengths)
    train, heldout = sentence_sides == _TRAIN, sentence_sides == _HELDOUT
    orders = {
        "train": Order.by(mix(np.arange(train.sum(), dtype=np.uint64), seed ^ _SHUFFLE), lengths[train]),
        # By hash of paragraph, so that the first part of the file is a fair sample whatever the order of sources.
        "heldout": Order.by(np.repeat(mix(keys, seed), paragraph_lengths)[heldout], lengths[heldout]),
    }
    held = np.logical_or.reduceat(sides == _HELDOUT, np.flatnonzero(begins))  # (documents,)
    documents = {"documents": len(held), "heldout_documents": int(held.sum()), "stretch_paragraphs": stretch}
    del outlines, keys, places, begins, paragraph_lengths, lengths, sentence_sides, train, heldout  # they are large

    types = Types()
    for path, side in zip(shards, per_shard, strict=True):
        shard = Shard.load(path)
        mask = np.repeat(np.repeat(side, shard.paragraph_lengths) == _TRAIN, shard.sentence_lengths)
        types.add(shard.words, np.bincount(shard.tokens[mask], minlength=len(shard.words)))
        meter.advance(1)
    words, counts = types.number()

    need = sum(4 * int(order.offsets[-1]) + 8 * len(order.offsets) for order in orders.values())
    need += sum(map(len, words)) + 20 * len(words)
    require_space(folder, need, "the store", "make room and run again: it continues with the shards that are done")
    frequent = int((counts[len(SPECIALS) :] >= settings.min_count).sum())
    known = min(settings.vocabulary, frequent) + len(SPECIALS)
    _write_types(folder, words, counts, known)
    missed = _write_tokens(folder, shards, per_shard, types, orders, known, meter)
    tokens = {name: int(order.offsets[-1]) for name, order in orders.items()}
    return {
        "paragraphs": len(sides),
        "duplicates": int((sides == _DROPPED).sum()),
        **(documents if by_document else {}),
        **{f"{name}_paragraphs": int((sides == side).sum()) for name, side in _SIDES.items()},
        **{f"{name}_sentences": len(order.starts) for name, order in orders.items()},
        **{f"{name}_tokens": tokens[name] for name in orders},
        "types": len(words),
        "vocabulary_size": known,
        **{f"{name}_unknown": missed[name] / tokens[name] if tokens[name] else 0.0 for name in orders},
    }


def mix(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return `numbers` hashed to 64 bits with `seed` (splitmix64, one to one).

    It does not use numpy's generator, whose streams may change between versions; a store must not change.
    """
    x = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def document_begins(places: NDArray[np.uint8], fraction: float) -> tuple[NDArray[np.bool_], int]:
    """Find the paragraphs that begin a document.

    Args:
        places: of each paragraph, as in `sources.TextLine`.
        fraction: to be held out. The length of a stretch is chosen so that about ten are held out.

    Returns:
        Whether each paragraph begins a document, and the number of paragraphs in a stretch of text without marks.
    """
    stretch = max(1, min(LONGEST_STRETCH, int(len(places) * fraction / 10)))
    files = np.cumsum(places == NEW_FILE)
    files -= files[0]
    sizes = np.bincount(files)
    in_file = np.arange(len(places)) - (np.cumsum(sizes) - sizes)[files]
    begins = (places > CONTINUES) | (in_file == 0)
    if begins.sum() < FEWEST_DOCUMENTS:
        return in_file % stretch == 0, stretch
    marked = np.bincount(files[places == NEW_DOCUMENT], minlength=len(sizes)) > 0
    begins |= (~marked & (sizes > LONGEST_STRETCH))[files] & (in_file % stretch == 0)
    return begins, stretch


def _choose(keys: NDArray[np.uint64], begins: NDArray[np.bool_], fraction: float, seed: int) -> NDArray[np.uint8]:
    """Return the side of each paragraph: repeated ones are dropped, the others go with their document.

    A document is held out if the hash of its paragraphs is low enough, independent of the rest of the corpus. If none
    is, the document with the lowest hash is held out.
    """
    sides = np.zeros(len(keys), np.uint8)
    _, first = np.unique(keys, return_index=True)
    document = (np.cumsum(begins) - 1)[first]
    ranks = mix(np.add.reduceat(keys, np.flatnonzero(begins)), seed)[document]
    held = (ranks >> np.uint64(11)).astype(np.float64) / (1 << 53) < fraction
    if fraction > 0 and not held.any():
        held = ranks == ranks.min()
    sides[first] = np.where(held, _HELDOUT, _TRAIN)
    if held.all():
        raise InputError(
            f"No paragraph is left to train on, of {len(first):,} different paragraphs in "
            f"{len(np.unique(document)):,} documents and heldout_fraction={fraction}; give more text, a smaller "
            "fraction, or 0 to hold out nothing."
        )
    return sides


def _write_types(folder: Path, words: list[bytes], counts: NDArray[np.int64], known: int) -> None:
    (folder / "types.bytes.bin").write_bytes(b"".join(words))
    offsets_of([len(word) for word in words]).tofile(folder / "types.offsets.bin")
    counts.astype("<i8").tofile(folder / "types.counts.bin")
    (folder / "vocab.txt").write_bytes(b"".join(word + b"\n" for word in words[:known]))


def _write_tokens(
    folder: Path,
    shards: Sequence[Path],
    sides: Sequence[NDArray[np.uint8]],
    types: Types,
    orders: dict[str, Order],
    known: int,
    meter: Meter,
) -> dict[str, int]:
    """Write tokens and offsets of both sides; return how many tokens of each are outside the vocabulary."""
    files = {}
    for name, order in orders.items():
        order.offsets.tofile(folder / f"{name}.offsets.bin")
        files[name] = _allocate(folder / f"{name}.tokens.bin", int(order.offsets[-1]))
    done = dict.fromkeys(orders, 0)
    missed = dict.fromkeys(orders, 0)
    for path, side in zip(shards, sides, strict=True):
        shard = Shard.load(path)
        tokens = types.ids(shard.words).astype(np.uint32)[shard.tokens]
        sentence_sides = np.repeat(side, shard.paragraph_lengths)
        token_sides = np.repeat(sentence_sides, shard.sentence_lengths)
        for name, order in orders.items():
            lengths = shard.sentence_lengths[sentence_sides == _SIDES[name]].astype(np.int64)
            mine = tokens[token_sides == _SIDES[name]]
            starts = order.starts[done[name] : done[name] + len(lengths)]
            here = np.cumsum(lengths) - lengths
            files[name][np.repeat(starts - here, lengths) + np.arange(len(mine))] = mine
            done[name] += len(lengths)
            missed[name] += int(((mine >= known) | (mine == UNKNOWN)).sum())
        meter.advance(1)
    for file in files.values():
        if isinstance(file, np.memmap):
            file.flush()
    return missed


def _allocate(path: Path, tokens: int) -> NDArray[np.uint32]:
    """Return a mapped file for `tokens` tokens, filled with zeros: writing to a sparse file on a full disk kills."""
    dtype = np.dtype(DTYPES[path.name])
    left = tokens * dtype.itemsize
    with path.open("wb") as file:
        while left:
            left -= file.write(_ZEROS[:left])
    return np.memmap(path, dtype, mode="r+", shape=(tokens,)) if tokens else np.empty(0, dtype)
