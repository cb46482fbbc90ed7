"""Text files of a corpus: `find_sources` lists .txt, .gz and .xz files, `read_blocks` reads them in bounded memory.

A block is some megabytes of whole lines and may span files. Its boundaries depend on the text alone, so any process can
tokenise it with the same result.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from elmo.common.errors import InputError
from elmo.common.files import sha256_of

EXTENSIONS: Final = (".txt", ".gz", ".xz")
BLOCK_BYTES: Final = 8 << 20

_READ_BYTES: Final = 1 << 20
_TEXT_PER_BYTE: Final = {".txt": 1.0, ".gz": 3.0, ".xz": 4.0}  # bytes of text per byte of file, typical for prose
_MAGIC: Final = {
    b"\x1f\x8b": "gzip: name it .gz",
    b"\xfd7zXZ": "xz: name it .xz",
    b"PK\x03\x04": "zip: unpack it first",
}
_WRITTEN: Final = ("train.tokens.bin", "run.json", "output.hdf5")  # in a token store, a run, an output layer
_BOM: Final = b"\xef\xbb\xbf"
_MOST_WEIGHT: Final = 1000  # a larger one is a typing error: the copies are written to the store

CONTINUES, NEW_DOCUMENT, NEW_FILE = range(3)  # how a line relates to the one before it


@dataclass(frozen=True)
class SourceFile:
    """A text file: its path, what identifies its content (name, size and hash of the file as stored), its weight."""

    path: Path
    name: str
    size: int
    sha256: str
    weight: float = 1.0  # how often each training sentence occurs in a pass, on average

    def description(self) -> dict[str, Any]:
        """Return the file for the header of a store; a weight of 1 is left out, as in stores from before weights."""
        known = {"name": self.name, "bytes": self.size, "sha256": self.sha256}
        return known if self.weight == 1 else {**known, "weight": self.weight}

    def text_bytes(self) -> int:
        """Return about how many bytes of text the file has, unpacked."""
        return int(self.size * _TEXT_PER_BYTE[self.path.suffix.lower()])


@dataclass(frozen=True)
class Piece:
    """Whole lines of one file, with their position, since errors name file, line and byte."""

    path: str
    line: int
    start: int
    data: bytes
    place: int = CONTINUES  # of the first line that is not blank
    source: int = 0  # number of the file in the corpus


class TextLine(NamedTuple):
    """A non-blank line, stripped of white space.

    Attributes:
        raw: its bytes.
        text: the same, decoded.
        place: CONTINUES, NEW_DOCUMENT after a blank line, or NEW_FILE.
    """

    raw: bytes
    text: str
    place: int

    @property
    def key(self) -> int:
        """Hash of its bytes, 64 bits: finds repeated paragraphs and decides which are held out."""
        return int.from_bytes(hashlib.blake2b(self.raw, digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Block:
    """The unit of work: pieces in reading order, and the bytes of the files (as stored) that were read for them."""

    index: int
    pieces: tuple[Piece, ...]
    cost: int


def find_sources(paths: Iterable[str | Path]) -> list[SourceFile]:
    """Return the files under `paths` in the order given; a folder means its text files, sorted, subfolders included.

    `FILE*4` or `FOLDER*0.5` gives files a weight: how often each training sentence occurs in a pass, on average.

    Files that a pretraining wrote below a folder are skipped: otherwise vocabularies would be read as sentences, and
    the corpus of a run next to its text would change with every run.
    """
    files: dict[Path, str] = {}  # a file named twice is read once
    weights: dict[Path, float] = {}
    for path, weight in map(_weighted, paths):
        if path.is_dir():
            found = sorted(p for p in _files(path) if p.suffix.lower() in EXTENSIONS and p.is_file())
            if not found:
                raise InputError(
                    f"{path}: no {', '.join(EXTENSIONS)} file in this folder; name a folder or file with text."
                )
            named = {file.resolve(): file.relative_to(path).as_posix() for file in found}
        elif not path.exists():
            raise InputError(f"{path}: no such file or folder; check its name.")
        elif path.suffix.lower() not in EXTENSIONS:
            raise InputError(f"{path}: expected a name ending in {', '.join(EXTENSIONS)}; rename or unpack the file.")
        elif not path.is_file():
            raise InputError(f"{path}: expected a file, since it is read twice; write the text to one first.")
        else:
            named = {path.resolve(): path.name}
        for file, name in named.items():
            if weights.setdefault(file, weight) != weight:
                raise InputError(f"{file}: named twice, with weights {weights[file]:g} and {weight:g}; name it once.")
            files.setdefault(file, name)
    if not files:
        raise InputError("The corpus has no sources; name at least one text file or folder.")
    return [SourceFile(path, name, path.stat().st_size, sha256_of(path), weights[path]) for path, name in files.items()]


def _weighted(entry: str | Path) -> tuple[Path, float]:
    """Return the path and the weight of an entry such as news.txt or news.txt*4."""
    path, star, given = str(entry).rpartition("*")
    if not star or Path(entry).exists():
        return Path(entry), 1.0
    try:
        weight = float(given)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= _MOST_WEIGHT:
        raise InputError(
            f"{entry}: expected a weight above 0 and at most {_MOST_WEIGHT:,} after *, such as *4 or *0.5, found "
            f"{given!r}. For all text files of a folder, name the folder."
        )
    return Path(path), weight


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, except those that a pretraining wrote."""
    for parent, subfolders, names in os.walk(folder):
        subfolders[:] = [name for name in subfolders if not _written_here(Path(parent, name))]
        yield from (Path(parent, name) for name in names)


def _written_here(folder: Path) -> bool:
    return folder.name.endswith(".partial") or any((folder / name).exists() for name in _WRITTEN)


def read_blocks(sources: Iterable[SourceFile], block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the text as blocks of about `block_bytes`, numbered from 0."""
    pieces: list[Piece] = []
    index = size = cost = 0
    for number, source in enumerate(sources):
        for piece, read in _pieces(source, number, block_bytes):
            pieces.append(piece)
            size += len(piece.data)
            cost += read
            if size >= block_bytes:
                yield Block(index, tuple(pieces), cost)
                pieces, index, size, cost = [], index + 1, 0, 0
    if pieces:
        yield Block(index, tuple(pieces), cost)


def lines(piece: Piece) -> Iterator[TextLine]:
    """Yield the non-blank lines of a piece."""
    data = piece.data
    nul = data.find(b"\0")
    if nul >= 0:
        raise InputError(f"{_place(piece, nul)}: a NUL byte, so this is not UTF-8 text{_guess(piece)}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{_place(piece, error.start)}: byte 0x{data[error.start]:02x} is not UTF-8 ({error.reason}){_guess(piece)}"
        ) from error
    if piece.start == 0:
        data, text = data.removeprefix(_BOM), text.removeprefix("\ufeff")
    place = piece.place
    for raw, line in zip(data.split(b"\n"), text.split("\n"), strict=True):
        stripped = line.strip()
        if stripped:
            yield TextLine(raw.strip(), stripped, place)
            place = CONTINUES
        else:
            place = max(place, NEW_DOCUMENT)


def _pieces(source: SourceFile, number: int, block_bytes: int) -> Iterator[tuple[Piece, int]]:
    """Yield a file as pieces of at most about `block_bytes`, each with the bytes of the file read for it."""
    path = str(source.path)
    line, start, done = 1, 0, 0
    rest, place = b"", NEW_FILE
    with source.path.open("rb") as stored:
        for data in _chunks(source.path, stored, min(_READ_BYTES, block_bytes)):
            rest += data
            if len(rest) < block_bytes:
                continue
            # A line longer than a block (a whole book in one line) is cut at a space, to bound memory.
            cut = rest.rfind(b"\n") + 1 or rest.rfind(b" ") + 1
            if not cut:
                raise InputError(
                    f"{path}, line {line}, byte {start}: {len(rest):,} bytes without a line end or space; "
                    "expected one paragraph or sentence per line."
                )
            yield Piece(path, line, start, rest[:cut], place, number), stored.tell() - done
            place = _place_after(rest[:cut], place)
            line, start, done = line + rest.count(b"\n", 0, cut), start + cut, stored.tell()
            rest = rest[cut:]
        if rest or stored.tell() > done:
            yield Piece(path, line, start, rest, place, number), stored.tell() - done


def _place_after(data: bytes, place: int) -> int:
    """Return the place of the first non-blank line after a piece with this data and place."""
    text = data.decode(errors="replace").removeprefix("\ufeff")  # as in `lines`, since white space is not only ASCII
    end = len(text.rstrip())
    if end:
        place = CONTINUES
    blank = text.count("\n", end) > (end > 0)  # the first line end may be that of a line with text
    return max(place, NEW_DOCUMENT) if blank else place


def _chunks(path: Path, stored: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the unpacked bytes of a file, `size` at a time."""
    suffix = path.suffix.lower()
    text: IO[bytes] | gzip.GzipFile | lzma.LZMAFile = stored
    if suffix == ".gz":
        text = gzip.GzipFile(fileobj=stored)
    elif suffix == ".xz":
        text = lzma.LZMAFile(stored)  # noqa: SIM115 - the caller closes `stored`
    position = 0
    while True:
        try:
            data = text.read(size)
        except EOFError as error:
            raise InputError(
                f"{path}: the file ends in mid-stream, after {position:,} bytes of text; it is cut off, copy it again."
            ) from error
        except (gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            raise InputError(
                f"{path}: not a valid {suffix} file ({error}), after {position:,} bytes of text; "
                "copy it again, or correct its ending."
            ) from error
        if not data:
            return
        yield data
        position += len(data)


def _place(piece: Piece, at: int) -> str:
    line = piece.line + piece.data.count(b"\n", 0, at)
    return f"{piece.path}, line {line}, byte {piece.start + at}"


def _guess(piece: Piece) -> str:
    """Return the end of an error message: what the file may be and what to do."""
    head = piece.data[:8] if piece.start == 0 else b""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ". It looks like UTF-16; convert it (iconv -f UTF-16 -t UTF-8)."
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return f". It looks like {kind}."
    return "; expected UTF-8 text, one paragraph or sentence per line. Convert it (iconv -t UTF-8) or leave it out."


WINDOW: Final = 45  # characters
_STRIDE: Final = 16
_OTHER: Final = re.compile(r"[\W_]+")  # neither letters nor digits
_PROBE: Final = WINDOW - _STRIDE + 1  # every shared window contains a probe that begins at a multiple of the stride


def shared(texts: Sequence[str], others: Iterable[SourceFile]) -> list[bool]:
    """Whether each text shares `WINDOW` characters in a row with a line of the other text."""
    probes = {line[i : i + _PROBE] for line in texts for i in range(len(line) - _PROBE + 1)}
    windows = {line[i : i + WINDOW] for line in texts for i in range(len(line) - WINDOW + 1)}
    found: set[str] = set()
    for block in read_blocks(others):
        for piece in block.pieces:
            text = "\n".join(line.text for line in lines(piece))
            for at in [i for i in range(0, len(text), _STRIDE) if text[i : i + _PROBE] in probes]:
                found.update(text[i : i + WINDOW] for i in range(max(at - _STRIDE + 1, 0), at + 1))
    found &= windows
    return [any(line[i : i + WINDOW] in found for i in range(len(line) - WINDOW + 1)) for line in texts]


class Excluded:
    """Texts that a corpus must not have: `line in Excluded(texts)`.

    A line is in them if it shares `WINDOW` letters and digits in a row with one of the files. Case, white space and
    punctuation do not count, so the tokens `do n't , " he said` match `don't," he said`. The lines of a file are
    joined, so a paragraph matches although the file has a sentence or a token per line. A line with fewer letters and
    digits is never in them.
    """

    def __init__(self, texts: Iterable[SourceFile]) -> None:
        """Reads the files."""
        joined: list[str] = []
        for block in read_blocks(texts):
            for piece in block.pieces:
                if piece.start == 0:
                    joined.append("\n")  # between files, no window crosses it
                joined += [_letters(line.text) for line in lines(piece)]
        self._text = "".join(joined)
        self._probes = {self._text[i : i + _PROBE] for i in range(len(self._text) - _PROBE + 1)}

    def __contains__(self, line: str) -> bool:
        letters = _letters(line)
        last = len(letters) - WINDOW
        return any(
            letters[i : i + WINDOW] in self._text
            for at in range(0, len(letters) - _PROBE + 1, _STRIDE)
            if letters[at : at + _PROBE] in self._probes
            for i in range(max(at - _STRIDE + 1, 0), min(at, last) + 1)
        )


def _letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case."""
    return _OTHER.sub("", text.lower())
