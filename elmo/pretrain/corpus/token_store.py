"""Token store: settings, file format, and `TokenStore.open(folder)`, which maps its sentences and table of words.

The store keeps every distinct word, not only the vocabulary: the biLM reads characters, so a word outside the
vocabulary keeps its spelling as input and is unknown only as a target. Ids are ordered by falling frequency in the
training text, after three special ones. A word is in the vocabulary if its id is below `vocabulary_size`.

    header.json                              version, settings, sources with hashes, counts, hash of every file, its own
    train.tokens.bin     train.offsets.bin   sentence i is tokens[offsets[i]:offsets[i+1]], without <S>, </S>; shuffled
    heldout.tokens.bin   heldout.offsets.bin the same for held-out paragraphs, in the order of their hashes
    types.bytes.bin      types.offsets.bin   spelling of word i: UTF-8 bytes[offsets[i]:offsets[i+1]]
    types.counts.bin                         occurrences of word i in the training text
    vocab.txt                                the vocabulary, one word per line, in order of ids (as bilm-tf reads it)

`build_store` writes one in two passes. The first tokenises blocks of text into shards, in several processes; each shard
numbers its own words. The second drops repeated paragraphs, holds some out, numbers words by frequency and writes all
sentences in a seeded random order (`merge`) to `<folder>.partial`, which is renamed when the store is complete. In
memory a token takes eight bytes. A process that finds another one building waits for its store (`<folder>.lock`).
"""

import hashlib
import json
import multiprocessing
import shutil
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from elmo.common.checks import AtLeastOne, AtLeastZero, Dropout, at_least, check_ranges, one_of
from elmo.common.errors import InputError, reworded
from elmo.common.files import plain_json, read_own_json, require_same, sha256_of, write_json
from elmo.common.processes import ahead, available_cores, end_with_parent, locked
from elmo.common.progress import Meter, print_line
from elmo.pretrain.corpus import text
from elmo.tokeniser import TOKENISER_VERSION, Tokenise, Tokeniser, parts

FORMAT: Final = "elmo token store"
VERSION: Final = 1
SPECIALS: Final = ("</S>", "<S>", "<UNK>")
END, START, UNKNOWN = range(3)
_REMEDY: Final = "delete the folder and build the store again, with the same command of elmo.pretrain."

DTYPES: Final = {
    "train.tokens.bin": "<u4",
    "train.offsets.bin": "<i8",
    "heldout.tokens.bin": "<u4",
    "heldout.offsets.bin": "<i8",
    "types.bytes.bin": "u1",
    "types.offsets.bin": "<i8",
    "types.counts.bin": "<i8",
}

Ids = NDArray[np.uint32]
Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]


@dataclass(kw_only=True)
class TextSettings:
    """The settings that a pretraining and its token store share.

    Attributes:
        exclude: Text files. Paragraphs that share 45 letters and digits in a row with one of them are left out; case,
            white space and punctuation do not count, so tokenised text finds running text.
        tokenise: "ptb" for running text, "whitespace" for text that is already split into sentences and tokens.
        vocabulary: Number of words that are targets, the most frequent of the training text (special ids not counted).
        min_count: Words rarer than this in the training text are left out of the vocabulary even if it is not full.
        heldout_fraction: Share of the text set aside, by a seeded hash. 0 sets nothing aside.
        heldout_unit: "document": whole ones are set aside, so that no other part of them is trained on. A blank line or
            the end of a file ends a document. A file of more than 500 paragraphs without a blank line is cut into
            stretches, and so is all text that has fewer than 20 documents. A stretch has at most 500 paragraphs; its
            length is chosen so that about ten stretches are held out. "paragraph": single paragraphs, as in stores
            made before this setting existed.
        heldout_seed: Decides which are held out, in place of `seed`: stores of several seeds then hold out the same
            text, so that none is trained on what another is measured on.
        seed: Decides which paragraphs are held out, the order of training sentences, their copies and their recasing;
            in a pretraining all random draws.
        max_tokens: Longer sentences are cut into equal parts of at most this length; nothing is dropped. 200 affects
            one sentence in 25,000 of English prose, mostly lists, and bounds the memory of a batch.
        workers: Processes that tokenise; None for one per core that this process may use.
    """

    exclude: list[str] = field(default_factory=list)
    tokenise: Annotated[str, partial(one_of, get_args(Tokenise))] = "ptb"
    vocabulary: AtLeastOne = 100_000
    min_count: AtLeastOne = 1
    heldout_fraction: Dropout = text.HELDOUT_FRACTION
    heldout_unit: Annotated[str, partial(one_of, ("document", "paragraph"))] = "document"
    heldout_seed: AtLeastZero | None = None
    seed: AtLeastZero = 1
    max_tokens: Annotated[int, partial(at_least, 2)] = 200
    workers: AtLeastOne | None = None

    def __post_init__(self) -> None:
        check_ranges("", self)


@dataclass
class CorpusSettings(TextSettings):
    """Settings of a token store; equal sources and settings give equal bytes, for any `workers`.

    Attributes:
        sources: Files (.txt, .gz, .xz) and folders of them, one paragraph or sentence per line. `FILE*4` has a weight:
            each training sentence of the file occurs 4 times in a pass. With a weight of 2.5, it occurs twice, and a
            third time with probability 0.5, drawn by the seed; 0.5 keeps half of the sentences. Held-out text is never
            repeated. Counts of words, which decide the vocabulary, include the copies. A paragraph that several files
            share belongs to the first of them.
        block_bytes: Text that one process handles at a time: the size of a shard.
        recase: Share of the training sentences whose case is changed, drawn by the seed: two thirds of these are
            upper-cased, in one third every word begins with a capital. Held-out text keeps its case.
    """

    sources: Sequence[str | Path]
    block_bytes: Annotated[int, partial(at_least, 1024)] = text.BLOCK_BYTES
    recase: Dropout = 0.0

    @cached_property
    def texts(self) -> tuple[text.SourceFile, ...]:
        """The files of the text."""
        return text.find_sources(self.sources)

    @cached_property
    def excluded_texts(self) -> tuple[text.SourceFile, ...]:
        """The files that the text must not share paragraphs with."""
        return text.find_sources(self.exclude) if self.exclude else ()

    @property
    def seed_of_heldout(self) -> int:
        """The seed that decides which text is held out."""
        return self.seed if self.heldout_seed is None else self.heldout_seed

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide the content of a store, apart from its sources and excluded texts."""
        without = ["sources", "workers", "exclude"]
        # As in stores made before these settings existed:
        if self.heldout_unit == "paragraph":
            without.append("heldout_unit")
        if self.recase == 0:
            without.append("recase")
        if self.seed_of_heldout == self.seed:
            without.append("heldout_seed")
        return {key: value for key, value in asdict(self).items() if key not in without}


def offsets_of(lengths: Sequence[int] | NDArray[np.integer[Any]]) -> Numbers:
    """Return where each of some consecutive parts begins, and where the last one ends, (parts + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype("<i8")


@dataclass(frozen=True)
class Sentences:
    """Sentences as word ids: all of them in `tokens`, sentence i from `offsets[i]` to `offsets[i + 1]`."""

    tokens: Ids
    offsets: Numbers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        if not 0 <= index < len(self):  # also ends a for loop
            raise IndexError(f"sentence {index} of {len(self)}")
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]


@dataclass(frozen=True)
class TokenStore:
    """A finished corpus: shuffled training sentences, held-out sentences, and the table of words (types)."""

    folder: Path
    header: Mapping[str, Any]
    train: Sentences
    heldout: Sentences
    type_bytes: NDArray[np.uint8]
    type_offsets: Numbers
    type_counts: Numbers

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Return the store that `build_store` wrote, with memory-mapped arrays, after comparing its files' hashes.

        Hashing takes a second for some hundred million tokens.
        """
        header = read_header(folder)
        arrays = {name: _map(folder / name, header["files"][name], dtype) for name, dtype in DTYPES.items()}
        train, heldout = (Sentences(arrays[f"{s}.tokens.bin"], arrays[f"{s}.offsets.bin"]) for s in _SIDES)
        types = (arrays[f"types.{part}.bin"] for part in ("bytes", "offsets", "counts"))
        return cls(folder, header, train, heldout, *types)

    @property
    def vocabulary_size(self) -> int:
        """Number of ids that are targets: the special ones and the words of the vocabulary."""
        return int(self.header["counts"]["vocabulary_size"])

    @property
    def fingerprint(self) -> str:
        """Hash of sources and settings; equal for stores of equal content, in any folder."""
        keys = ("format", "version", "tokeniser", "settings", "sources", "exclude")
        made_of = {key: self.header[key] for key in keys if key in self.header}
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()

    def words(self) -> list[str]:
        """Return the spelling of every word, by id; the first `vocabulary_size` are targets."""
        spelled = self.type_bytes.tobytes()
        return [spelled[start:end].decode() for start, end in pairwise(self.type_offsets.tolist())]


def read_header(folder: Path) -> dict[str, Any]:
    """Return the header of the store in `folder`, after checking its format, its version and that it is complete."""
    path = folder / "header.json"
    if not path.is_file():
        raise InputError(f"{folder}: no header.json here, so this is not a token store; name another folder.")
    header = read_own_json(path)
    if (header.get("format"), header.get("version")) != (FORMAT, VERSION):
        raise InputError(f"{path}: expected a token store of version {VERSION}, found another file; {_REMEDY}")
    if header.get("seal") != sealed(header)["seal"]:
        raise InputError(f"{path}: has changed since it was written; {_REMEDY}")
    return header


def sealed(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header with its own hash."""
    content = {key: value for key, value in header.items() if key != "seal"}
    return {**content, "seal": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


def _map(path: Path, sha256: str, dtype: str) -> NDArray[Any]:
    """Return the values of a file that has this hash."""
    if not path.is_file() or sha256_of(path) != sha256:
        state = "has changed since it was written" if path.is_file() else "is missing"
        raise InputError(f"{path}: {state}, so the store is damaged; {_REMEDY}")
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


_tokeniser = cache(Tokeniser)
_excluded = cache(text.Excluded)


def build_store(settings: CorpusSettings, folder: str | Path, console: Console | None = None) -> TokenStore:
    """Return the token store in `folder`, and build it first if it is missing.

    Args:
        settings: Of the store. A store made with other settings or sources is an error, never overwritten.
        folder: Of the store; it exists only when the store is complete.
        console: For progress: a bar on a terminal, else a line per tenth. None is standard error.
    """
    folder, console = Path(folder), console or Console(stderr=True)
    made_of = {
        "format": FORMAT,
        "version": VERSION,
        "tokeniser": TOKENISER_VERSION,
        "settings": settings.identity(),
        "sources": [source.description() for source in settings.texts],
        **({"exclude": [source.description() for source in settings.excluded_texts]} if settings.exclude else {}),
    }
    if built := not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(folder.name + ".lock")
        waiting = f"{folder}: waiting for another process that builds this token store"
        with locked(lock, lambda: print_line(console, waiting)):
            if built := not folder.exists():  # another process may have built it since
                _build(settings, made_of, folder, console)
            lock.unlink(missing_ok=True)  # the store exists now, so no process needs the lock any more
    if not built:
        require_same(folder, "settings or sources", _flat(read_header(folder)), _flat(made_of))
    store = TokenStore.open(folder)
    finished = "{}." if built else "the token store is complete ({}); nothing to do."
    print_line(console, f"{folder}: {finished.format(_summary(store))}")
    return store


def _build(settings: CorpusSettings, made_of: Mapping[str, Any], folder: Path, console: Console) -> None:
    """Build a store that does not exist, where no other process builds it."""
    work = folder.with_name(folder.name + ".partial")
    shutil.rmtree(work, ignore_errors=True)  # of a build that was killed
    try:
        work.mkdir()
        with Meter(console, "tokenising", sum(source.size for source in settings.texts)) as meter:
            shards = make_shards(settings, meter)
        with Meter(console, "merging", 2 * len(shards)) as meter:
            counts = merge(settings, shards, work, meter)
        header = {**made_of, "counts": counts, "files": {name: sha256_of(work / name) for name in DTYPES}}
        write_json(work / "header.json", sealed(plain_json(header)))
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _flat(header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a store is made of; files by position and name, since files of several folders may share a name."""
    files = {
        f"{kind} {i}, {file['name']}": f"sha256 {file['sha256'][:16]}, weight {file.get('weight', 1):g}"
        for kind, key in (("source", "sources"), ("excluded text", "exclude"))
        for i, file in enumerate(header.get(key, []))
    }
    return {**header["settings"], "tokeniser": header["tokeniser"], **files}


def _summary(store: TokenStore) -> str:
    counts = store.header["counts"]
    repeated = f", {counts['duplicates']:,} repeated paragraphs left out" if counts["duplicates"] else ""
    return (
        f"{counts['train_tokens']:,} tokens in {counts['train_sentences']:,} sentences to train on, "
        f"{counts['heldout_tokens']:,} held out, {counts['types']:,} different words, "
        f"vocabulary {store.vocabulary_size:,}, "
        f"unknown {counts['train_unknown']:.2%} and {counts['heldout_unknown']:.2%}{repeated}"
    )


@dataclass(frozen=True)
class Shard:
    """The tokens of one block, by sentence and paragraph, as numbers of `words`."""

    tokens: Ids
    sentence_lengths: Ids  # tokens of each sentence
    paragraph_lengths: Ids  # sentences of each paragraph
    keys: Hashes  # hash of each paragraph's bytes: equal for equal paragraphs
    places: NDArray[np.uint8]  # of each paragraph: CONTINUES, NEW_DOCUMENT or NEW_FILE
    sources: Ids  # of each paragraph: the number of its file
    excluded: NDArray[np.bool_]  # whether each paragraph occurs in an excluded text
    words: NDArray[np.uint8]  # joined by line ends; no word holds white space

    @property
    def spelled(self) -> list[bytes]:
        """The spelling of each number."""
        return self.words.tobytes().split(b"\n") if len(self.words) else []


def make_shards(settings: CorpusSettings, meter: Meter) -> list[Shard]:
    """Return the shards of all text in reading order; a bounded number of blocks is in memory."""
    make = partial(make_shard, settings=settings)
    shards: list[Shard] = []
    blocks = 1 + 4 * sum(source.size for source in settings.texts) // settings.block_bytes  # or fewer: packed files
    workers = min(settings.workers or available_cores(), blocks)
    context = multiprocessing.get_context("spawn")  # not forked: the caller may have threads or a GPU
    killed = (
        "A worker process was killed (out of memory?). Run the command again, with fewer workers if memory was short."
    )
    # One worker is a thread: no process need be started, and errors are easy to debug.
    pool = ThreadPoolExecutor(1) if workers == 1 else ProcessPoolExecutor(workers, context, end_with_parent)
    with reworded(BrokenProcessPool, lambda _: killed), pool:
        for cost, shard in ahead(pool, make, text.read_blocks(settings.texts, settings.block_bytes), 2 * workers):
            shards.append(shard)
            meter.advance(cost, len(shard.tokens))
    return shards


def make_shard(block: text.Block, settings: CorpusSettings) -> tuple[int, Shard]:
    """Tokenise a block; return its cost and its shard."""
    paragraph = _tokeniser(cast(Tokenise, settings.tokenise)).paragraph
    excludes = _excluded(settings.excluded_texts)
    flat: list[str] = []
    sentence_lengths: list[int] = []
    paragraphs: list[tuple[int, int, int, int, bool]] = []
    place = text.CONTINUES
    for line in block.lines:
        place = max(place, line.place)  # a line without a word may begin the document
        before = len(sentence_lengths)
        for sentence in paragraph(line.text):
            for part in parts(sentence, settings.max_tokens):
                flat += part
                sentence_lengths.append(len(part))
        if (sentences := len(sentence_lengths) - before) > 0:
            is_excluded = bool(settings.exclude) and line.text in excludes
            paragraphs.append((sentences, line.key, place, line.source, is_excluded))
            place = text.CONTINUES
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__  # a new word gets the next number
    tokens = np.fromiter(map(numbers.__getitem__, flat), np.uint32, len(flat))
    sentences_of, keys, places, sources, excluded = zip(*paragraphs, strict=True) if paragraphs else ((),) * 5
    shard = Shard(
        tokens,
        np.array(sentence_lengths, np.uint32),
        np.array(sentences_of, np.uint32),
        np.array(keys, np.uint64),
        np.array(places, np.uint8),
        np.array(sources, np.uint32),
        np.array(excluded, np.bool_),
        np.frombuffer("\n".join(numbers).encode(), np.uint8),
    )
    return block.cost, shard


LONGEST_STRETCH: Final = 500  # paragraphs: several articles, so that the ends of a stretch cut few of them
FEWEST_DOCUMENTS: Final = 20  # with fewer, a fraction of them cannot be held out

_DROPPED, _TRAIN, _HELDOUT, _EXCLUDED = range(4)
_SIDES: Final = {"train": _TRAIN, "heldout": _HELDOUT}
_SHUFFLE: Final = 1 << 63  # keeps the order of sentences independent of the choice of held-out paragraphs


class SentenceOrder:
    """The training or the held-out sentences in reading order, and where they are written.

    Attributes:
        sentences: their numbers in the whole text, rising; a repeated sentence occurs several times.
        cases: AS_IS, UPPER or TITLE, for each.
        starts: position of each in the written file.
        offsets: of the written file.
    """

    def __init__(self, rank: Hashes, lengths: Ids, sentences: Numbers, cases: NDArray[np.uint8]) -> None:
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

    def read(self, shard: Shard, first: int) -> tuple[list[bytes], Ids, Numbers]:
        """Return this part's sentences in a shard, whose first sentence has the number `first` in the whole text.

        They are the spelling of the numbers, the tokens as numbers, and the position of each token in the written file.
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
            return shard.spelled, tokens, places
        return *recased(shard.spelled, tokens, np.repeat(cases, lengths)), places


def merge(settings: CorpusSettings, shards: Sequence[Shard], folder: Path, meter: Meter) -> dict[str, Any]:
    """Write all files of the store except the header into `folder`; return the counts for the header.

    Args:
        settings: of the store.
        shards: of the first pass, in reading order.
        folder: of the store.
        meter: advanced by 2 for each shard.
    """
    names = ("sentence_lengths", "paragraph_lengths", "keys", "places", "sources", "excluded")
    firsts = offsets_of([len(shard.sentence_lengths) for shard in shards])[:-1].tolist()
    if not any(len(shard.tokens) for shard in shards):
        raise InputError("The corpus holds no words: all its files are empty or blank. Name files with text.")
    joined = (np.concatenate([getattr(shard, name) for shard in shards]) for name in names)
    lengths, paragraph_lengths, keys, places, sources, excluded = joined
    seed, fraction, by_document = settings.seed, settings.heldout_fraction, settings.heldout_unit == "document"
    begins, stretch = document_begins(places, fraction) if by_document else (np.ones(len(keys), np.bool_), 1)
    sides = _choose(keys, begins, fraction, settings.seed_of_heldout)
    sides[excluded & (sides != _DROPPED)] = _EXCLUDED  # after the choice, which does not depend on them
    if not (sides == _TRAIN).any():
        raise InputError(
            f"exclude={','.join(map(str, settings.exclude))}: expected text to train on, found none: of "
            f"{len(sides):,} paragraphs, {(sides == _EXCLUDED).sum():,} share {text.WINDOW} letters and digits in a "
            "row with these files. Exclude other files, or give more text"
        )
    sentence_sides = np.repeat(sides, paragraph_lengths)
    weights = np.array([source.weight for source in settings.texts])
    occurs = copies(np.repeat(weights[sources], paragraph_lengths), seed)
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
    del keys, places, sources, excluded, paragraph_lengths, lengths, occurs  # they are large
    occurrences: Counter[bytes] = Counter()
    for shard, first in zip(shards, firsts, strict=True):
        spelled, tokens, _ = parts["train"].read(shard, first)
        for word, count in zip(spelled, np.bincount(tokens, minlength=len(spelled)).tolist(), strict=True):
            occurrences[word] += count  # also 0, since words that are only in held-out text need numbers, too
        meter.advance(1)
    specials = [word.encode() for word in SPECIALS]
    others = sorted(occurrences.keys() - set(specials))
    others.sort(key=occurrences.__getitem__, reverse=True)  # words that are equally frequent stay sorted
    words = specials + others
    counts = np.array([occurrences[word] for word in words], "<i8")
    numbers = {word: number for number, word in enumerate(words)}

    frequent = int((counts[len(SPECIALS) :] >= settings.min_count).sum())
    known = min(settings.vocabulary, frequent) + len(SPECIALS)
    (folder / "types.bytes.bin").write_bytes(b"".join(words))
    offsets_of([len(word) for word in words]).tofile(folder / "types.offsets.bin")
    counts.tofile(folder / "types.counts.bin")
    (folder / "vocab.txt").write_bytes(b"".join(word + b"\n" for word in words[:known]))
    written = {name: np.empty(int(part.offsets[-1]), "<u4") for name, part in parts.items()}
    for shard, first in zip(shards, firsts, strict=True):
        for name, part in parts.items():
            spelled, tokens, places = part.read(shard, first)
            written[name][places] = np.array([numbers[word] for word in spelled], "<u4")[tokens]
        meter.advance(1)
    unknown = {}
    for name, part in parts.items():
        part.offsets.tofile(folder / f"{name}.offsets.bin")
        written[name].tofile(folder / f"{name}.tokens.bin")
        missed = (written[name] >= known) | (written[name] == UNKNOWN)
        unknown[name] = float(missed.mean()) if len(missed) else 0.0
    return {
        "paragraphs": len(sides),
        "duplicates": int((sides == _DROPPED).sum()),
        **({"excluded_paragraphs": int((sides == _EXCLUDED).sum())} if settings.exclude else {}),
        **(documents if by_document else {}),
        **{f"{name}_paragraphs": int((sides == side).sum()) for name, side in _SIDES.items()},
        **{f"{name}_sentences": len(part.starts) for name, part in parts.items()},
        **({"recased_sentences": int(np.count_nonzero(parts["train"].cases))} if settings.recase else {}),
        **{f"{name}_tokens": len(tokens) for name, tokens in written.items()},
        "types": len(words),
        "vocabulary_size": known,
        **{f"{name}_unknown": share for name, share in unknown.items()},
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
    files = np.cumsum(places == text.NEW_FILE)
    files -= files[0]
    sizes = np.bincount(files)
    in_file = np.arange(len(places)) - (np.cumsum(sizes) - sizes)[files]
    begins = (places > text.CONTINUES) | (in_file == 0)
    if begins.sum() < FEWEST_DOCUMENTS:
        return in_file % stretch == 0, stretch
    marked = np.bincount(files[places == text.NEW_DOCUMENT], minlength=len(sizes)) > 0
    begins |= (~marked & (sizes > LONGEST_STRETCH))[files] & (in_file % stretch == 0)
    return begins, stretch


def _choose(keys: Hashes, begins: NDArray[np.bool_], fraction: float, seed: int) -> NDArray[np.uint8]:
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


AS_IS, UPPER, TITLE = range(3)
_UPPER_SHARE: Final = 2 / 3  # of the recased sentences; headlines and datelines of news wire are upper-cased
_COPIES, _CASES = 1 << 62, 1 << 61  # keep these draws independent of each other and of held-out text and order


def splitmix(numbers: Hashes, seed: int) -> Hashes:
    """Return `numbers` hashed to 64 bits with `seed` (splitmix64, one to one).

    It does not use numpy's generator, whose streams may change between versions; a store must not change.
    """
    x = numbers + np.uint64((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def uniform(hashes: Hashes) -> NDArray[np.float64]:
    """Return hashes as numbers from 0 to 1."""
    return (hashes >> np.uint64(11)).astype(np.float64) / (1 << 53)


def copies(weights: NDArray[np.float64], seed: int) -> Numbers:
    """Return how often each sentence occurs: its weight, rounded up or down at random so that the mean is right."""
    whole = np.floor(weights)
    more = uniform(splitmix(np.arange(len(weights), dtype=np.uint64), seed ^ _COPIES)) < weights - whole
    return whole.astype(np.int64) + more


def cases(sentences: int, share: float, seed: int) -> NDArray[np.uint8]:
    """Return AS_IS, UPPER or TITLE for each sentence; `share` of them are recased."""
    drawn = uniform(splitmix(np.arange(sentences, dtype=np.uint64), seed ^ _CASES))
    bounds = np.array([share * _UPPER_SHARE, share])
    return np.array([UPPER, TITLE, AS_IS], np.uint8)[np.searchsorted(bounds, drawn, side="right")]


def recased(words: list[bytes], tokens: Ids, case: NDArray[np.uint8]) -> tuple[list[bytes], Ids]:
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
