"""Text files of a corpus: `find_sources` lists .txt, .gz and .xz files, `read_blocks` reads their lines.

Also what texts share: `shared` and `Excluded`.
"""

import gzip
import hashlib
import lzma
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
HELDOUT_FRACTION: Final = 0.005  # the default
_WRITTEN: Final = ("train.tokens.bin", "run.json", "output.hdf5")  # in a token store, a run, an output layer
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


class TextLine(NamedTuple):
    """A non-blank line.

    Attributes:
        whole: the line as it is in the file.
        place: CONTINUES, NEW_DOCUMENT after a blank line, or NEW_FILE.
        source: number of the file in the corpus.
    """

    whole: str
    place: int
    source: int

    @property
    def text(self) -> str:
        """The line without white space at its ends."""
        return self.whole.strip()

    @property
    def key(self) -> int:
        """Hash of its bytes, 64 bits: finds repeated paragraphs and decides which are held out."""
        return int.from_bytes(hashlib.blake2b(self.whole.encode().strip(), digest_size=8).digest(), "little")


class Block(NamedTuple):
    """The unit of work: lines in reading order, and the bytes of the files (as stored) that were read for them."""

    lines: list[TextLine]
    cost: int


def find_sources(paths: Iterable[str | Path]) -> tuple[SourceFile, ...]:
    """Return the files under `paths` in the order given; a folder means its text files, sorted, subfolders included.

    `FILE*4` or `FOLDER*0.5` gives files a weight: how often each training sentence occurs in a pass, on average.

    Files that a pretraining wrote below a folder are skipped: otherwise vocabularies would be read as sentences, and
    the corpus of a run next to its text would change with every run.
    """
    files: dict[Path, tuple[str, float]] = {}  # names and weights; a file named twice is read once
    for path, weight in map(_weighted, paths):
        if path.is_dir():
            named = {file.resolve(): file.relative_to(path).as_posix() for file in _texts_below(path)}
        elif path.is_file() and path.suffix.lower() in EXTENSIONS:
            named = {path.resolve(): path.name}
        else:
            kind = "another kind of file" if path.exists() else "no such file or folder"
            raise InputError(
                f"{path}: {kind}; expected a file with a name ending in {', '.join(EXTENSIONS)}, or a folder of them."
            )
        for file, name in named.items():
            if (known := files.setdefault(file, (name, weight))[1]) != weight:
                raise InputError(f"{file}: named twice, with weights {known:g} and {weight:g}; name it once.")
    if not files:
        raise InputError("The corpus has no sources; name at least one text file or folder.")
    stored = ((path, name, path.stat().st_size, sha256_of(path), weight) for path, (name, weight) in files.items())
    return tuple(SourceFile(*facts) for facts in stored)


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


def _texts_below(folder: Path) -> list[Path]:
    """The text files of a folder and its subfolders, except those that a pretraining wrote."""
    files = [path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS and path.is_file()]
    inner = {parent for path in files for parent in path.parents if parent.is_relative_to(folder)} - {folder}
    written = [
        path for path in inner if path.name.endswith(".partial") or any((path / name).exists() for name in _WRITTEN)
    ]
    files = sorted(path for path in files if not any(path.is_relative_to(other) for other in written))
    if not files:
        raise InputError(f"{folder}: no {', '.join(EXTENSIONS)} file in this folder; name a folder or file with text.")
    return files


def read_blocks(sources: Iterable[SourceFile], block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield the text as blocks of about `block_bytes`."""
    lines: list[TextLine] = []
    size = cost = 0
    for number, source in enumerate(sources):
        done = 0
        with source.path.open("rb") as stored:
            for line in _lines(source.path, stored, number):
                lines.append(line)
                size += len(line.whole)
                if size >= block_bytes:
                    yield Block(lines, cost + stored.tell() - done)
                    lines, size, cost, done = [], 0, 0, stored.tell()
        cost += source.size - done
    if lines or cost:
        yield Block(lines, cost)


def _lines(path: Path, stored: IO[bytes], source: int) -> Iterator[TextLine]:
    """Yield the non-blank lines of a file."""
    number, place = 0, NEW_FILE
    try:
        for number, raw in enumerate(_unpacked(path, stored), start=1):
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            if "\0" in line:
                raise InputError(f"{path}, line {number}: a NUL byte; expected UTF-8 text. Convert it or leave it out.")
            if line.strip():
                yield TextLine(line, place, source)
                place = CONTINUES
            else:
                place = max(place, NEW_DOCUMENT)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number}: {error}; expected UTF-8 text, one paragraph or sentence per line. Convert it "
            "(iconv -t UTF-8), name a packed file .gz or .xz, or leave it out."
        ) from error
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise InputError(
            f"{path}, after line {number}: not a whole {path.suffix} file ({error}). Copy it again, or correct its "
            "ending."
        ) from error


def _unpacked(path: Path, stored: IO[bytes]) -> IO[bytes] | gzip.GzipFile | lzma.LZMAFile:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return gzip.GzipFile(fileobj=stored)
    return lzma.LZMAFile(stored) if suffix == ".xz" else stored


WINDOW: Final = 45  # characters
_STRIDE: Final = 16
_OTHER: Final = re.compile(r"[\W_]+")  # neither letters nor digits
_PROBE: Final = WINDOW - _STRIDE + 1  # every shared window contains a probe that begins at a multiple of the stride


def shared(texts: Sequence[str], others: Iterable[SourceFile]) -> list[bool]:
    """Whether each text shares `WINDOW` characters in a row with a line of the other text."""
    probes = {line[i : i + _PROBE] for line in texts for i in range(len(line) - _PROBE + 1)}
    windows = {line[i : i + WINDOW] for line in texts for i in range(len(line) - WINDOW + 1)}
    in_sources: set[str] = set()
    for text in (line.text for block in read_blocks(others) for line in block.lines):
        for at in [i for i in range(0, len(text), _STRIDE) if text[i : i + _PROBE] in probes]:
            in_sources.update(text[i : i + WINDOW] for i in range(max(at - _STRIDE + 1, 0), at + 1))
    in_sources &= windows
    return [any(line[i : i + WINDOW] in in_sources for i in range(len(line) - WINDOW + 1)) for line in texts]


class Excluded:
    """Texts that a corpus must not have: `line in Excluded(texts)`.

    A line is in them if it shares `WINDOW` letters and digits in a row with one of the files. Case, white space and
    punctuation do not count, so the tokens `do n't , " he said` match `don't," he said`. The lines of a file are
    joined, so a paragraph matches although the file has a sentence or a token per line. A line with fewer letters and
    digits is never in them.
    """

    def __init__(self, texts: Iterable[SourceFile]) -> None:
        """Reads the files."""
        lines = (line for block in read_blocks(texts) for line in block.lines)
        # No window crosses a line end.
        self._text = "".join("\n" * (line.place == NEW_FILE) + _letters(line.text) for line in lines)
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
