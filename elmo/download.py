"""Downloads by name, on first use by `obtain` and ahead of time by the command `python -m elmo.download`.

For machines that will have no network later, it downloads published weights and word vectors, or checks already
downloaded ones against their hashes. If a transfer stops, the same command continues it, if the hash of the whole is
published, so that two versions are never mixed. Files are kept in $ELMO_CACHE (default: ~/.cache/elmo-suite/downloads)
and can be copied there from another machine. ELMO_MIRROR=URL downloads from your server instead, with the same layout
as that folder: URL/allennlp/small/elmo_..., URL/glove/glove.6B.zip.

example: python -m elmo.download allennlp/small glove/6B.300d
"""

import os
import shutil
import sys
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import DownloadColumn, TransferSpeedColumn

from elmo.common.errors import InputError, command_parser, exit_status, reworded
from elmo.common.files import UNREADABLE, expanded, replacing, require_space, sha256_of, size_in_words
from elmo.common.processes import locked
from elmo.common.progress import print_line, progress_bar
from elmo.published import PUBLISHED, VECTORS, PublishedFile, PublishedVectors

PATIENCE_S = 60.0  # how long a server may be silent
# A busy server is asked four times more, after pauses that double.
BUSY = dict[str, Any](total=4, connect=0, read=0, status_forcelist=(429, 500, 502, 503, 504), backoff_factor=1.0)
CHUNK = 1 << 18
# How files begin that are published without a hash: a log-in page must not count as one.
OF_TORCH = (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04")
BEGINNINGS = {".json": (b"{",), ".hdf5": (b"\x89HDF\r\n\x1a\n",), ".pt": OF_TORCH, ".pth": OF_TORCH}

_downloads_allowed = True


class TransferError(Exception):
    """A download failed; the message contains the reason and the URL."""


class DownloadNeeded(InputError):  # noqa: N818
    """Raised in place of a download, see `without_downloads`; `size` is in bytes, None if it is not known."""

    def __init__(self, name: str, size: int | None) -> None:
        place = downloads_folder()
        super().__init__(f"{name}: expected its files in {place}, found none. python -m elmo.download {name}")
        self.name, self.size = name, size


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
    """The folder of downloads: $ELMO_CACHE, or a folder in the user's cache."""
    return expanded(os.environ.get("ELMO_CACHE") or "~/.cache/elmo-suite/downloads", "ELMO_CACHE")


def obtain(name: str, thorough: bool = False) -> Path:
    """The folder of a published model or the text file of published vectors, downloaded if it is missing.

    Args:
        name: a name in `elmo.published`.
        thorough: also compare files that are there with what is published.

    Raises:
        InputError: a file is missing and cannot be downloaded, or one is not the published one. The message says which
            files to place where.
    """
    if name not in PUBLISHED:
        raise InputError(f"{name}: nothing is published under this name; known: {', '.join(PUBLISHED)}")
    folder, files, vectors = _folder(name), PUBLISHED[name], VECTORS.get(name)
    target = folder / vectors.member if vectors else folder
    if is_here(name) and (vectors or not thorough):  # texts in an archive have no published hash
        return target
    if not _downloads_allowed:
        sizes = [file.size for file in files if not (folder / file.name).is_file()]
        raise DownloadNeeded(name, None if None in sizes else sum(filter(None, sizes)))
    console = Console(stderr=True)
    remedy = "name another with ELMO_CACHE"
    with reworded(OSError, lambda error: f"{folder}: cannot be used: {error.strerror}; {remedy}"):
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(None, "no permission to write")
    waiting = f"{name}: waiting for another process that downloads it"
    with locked(folder / ".lock", lambda: print_line(console, waiting)):
        if vectors and target.is_file():  # the other process was faster
            return target
        for file in files:
            path = folder / file.name
            downloaded = not path.is_file()
            if downloaded:
                _download(name, file, path, console)
            elif fault := _fault(path, path.suffix, file):
                raise InputError(
                    f"{path}: {fault}. Remove it to download it again; to use it as it is, move it elsewhere and give "
                    "its path, not the name"
                )
            if vectors:
                print_line(console, f"{name}: unpacking {target}")
                _unpack(vectors, path, target)
                if downloaded and sum(other.archive == file for other in VECTORS.values()) == 1:
                    path.unlink()  # it contains nothing else; an archive that the user put there stays
    return target


def path_or_published(given: str, names: Collection[str], what: str) -> Path:
    """The path of `what`, given by a path or by one of these published names, which is downloaded on first use."""
    path = expanded(given, "weights")
    if not path.exists() and given not in names:
        raise InputError(
            f"weights of {what}: expected a path, or one of {', '.join(names)}, which are downloaded, found {given!r}"
        )
    return path if path.exists() else obtain(given)


def is_here(name: str) -> bool:
    """Whether the files of a name are in the folder."""
    wanted = [VECTORS[name].member] if name in VECTORS else [file.name for file in PUBLISHED[name]]
    return all((_folder(name) / file).is_file() for file in wanted)


def _folder(name: str) -> Path:
    return downloads_folder() / (name.partition("/")[0] if name in VECTORS else name)


def _fault(path: Path, kind: str, file: PublishedFile) -> str:
    """The fault of a file: its size, its content or its beginning; empty if there is none."""
    size = path.stat().st_size
    if file.size not in (None, size):
        return f"expected {file.size:,} bytes, found {size:,}"
    if file.sha256 is not None and (sha256 := sha256_of(path)) != file.sha256:
        return f"expected the content of sha256 {file.sha256}, found {sha256}"
    with path.open("rb") as opened:
        beginning = opened.read(40)
    if file.sha256 is None and not beginning.startswith(BEGINNINGS.get(kind, b"")):
        return f"expected a {kind} file, found {size:,} bytes that begin with {beginning!r}"
    return ""


def _download(name: str, file: PublishedFile, target: Path, console: Console) -> None:
    """Downloads a file from the first of its URLs that works."""
    failures: list[str] = []
    for url in _urls(name, file):
        try:
            fetch(url, target, file, console, name)
            return
        except TransferError as error:
            failures.append(f"  {error}\n")
    paths = [f"  {target.with_name(one.name)}  from  {_urls(name, one)[0]}\n" for one in PUBLISHED[name]]
    unpacked = f"  or, unpacked, {target.with_name(VECTORS[name].member)}\n" if name in VECTORS else ""
    raise InputError(
        f"{name}: could not be downloaded\n{''.join(failures)}Run the same command again. Without a network, copy the "
        f"files there, or copy the\nfolder from a machine that ran `python -m elmo.download {name}`:\n"
        f"{''.join(paths)}{unpacked}ELMO_CACHE names another folder, ELMO_MIRROR another server"
    )


def _urls(name: str, file: PublishedFile) -> list[str]:
    mirror = os.environ.get("ELMO_MIRROR")
    if not mirror:
        return [f"{folder}/{file.name}" for folder in file.folders]
    if not mirror.startswith(("https://", "http://")):
        raise InputError(f"ELMO_MIRROR: expected the URL of a server, https://..., found {mirror!r}")
    return [f"{mirror.rstrip('/')}/{_folder(name).relative_to(downloads_folder()).as_posix()}/{file.name}"]


def fetch(url: str, target: Path, file: PublishedFile, console: Console, name: str) -> None:
    """Downloads to `target`, which appears only when it is complete and is the published file.

    An interrupted transfer continues where it stopped, also in a later process. Only one process at a time may do this
    for a target.

    Raises:
        TransferError: the URL did not send this file.
        InputError: it cannot be written.
    """
    import requests  # imported here: most commands download nothing
    from requests.adapters import HTTPAdapter
    from urllib3.exceptions import HTTPError
    from urllib3.util import Retry

    partial = target.with_name(f"{target.name}.partial")
    if not console.is_terminal:
        print_line(console, f"{name}: downloading {url}")
    columns = DownloadColumn(), TransferSpeedColumn()
    with requests.Session() as session, progress_bar(console, *columns, transient=True) as bar:
        task = bar.add_task(name, total=file.size)
        for scheme in ("https://", "http://"):
            session.mount(scheme, HTTPAdapter(max_retries=Retry(**BUSY)))
        if file.sha256 is None or _length(partial) > (file.size or 0):
            partial.unlink(missing_ok=True)
        before, failure = -1, TransferError(url)
        while (here := _length(partial)) > before:  # the first request, or there are new bytes
            before, start = here, here if file.sha256 is not None else 0
            if start == file.size:
                break
            headers = {"User-Agent": "elmo-benchmark", "Accept-Encoding": "identity"}
            headers |= {"Range": f"bytes={start}-"} if start else {}
            try:
                with session.get(url, headers=headers, stream=True, timeout=PATIENCE_S) as response:
                    response.raise_for_status()
                    start = start if response.status_code == 206 else 0  # some servers send everything again
                    length = response.raw.length_remaining or 0
                    require_space(target.parent, length, "the download", "free some space")
                    with partial.open("ab" if start else "wb") as opened:
                        while chunk := response.raw.read1(CHUNK):
                            opened.write(chunk)
                            bar.update(task, completed=opened.tell(), total=start + length or None)
                break
            except (requests.RequestException, HTTPError, UnicodeError) as error:  # UnicodeError: a name of a host
                failure = TransferError(f"{url}: {error}")
            except OSError as error:
                raise InputError(f"{partial}: cannot write: {error.strerror}") from error
        else:
            raise failure
    if fault := _fault(partial, target.suffix, file):
        partial.unlink()
        raise TransferError(f"{url}: {fault}; it was deleted")
    partial.replace(target)


def _length(partial: Path) -> int:
    return partial.stat().st_size if partial.exists() else 0


def _unpack(vectors: PublishedVectors, archive: Path, target: Path) -> None:
    """Extracts a text file from its archive."""
    problem = f"{archive}: cannot extract {vectors.member}"
    with (
        replacing(target) as partial,
        reworded(UNREADABLE, lambda error: f"{problem}: {error}. Remove the archive"),
        zipfile.ZipFile(archive) as opened,
        opened.open(vectors.member) as source,
        partial.open("xb") as file,
    ):
        require_space(target.parent, opened.getinfo(vectors.member).file_size, target.name, "free some space")
        shutil.copyfileobj(source, file)


def _listed() -> str:
    """The names, each with its size and whether it is already downloaded."""
    lines = ["names:"]
    for name in PUBLISHED:
        size = sum(file.size or 0 for file in PUBLISHED[name])
        lines.append(f"  {name:<24}{size_in_words(size) if size else 'size unknown':>14}{'  here' * is_here(name)}")
    return "\n".join(lines)


def _obtain_all(arguments: Sequence[str] | None) -> int:
    parser = command_parser("elmo.download", str(__doc__), _listed())
    parser.add_argument("names", metavar="NAME", nargs="+", help="of weights or word vectors; see below")
    status = 0
    for name in parser.parse_args(arguments).names:
        try:
            print(f"{name}: {obtain(name, thorough=True)}")
        except (InputError, OSError) as error:
            print(f"elmo.download: {error}", file=sys.stderr)
            status = 1
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    again = "stopped; the same command continues from here"
    return exit_status("elmo.download", lambda: _obtain_all(arguments), again)


if __name__ == "__main__":
    sys.exit(main())
