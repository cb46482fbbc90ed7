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
from elmo.pretrain.corpus.drawing import cases, copies, recased, splitmix, uniform
from elmo.pretrain.corpus.overlap import WINDOW
from elmo.pretrain.corpus.shards import Shard, load_arrays
from elmo.pretrain.corpus.sources import CONTINUES, NEW_DOCUMENT, NEW_FILE
from elmo.pretrain.corpus.token_store import DTYPES, SPECIALS, UNKNOWN, CorpusSettings, offsets_of

LONGEST_STRETCH: Final = 500  # paragraphs: several articles, so that the ends of a stretch cut few of them
FEWEST_DOCUMENTS: Final = 20  # with fewer, a fraction of them cannot be held out

_DROPPED, _TRAIN, _HELDOUT, _EXCLUDED = range(4)
_SIDES: Final = {"train": _TRAIN, "heldout": _HELDOUT}
_ZEROS: Final = bytes(8 << 20)
_SHUFFLE: Final = 1 << 63  # keeps the order of sentences independent of the choice of held-out paragraphs


@dataclass(frozen=True)
class SentenceOrder:
    """The training or the held-out sentences in reading order, and where they are written.

    Attributes:
        sentences: their numbers in the whole text, rising; a repeated sentence occurs several times.
        cases: AS_IS, UPPER or TITLE, for each.
        starts: position of each in the written file.
        offsets: of the written file.
    """

    sentences: NDArray[np.int64]
    cases: NDArray[np.uint8]
    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def by(
        cls,
        rank: NDArray[np.uint64],
        lengths: NDArray[np.uint32],
        sentences: NDArray[np.int64],
        cases: NDArray[np.uint8],
    ) -> SentenceOrder:
        """Return the order whose sentences are written by rising `rank`; equal ranks keep their order.

        Args:
            rank: of each of `sentences`.
            lengths: in tokens, of all sentences of the text.
            sentences: as in the attributes.
            cases: as in the attributes.
        """
        order = np.argsort(rank, kind="stable")
        offsets = offsets_of(lengths[sentences[order]])
        starts = np.empty(len(sentences), np.int64)
        starts[order] = offsets[:-1]
        return cls(sentences, cases, starts, offsets)

    def read(self, shard: Shard, first: int) -> tuple[list[bytes], NDArray[np.uint32], NDArray[np.int64]]:
        """Return this part's sentences in a shard.

        Args:
            shard: to read.
            first: number of its first sentence in the whole text.

        Returns:
            The spelling of the numbers, the tokens as numbers, and the position of each token in the written file.
        """
        mine = slice(*np.searchsorted(self.sentences, [first, first + len(shard.sentence_lengths)]))
        chosen = self.sentences[mine] - first
        lengths = shard.sentence_lengths[chosen].astype(np.int64)
        here = np.cumsum(lengths) - lengths
        within = np.arange(lengths.sum()) - np.repeat(here, lengths)  # position in its sentence, of each token
        tokens = shard.tokens[np.repeat(offsets_of(shard.sentence_lengths)[chosen], lengths) + within]
        places = np.repeat(self.starts[mine], lengths) + within
        cases = self.cases[mine]
        if not cases.any():  # all AS_IS
            return shard.words, tokens, places
        return *recased(shard.words, tokens, np.repeat(cases, lengths)), places


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
        np.add.at(self._counts, ids, counts)  # a recased word may equal another

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


def merge(
    shards: Sequence[Path], folder: Path, settings: CorpusSettings, weights: Sequence[float], meter: Meter
) -> dict[str, Any]:
    """Write all files of the store except the header into `folder`; return the counts for the header.

    Args:
        shards: files of the first pass, in reading order.
        folder: of the store.
        settings: of the store.
        weights: of its sources.
        meter: advanced by 2 for each shard.
    """
    names = ("sentence_lengths", "paragraph_lengths", "keys", "places", "sources", "excluded", "place_after")
    outlines = [load_arrays(path, *names) for path in shards]
    if not any(len(keys) for _, _, keys, *_ in outlines):
        raise InputError("The corpus holds no words: all its files are empty or blank. Name files with text.")
    firsts = offsets_of([len(sentence_lengths) for sentence_lengths, *_ in outlines])[:-1].tolist()
    lengths, paragraph_lengths, keys, places, sources, excluded, places_after = (
        np.concatenate(arrays) for arrays in zip(*outlines, strict=True)
    )
    # Lines without a word at the end of a shard may begin the document of the first paragraph after it.
    following = offsets_of([len(places) for _, _, _, places, *_ in outlines])[1:]
    inside = following < len(places)
    np.maximum.at(places, following[inside], places_after[inside])
    seed, fraction, by_document = settings.seed, settings.heldout_fraction, settings.heldout_unit == "document"
    begins, stretch = document_begins(places, fraction) if by_document else (np.ones(len(keys), np.bool_), 1)
    sides = _choose(keys, begins, fraction, settings.seed_of_heldout)
    sides[excluded & (sides != _DROPPED)] = _EXCLUDED  # after the choice, which does not depend on them
    if not (sides == _TRAIN).any():
        raise InputError(
            f"exclude={','.join(map(str, settings.exclude))}: expected text to train on, found none: of "
            f"{len(sides):,} paragraphs, {(sides == _EXCLUDED).sum():,} share {WINDOW} letters and digits in a row "
            "with these files. Exclude other files, or give more text"
        )
    sentence_sides = np.repeat(sides, paragraph_lengths)
    occurs = copies(np.repeat(np.array(weights)[sources], paragraph_lengths), seed)
    train = np.repeat(np.arange(len(lengths)), np.where(sentence_sides == _TRAIN, occurs, 0))
    if not len(train):
        raise InputError(
            f"corpus: expected a sentence to train on, found none of {(sentence_sides == _TRAIN).sum():,}: the weights "
            "of their files are too low. Give higher weights after *, or more text"
        )
    heldout = np.flatnonzero(sentence_sides == _HELDOUT)
    order = splitmix(np.arange(len(train), dtype=np.uint64), seed ^ _SHUFFLE)
    # By hash of paragraph, so that the first part of the file is a fair sample for any order of sources.
    ranks = np.repeat(splitmix(keys, settings.seed_of_heldout), paragraph_lengths)[heldout]
    parts = {
        "train": SentenceOrder.by(order, lengths, train, cases(len(train), settings.recase, seed)),
        "heldout": SentenceOrder.by(ranks, lengths, heldout, np.zeros(len(heldout), np.uint8)),
    }
    held = np.logical_or.reduceat(sides == _HELDOUT, np.flatnonzero(begins))  # (documents,)
    documents = {"documents": len(held), "heldout_documents": int(held.sum()), "stretch_paragraphs": stretch}
    del outlines, keys, places, sources, excluded, begins, paragraph_lengths, lengths  # they are large
    del sentence_sides, occurs, train, heldout, order, ranks

    types = Types()
    for path, first in zip(shards, firsts, strict=True):
        spelled, tokens, _ = parts["train"].read(Shard.load(path), first)
        types.add(spelled, np.bincount(tokens, minlength=len(spelled)))
        meter.advance(1)
    words, counts = types.number()

    need = sum(4 * int(part.offsets[-1]) + 8 * len(part.offsets) for part in parts.values())
    need += sum(map(len, words)) + 20 * len(words)
    require_space(folder, need, "the store", "make room and run again: it continues with the shards that are done")
    frequent = int((counts[len(SPECIALS) :] >= settings.min_count).sum())
    known = min(settings.vocabulary, frequent) + len(SPECIALS)
    _write_types(folder, words, counts, known)
    missed = _write_tokens(folder, shards, firsts, types, parts, known, meter)
    written = {name: int(part.offsets[-1]) for name, part in parts.items()}
    return {
        "paragraphs": len(sides),
        "duplicates": int((sides == _DROPPED).sum()),
        **({"excluded_paragraphs": int((sides == _EXCLUDED).sum())} if settings.exclude else {}),
        **(documents if by_document else {}),
        **{f"{name}_paragraphs": int((sides == side).sum()) for name, side in _SIDES.items()},
        **{f"{name}_sentences": len(part.starts) for name, part in parts.items()},
        **({"recased_sentences": int(np.count_nonzero(parts["train"].cases))} if settings.recase else {}),
        **{f"{name}_tokens": count for name, count in written.items()},
        "types": len(words),
        "vocabulary_size": known,
        **{f"{name}_unknown": missed[name] / count if count else 0.0 for name, count in written.items()},
    }


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
    ranks = splitmix(np.add.reduceat(keys, np.flatnonzero(begins)), seed)[document]
    held = uniform(ranks) < fraction
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
    firsts: Sequence[int],
    types: Types,
    parts: dict[str, SentenceOrder],
    known: int,
    meter: Meter,
) -> dict[str, int]:
    """Write tokens and offsets of both sides; return how many tokens of each are outside the vocabulary."""
    files = {}
    for name, part in parts.items():
        part.offsets.tofile(folder / f"{name}.offsets.bin")
        files[name] = _allocate(folder / f"{name}.tokens.bin", int(part.offsets[-1]))
    missed = dict.fromkeys(parts, 0)
    for path, first in zip(shards, firsts, strict=True):
        shard = Shard.load(path)
        for name, part in parts.items():
            spelled, tokens, places = part.read(shard, first)
            ids = types.ids(spelled).astype(np.uint32)[tokens]
            files[name][places] = ids
            missed[name] += int(((ids >= known) | (ids == UNKNOWN)).sum())
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
