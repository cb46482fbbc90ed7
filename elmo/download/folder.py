"""The folder of downloads: whatever is asked for by name is in it, or is brought there, checked.

Files that were put there by hand are as good as downloaded ones. Beside each file a `.checked` note holds its hash:
what is published without a hash is held to that of the first download.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import DownloadColumn, TransferSpeedColumn

from elmo.common.errors import InputError
from elmo.common.files import expanded, replacing, sha256_of
from elmo.common.processes import locked
from elmo.common.progress import print_line, progress_bar
from elmo.download.content import MOST, wrong_kind
from elmo.download.published import BILMS, VECTORS, PublishedFile, PublishedVectors, files_of, is_published
from elmo.download.transfer import CHUNK, Progress, TransferError, fetch


def downloads_folder() -> Path:
    """Where downloads are kept: $ELMO_CACHE, or a folder in the user's cache."""
    return expanded(os.environ.get("ELMO_CACHE") or "~/.cache/elmo-suite/downloads", "ELMO_CACHE")


def obtain(name: str, thorough: bool = False) -> Path:
    """The folder of a published biLM or the text file of published vectors, downloaded if it is not here.

    Args:
        name: one that `elmo.download.published` knows.
        thorough: read files that are here and compare their hashes, even if they look unchanged.

    Raises:
        InputError: it is not here and cannot be downloaded, or what is here is not what was published. The message
            says which files to place where.
    """
    if not is_published(name):
        raise InputError(f"{name}: nothing is published under this name; known: {', '.join([*BILMS, *VECTORS])}")
    folder = _folder(name)
    if name in VECTORS:
        target = folder / VECTORS[name].member
        dim = VECTORS[name].dim
        if not _usable(target, dim=dim, thorough=thorough):
            with _alone(name, folder):
                if not _usable(target, dim=dim):
                    _unpack(name, VECTORS[name], target)
        return target
    missing = [file for file in files_of(name) if not _usable(folder / file.name, file, thorough=thorough)]
    if missing:
        with _alone(name, folder):
            for file in missing:
                if not _usable(folder / file.name, file):
                    _download(name, file, folder / file.name)
    return folder


def is_here(name: str) -> bool:
    """Whether the files of a name are in the folder; whether they are right is seen when they are obtained."""
    wanted = [VECTORS[name].member] if name in VECTORS else [file.name for file in files_of(name)]
    return all((_folder(name) / file).is_file() for file in wanted)


def content_hash(path: Path) -> str:
    """The sha256 of a file, from the note beside it where there is one and the file has not changed since."""
    note = _read_note(path)
    return note.sha256 if note is not None and note.fits(path) else sha256_of(path)


@dataclass(frozen=True)
class _Note:
    """What is known about a file's content, and by which size and time one sees that it is still that content."""

    sha256: str
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path, sha256: str) -> _Note:
        return cls(sha256, path.stat().st_size, path.stat().st_mtime_ns)

    def fits(self, path: Path) -> bool:
        return (self.size, self.modified_ns) == (path.stat().st_size, path.stat().st_mtime_ns)


def _note_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.checked")


def _read_note(path: Path) -> _Note | None:
    try:
        return _Note(**json.loads(_note_path(path).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # none, or edited: then the file is read again
        return None


def _write_note(path: Path, sha256: str) -> None:
    with (
        suppress(OSError),  # a folder for all that only somebody else may write: then the file is read each time
        replacing(_note_path(path)) as partial,
    ):
        partial.write_text(json.dumps(asdict(_Note.of(path, sha256))), encoding="utf-8")


def _folder(name: str) -> Path:
    return downloads_folder() / (name if name in BILMS else name.partition("/")[0])


def _usable(path: Path, file: PublishedFile | None = None, dim: int | None = None, thorough: bool = False) -> bool:
    """Whether a file is here; one that has changed, or was put here by hand, is checked first.

    Args:
        path: where it would be.
        file: what is published about it.
        dim: width of the vectors in it.
        thorough: check it in any case.
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
        raise InputError(f"{path}: has changed since it came here, from sha256 {note.sha256} to {sha256}. {remedy}")
    if published is None and (wrong := wrong_kind(path, path.suffix, dim)):
        raise InputError(f"{path}: {wrong}. {remedy}")
    _write_note(path, sha256)
    return True


def _download(name: str, file: PublishedFile, target: Path) -> None:
    """Downloads a file from the first of its addresses that has it."""
    first = _read_note(target)  # of an earlier download that was removed
    sha256 = file.sha256 or (first.sha256 if first is not None else None)
    failures: list[str] = []
    for url in _urls(name, file):
        try:
            with _shown(name, f"downloading {url}") as progress:
                fetch(url, target, progress, file.size, sha256, MOST.get(target.suffix) if file.size is None else None)
            if sha256 is None and (wrong := wrong_kind(target, target.suffix)):
                target.unlink()
                raise TransferError(f"{url}: {wrong}; it was thrown away")
        except TransferError as error:
            failures.append(str(error))
        else:
            _write_note(target, sha256 or sha256_of(target))
            return
    reasons = "\n".join(f"  {failure}" for failure in failures)
    remembered = f"\nThe hash is that of an earlier download; to accept a new version, remove {_note_path(target)}"
    raise InputError(
        f"{name}: could not be downloaded\n{reasons}\n"
        f"{_by_hand(name)}{remembered * (first is not None and file.sha256 is None)}"
    )


def _by_hand(name: str) -> str:
    """What to place where, for a machine without network."""
    folder = _folder(name)
    lines = [f"  {folder / file.name}  from  {_urls(name, file)[0]}" for file in files_of(name)]
    if name in VECTORS:
        lines.append(f"  or, unpacked, {folder / VECTORS[name].member}")
    command = f"python -m elmo.download {name}"
    return "\n".join(
        [
            "The same command goes on where this one stopped. To do without a network, put the files there by hand, or",
            f"copy the folder from a machine where `{command}` was given:",
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
    """Takes the one text file out of its archive, which is downloaded if it is not here."""
    archive = target.with_name(vectors.archive.name)
    downloaded = not _usable(archive, vectors.archive)
    if downloaded:
        _download(name, vectors.archive, archive)
    partial = target.with_name(f"{target.name}.partial")  # a fixed name: what a kill leaves is removed
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(archive) as opened, _shown(name, f"unpacking {target}") as progress:
            total = opened.getinfo(vectors.member).file_size
            free = shutil.disk_usage(target.parent).free
            if total > free:
                raise InputError(f"{target}: takes {total / 1e9:.1f} GB, and there is room for {free / 1e9:.1f}")
            partial.unlink(missing_ok=True)  # it may be a link, which would be followed
            with opened.open(vectors.member) as source, partial.open("xb") as file:
                while chunk := source.read(CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    progress(file.tell(), total)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError) as error:  # KeyError: no such member
        partial.unlink(missing_ok=True)
        raise InputError(f"{archive}: cannot take {vectors.member} out of it: {error}; remove it") from error
    except (InputError, OSError):
        partial.unlink(missing_ok=True)
        raise
    partial.replace(target)
    _write_note(target, digest.hexdigest())
    alone = sum(other.archive == vectors.archive for other in VECTORS.values()) == 1
    if downloaded and alone:  # nothing else in it can ever be asked for; one that the user put here stays
        archive.unlink()
        _note_path(archive).unlink(missing_ok=True)


@contextmanager
def _alone(name: str, folder: Path) -> Iterator[None]:
    """One process at a time; the others find what it has left."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(None, "no permission to write")
    except OSError as error:
        raise InputError(f"{folder}: cannot be used: {error.strerror}; name another with ELMO_CACHE") from error
    with locked(folder / ".lock", lambda: _say(f"{name}: waiting for another process that downloads it")):
        yield


def _say(text: str) -> None:
    print_line(Console(stderr=True), text)


@contextmanager
def _shown(name: str, what: str) -> Iterator[Progress]:
    """A bar on a terminal, elsewhere one line, as soon as there is something to tell."""
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
            _say(f"{name}: {what}{size}" + f", from {done / 1e6:,.1f} MB on" * bool(done))
        begun = True
        bar.update(task, completed=done, total=total)

    try:
        yield progress
    finally:
        if begun and console.is_terminal:
            bar.stop()
