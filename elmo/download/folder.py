"""The folder of downloads: finds published files by name, and downloads and checks missing ones.

Users may also copy files there. A `.checked` note next to each file has its hash: if none is published, the hash of
the first download counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import DownloadColumn, TransferSpeedColumn

from elmo.common.errors import InputError
from elmo.common.files import UNREADABLE, expanded, read_json, replacing, require_space, sha256_of
from elmo.common.processes import locked
from elmo.common.progress import print_line, progress_bar
from elmo.download.content import MOST, wrong_kind
from elmo.download.published import VECTORS, PublishedFile, PublishedVectors, files_of, names
from elmo.download.transfer import CHUNK, Progress, TransferError, fetch

_downloads_allowed = True


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
    folder = _folder(name)
    if not (_downloads_allowed or is_here(name)):
        sizes = [file.size for file in files_of(name) if not (folder / file.name).is_file()]
        raise DownloadNeeded(name, None if None in sizes else sum(filter(None, sizes)))
    if name in VECTORS:
        target = folder / VECTORS[name].member
        dim = VECTORS[name].dim
        if not _usable(target, dim=dim, thorough=thorough):
            with _locked_folder(name, folder):
                if not _usable(target, dim=dim):
                    _unpack(name, VECTORS[name], target)
        return target
    missing = [file for file in files_of(name) if not _usable(folder / file.name, file, thorough=thorough)]
    if missing:
        with _locked_folder(name, folder):
            for file in missing:
                if not _usable(folder / file.name, file):
                    _download(name, file, folder / file.name)
    return folder


def is_here(name: str) -> bool:
    """Whether the files of a name are in the folder; `obtain` checks their content."""
    wanted = [VECTORS[name].member] if name in VECTORS else [file.name for file in files_of(name)]
    return all((_folder(name) / file).is_file() for file in wanted)


def content_hash(path: Path) -> str:
    """The sha256 of a file; that of the note next to it if size and time of the file are those of the note.

    A quick answer: who reads the file compares what was read, see `elmo.word_vectors.content`.
    """
    note = _read_note(path)
    return note.sha256 if note is not None and note.fits(path) else sha256_of(path)


@dataclass(frozen=True)
class _Note:
    """The hash of a file, and its size and time, which show whether it has changed."""

    sha256: str
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path, sha256: str) -> _Note:
        return cls(sha256, path.stat().st_size, path.stat().st_mtime_ns)

    def fits(self, path: Path) -> bool:
        return (self.size, self.modified_ns) == (path.stat().st_size, path.stat().st_mtime_ns)


def note_path(path: Path) -> Path:
    """Where the note of a file is."""
    return path.with_name(f"{path.name}.checked")


def _read_note(path: Path) -> _Note | None:
    try:
        return _Note(**read_json(note_path(path)))
    except (OSError, ValueError, TypeError):  # missing or edited: the file is hashed again
        return None


def _write_note(path: Path, sha256: str) -> None:
    with (
        suppress(OSError),  # a shared read-only folder: the file is hashed each time
        replacing(note_path(path)) as partial,
    ):
        partial.write_text(json.dumps(asdict(_Note.of(path, sha256))), encoding="utf-8")


def _folder(name: str) -> Path:
    return downloads_folder() / (name.partition("/")[0] if name in VECTORS else name)


def _usable(path: Path, file: PublishedFile | None = None, dim: int | None = None, thorough: bool = False) -> bool:
    """Whether a file exists; one without a note, or changed since, is checked first.

    Args:
        path: its path.
        file: its published size and hash.
        dim: width of the vectors in it.
        thorough: always check it.
    """
    if not path.is_file():
        return False
    note = _read_note(path)
    if note is not None and note.fits(path) and not thorough:
        return True
    size, sha256 = path.stat().st_size, sha256_of(path)
    remedy = "Remove it to download it again; to use it as it is, move it elsewhere and give its path, not the name"
    if file is not None and file.size not in (None, size):
        raise InputError(f"{path}: expected the published file of {file.size:,} bytes, found {size:,}. {remedy}")
    published = file.sha256 if file is not None else None
    if published not in (None, sha256):
        raise InputError(f"{path}: expected the published file of sha256 {published}, found {sha256}. {remedy}")
    if note is not None and note.sha256 != sha256:
        raise InputError(f"{path}: has changed since its download, from sha256 {note.sha256} to {sha256}. {remedy}")
    if published is None and (wrong := wrong_kind(path, path.suffix, dim)):
        raise InputError(f"{path}: {wrong}. {remedy}")
    _write_note(path, sha256)
    return True


def _download(name: str, file: PublishedFile, target: Path) -> None:
    """Downloads a file from the first of its URLs that works."""
    first = _read_note(target)  # of an earlier download that was removed
    sha256 = file.sha256 or (first.sha256 if first is not None else None)
    failures: list[str] = []
    for url in _urls(name, file):
        try:
            with _progress_shown(name, f"downloading {url}") as progress:
                fetch(url, target, progress, file.size, sha256, MOST.get(target.suffix) if file.size is None else None)
            if sha256 is None and (wrong := wrong_kind(target, target.suffix)):
                target.unlink()
                raise TransferError(f"{url}: {wrong}; it was deleted")
        except TransferError as error:
            failures.append(str(error))
        else:
            _write_note(target, sha256 or sha256_of(target))
            return
    reasons = "\n".join(f"  {failure}" for failure in failures)
    remembered = f"\nThe hash is that of an earlier download; to accept a new version, remove {note_path(target)}"
    raise InputError(
        f"{name}: could not be downloaded\n{reasons}\n"
        f"{_manual_instructions(name)}{remembered * (first is not None and file.sha256 is None)}"
    )


def _manual_instructions(name: str) -> str:
    """Which files to place where, for a machine without a network."""
    folder = _folder(name)
    lines = [f"  {folder / file.name}  from  {_urls(name, file)[0]}" for file in files_of(name)]
    if name in VECTORS:
        lines.append(f"  or, unpacked, {folder / VECTORS[name].member}")
    command = f"python -m elmo.download {name}"
    return "\n".join(
        [
            "The same command continues where this one stopped. Without a network, copy the files there, or copy the",
            f"folder from a machine that ran `{command}`:",
            *lines,
            "ELMO_CACHE names another folder, ELMO_MIRROR another server",
        ]
    )


def _urls(name: str, file: PublishedFile) -> list[str]:
    mirror = os.environ.get("ELMO_MIRROR")
    if not mirror:
        return [f"{folder}/{file.name}" for folder in file.folders]
    if not mirror.startswith(("https://", "http://")):
        raise InputError(f"ELMO_MIRROR: expected the URL of a server, https://..., found {mirror!r}")
    return [f"{mirror.rstrip('/')}/{_folder(name).relative_to(downloads_folder()).as_posix()}/{file.name}"]


def _unpack(name: str, vectors: PublishedVectors, target: Path) -> None:
    """Extracts a text file from its archive, which is downloaded if it is missing."""
    archive = target.with_name(vectors.archive.name)
    downloaded = not _usable(archive, vectors.archive)
    if downloaded:
        _download(name, vectors.archive, archive)
    partial = target.with_name(f"{target.name}.partial")  # a fixed name: the next process replaces it
    digest = hashlib.sha256()
    partial.unlink(missing_ok=True)  # never write through a link
    try:
        with _progress_shown(name, f"unpacking {target}") as progress, partial.open("xb") as file:
            for total, chunk in _extracted(archive, vectors.member):
                require_space(target.parent, total - file.tell(), target.name, "free some space")
                file.write(chunk)
                digest.update(chunk)
                progress(file.tell(), total)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    _write_note(target, digest.hexdigest())
    only_member = sum(other.archive == vectors.archive for other in VECTORS.values()) == 1
    if downloaded and only_member:  # it contains nothing else; an archive that the user put there stays
        archive.unlink()
        note_path(archive).unlink(missing_ok=True)


def _extracted(archive: Path, member: str) -> Iterator[tuple[int, bytes]]:
    """The size of a member of an archive with each part of its content."""
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as source:
            while chunk := source.read(CHUNK):
                yield opened.getinfo(member).file_size, chunk
    except UNREADABLE as error:
        raise InputError(f"{archive}: cannot extract {member}: {error}. Remove the archive") from error


@contextmanager
def _locked_folder(name: str, folder: Path) -> Iterator[None]:
    """Lets one process at a time download to a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(None, "no permission to write")
    except OSError as error:
        raise InputError(f"{folder}: cannot be used: {error.strerror}; name another with ELMO_CACHE") from error
    with locked(folder / ".lock", lambda: _print(f"{name}: waiting for another process that downloads it")):
        yield


def _print(text: str) -> None:
    print_line(Console(stderr=True), text)


@contextmanager
def _progress_shown(name: str, what: str) -> Iterator[Progress]:
    """Shows progress from the first call on: a bar on a terminal, otherwise one line."""
    console = Console(stderr=True)
    bar = progress_bar(console, DownloadColumn(), TransferSpeedColumn())
    task = bar.add_task(name, total=None)
    begun = False

    def progress(done: int, total: int | None) -> None:
        nonlocal begun
        if not begun and console.is_terminal:
            bar.start()
        elif not begun:
            size = f", {total / 1e6:,.1f} MB" if total is not None else ""
            _print(f"{name}: {what}{size}" + f", from {done / 1e6:,.1f} MB on" * bool(done))
        begun = True
        bar.update(task, completed=done, total=total)

    try:
        yield progress
    finally:
        if begun and console.is_terminal:
            bar.stop()
