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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from elmo.common.errors import InputError
from elmo.common.files import explain_full_disk, plain_json, read_own_json, require_space, sha256_of, write_json
from elmo.common.processes import available_cores, locked
from elmo.common.progress import Meter, print_line
from elmo.pretrain.corpus.shards import Shard, load_arrays, make_shards
from elmo.pretrain.corpus.text import CONTINUES, NEW_DOCUMENT, NEW_FILE, WINDOW, SourceFile, find_sources
from elmo.pretrain.corpus.token_store import (
    DTYPES,
    FORMAT,
    SPECIALS,
    UNKNOWN,
    VERSION,
    CorpusSettings,
    TokenStore,
    offsets_of,
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
    made_of = {
        "format": FORMAT,
        "version": VERSION,
        "tokeniser": TOKENISER_VERSION,
        "settings": settings.identity(),
        "sources": [source.description() for source in sources],
        **({"exclude": [text.description() for text in exclude]} if exclude else {}),
    }
    if built := not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(folder.name + ".lock")
        waiting = f"{folder}: waiting for another process that builds this token store"
        with locked(lock, lambda: print_line(console, waiting)):
            if built := not folder.exists():  # another process may have built it since
                _build(settings, sources, exclude, made_of, folder, console)
            lock.unlink(missing_ok=True)  # the store exists now, so no process needs the lock any more
    if not built:
        require(folder, "settings or sources", _flat(read_header(folder)), _flat(made_of))
    store = TokenStore.open(folder)
    finished = "{}." if built else "the token store is complete ({}); nothing to do."
    print_line(console, f"{folder}: {finished.format(_summary(store))}")
    return store


def _build(
    settings: CorpusSettings,
    sources: Sequence[SourceFile],
    exclude: tuple[SourceFile, ...],
    made_of: Mapping[str, Any],
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
        header = {**made_of, "counts": counts, "files": {name: sha256_of(unfinished / name) for name in DTYPES}}
        write_json(unfinished / "header.json", sealed(plain_json(header)))
        unfinished.rename(folder)
        shutil.rmtree(work)


def _flat(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a store is made of; files by position and name, since files of several folders may share a name."""
    files = {
        f"{kind} {i}, {file['name']}": f"sha256 {file['sha256'][:16]}"
        + (f", weight {file['weight']:g}" if file.get("weight", 1) != 1 else "")
        for kind, key in (("source", "sources"), ("excluded text", "exclude"))
        for i, file in enumerate(header.get(key, []))
    }
    return {**header["settings"], "tokeniser": header["tokeniser"], **files}


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


LONGEST_STRETCH: Final = 500  # paragraphs: several articles, so that the ends of a stretch cut few of them
FEWEST_DOCUMENTS: Final = 20  # with fewer, a fraction of them cannot be held out

_DROPPED, _TRAIN, _HELDOUT, _EXCLUDED = range(4)
_SIDES: Final = {"train": _TRAIN, "heldout": _HELDOUT}
_ZEROS: Final = bytes(8 << 20)
_SHUFFLE: Final = 1 << 63  # keeps the order of sentences independent of the choice of held-out paragraphs


class SentenceOrder:
    """The training or the held-out sentences in reading order, and where they are written.

    Attributes:
        sentences: their numbers in the whole text, rising; a repeated sentence occurs several times.
        cases: AS_IS, UPPER or TITLE, for each.
        starts: position of each in the written file.
        offsets: of the written file.
    """

    def __init__(
        self,
        rank: NDArray[np.uint64],
        lengths: NDArray[np.uint32],
        sentences: NDArray[np.int64],
        cases: NDArray[np.uint8],
    ) -> None:
        """Orders sentences by rising `rank`; equal ranks keep their order.

        Args:
            rank: of each of `sentences`.
            lengths: in tokens, of all sentences of the text.
            sentences: as in the attributes.
            cases: as in the attributes.
        """
        order = np.argsort(rank, kind="stable")
        self.sentences, self.cases = sentences, cases
        self.offsets = offsets_of(lengths[sentences[order]])
        self.starts = np.empty(len(sentences), np.int64)
        self.starts[order] = self.offsets[:-1]

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
        "train": SentenceOrder(order, lengths, train, cases(len(train), settings.recase, seed)),
        "heldout": SentenceOrder(ranks, lengths, heldout, np.zeros(len(heldout), np.uint8)),
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


AS_IS, UPPER, TITLE = range(3)
_UPPER_SHARE: Final = 2 / 3  # of the recased sentences; headlines and datelines of news wire are upper-cased
_COPIES, _CASES = 1 << 62, 1 << 61  # keep these draws independent of each other and of held-out text and order


def splitmix(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return `numbers` hashed to 64 bits with `seed` (splitmix64, one to one).

    It does not use numpy's generator, whose streams may change between versions; a store must not change.
    """
    x = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def uniform(hashes: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return hashes as numbers from 0 to 1."""
    return (hashes >> np.uint64(11)).astype(np.float64) / (1 << 53)


def copies(weights: NDArray[np.float64], seed: int) -> NDArray[np.int64]:
    """Return how often each sentence occurs: its weight, rounded up or down at random so that the mean is right."""
    whole = np.floor(weights)
    more = uniform(splitmix(np.arange(len(weights), dtype=np.uint64), seed ^ _COPIES)) < weights - whole
    return whole.astype(np.int64) + more


def cases(sentences: int, share: float, seed: int) -> NDArray[np.uint8]:
    """Return AS_IS, UPPER or TITLE for each sentence; `share` of them are recased."""
    drawn = uniform(splitmix(np.arange(sentences, dtype=np.uint64), seed ^ _CASES))
    bounds = np.array([share * _UPPER_SHARE, share])
    return np.array([UPPER, TITLE, AS_IS], np.uint8)[np.searchsorted(bounds, drawn, side="right")]


def recased(
    words: list[bytes], tokens: NDArray[np.uint32], case: NDArray[np.uint8]
) -> tuple[list[bytes], NDArray[np.uint32]]:
    """Return tokens in their cases, and the words with the recased ones that occur after them (some may be equal).

    Args:
        words: spelling of each number.
        tokens: numbers of words, (tokens,).
        case: of each token, (tokens,).
    """
    spelled, changed = list(words), tokens.copy()
    for which, respell in ((UPPER, str.upper), (TITLE, _title)):
        chosen = case == which
        used, places = np.unique(tokens[chosen], return_inverse=True)
        changed[chosen] = len(spelled) + places
        spelled += [_kept(words[number], respell(words[number].decode()).encode()) for number in used]
    return spelled, changed


def _title(word: str) -> str:
    """Return a word with a capital first letter; 's, n't and numbers stay as they are, and so do later capitals."""
    return word if word == "n't" else word[0].upper() + word[1:]


def _kept(word: bytes, changed: bytes) -> bytes:
    """Return the changed word unless it reads as a special one: <unk> must not become <UNK>."""
    return word if changed.decode() in SPECIALS else changed
