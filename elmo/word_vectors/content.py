"""The content of vectors as it is read: hashed in the same pass, and compared with what was hashed before."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from elmo.common.errors import InputError
from elmo.download.folder import content_hash, note_path

_CHUNK = 1 << 17


class Content:
    """One hash for all readings of a file of vectors: a reading of other content is an error.

    Args:
        path: the file.
        quick: its hash before it is read. It may trust the file's size and time: what is read is compared.
    """

    def __init__(self, path: Path, quick: Callable[[Path], str] = content_hash) -> None:
        self._path, self._quick = path, quick
        self._sha256: str | None = None

    def sha256(self) -> str:
        """The hash of what was read, or of what will be."""
        if self._sha256 is None:
            self._sha256 = self._quick(self._path)
        return self._sha256

    def compare(self, found: str) -> None:
        """Raises an InputError if what was read has another hash than before."""
        self._sha256 = self._sha256 or found
        if found == self._sha256:
            return
        note = note_path(self._path)
        delete = f" and delete {note}, which has the old hash" if note.is_file() else ""
        raise InputError(
            f"{self._path}: expected the vectors with sha256 {self._sha256[:12]}, as hashed before, found those with "
            f"{found[:12]}: the file has changed. Put the old content back, or start again with the new one{delete}"
        )


class _Hashed(io.RawIOBase):
    """An open file that hashes what is read from it."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer)
        self.digest.update(buffer[:count])
        return count


@contextmanager
def opened(path: Path, content: Content | None = None) -> Iterator[BinaryIO]:
    """A plain or gzipped file, to be read; errors name it. With `content`, all its bytes are hashed and compared."""
    try:
        with path.open("rb", buffering=0) as file:
            hashed = _Hashed(file)
            buffered = io.BufferedReader(file if content is None else hashed, _CHUNK)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=buffered) if path.suffix == ".gz" else buffered)
            if content is not None:
                while buffered.read(_CHUNK):  # what the block left
                    pass
                content.compare(hashed.digest.hexdigest())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: not a readable gzip file, perhaps cut short ({error}). Copy it again") from error
    except OSError as error:
        raise InputError(f"{path}: cannot read the vectors: {error.strerror}") from error
