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
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self, get_args

import numpy as np
from numpy.typing import NDArray

from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import read_own_json, sha256_of
from elmo.pretrain.corpus.text import BLOCK_BYTES
from elmo.tokeniser import Tokenise

FORMAT: Final = "elmo token store"
VERSION: Final = 1
SPECIALS: Final = ("</S>", "<S>", "<UNK>")
END, START, UNKNOWN = range(3)
HELDOUT_UNITS: Final = ("document", "paragraph")
MOST_LISTED: Final = 20  # differences in a message
_SIDES: Final = ("train", "heldout")
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


@dataclass(frozen=True)
class CorpusSettings:
    """Settings of a token store; equal sources and settings give equal bytes, for any `workers`.

    Attributes:
        sources: Files (.txt, .gz, .xz) and folders of them, one paragraph or sentence per line. `FILE*4` has a weight:
            each training sentence of the file occurs 4 times in a pass. With a weight of 2.5, it occurs twice, and a
            third time with probability 0.5, drawn by the seed; 0.5 keeps half of the sentences. Held-out text is never
            repeated. Counts of words, which decide the vocabulary, include the copies. A paragraph that several files
            share belongs to the first of them.
        tokenise: "ptb" for running text, "whitespace" for text that is already split into sentences and tokens.
        vocabulary: Number of words that are targets, the most frequent of the training text (special ids not counted).
        min_count: Words rarer than this in the training text are left out of the vocabulary even if it is not full.
        heldout_fraction: Share of the text set aside, by a seeded hash. 0 sets nothing aside.
        heldout_unit: "document": whole ones are set aside, so that no other part of them is trained on. A blank line or
            the end of a file ends a document. A file of more than 500 paragraphs without a blank line is cut into
            stretches, and so is all text that has fewer than 20 documents. A stretch has at most 500 paragraphs; its
            length is chosen so that about ten stretches are held out. "paragraph": single paragraphs, as in stores
            made before this setting existed.
        seed: Decides which paragraphs are held out, the order of training sentences, their copies and their recasing.
        heldout_seed: Decides which are held out, in place of `seed`: stores of several seeds then hold out the same
            text, so that none is trained on what another is measured on.
        max_tokens: Longer sentences are cut into equal parts of at most this length; nothing is dropped. 200 affects
            one sentence in 25,000 of English prose, mostly lists, and bounds the memory of a batch.
        block_bytes: Text that one process handles at a time: the size of a shard.
        workers: Processes; None for one per core that this process may use.
        exclude: Text files. Paragraphs that share 45 letters and digits in a row with one of them are left out; case,
            white space and punctuation do not count, so tokenised text finds running text.
        recase: Share of the training sentences whose case is changed, drawn by the seed: two thirds of these are
            upper-cased, in one third every word begins with a capital. Held-out text keeps its case.
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
    exclude: Sequence[str | Path] = ()
    recase: float = 0.0
    heldout_seed: int | None = None

    def __post_init__(self) -> None:
        checks.one_of(get_args(Tokenise), "tokenise", self.tokenise)
        checks.one_of(HELDOUT_UNITS, "heldout_unit", self.heldout_unit)
        least = {"vocabulary": 1, "min_count": 1, "max_tokens": 2, "block_bytes": 1024, "workers": 1}
        least |= {"seed": 0, "heldout_seed": 0}
        for name, low in least.items():
            checks.at_least(low, name, getattr(self, name))
        checks.dropout("heldout_fraction", self.heldout_fraction)
        checks.dropout("recase", self.recase)

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


def offsets_of(lengths: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return where each of some consecutive parts begins, and where the last one ends, (parts + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype("<i8")


@dataclass(frozen=True)
class Sentences:
    """Sentences as word ids: all of them in `tokens`, sentence i from `offsets[i]` to `offsets[i + 1]`."""

    tokens: Ids
    offsets: NDArray[np.int64]

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
    type_offsets: NDArray[np.int64]
    type_counts: NDArray[np.int64]

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

    def __len__(self) -> int:
        return len(self.type_offsets) - 1

    def word(self, index: int) -> str:
        """Return the spelling of word `index`."""
        return self.type_bytes[self.type_offsets[index] : self.type_offsets[index + 1]].tobytes().decode()

    def words(self, ids: Iterable[int]) -> list[str]:
        """Return the spellings of `ids`, for example of a sentence."""
        return [self.word(int(i)) for i in ids]

    def vocabulary(self) -> list[str]:
        """Return the words that are targets, special ones first, by id."""
        return self.words(range(self.vocabulary_size))


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


def require(folder: Path, what: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raise an error that lists the differences unless `found` equals `expected`."""
    keys = [key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key)]
    if keys:
        lines = [f"\n  {key:.80}: {found.get(key)!r:.200} there, {expected.get(key)!r:.200} asked for" for key in keys]
        raise InputError(
            f"{folder}: made with other {what}:{''.join(lines[:MOST_LISTED])}\nDelete that folder, name another one, "
            "or use the same values."
        )


def _map(path: Path, sha256: str, dtype: str) -> NDArray[Any]:
    """Return the values of a file that has this hash."""
    if not path.is_file() or sha256_of(path) != sha256:
        state = "has changed since it was written" if path.is_file() else "is missing"
        raise InputError(f"{path}: {state}, so the store is damaged; {_REMEDY}")
    # An empty file cannot be mapped.
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)
