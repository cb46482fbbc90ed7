"""Index of a shelf: an LMDB environment and the format of its entries."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import lmdb

from elmo.common.errors import InputError

INDEX, DATA, LOCK = "index", "data.mdb", "lock.mdb"
END = b"end"  # first row that is not taken; other keys are hashes of 16 bytes
ENTRY = struct.Struct("<QII")  # first row, tokens, crc32
FIRST_ROW = 1  # row 0 stays zero, for padding

_MAP_BYTES = 1 << 36  # of address space, not of memory or disk
_LARGEST_PAGE = 1 << 15  # LMDB's limit; some systems have larger ones
_READERS = 1024
_LOCK_BYTES = 64 * (_READERS + 64)  # a cache line for each reader, and more than the header takes
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_GONE = (errno.ENOENT, errno.EEXIST)  # the latter where a folder goes while Path.mkdir looks at it


class IndexCut(InputError):  # noqa: N818
    """The index has lost pages. It must not be opened: reading them would end the process with SIGBUS."""


def open_index(shelf: Path, writable: bool) -> lmdb.Environment:
    """Opens the index of a shelf's folder.

    Args:
        shelf: the folder.
        writable: creates it if it does not exist.

    Raises:
        IndexCut: the file is shorter than the length in its header.
        OSError, lmdb.Error: it cannot be opened.
    """
    folder = shelf / INDEX
    data, lock = folder / DATA, folder / LOCK
    if writable:
        folder.mkdir(exist_ok=True)
        _reserve(lock)
    # LMDB treats an empty file as a new one.
    headers = 2 * min(mmap.PAGESIZE, _LARGEST_PAGE)
    if data.exists() and 0 < (size := data.stat().st_size) < headers:
        raise _cut(data, headers, size)
    # metasync=False: a crash of the machine may lose the last transaction, but never leaves half of one.
    # Without a lock other processes may change what is read; the rows' checksums detect that.
    index = lmdb.open(
        str(folder),
        map_size=_MAP_BYTES,
        metasync=False,
        max_readers=_READERS,
        readonly=not writable,
        create=writable,
        lock=writable or os.access(lock, os.W_OK),
    )
    if (size := data.stat().st_size) < (expected := _bytes_needed(index)):
        index.close()
        raise _cut(data, expected, size)
    if writable:
        index.reader_check()  # frees what killed processes held
    return index


def pad(shelf: Path, index: lmdb.Environment) -> None:
    """Extends the file to the length in its header: after deletions LMDB may leave out the last pages."""
    data = shelf / INDEX / DATA
    with suppress(FileNotFoundError):  # pruned meanwhile
        if data.stat().st_size < (expected := _bytes_needed(index)):
            os.truncate(data, expected)


def end_of(transaction: lmdb.Transaction) -> int:
    """The first row that is not taken."""
    entry = transaction.get(END)
    return int(ENTRY.unpack(entry)[0]) if entry is not None else FIRST_ROW


def entries(transaction: lmdb.Transaction) -> Iterator[tuple[bytes, int, int, int]]:
    """Key, first row, tokens and checksum of every sentence."""
    return ((key, *ENTRY.unpack(value)) for key, value in transaction.cursor() if key != END)


def is_full(error: OSError | lmdb.Error) -> bool:
    """Whether a disk or a quota has no room left."""
    # LMDB reports a short write as an input/output error, and has classes for some of the codes only.
    return isinstance(error, lmdb.DiskError) or _is_one_of(error, _FULL, (*_FULL, errno.EIO))


def is_read_only(error: OSError | lmdb.Error) -> bool:
    """Whether nothing may be written there."""
    return isinstance(error, lmdb.ReadonlyError) or _is_one_of(error, _READ_ONLY, _READ_ONLY)


def is_gone(error: OSError | lmdb.Error) -> bool:
    """Whether a folder or file was removed meanwhile."""
    return _is_one_of(error, _GONE, _GONE)


def _is_one_of(error: OSError | lmdb.Error, codes: tuple[int, ...], of_lmdb: tuple[int, ...]) -> bool:
    if isinstance(error, OSError):
        return error.errno in codes
    return any(os.strerror(code) in str(error) for code in of_lmdb)


def _bytes_needed(index: lmdb.Environment) -> int:
    return int((index.info()["last_pgno"] + 1) * index.stat()["psize"])


def _reserve(lock: Path) -> None:
    """Creates LMDB's lock file with its space reserved: it is memory-mapped, where a full disk is a SIGBUS."""
    if not hasattr(os, "posix_fallocate"):
        return
    with suppress(FileExistsError):  # another process was faster
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            os.posix_fallocate(file, 0, _LOCK_BYTES)
        except OSError:
            lock.unlink(missing_ok=True)
            raise
        finally:
            os.close(file)


def _cut(data: Path, expected: int, found: int) -> IndexCut:
    return IndexCut(f"{data}: expected at least {expected:,} bytes, found {found:,}: it was cut short")
