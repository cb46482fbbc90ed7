"""Index of a shelf: a flat file of records, one for each sentence; runs only append to it.

Any bytes can be read as records. A damaged one names no sentence, or rows that do not match its checksum: the sentence
counts as missing and gets a new record. The last record of a sentence counts.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Sequence
from pathlib import Path

ENTRIES = "entries"
ENTRY = struct.Struct("<QII")  # first row, tokens, crc32
KEY_BYTES = 16  # of the hash of a sentence
RECORD = struct.Struct(f"{KEY_BYTES}s{ENTRY.size}s")

_CHUNK = 1 << 24  # a whole number of records
_DROPPED = bytes(RECORD.size)


class Index:
    """The records of a file; those that other processes append are seen by the next `refresh`.

    Args:
        path: the file.
        writable: creates it if it does not exist.

    Attributes:
        entries: the entry of each sentence, by its key.
    """

    def __init__(self, path: Path, writable: bool) -> None:
        self.entries: dict[bytes, bytes] = {}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY, 0o666)
        self._read = 0  # bytes

    def refresh(self) -> None:
        """Reads the records that were appended; what is left of one at the end was written by a killed process."""
        while whole := self._records(self._read):
            self.entries.update(RECORD.iter_unpack(whole))
            self._read += len(whole)
        self.entries.pop(_DROPPED[:KEY_BYTES], None)

    def _records(self, place: int) -> bytes:
        """The whole records from this place on, some of many."""
        content = os.pread(self._file, _CHUNK, place)
        return content[: len(content) // RECORD.size * RECORD.size]

    def append(self, entries: dict[bytes, bytes]) -> None:
        """Adds records, all or none; only the process that holds the shelf's lock may call it."""
        place = os.fstat(self._file).st_size // RECORD.size * RECORD.size
        write_at(self._file, [b"".join(key + entry for key, entry in entries.items())], place)
        self.entries.update(entries)

    def drop(self, keys: Collection[bytes]) -> None:
        """Overwrites the records of these sentences with zeros."""
        keys, place = set(keys), 0
        while whole := self._records(place):
            for key, _ in RECORD.iter_unpack(whole):
                if key in keys:
                    os.pwrite(self._file, _DROPPED, place)
                place += RECORD.size
        for key in keys:
            self.entries.pop(key, None)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def write_at(file: int, contents: Sequence[bytes | memoryview], place: int) -> None:
    """Writes to a file from this place on and waits until it is on disk; after an error the file ends there.

    Raises:
        OSError: it cannot be written.
    """
    offset = place
    try:
        for content in contents:
            left = memoryview(content)
            while left:
                written = os.pwrite(file, left, offset)
                left, offset = left[written:], offset + written
        os.fsync(file)
    except OSError:
        os.ftruncate(file, place)
        raise
