"""A shelf of the layer store: rows in a file, an index beside them. What it is for: see elmo.store."""

from __future__ import annotations

import errno
import hashlib
import json
import mmap
import os
import re
import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt

from elmo.bilm import Sentence
from elmo.errors import InputError
from elmo.files import replacing

FORMAT = 4  # raise it when layers of equal weights change, or how they are written
STATE = "zero"  # layers that depend on what was read before cannot be shared
PRECISIONS: dict[str, np.dtype[Any]] = {"float16": np.dtype("<f2"), "float32": np.dtype("<f4")}
LIMIT_GB = 20.0

ABOUT, INDEX, ROWS = "about.json", "index", "rows"
_FOLDER = re.compile(rf".+-({'|'.join(PRECISIONS)})-v\d+")  # `About.folder` of any version
_INDEX_BYTES = 1 << 36  # of address space, not of memory or disk
_END = b"end"  # first row that is not taken; other keys are hashes of 16 bytes
_ENTRY = struct.Struct("<QII")  # first row, tokens, crc32
_FIRST_ROW = 1  # row 0 stays zero, for padding

Rows = npt.NDArray[np.floating[Any]]


class StoreFull(Exception):  # noqa: N818
    """The limit or the disk leaves no room; the message says which and what to do. What was written stays valid."""


@dataclass(frozen=True)
class About:
    """What the layers of a shelf have in common.

    Attributes:
        weights: fingerprint of what computed them.
        widths: values kept of each layer; see `elmo.cache.TokenLayers`.
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
    return Path(os.environ.get("ELMO_STORE") or "~/.cache/elmo-suite/layers").expanduser()


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

    Raises:
        InputError: the folder cannot be used, or holds something else under this name.
    """

    def __init__(self, store: Path, about: About, limit_gb: float = LIMIT_GB) -> None:
        if about.precision not in PRECISIONS:
            raise InputError(f"precision: expected {' or '.join(PRECISIONS)}, found {about.precision!r}")
        self.store = store
        self.path = store / about.folder
        self.about = about
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not (self.path / ABOUT).exists():
                with replacing(self.path / ABOUT) as partial:
                    partial.write_text(json.dumps(asdict(about), indent=2) + "\n", encoding="utf-8")
            found = read_about(self.path)
            self._file = os.open(self.path / ROWS, os.O_RDWR | os.O_CREAT, 0o666)
            self._index = _open_index(self.path)
        except (OSError, lmdb.Error) as error:
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

    def find(self, sentences: Sequence[Sentence]) -> list[int | None]:
        """For each sentence its first row, or None where it is not here; a sentence of no tokens is everywhere."""
        with self._index.begin() as transaction:
            entries = [
                transaction.get(key_of(sentence)) if sentence else _ENTRY.pack(0, 0, 0) for sentence in sentences
            ]
        return [_ENTRY.unpack(entry)[0] if entry is not None else None for entry in entries]

    def add(self, sentences: Sequence[Sentence], rows: Rows) -> None:
        """Writes the layers of sentences, all or none of them; those that are here already are left alone.

        Args:
            sentences: token lists.
            rows: their tokens' rows, sentence after sentence, (tokens, width).

        Raises:
            StoreFull: there is no room.
        """
        ends = np.cumsum([len(sentence) for sentence in sentences])
        try:
            with self._index.begin(write=True) as transaction:
                end = _end(transaction)
                fresh = []
                for sentence, values in zip(sentences, np.split(rows, ends[:-1]), strict=True):
                    content = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
                    entry = _ENTRY.pack(end, len(values), zlib.crc32(content))
                    if len(values) and transaction.put(key_of(sentence), entry, overwrite=False):
                        fresh.append(content)
                        end += len(values)
                self._write(fresh, _end(transaction))
                transaction.put(_END, _ENTRY.pack(end, 0, 0))
        except lmdb.MapFullError as error:
            raise StoreFull(f"{self.path}: the index is full: {error}") from error
        except (OSError, lmdb.Error) as error:
            if not _no_space(error):
                raise
            raise StoreFull(
                f"{self.path}: the disk is full: {error}. Free some, or python -m elmo.store prune"
            ) from error

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
            n = _end(transaction)
        if last >= n:
            raise IndexError(f"{self.path}: expected a row below {n}, found {last}")
        self.require_rows()
        mapped = mmap.mmap(self._file, n * self.about.row_bytes, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, self._mapped.dtype).reshape(n, -1)

    def require_rows(self) -> None:
        """Raises an InputError if `rows` has lost some that the index knows: what is added next would hide that."""
        with self._index.begin() as transaction:
            n = _end(transaction)
        expected, found = n * self.about.row_bytes, os.fstat(self._file).st_size
        if n > _FIRST_ROW and found < expected:
            raise InputError(
                f"{self.path / ROWS}: expected at least {expected:,} bytes, found {found:,}: it was cut short. Forget "
                f"what is lost with python -m elmo.store --store {self.store} verify --drop; it is embedded anew"
            )

    def count(self) -> tuple[int, int]:
        """Sentences and tokens that are here."""
        with self._index.begin() as transaction:
            lengths = [tokens for _, _, tokens, _ in _entries(transaction)]
        return len(lengths), sum(lengths)

    def damaged(self) -> Iterator[bytes]:
        """The keys of entries whose rows are not what was written."""
        with self._index.begin() as transaction:
            for key, start, tokens, checksum in _entries(transaction):
                offset, size = start * self.about.row_bytes, tokens * self.about.row_bytes
                if zlib.crc32(os.pread(self._file, size, offset)) != checksum:
                    yield key

    def drop(self, keys: Sequence[bytes]) -> None:
        """Forgets entries, so that they are embedded anew; their rows stay unused, but for those that are gone."""
        with self._index.begin(write=True) as transaction:
            for key in keys:
                transaction.delete(key)
            if os.fstat(self._file).st_size < _end(transaction) * self.about.row_bytes:
                ends = (start + tokens for _, start, tokens, _ in _entries(transaction))
                transaction.put(_END, _ENTRY.pack(max(ends, default=_FIRST_ROW), 0, 0))

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


def read_about(folder: Path) -> About | None:
    """What a shelf's folder says of itself, or None if it is not in a form of this version."""
    try:
        values = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return About(**{**values, "widths": tuple(values["widths"])})
    except (ValueError, TypeError, KeyError):
        return None


def shelves(store: Path) -> list[Path]:
    """The folders of all shelves of a store, also of other versions, and none that something else may have made."""
    folders = (path.parent for path in store.glob(f"*/{ABOUT}"))
    return sorted(
        folder for folder in folders if _FOLDER.fullmatch(folder.name) and (folder / INDEX / "data.mdb").is_file()
    )


def disk_bytes(folder: Path) -> int:
    """The size of all files of a shelf; what another process removes meanwhile has none."""
    size = 0
    for place, _, names in os.walk(folder):  # passes over folders that vanish
        for name in names:
            with suppress(FileNotFoundError):
                size += (Path(place) / name).stat().st_size
    return size


def _open_index(folder: Path) -> lmdb.Environment:
    # metasync=False: after a crash of the whole machine the last transaction may be gone, never half there.
    index = lmdb.open(str(folder / INDEX), map_size=_INDEX_BYTES, metasync=False, max_readers=1024)
    index.reader_check()  # frees what killed processes held
    return index


def _end(transaction: lmdb.Transaction) -> int:
    """The first row that is not taken."""
    entry = transaction.get(_END)
    return int(_ENTRY.unpack(entry)[0]) if entry is not None else _FIRST_ROW


def _entries(transaction: lmdb.Transaction) -> Iterator[tuple[bytes, int, int, int]]:
    """Key, first row, tokens and checksum of every sentence."""
    return ((key, *_ENTRY.unpack(value)) for key, value in transaction.cursor() if key != _END)


def _no_space(error: OSError | lmdb.Error) -> bool:
    codes = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if isinstance(error, OSError):
        return error.errno in codes
    # LMDB calls a short write an input/output error, and has a class of its own for some of the codes only.
    return isinstance(error, lmdb.DiskError) or any(os.strerror(code) in str(error) for code in (*codes, errno.EIO))


_OPEN: dict[tuple[int, Path], Shelf] = {}


def open_shelf(store: Path, about: About, limit_gb: float = LIMIT_GB) -> Shelf:
    """The shelf for layers of this kind; within a process the same one for all who ask, as LMDB demands.

    Raises:
        InputError: it cannot be used, or has lost rows.
    """
    key = os.getpid(), (store / about.folder).absolute()
    shelf = _OPEN.get(key)
    if shelf is not None and shelf.is_there():
        shelf.limit_to(limit_gb)
    else:
        if shelf is not None:
            shelf.close()
        shelf = _OPEN[key] = Shelf(store, about, limit_gb)
    shelf.require_rows()
    with suppress(FileNotFoundError):  # pruned this moment: a run goes on with the files that it has open
        os.utime(shelf.path / ABOUT)  # when it was last used
    return shelf
