"""A file from a URL, over http(s): a transfer that breaks continues where it stopped, also in another process later.

What has come is kept in `NAME.partial`, and what the server said about it (its ETag or date, and the length) in
`NAME.partial.json`: the rest is asked for on condition that the file there is still the same, so that two versions are
never spliced. Neither is ever a link: what it leads to belongs to somebody else.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import IO

from elmo.common.errors import InputError
from elmo.common.files import sha256_of

PATIENCE_S = 60.0  # how long a server may say nothing
TRIES = 5  # in a row that bring nothing new
PAUSE_S = 1.0  # before the second try; doubled before each one more
SLOWEST = 1000  # bytes a second, over PATIENCE_S; a server that sends less might as well say nothing
CHUNK = 1 << 18

# Told after every chunk: bytes here, and bytes in all where the server has said it.
Progress = Callable[[int, int | None], None]


class TransferError(Exception):
    """Why a file did not come from a URL; the message names the URL."""


class _NoAnswerError(TransferError):
    """Nobody answered. At the first try that is how it is; in the middle of a transfer it may pass."""


class _BrokenOffError(TransferError):
    """It stopped half-way, or the server asks for patience: worth another try."""


class _TooSlowError(_BrokenOffError):
    """What came does not count: a few bytes a minute would never end."""


@dataclass(frozen=True)
class _Seen:
    """What the server said about the file whose beginning is here.

    Attributes:
        validator: an ETag or a date that changes when the file does.
        total: length of the whole file.
    """

    validator: str | None = None
    total: int | None = None


def fetch(
    url: str,
    target: Path,
    progress: Progress,
    size: int | None = None,
    sha256: str | None = None,
    most: int | None = None,
) -> None:
    """Downloads to `target`, which appears when the content is whole and has this size and hash, where they are given.

    Only one process at a time may do this for a target.

    Args:
        url: http or https.
        target: the file to write.
        progress: told after every chunk.
        size: bytes of the file.
        sha256: of its content.
        most: its bytes at most, where the size is not known.

    Raises:
        TransferError: the URL did not give this file. What came of it is kept, unless it is wrong.
        InputError: it cannot be written here.
    """
    partial = target.with_name(f"{target.name}.partial")
    if partial.is_symlink() or _seen_path(partial).is_symlink():
        _discard(partial)
    _receive(url, partial, progress, size, most)
    found = partial.stat().st_size
    if size is not None and found != size:
        _discard(partial)
        raise TransferError(f"{url}: expected {size:,} bytes, found {found:,}; it was thrown away")
    if sha256 is not None and (found_hash := sha256_of(partial)) != sha256:
        _discard(partial)
        raise TransferError(f"{url}: expected content of sha256 {sha256}, found {found_hash}; it was thrown away")
    partial.replace(target)
    _seen_path(partial).unlink(missing_ok=True)


def _receive(url: str, partial: Path, progress: Progress, size: int | None, most: int | None) -> None:
    """Fills `partial`, in as many tries as it takes while each brings something."""
    furthest = start = _length(partial)
    fruitless = 0
    while True:
        try:
            _attempt(url, partial, progress, size, most)
        except (_BrokenOffError, _NoAnswerError) as error:
            fruitful = _length(partial) > furthest and not isinstance(error, _TooSlowError)
            fruitless = 0 if fruitful else fruitless + 1
            furthest = max(furthest, _length(partial))
            if fruitless == TRIES or (isinstance(error, _NoAnswerError) and furthest == start):
                raise
            time.sleep(PAUSE_S * 2 ** max(0, fruitless - 1))
        else:
            return


def _attempt(url: str, partial: Path, progress: Progress, size: int | None, most: int | None) -> None:
    """One request, for what is not here yet."""
    seen = _read_seen(partial)
    here = _length(partial)
    if seen.total is not None and here == seen.total:
        return  # killed when all had come, before it got its name
    headers = {"User-Agent": "elmo-benchmark", "Accept-Encoding": "identity"}
    if here and seen.validator is not None:
        headers |= {"Range": f"bytes={here}-", "If-Range": seen.validator}
    with _open(url, headers, partial) as response:
        if response.headers.get_content_type() == "text/html":
            raise TransferError(f"{url}: expected a file, the server sends a web page; open the URL to read it")
        start, total = _extent(url, response, here)
        if start and not (total == seen.total and _same_version(seen, response.headers)):
            _discard(partial)
            raise _BrokenOffError(f"{url}: the file there is no longer the one that was begun; starting again")
        if size is not None and total not in (None, size):
            raise TransferError(f"{url}: expected a file of {size:,} bytes, the server offers {total:,}")
        if most is not None and total is not None and total > most:
            raise TransferError(f"{url}: expected a file of at most {most:,} bytes, the server offers {total:,}")
        limit = total if total is not None else size if size is not None else most
        _check_room(partial, (total or size or 0) - start)
        pace = _Pace(url, start)
        try:
            with _open_partial(partial, start) as file:
                if not start:  # now that what was here is gone: never new words about old bytes
                    seen = _Seen(_validator(response.headers), total)
                    with _seen_path(partial).open("x", encoding="utf-8") as about:
                        json.dump(asdict(seen), about)
                here = start
                progress(here, total)
                while chunk := _read(url, response):
                    here += len(chunk)
                    if limit is not None and here > limit:
                        _discard(partial)
                        raise TransferError(f"{url}: expected at most {limit:,} bytes, got more; it was thrown away")
                    file.write(chunk)
                    file.flush()  # so that a kill loses nothing of it
                    progress(here, total)
                    if here != total:
                        pace.check(here)
        except OSError as error:
            raise InputError(f"{partial}: cannot write: {error.strerror}") from error
    if total is not None and here < total:
        raise _BrokenOffError(f"{url}: the connection was closed after {here:,} of {total:,} bytes")


class _Pace:
    """Sees to it that a transfer comes to an end: one byte a minute is no silence, and would take for ever."""

    def __init__(self, url: str, here: int) -> None:
        self._url, self._here, self._since = url, here, time.monotonic()

    def check(self, here: int) -> None:
        """Raises _TooSlowError if too little came lately."""
        seconds = time.monotonic() - self._since
        if seconds < PATIENCE_S:
            return
        if here - self._here < SLOWEST * seconds:
            raise _TooSlowError(f"{self._url}: sent fewer than {SLOWEST:,} bytes a second for {seconds:.0f} seconds")
        self._here, self._since = here, time.monotonic()


def _open_partial(partial: Path, start: int) -> IO[bytes]:
    """The file to write to, from `start` on; never through a link, whatever others put there meanwhile."""
    if start:
        return os.fdopen(os.open(partial, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "ab")
    _discard(partial)
    return partial.open("xb")


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to something that anybody on the way could change."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and not newurl.startswith("https://"):
            raise urllib.error.URLError(f"it redirects to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _open(url: str, headers: dict[str, str], partial: Path) -> http.client.HTTPResponse:
    opener = urllib.request.build_opener(_NoDowngrade)
    try:
        return opener.open(urllib.request.Request(url, headers=headers), timeout=PATIENCE_S)  # type: ignore[no-any-return]
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # what is here is longer than the file there: start again
            _discard(partial)
        kind = _BrokenOffError if error.code in (416, 429) or error.code >= 500 else TransferError
        raise kind(f"{url}: the server answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        raise _NoAnswerError(f"{url}: {_reason(error)}") from error


def _read(url: str, response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(f"{url}: the connection broke: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return f"no answer within {PATIENCE_S:.0f} seconds"
    return str(reason.strerror or reason) if isinstance(reason, OSError) else str(reason) or type(reason).__name__


def _extent(url: str, response: http.client.HTTPResponse, here: int) -> tuple[int, int | None]:
    """Where the body begins in the file, and the file's length; a server may send all of it, whatever was asked."""
    if response.status != 206:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdigit() else None
    said = response.headers.get("Content-Range", "")
    extent, _, total = said.removeprefix("bytes ").partition("/")
    if extent.partition("-")[0] != str(here) or not total.isdigit():
        raise TransferError(f"{url}: expected the bytes from {here} on, the server sends {said or 'others'}")
    return here, int(total)


def _validator(headers: Message) -> str | None:
    """What tells this version of a file from another; a weak ETag does not promise equal bytes."""
    tag = headers.get("ETag")
    return tag if tag is not None and not tag.startswith("W/") else headers.get("Last-Modified")


def _same_version(seen: _Seen, headers: Message) -> bool:
    """Whether a part is of the file whose beginning is here: servers must repeat an ETag, and may repeat a date."""
    if seen.validator is not None and seen.validator.startswith('"'):
        return headers.get("ETag") == seen.validator
    return headers.get("Last-Modified") in (None, seen.validator)


def _check_room(partial: Path, missing: int) -> None:
    free = shutil.disk_usage(partial.parent).free
    if missing > free:
        raise InputError(f"{partial.parent}: needs room for {missing / 1e9:.1f} GB, has {free / 1e9:.1f}; make some")


def _seen_path(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _read_seen(partial: Path) -> _Seen:
    try:
        return _Seen(**json.loads(_seen_path(partial).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):  # none, or cut short: then nothing here can be trusted
        return _Seen()


def _length(partial: Path) -> int:
    try:
        return partial.stat().st_size
    except FileNotFoundError:
        return 0


def _discard(partial: Path) -> None:
    _seen_path(partial).unlink(missing_ok=True)
    partial.unlink(missing_ok=True)
