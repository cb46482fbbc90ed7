"""The folder of downloads: finds published files by name, and downloads and checks missing ones.

Users may also copy files there. A `.checked` note next to each file has its hash: if none is published, the hash of
the first download counts. The bytes of an unfinished download are in `NAME.partial`, and the server's version of the
file (its ETag) in `NAME.partial.etag`: the rest is requested on the condition that the version is still the same, so
that two versions are never mixed. Links under these names are never followed.
"""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import requests
from requests.adapters import HTTPAdapter
from rich.console import Console
from rich.progress import DownloadColumn, TransferSpeedColumn
from urllib3.exceptions import HTTPError
from urllib3.util import Retry

from elmo.common.errors import InputError
from elmo.common.files import UNREADABLE, expanded, left_partials, read_json, replacing, require_space, sha256_of
from elmo.common.processes import locked
from elmo.common.progress import print_line, progress_bar
from elmo.download.published import VECTORS, PublishedFile, PublishedVectors, files_of, names

PATIENCE_S = 60.0  # how long a server may be silent
TRIES = 5  # in a row without new bytes
PAUSE_S = 1.0  # before the second try; doubled before each further one
CHUNK = 1 << 18
BUSY = (429, 500, 502, 503, 504)  # answers of a server that is asked again
# How files begin that are published without a hash: a log-in page must not count as the first download.
BEGINNINGS = {".json": (b"{",), ".hdf5": (b"\x89HDF\r\n\x1a\n",)} | dict.fromkeys(
    (".pt", ".pth"), (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04")
)

# Called after every chunk with the bytes so far, and the total if the server has sent it.
Progress = Callable[[int, int | None], object]

_downloads_allowed = True


class TransferError(Exception):
    """A download failed; the message contains the reason and the URL."""


class _InterruptedError(TransferError):
    """The transfer stopped; it may continue with another try."""


class DownloadNeeded(InputError):  # noqa: N818
    """Raised in place of a download, see `without_downloads`; `size` is in bytes, None if it is not known."""

    def __init__(self, name: str, size: int | None) -> None:
        super().__init__(
            f"{name}: expected its files in {downloads_folder()}, found none. python -m elmo.download {name}"
        )
        self.name = name
        self.size = size


@contextmanager
def without_downloads() -> Iterator[None]:
    """Makes `obtain` raise DownloadNeeded where it would download."""
    global _downloads_allowed
    before, _downloads_allowed = _downloads_allowed, False
    try:
        yield
    finally:
        _downloads_allowed = before


def downloads_folder() -> Path:
    """Where downloads are kept: $ELMO_CACHE, or a folder in the user's cache."""
    return expanded(os.environ.get("ELMO_CACHE") or "~/.cache/elmo-suite/downloads", "ELMO_CACHE")


def obtain(name: str, thorough: bool = False) -> Path:
    """The folder of a published model or the text file of published vectors, downloaded if it is missing.

    Args:
        name: a name in `elmo.download.published`.
        thorough: compare the hashes of existing files even if they look unchanged.

    Raises:
        InputError: a file is missing and cannot be downloaded, or an existing one is not the published one. The message
            says which files to place where.
    """
    if name not in names():
        raise InputError(f"{name}: nothing is published under this name; known: {', '.join(names())}")
    folder, vectors = _folder(name), VECTORS.get(name)
    if not (_downloads_allowed or is_here(name)):
        sizes = [file.size for file in files_of(name) if not (folder / file.name).is_file()]
        raise DownloadNeeded(name, None if None in sizes else sum(filter(None, sizes)))
    wanted = [(folder / vectors.member, None)] if vectors else [(folder / file.name, file) for file in files_of(name)]
    missing = [(path, file) for path, file in wanted if not _usable(path, file, thorough)]
    if missing:
        with _locked(name, folder):
            for path, file in missing:
                if _usable(path, file):  # another process was faster
                    continue
                if vectors is not None:
                    _unpack(name, vectors, path)
                elif file is not None:
                    _download(name, file, path)
    return wanted[0][0] if vectors else folder


def is_here(name: str) -> bool:
    """Whether the files of a name are in the folder; `obtain` checks their content."""
    wanted = [VECTORS[name].member] if name in VECTORS else [file.name for file in files_of(name)]
    return all((_folder(name) / file).is_file() for file in wanted)


def content_hash(path: Path) -> str:
    """The sha256 of a file; that of the note next to it if size and time of the file are those of the note.

    A quick answer: who reads the file compares what was read, see `elmo.word_vectors.files`.
    """
    return _unchanged(path) or sha256_of(path)


def note_path(path: Path) -> Path:
    """Where the note of a file is: its hash, and its size and time, which show whether it has changed."""
    return path.with_name(f"{path.name}.checked")


def _noted(path: Path) -> dict[str, Any]:
    """The note of a file; empty if it is missing or edited: then the file is hashed again."""
    try:
        note = read_json(note_path(path))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) and isinstance(note.get("sha256"), str) else {}


def _note_of(path: Path, sha256: str) -> dict[str, Any]:
    return {"sha256": sha256, "size": path.stat().st_size, "modified_ns": path.stat().st_mtime_ns}


def _unchanged(path: Path) -> str | None:
    """The hash in the note of a file, if the file still looks as it did then."""
    note = _noted(path)
    return note["sha256"] if note and note == _note_of(path, note["sha256"]) else None


def _write_note(path: Path, sha256: str) -> None:
    with suppress(OSError), replacing(note_path(path)) as partial:  # in a read-only folder it is hashed each time
        partial.write_text(json.dumps(_note_of(path, sha256)), encoding="utf-8")


def _folder(name: str) -> Path:
    return downloads_folder() / (name.partition("/")[0] if name in VECTORS else name)


def _usable(path: Path, file: PublishedFile | None, thorough: bool = False) -> bool:
    """Whether a file is there; one without a note, or changed since, or any if `thorough`, is checked first.

    Raises:
        InputError: it is not the published one.
    """
    if not path.is_file():
        return False
    if _unchanged(path) is not None and not thorough:
        return True
    size, published = (None, None) if file is None else (file.size, file.sha256)
    sha256, fault = _examined(path, path.suffix, size, published or _noted(path).get("sha256"))
    if fault:
        remembered = f"; if you replaced it on purpose, remove {note_path(path)}" if not published else ""
        raise InputError(
            f"{path}: {fault}. Remove it to download it again; to use it as it is, move it elsewhere and give its "
            f"path, not the name{remembered * bool(_noted(path))}"
        )
    _write_note(path, sha256)
    return True


def _examined(path: Path, kind: str, size: int | None, sha256: str | None) -> tuple[str, str]:
    """The hash of a file, and what is wrong with it: its size, its content or its beginning; empty if nothing is."""
    found_size, found = path.stat().st_size, sha256_of(path)
    with path.open("rb") as file:
        beginning = file.read(40)
    if size not in (None, found_size):
        return found, f"expected {size:,} bytes, found {found_size:,}"
    if sha256 not in (None, found):
        return found, f"expected the content of sha256 {sha256}, found {found}"
    if not sha256 and not beginning.startswith(BEGINNINGS.get(kind, b"")):
        return found, f"expected a {kind} file, found {found_size:,} bytes that begin with {beginning!r}"
    return found, ""


def _download(name: str, file: PublishedFile, target: Path) -> None:
    """Downloads a file from the first of its URLs that works."""
    first = _noted(target).get("sha256") if file.sha256 is None else None  # of an earlier download that was removed
    failures: list[str] = []
    for url in _urls(name, file):
        try:
            with _progress_shown(name, f"downloading {url}") as progress:
                _write_note(target, fetch(url, target, progress, file.size, file.sha256 or first))
            return
        except TransferError as error:
            failures.append(f"  {error}\n")
    paths = [f"  {target.with_name(one.name)}  from  {_urls(name, one)[0]}\n" for one in files_of(name)]
    unpacked = f"  or, unpacked, {target.with_name(VECTORS[name].member)}\n" if name in VECTORS else ""
    remembered = f"\nThe hash is that of an earlier download; to accept a new version, remove {note_path(target)}"
    raise InputError(
        f"{name}: could not be downloaded\n{''.join(failures)}"
        "The same command continues where this one stopped. Without a network, copy the files there, or copy the\n"
        f"folder from a machine that ran `python -m elmo.download {name}`:\n{''.join(paths)}{unpacked}"
        f"ELMO_CACHE names another folder, ELMO_MIRROR another server{remembered * (first is not None)}"
    )


def _urls(name: str, file: PublishedFile) -> list[str]:
    mirror = os.environ.get("ELMO_MIRROR")
    if not mirror:
        return [f"{folder}/{file.name}" for folder in file.folders]
    if not mirror.startswith(("https://", "http://")):
        raise InputError(f"ELMO_MIRROR: expected the URL of a server, https://..., found {mirror!r}")
    return [f"{mirror.rstrip('/')}/{_folder(name).relative_to(downloads_folder()).as_posix()}/{file.name}"]


def fetch(url: str, target: Path, progress: Progress, size: int | None = None, sha256: str | None = None) -> str:
    """Downloads to `target`, which appears only when it is complete and has the given size and hash; returns its hash.

    An interrupted transfer continues where it stopped, also in a later process. Only one process at a time may do this
    for a target.

    Raises:
        TransferError: the URL did not send this file. The bytes so far are kept, unless they are wrong.
        InputError: it cannot be written.
    """
    partial = target.with_name(f"{target.name}.partial")
    if partial.is_symlink() or _etag_path(partial).is_symlink():
        _discard(partial)
    failures = 0
    while (before := _length(partial)) != size:
        try:
            _receive(url, partial, progress)
            break
        except _InterruptedError:
            failures = 0 if _length(partial) > before else failures + 1
            if failures == TRIES:
                raise
            time.sleep(PAUSE_S * 2**failures)
    found, fault = _examined(partial, target.suffix, size, sha256)
    if fault:
        _discard(partial)
        raise TransferError(f"{url}: {fault}; it was deleted")
    partial.replace(target)
    _discard(partial)
    return found


def _receive(url: str, partial: Path, progress: Progress) -> None:
    """Makes one request for the missing bytes."""
    here, etag = _length(partial), _etag(partial)
    headers = {"User-Agent": "elmo-benchmark", "Accept-Encoding": "identity"}
    if etag is None:
        here = 0
    elif here:
        headers |= {"Range": f"bytes={here}-", "If-Range": etag}
    try:
        with requests.Session() as session:
            again = Retry(TRIES - 1, connect=0, read=0, status_forcelist=BUSY, backoff_factor=PAUSE_S)
            for scheme in ("https://", "http://"):
                session.mount(scheme, HTTPAdapter(max_retries=again))
            with session.get(url, headers=headers, stream=True, timeout=PATIENCE_S) as response:
                start = _start_of(response, url, partial, here)
                left = response.raw.length_remaining
                require_space(partial.parent, left or 0, "the download", "free some space")
                with _opened(partial, start, response.headers.get("ETag")) as file:
                    while chunk := response.raw.read1(CHUNK):
                        file.write(chunk)
                        progress(file.tell(), None if left is None else start + left)
    # UnicodeError: a host name in a URL, such as that of a redirect
    except (requests.RequestException, HTTPError, UnicodeError) as error:
        kept = _length(partial)
        reason = error.args[0] if error.args else type(error).__name__
        message = f"{url}: {getattr(reason, 'reason', reason)}" + f"; the first {kept:,} bytes are kept" * bool(kept)
        raise (_InterruptedError if kept else TransferError)(message) from error  # without any, there may be no network
    except OSError as error:
        raise InputError(f"{partial}: cannot write: {error.strerror}") from error


def _start_of(response: requests.Response, url: str, partial: Path, here: int) -> int:
    """Where the body of a response begins in the file; a server may ignore the range and send everything.

    Raises:
        TransferError: it is not (the rest of) the file.
    """
    if url.startswith("https:") and any(one.url.startswith("http:") for one in (*response.history, response)):
        raise TransferError(f"{url}: it redirects to {response.url}, which is not https")
    if response.headers.get("Content-Type", "").startswith("text/html") and response.ok:
        raise TransferError(f"{url}: expected a file, the server sends a web page; open the URL to read it")
    start = here if response.status_code == 206 else 0
    content_range = response.headers.get("Content-Range", "")
    same = response.headers.get("ETag") == _etag(partial) and content_range.startswith(f"bytes {start}-")
    if response.status_code == 416 or (start and not same):
        _discard(partial)
        raise _InterruptedError(f"{url}: the file has changed since the download began; starting again")
    if not response.ok:
        raise TransferError(f"{url}: the server answers {response.status_code} {response.reason:.80}")
    return start


def _opened(partial: Path, start: int, etag: str | None) -> BinaryIO:
    """The file, to be written from `start` on; never through a link, even one that appears meanwhile."""
    if start:
        return os.fdopen(os.open(partial, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "ab", buffering=0)
    _discard(partial)
    file = partial.open("xb", buffering=0)  # so that a killed process loses nothing
    if etag is not None:
        with _etag_path(partial).open("x", encoding="utf-8") as about:
            about.write(etag)
    return file


def _etag(partial: Path) -> str | None:
    """The version of a partial file; None if it cannot be continued. A weak ETag does not promise equal bytes."""
    try:
        etag = _etag_path(partial).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return etag if re.fullmatch('"[!-~]*"', etag) else None


def _etag_path(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.etag")


def _length(partial: Path) -> int:
    return partial.stat().st_size if partial.exists() else 0


def _discard(partial: Path) -> None:
    _etag_path(partial).unlink(missing_ok=True)
    partial.unlink(missing_ok=True)


def _unpack(name: str, vectors: PublishedVectors, target: Path) -> None:
    """Extracts a text file from its archive, which is downloaded if it is missing."""
    archive = target.with_name(vectors.archive.name)
    downloaded = not _usable(archive, vectors.archive)
    if downloaded:
        _download(name, vectors.archive, archive)
    for path in left_partials(target.parent, target.name):
        path.unlink(missing_ok=True)
    with _progress_shown(name, f"unpacking {target}") as progress, replacing(target) as partial:
        try:
            with zipfile.ZipFile(archive) as opened, opened.open(vectors.member) as source, partial.open("xb") as file:
                total = opened.getinfo(vectors.member).file_size
                require_space(target.parent, total, target.name, "free some space")
                while chunk := source.read(CHUNK):
                    file.write(chunk)
                    progress(file.tell(), total)
        except InputError:  # too little space
            raise
        except UNREADABLE as error:
            raise InputError(f"{archive}: cannot extract {vectors.member}: {error}. Remove the archive") from error
    _write_note(target, sha256_of(target))
    only_member = sum(other.archive == vectors.archive for other in VECTORS.values()) == 1
    if downloaded and only_member:  # it contains nothing else; an archive that the user put there stays
        archive.unlink()
        note_path(archive).unlink(missing_ok=True)


@contextmanager
def _locked(name: str, folder: Path) -> Iterator[None]:
    """Lets one process at a time download to a folder."""
    console = Console(stderr=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(None, "no permission to write")
    except OSError as error:
        raise InputError(f"{folder}: cannot be used: {error.strerror}; name another with ELMO_CACHE") from error
    with locked(
        folder / ".lock", lambda: print_line(console, f"{name}: waiting for another process that downloads it")
    ):
        yield


@contextmanager
def _progress_shown(name: str, what: str) -> Iterator[Progress]:
    """Shows progress: a bar on a terminal, otherwise one line."""
    console = Console(stderr=True)
    if not console.is_terminal:
        print_line(console, f"{name}: {what}")
    with progress_bar(console, DownloadColumn(), TransferSpeedColumn(), transient=True) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
