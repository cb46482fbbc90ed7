"""A shelf of the layer store: rows in a file, an index next to them. What it is for: see elmo.store."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import time
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt

from elmo.bilm.model import Sentence
from elmo.common.errors import InputError
from elmo.common.files import expanded, read_json, write_json
from elmo.common.processes import try_lock, unlock
from elmo.store.index import (
    DATA,
    END,
    ENTRY,
    FIRST_ROW,
    INDEX,
    end_of,
    entries,
    is_full,
    is_read_only,
    open_index,
    pad,
)

FORMAT = 4  # raise it when layers of equal weights change, or how they are written
STATE = "zero"  # layers that depend on what was read before cannot be shared
PRECISIONS: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
LIMIT_GB = 20.0
WAIT_SECONDS = 60.0  # at most, for another process that writes; it may be stopped with Ctrl-Z

ABOUT, ROWS = "about.json", "rows"
_FOLDER = re.compile(rf".+-({'|'.join(PRECISIONS)})-v\d+")  # `ShelfDescription.folder` of any version

Rows = npt.NDArray[np.floating[Any]]


class StoreFull(Exception):  # noqa: N818
    """Nothing can be added; the message says why, and what to do. What was written stays valid."""


@dataclass(frozen=True)
class ShelfDescription:
    """What the layers of a shelf have in common.

    Attributes:
        weights: fingerprint of what computed them.
        widths: values kept of each layer; see `elmo.store.cached_layers.TokenLayers`.
    """

    weights: str
    widths: tuple[int, ...]
    precision: str
    state: str = STATE
    format: int = FORMAT

    @property
    def folder(self) -> str:
        """The name of the shelf's folder."""
        return f"{self.weights[:16]}-{self.state}-{self.precision}-v{self.format}"

    @property
    def row_bytes(self) -> int:
        """Bytes of a token."""
        return sum(self.widths) * PRECISIONS[self.precision].itemsize


def default_store() -> Path:
    """The folder of the store where nothing else is said: $ELMO_STORE, or one in the user's cache."""
    return expanded(os.environ.get("ELMO_STORE") or "~/.cache/elmo-suite/layers", "ELMO_STORE")


def key_of(sentence: Sentence) -> bytes:
    """The hash of a token list; lists that differ in any token, or in where tokens end, have another."""
    digest = hashlib.blake2b("".join(sentence).encode("utf-8", "surrogatepass"), digest_size=16)
    digest.update(array("I", map(len, sentence)).tobytes())
    return digest.digest()


class Shelf:
    """The layers of one kind, on disk.

    Args:
        store: the store's folder; made if it is not there.
        about: what kind.
        limit_gb: size of the whole store at most.

    Attributes:
        refusal: why nothing can be added, such as to a read-only store; None where all is well.
        warnings: what somebody should know, such as damage that was found; whoever shows them takes them off.

    Raises:
        IndexCut: the index has lost a part.
        StoreFull: it is not there, and the disk has no room for it.
        InputError: the folder cannot be used, or holds something else under this name.
    """

    def __init__(self, store: Path, about: ShelfDescription, limit_gb: float = LIMIT_GB) -> None:
        if about.precision not in PRECISIONS:
            raise InputError(f"precision: expected {' or '.join(PRECISIONS)}, found {about.precision!r}")
        self.store = store
        self.path = store / about.folder
        self.about = about
        self.refusal: str | None = None
        self.warnings: list[str] = []
        self._compared: dict[bytes, bool] = {}  # entries, and whether their rows are whole
        try:
            self._file, self._index = self._open()
            found = read_about(self.path)
        except (OSError, lmdb.Error) as error:
            if is_full(error):
                raise StoreFull(f"{self.path}: cannot be made: {error}. Free some room on that disk") from error
            raise InputError(
                f"{self.path}: cannot keep layers there: {error}. Name another folder with store.path or ELMO_STORE, "
                "or go without (store.path=null)"
            ) from error
        if found != about:
            raise InputError(
                f"{self.path / ABOUT}: expected {about}, found {found}. Remove that folder, or name another store"
            )
        self.limit_to(limit_gb)
        self._mapped: Rows = np.zeros((1, sum(about.widths)), PRECISIONS[about.precision])  # until others are taken

    def _open(self) -> tuple[int, lmdb.Environment]:
        """Opens rows and index, made if they are not there; for reading alone where they cannot be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / ABOUT).exists():
                write_json(self.path / ABOUT, asdict(self.about))
            return self._open_files(writable=True)
        except (OSError, lmdb.Error) as error:
            if not (is_full(error) or is_read_only(error)):
                raise
            try:
                opened = self._open_files(writable=False)
            except (OSError, lmdb.Error):
                raise error from None  # nothing is there yet; why nothing can be is the reason
            self.refusal = f"{self.path}: cannot write there: {error}"
            return opened

    def _open_files(self, writable: bool) -> tuple[int, lmdb.Environment]:
        file = os.open(self.path / ROWS, os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY, 0o666)
        try:
            return file, open_index(self.path, writable)
        except BaseException:
            os.close(file)
            raise

    def find(self, sentences: Sequence[Sentence]) -> list[int | None]:
        """For each sentence its first row, or None where it is not here; a sentence of no tokens is everywhere.

        The first time that this process finds an entry, its rows are compared with its checksum; a damaged one is not
        here, and `add` replaces it.
        """
        with self._index.begin() as transaction:
            found = [transaction.get(key_of(sentence)) if sentence else ENTRY.pack(0, 0, 0) for sentence in sentences]
        new = {entry for entry in found if entry is not None} - self._compared.keys()
        if damaged := sum(not self._is_whole(entry) for entry in sorted(new, key=ENTRY.unpack)):  # as the disk has them
            self.warnings.append(
                f"{self.path}: {damaged:,} sentences are damaged: their rows do not match their checksums. They are "
                "dropped and embedded again; if it happens again, check the disk"
            )
        return [ENTRY.unpack(entry)[0] if entry is not None and self._compared[entry] else None for entry in found]

    def _is_whole(self, entry: bytes) -> bool:
        """Whether an entry's rows are what was written; they are read the first time only."""
        if entry not in self._compared:
            self._compared[entry] = self._matches(*ENTRY.unpack(entry))
        return self._compared[entry]

    def _matches(self, start: int, tokens: int, checksum: int) -> bool:
        size = self.about.row_bytes
        try:
            return zlib.crc32(os.pread(self._file, tokens * size, start * size)) == checksum
        except OSError:  # the disk cannot read them any more
            return False

    def add(self, sentences: Sequence[Sentence], rows: Rows) -> None:
        """Writes the layers of sentences, all or none of them; those that are here already are left alone.

        Args:
            sentences: token lists.
            rows: their tokens' rows, sentence after sentence, (tokens, width).

        Raises:
            StoreFull: there is no room.
        """
        ends = np.cumsum([len(sentence) for sentence in sentences])
        fresh: dict[bytes, memoryview] = {}  # entries and their rows
        try:
            with self._writing() as transaction:
                first = end = end_of(transaction)
                for sentence, values in zip(sentences, np.split(rows, ends[:-1]), strict=True):
                    key = key_of(sentence)
                    known = bytes(transaction.get(key, b""))
                    if not len(values) or (known and (known in fresh or self._is_whole(known))):
                        continue
                    content = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
                    entry = ENTRY.pack(end, len(values), zlib.crc32(content))
                    transaction.put(key, entry)
                    fresh[entry] = content
                    end += len(values)
                self._write(list(fresh.values()), first)
                transaction.put(END, ENTRY.pack(end, 0, 0))
        except lmdb.MapFullError as error:
            raise StoreFull(f"{self.path}: the index is full: {error}") from error
        except (OSError, lmdb.Error) as error:
            if not is_full(error):
                raise
            raise StoreFull(
                f"{self.path}: the disk is full: {error}. Free some, or python -m elmo.store prune"
            ) from error
        self._compared.update(dict.fromkeys(fresh, True))

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        """The transaction of the one process that writes; LMDB alone would wait for ever for one that is stopped."""
        if self.refusal is not None:
            raise StoreFull(self.refusal)
        deadline = time.monotonic() + WAIT_SECONDS
        while not try_lock(self._file):
            if time.monotonic() > deadline:
                raise StoreFull(
                    f"{self.path}: another process has been writing for {WAIT_SECONDS:g} s; it may be stopped with "
                    "Ctrl-Z. Continue it with fg, or end it"
                )
            time.sleep(0.02)
        try:
            with self._index.begin(write=True) as transaction:
                yield transaction
        finally:
            unlock(self._file)

    def _write(self, contents: Sequence[memoryview], first: int) -> None:
        """Writes rows from the first free one on, and waits until they are on disk."""
        size = sum(map(len, contents))
        if size > self._left():
            raise StoreFull(
                f"{self.store}: the limit of {self._limit / 1e9:g} GB is reached. Raise store.limit_gb, or "
                "python -m elmo.store prune"
            )
        offset = first * self.about.row_bytes
        for content in contents:
            while content:
                written = os.pwrite(self._file, content, offset)
                content, offset = content[written:], offset + written
        os.fsync(self._file)

    def room(self) -> int:
        """Tokens that the limit still has room for."""
        return max(0, self._left()) // self.about.row_bytes

    def _left(self) -> int:
        """Bytes up to the limit, measured anew each time: other shelves of the store grow meanwhile."""
        return self._limit - sum(map(disk_bytes, shelves(self.store)))

    def take(self, rows: npt.NDArray[np.int64], into: Rows) -> None:
        """Copies rows, by number, into an array of their shape and a row's width: one gather from the mapped file."""
        last = int(rows.max(initial=0))
        if last >= len(self._mapped):
            self._mapped = self._map(last)
        np.take(
            self._mapped, rows, axis=0, out=into, mode="clip"
        )  # clip: the only mode that copies straight into `out`

    def expect(self, first: int, last: int) -> None:
        """Lets the system read these rows from disk at once, in their order, before they are taken in any other."""
        if hasattr(os, "posix_fadvise"):
            size = self.about.row_bytes
            os.posix_fadvise(self._file, first * size, (last - first + 1) * size, os.POSIX_FADV_WILLNEED)

    def _map(self, last: int) -> Rows:
        """The rows that are known by now, and at least up to `last`, memory-mapped."""
        with self._index.begin() as transaction:
            n = end_of(transaction)
        if last >= n:
            raise IndexError(f"{self.path}: expected a row below {n}, found {last}")
        self.require_rows()
        mapped = mmap.mmap(self._file, n * self.about.row_bytes, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._mapped.dtype).reshape(n, -1)

    def require_rows(self) -> None:
        """Raises an InputError if `rows` has lost some that the index knows: what is added next would hide that."""
        with self._index.begin() as transaction:
            n = end_of(transaction)
        expected, found = n * self.about.row_bytes, os.fstat(self._file).st_size
        if n > FIRST_ROW and found < expected:
            raise InputError(
                f"{self.path / ROWS}: expected at least {expected:,} bytes, found {found:,}: it was cut short. Forget "
                f"what is lost with python -m elmo.store --store {self.store} verify --drop; it is embedded anew"
            )

    def count(self) -> tuple[int, int]:
        """Sentences and tokens that are here."""
        with self._index.begin() as transaction:
            lengths = [tokens for _, _, tokens, _ in entries(transaction)]
        return len(lengths), sum(lengths)

    def damaged(self) -> Iterator[bytes]:
        """The keys of entries whose rows are not what was written."""
        with self._index.begin() as transaction:
            for key, *entry in entries(transaction):
                if not self._matches(*entry):
                    yield key

    def drop(self, keys: Sequence[bytes]) -> None:
        """Forgets entries, so that they are embedded anew; their rows stay unused, but for those that are gone."""
        with self._writing() as transaction:
            for key in keys:
                transaction.delete(key)
            if os.fstat(self._file).st_size < end_of(transaction) * self.about.row_bytes:
                ends = (start + tokens for _, start, tokens, _ in entries(transaction))
                transaction.put(END, ENTRY.pack(max(ends, default=FIRST_ROW), 0, 0))
        pad(self.path, self._index)

    def is_there(self) -> bool:
        """Whether its folder is still the one that was opened."""
        try:
            return os.path.samestat((self.path / ROWS).stat(), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def limit_to(self, limit_gb: float) -> None:
        """Sets the size of the whole store at most."""
        self._limit = int(limit_gb * 1e9)

    def close(self) -> None:
        """Gives the files back; nothing can be asked after that."""
        self._index.close()
        os.close(self._file)


def read_about(folder: Path) -> ShelfDescription | None:
    """What a shelf's folder says of itself, or None if it is not in a form of this version."""
    try:
        values = read_json(folder / ABOUT)
        return ShelfDescription(**{**values, "widths": tuple(values["widths"])})
    except (ValueError, TypeError, KeyError):
        return None


def shelves(store: Path) -> list[Path]:
    """The folders of all shelves of a store, also of other versions, and none that something else may have made."""
    folders = (path.parent for path in store.glob(f"*/{ABOUT}") if path.is_file())  # a pipe would be waited for
    return sorted(folder for folder in folders if _FOLDER.fullmatch(folder.name) and (folder / INDEX / DATA).is_file())


def disk_bytes(folder: Path) -> int:
    """The size of all files of a shelf; what another process removes meanwhile has none."""
    size = 0
    for place, _, names in os.walk(folder):  # passes over folders that vanish
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(place) / name).stat().st_size
    return size
