"""Files: atomic writing, lines of text, tables, JSON, paths with ~, hashes, free space, sizes and durations as text."""

import codecs
import csv
import errno
import gzip
import hashlib
import io
import json
import math
import os
import re
import shutil
import stat
import struct
import sys
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, Literal
from zipfile import BadZipFile

from elmo.common.errors import InputError, excerpt, reworded

# The package with all YAML files: `conf` at the top of a checkout; a wheel has it in `tasks` (setup.py).
CONF = "tasks.conf" if (Path(__file__).parents[2] / "tasks" / "conf").is_dir() else "conf"


ALWAYS_PLAIN = frozenset({str, int, bool})  # types of which every value is JSON
MOST_LISTED = 20  # differences in a message
_GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
FileState = tuple[str, int, int]  # path, time of the last change, size
# What zipfile, numpy and torch raise for a damaged file depends on where the damage is. Their texts help nobody: some
# advise to run what is in the file.
UNREADABLE = (
    *(BadZipFile, UnpicklingError, struct.error, zlib.error, EOFError, OSError, OverflowError),
    *(RuntimeError, LookupError, AttributeError, TypeError, ValueError),
)
LONGEST_TEXT = 1 << 24  # characters; Python's default, 131,072, is too few for a document
UNDECODED = re.compile("[\udc80-\udcff]")  # bytes that cannot be read, in text that was decoded with these errors:
codecs.register_error("unread", lambda error: ("\udcff", codecs.replace_errors(error)[1]))
_COMMAND = re.compile(r"python -m [^;,)]*")
# Tabs separate plain text; commas need quotes around texts that contain them.
STYLES: dict[str, tuple[str, Literal[0, 3]]] = {".csv": (",", csv.QUOTE_MINIMAL), ".tsv": ("\t", csv.QUOTE_NONE)}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to that replaces `path` at the end of the block, and is removed on any error, Ctrl-C included.

    It is in the same folder, since a rename is atomic only within one file system. Its name is new each time, since
    machines may share the folder. A device is rejected: a rename by root would replace /dev/null by a file.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # writing to a folder fails anyway
        raise InputError(f"{path}: expected the path of a file to write, found a device or pipe. Name a file")
    if not path.parent.exists():  # otherwise the error would name the partial file
        raise FileNotFoundError(errno.ENOENT, "cannot write there: its folder does not exist", str(path))
    partial = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.partial")
    try:
        yield partial
        # A rename may reach the disk before the content does: after a loss of power the file would be empty.
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename, error.strerror = str(path), os.strerror(error.errno)  # h5py's text is long
        raise
    finally:
        with suppress(OSError):  # it exists after an error alone, and the first error is the one to report
            partial.unlink()


def left_partials(folder: Path, pattern: str) -> list[Path]:
    """Partial files of killed processes whose names fit a pattern; see `replacing`."""
    partials = folder.glob(f"{pattern}.*.partial")
    return [path for path in partials if re.search(r"\.[0-9]+-[0-9a-f]+\.partial$", path.name)]


def encoding_of(path: Path) -> tuple[str, str]:
    """The encoding of a file, and what to say if it is not whole UTF-8; what can be read once only is taken as UTF-8.

    It is UTF-16 by its byte order mark, and Windows-1252 if most lines that are not ASCII are not UTF-8 either.
    """
    if not path.is_file() or path.parent == Path("/dev"):
        return "UTF-8", ""
    with path.open("rb") as file:
        if file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "UTF-16", ""
        texts = enumerate((line.decode(errors="unread") for line in file), start=1)
        odd = [number if UNDECODED.search(text) else 0 for number, text in texts if not text.isascii()]
    encoding, line = "Windows-1252" if odd.count(0) < len(odd) / 2 else "UTF-8", next(filter(None, odd), 0)
    said = f"{path.name} is partly not UTF-8 (line {line}): read as {encoding}; check letters with accents"
    return encoding, said if line else ""


def decoded_lines(path: Path, tolerant: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file with their ends; a byte order mark is accepted. Only a line feed ends a line.

    `tolerant` reads a file by `encoding_of`, and gives bytes that cannot be read as `UNDECODED`, not an InputError.
    """
    if tolerant:
        with path.open("r", -1, encoding_of(path)[0].replace("UTF-8", "utf-8-sig"), "unread", "\n") as text:
            yield from text
        return
    number = 0

    def say(error: UnicodeDecodeError) -> str:
        problem = f"{path}, line {number}: expected UTF-8 text, found: {error.reason} at byte {error.start}"
        return f"{problem}. Convert the file: iconv -f ITS_ENCODING -t UTF-8"

    with reworded(UnicodeDecodeError, say), path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")


def utf8_lines(path: Path, tolerant: bool = False) -> Iterator[str]:
    """The lines of a UTF-8 file without their line ends; a byte order mark and CRLF are accepted.

    Only a line feed ends a line: tweets and web pages contain all the other separators of Unicode. A carriage return
    within a line is an error. Such a file probably uses it as its line end, and would be read as one line. `tolerant`
    is that of `decoded_lines`.
    """
    for number, line in enumerate(decoded_lines(path, tolerant), start=1):
        text = line.rstrip("\r\n")
        if "\r" in text:
            raise InputError(
                f"{path}, line {number}: expected lines that end in LF or CRLF, found a carriage return within one, at "
                f"character {text.index(chr(13))}. Save the file with line ends LF or CRLF"
            )
        yield text


def raw_rows(path: Path, ending: str | None = None, tolerant: bool = False) -> Iterator[tuple[int, list[str], str]]:
    """The last line of each row, counted from 1, its cells, and what is wrong with it, if something is.

    The first one is the header. Of a row that is no CSV the only cell is its text.

    Args:
        path: a file that ends in .csv or .tsv.
        ending: of a table whose name has none, such as standard input.
        tolerant: that of `decoded_lines`.
    """
    style = STYLES.get(ending or path.suffix.lower())
    if style is None:
        raise InputError(f"{path}: expected a table whose name ends in {' or '.join(STYLES)}. Rename the file")
    csv.field_size_limit(LONGEST_TEXT)
    taken: list[str] = []  # the lines of a row

    def lines() -> Iterator[str]:
        for line in decoded_lines(path, tolerant):
            taken.append(line)
            yield line

    rows = csv.reader(lines(), delimiter=style[0], quoting=style[1], strict=True)
    width = 0
    while True:
        taken.clear()
        problem = ""
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            row = ["".join(taken).strip()]
            problem = f"expected a table, found: {error}. Check the quotes up to this line"
        width = width or len(row)
        if row and len(row) != width and not problem:
            remedy = "Put quotes around texts with commas or line ends"
            problem = f"expected {width} columns as in the header, found {len(row)}. {remedy}"
        if row:
            yield rows.line_num, row, problem


def table_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The last line of each row, counted from 1, and the row's texts in these columns.

    Args:
        path: a UTF-8 file that ends in .csv or .tsv; its first line names the columns.
        columns: the names of the wanted ones.

    Raises:
        InputError: the file is not such a table; the message names the line.
    """
    rows = raw_rows(path)
    places = places_of(path, next(rows, None), columns)
    for line, row, problem in rows:
        if problem:
            raise InputError(f"{path}, line {line}: {problem}")
        yield line, tuple(row[place] for place in places)


def places_of(path: Path, header: tuple[int, Sequence[str], str] | None, columns: Sequence[str]) -> list[int]:
    """The places of columns in a table, by the first of its `raw_rows`."""
    line, names, problem = header or (1, [], "")
    if problem:
        raise InputError(f"{path}, line {line}: {problem}")
    for name in columns:
        if names.count(name) != 1:
            shown = " ".join(", ".join(names).split())[:200] or "no header"
            raise InputError(
                f"{path}, line 1: expected one column {name!r} in the header, found {shown}. Name the column that you "
                "mean, or save the table as a .csv with commas or a .tsv with tabs"
            )
    return [names.index(name) for name in columns]


def write_json(path: Path, content: object) -> None:
    """Writes a JSON file that is either the old one or the whole new one, and creates its folder.

    If the name ends in .gz it is compressed, equal content to equal bytes.

    Raises:
        TypeError: a value is not one that `plain_json` accepts.
    """
    packed = path.suffix == ".gz"
    text = json.dumps(plain_json(content), indent=None if packed else 1, ensure_ascii=False, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_bytes(gzip.compress(text.encode(), mtime=0) if packed else text.encode())


def plain_json(value: object, where: str = "") -> Any:  # noqa: ANN401 (any JSON value)
    """The value as JSON has it: null for NaN and infinity, plain numbers and lists for those of numpy and torch.

    Args:
        value: text, a number, a list, an array or a mapping; keys become text.
        where: names the value in an error.

    Raises:
        TypeError: another value, however deep; the message names its place.
    """
    if hasattr(value, "tolist"):  # numbers and arrays of numpy and torch, which this module does not import
        value = value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): plain_json(item, f"{where}.{key}" if where else str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # No call for a plain item: a confusion matrix of 2,000 labels has 4 million of them.
        return [
            item if type(item) in ALWAYS_PLAIN else plain_json(item, f"{where}[{index}]")
            for index, item in enumerate(value)
        ]
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{where}: expected text, a number, a list or a mapping, found {type(value).__name__}; convert it")


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401 (any JSON value)
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON, which has neither NaN nor half of a surrogate pair, or nested too deeply.
    """
    from pydantic_core import from_json  # imported here: the help of most commands does not need it

    return from_json(text, allow_inf_nan=False)


def read_json(path: Path) -> Any:  # noqa: ANN401 (any JSON value)
    """The value in a JSON file from any source, compressed by gzip or not.

    Raises:
        ValueError: see `parse_json`; also a file that was cut short.
        OSError: the file cannot be read.
    """
    require_file(path)
    raw = path.read_bytes()
    with reworded((EOFError, zlib.error, gzip.BadGzipFile), lambda it: f"a damaged gzip file: {it}", ValueError):
        return parse_json(gzip.decompress(raw) if raw.startswith(_GZIP) else raw)


def read_own_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file that this package wrote and can write again."""
    remedy = "Delete its folder, and it is made again"
    with reworded(ValueError, lambda error: f"{path}: expected a JSON object, found: {error}. {remedy}"):
        content: dict[str, Any] = read_json(path)
        if not isinstance(content, dict):
            raise ValueError(excerpt(content))
        return content


def expanded(path: str | Path, setting: str) -> Path:
    """The path with ~ and ~user expanded; `setting` names it in an error."""
    if path == "":
        raise InputError(f"{setting}: expected a path, found ''; for the current folder, write .")
    home = str(path).split("/")[0]
    with reworded(RuntimeError, lambda _: f"{setting}={path}: expected a home folder, but {home} has none"):
        return Path(path).expanduser()


def require_file(path: Path) -> None:
    """Raises an InputError for a pipe, which would be read forever, a device or a folder.

    Raises:
        FileNotFoundError: nothing is there.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise InputError(f"{path}: expected a file, found a folder, a pipe or a device. Remove it, or name another")


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes_of(files: Iterable[Path], root: Path | None = None) -> dict[str, str]:
    """The sha256 of files by name, or by path below `root`; a name that several files have gets a number."""
    hashes: dict[str, str] = {}
    for file in files:
        name = file.relative_to(root).as_posix() if root is not None and file.is_relative_to(root) else file.name
        same = sum(name in (other, other.partition(" (")[0]) for other in hashes)
        hashes[f"{name} ({same + 1})" if same else name] = sha256_of(file)
    return hashes


def states_of(files: Iterable[Path]) -> tuple[FileState, ...]:
    """The states of files: while these are equal, so is the content."""
    return tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def require_same(path: Path, what: str, there: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Raises an InputError that lists the differences unless something was made as it is asked for now."""
    keys = [key for key in sorted({*there, *expected}) if there.get(key) != expected.get(key)]
    if keys:
        lines = [f"\n  {key:.80}: {there.get(key)!r:.200} there, {expected.get(key)!r:.200} asked for" for key in keys]
        raise InputError(
            f"{path}: made with other {what}:{''.join(lines[:MOST_LISTED])}\nDelete it, name another one, or use the "
            "same values."
        )


def require_space(folder: Path, need: float, purpose: str, remedy: str) -> None:
    """Raises an InputError if the disk of a folder has fewer than `need` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < need:
        raise InputError(
            f"{folder}: {purpose} needs about {size_in_words(need)}, {size_in_words(free)} are free; {remedy}"
        )


def nearest_existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


def require_writable(key: str, folder: Path) -> None:
    """Raises an InputError unless the folder can be written to or made; `key` is the setting or option that has it."""
    there = nearest_existing(folder)
    if not (there.is_dir() and os.access(there, os.W_OK)):
        raise InputError(f"{key}={folder}: expected a folder to write to, found {there}, which is none. Use another")


def duration(seconds: float) -> str:
    """Seconds in the unit that fits: 48 s, 3.7 min, 2.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 90 * 60 else f"{seconds / 3600:,.1f} h"


def size_in_words(size: float) -> str:
    """A number of bytes in the unit that fits."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def fitted(text: str, width: int) -> str:
    """The text with lines broken at spaces where a terminal of this width would break words and numbers.

    Commands stay on one line, so that they can be copied. Of width 0, which is no terminal, the text stays as it is.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if len(line) > width > 0:
            whole = _COMMAND.sub(lambda command: command[0].replace(" ", "\0"), line)
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            wrapper = textwrap.TextWrapper(width, "", indent, break_long_words=False, break_on_hyphens=False)
            lines[number] = wrapper.fill(whole).replace("\0", " ")
    return "\n".join(lines)


def print_lines(lines: Iterable[str]) -> None:
    """Writes lines to standard output as UTF-8, and at once."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # not where a program reads what is printed
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.writelines(lines)
    sys.stdout.flush()
