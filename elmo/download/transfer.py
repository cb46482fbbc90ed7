"""Download of one file over http(s); an interrupted transfer continues where it stopped, also in a later process.

The bytes so far are kept in `NAME.partial`, and the server's version of the file (its ETag or date, and the length) in
`NAME.partial.json`. The rest is requested on the condition that the version is still the same, so that two versions are
never mixed. Links under these names are never followed.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from typing import IO

from elmo.common.errors import InputError, excerpt
from elmo.common.files import read_json, require_space, sha256_of

PATIENCE_S = 60.0  # how long a server may be silent
TRIES = 5  # in a row without new bytes
PAUSE_S = 1.0  # before the second try; doubled before each further one
SLOWEST = 1000  # bytes a second, over PATIENCE_S: a slower transfer ends; a try that brings fewer bytes has failed
CHUNK = 1 << 18
_LENGTH = re.compile("[0-9]{1,18}")

# Called after every chunk with the bytes so far, and the total if the server has sent it.
Progress = Callable[[int, int | None], None]


class TransferError(Exception):
    """A download failed; the message contains the reason and the URL."""


class _NoAnswerError(TransferError):
    """The server does not answer. This is final at the first try, and worth another try within a transfer."""


class _BrokenOffError(TransferError):
    """The transfer stopped, or the server is busy: worth another try."""


@dataclass(frozen=True)
class _Version:
    """The server's version of a partly downloaded file.

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
    """Downloads to `target`, which appears only when it is complete and has the given size and hash.

    Only one process at a time may do this for a target.

    Args:
        url: http or https.
        target: the file to write.
        progress: called after every chunk.
        size: bytes of the file, if known.
        sha256: of its content, if known.
        most: maximum bytes, if the size is not known.

    Raises:
        TransferError: the URL did not send this file. The bytes so far are kept, unless they are wrong.
        InputError: it cannot be written.
    """
    partial = target.with_name(f"{target.name}.partial")
    if partial.is_symlink() or _version_path(partial).is_symlink():
        _discard(partial)
    _receive(url, partial, progress, size, most)
    found = partial.stat().st_size
    if size is not None and found != size:
        _discard(partial)
        raise TransferError(f"{url}: expected {size:,} bytes, found {found:,}; it was deleted")
    if sha256 is not None and (found_hash := sha256_of(partial)) != sha256:
        _discard(partial)
        raise TransferError(f"{url}: expected content of sha256 {sha256}, found {found_hash}; it was deleted")
    partial.replace(target)
    _version_path(partial).unlink(missing_ok=True)


def _receive(url: str, partial: Path, progress: Progress, size: int | None, most: int | None) -> None:
    """Fills `partial`, in any number of tries as long as they bring more than a few new bytes."""
    furthest = start = _length(partial)
    failures = 0
    while True:
        try:
            _attempt(url, partial, progress, size, most)
        except (_BrokenOffError, _NoAnswerError) as error:
            failures = 0 if _length(partial) >= furthest + SLOWEST else failures + 1
            furthest = max(furthest, _length(partial))
            if failures == TRIES or (isinstance(error, _NoAnswerError) and furthest == start):
                raise
            time.sleep(PAUSE_S * 2 ** max(0, failures - 1))
        else:
            return


def _attempt(url: str, partial: Path, progress: Progress, size: int | None, most: int | None) -> None:
    """Makes one request for the missing bytes."""
    version = _read_version(partial)
    here = _length(partial)
    if version.total is not None and here == version.total:
        return  # the process was killed after the last byte, before the rename
    headers = {"User-Agent": "elmo-benchmark", "Accept-Encoding": "identity"}
    if here and version.validator is not None:
        headers |= {"Range": f"bytes={here}-", "If-Range": version.validator}
    with _open(url, headers, partial) as response:
        if response.headers.get_content_type() == "text/html":
            raise TransferError(f"{url}: expected a file, the server sends a web page; open the URL to read it")
        start, total = _extent(url, response, here)
        if start and not (total == version.total and _same_version(version, response.headers)):
            _discard(partial)
            raise _BrokenOffError(f"{url}: the file has changed since the download began; starting again")
        if size is not None and total not in (None, size):
            raise TransferError(f"{url}: expected a file of {size:,} bytes, the server offers {total:,}")
        if most is not None and total is not None and total > most:
            raise TransferError(f"{url}: expected a file of at most {most:,} bytes, the server offers {total:,}")
        limit = total if total is not None else size if size is not None else most
        require_space(partial.parent, (total or size or 0) - start, "the download", "free some space")
        pace = _SpeedCheck(url, start)
        try:
            with _open_partial(partial, start) as file:
                if not start:  # only after the old bytes are gone, so that the version never describes them
                    version = _Version(_validator(response.headers), total)
                    with _version_path(partial).open("x", encoding="utf-8") as about:
                        json.dump(asdict(version), about)
                here = start
                progress(here, total)
                while chunk := _read(url, response):
                    here += len(chunk)
                    if limit is not None and here > limit:
                        _discard(partial)
                        raise TransferError(f"{url}: expected at most {limit:,} bytes, got more; it was deleted")
                    file.write(chunk)
                    file.flush()  # so that a killed process loses nothing
                    progress(here, total)
                    if here != total:
                        pace.check(here)
        except OSError as error:
            raise InputError(f"{partial}: cannot write: {error.strerror}") from error
    if total is not None and here < total:
        raise _BrokenOffError(f"{url}: the connection was closed after {here:,} of {total:,} bytes")


class _SpeedCheck:
    """Stops a transfer that is too slow: one byte a minute never times out."""

    def __init__(self, url: str, here: int) -> None:
        self._url, self._here, self._since = url, here, time.monotonic()

    def check(self, here: int) -> None:
        """Raises a TransferError if the transfer was too slow recently."""
        seconds = time.monotonic() - self._since
        if seconds < PATIENCE_S:
            return
        if here - self._here < SLOWEST * seconds:
            raise TransferError(
                f"{self._url}: sent fewer than {SLOWEST:,} bytes a second in {seconds:.0f} seconds; the {here:,} bytes "
                "so far are kept, and the next try continues there"
            )
        self._here, self._since = here, time.monotonic()


def _open_partial(partial: Path, start: int) -> IO[bytes]:
    """Opens the file to write from `start` on; never through a link, even one that appears meanwhile."""
    if start:
        return os.fdopen(os.open(partial, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "ab")
    _discard(partial)
    return partial.open("xb")


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from https to an insecure URL."""

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
        if error.code == 416:  # the partial file is longer than the file on the server: start again
            _discard(partial)
        kind = _BrokenOffError if error.code in (416, 429) or error.code >= 500 else TransferError
        raise kind(f"{url}: the server answers {error.code} {error.reason:.80}") from error
    # URLError is an OSError; a ValueError is about a URL, such as that of a redirect or with a label of 64 characters.
    except (OSError, http.client.HTTPException, ValueError) as error:
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
    """Where the body begins in the file, and the file's length; a server may ignore the range and send everything."""
    if response.status != 206:
        length = response.headers.get("Content-Length")
        if length is not None and not _LENGTH.fullmatch(length):
            raise TransferError(f"{url}: expected a Content-Length, the server sends {excerpt(length)}")
        return 0, None if length is None else int(length)
    content_range = response.headers.get("Content-Range", "")
    extent, _, total = content_range.removeprefix("bytes ").partition("/")
    if extent.partition("-")[0] != str(here) or not _LENGTH.fullmatch(total):
        raise TransferError(f"{url}: expected the bytes from {here} on, the server sends {excerpt(content_range)}")
    return here, int(total)


def _validator(headers: Message) -> str | None:
    """Identifies the version of a file. A weak ETag does not, since it does not promise equal bytes."""
    tag = headers.get("ETag")
    return tag if tag is not None and not tag.startswith("W/") else headers.get("Last-Modified")


def _same_version(version: _Version, headers: Message) -> bool:
    """Whether a response continues the same version: servers must repeat an ETag, and may repeat a date."""
    if version.validator is not None and version.validator.startswith('"'):
        return headers.get("ETag") == version.validator
    return headers.get("Last-Modified") in (None, version.validator)


def _version_path(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.json")


def _read_version(partial: Path) -> _Version:
    try:
        version = _Version(**read_json(_version_path(partial)))
        return version if re.fullmatch("[ -~]*", version.validator or "") else _Version()  # it becomes a header
    except (OSError, ValueError, TypeError):  # missing or damaged: the partial file cannot be trusted
        return _Version()


def _length(partial: Path) -> int:
    return partial.stat().st_size if partial.exists() else 0


def _discard(partial: Path) -> None:
    _version_path(partial).unlink(missing_ok=True)
    partial.unlink(missing_ok=True)
