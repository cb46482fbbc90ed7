"""Vectors in binary files: those of word2vec, and models of fastText, which also have vectors for new words."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from elmo.common.checks import WIDEST
from elmo.common.errors import InputError, excerpt
from elmo.word_vectors.content import Content, opened
from elmo.word_vectors.text_file import Vector

_MAGIC = struct.pack("<i", 793712314)  # how a model of fastText begins
_VERSIONS = (11, 12)
_SUPERVISED = 3
_END_OF_SENTENCE = "</s>"  # the one word of fastText without n-grams
_CHUNK = 1 << 20
_LONGEST_WORD = 10_000  # bytes; a longer one is a damaged file


def is_fasttext(path: Path) -> bool:
    """Whether a file is a model of fastText."""
    with opened(path) as file:
        return file.read(len(_MAGIC)) == _MAGIC


class BinaryVectors:
    """The binary format of word2vec, plain or gzipped: a line "count dim", then each word, a space and its floats."""

    def __init__(self, path: Path) -> None:
        self._path, self._content = path, Content(path)
        with opened(path) as file:
            self._count, self.dim = self._header(file)

    def sha256(self) -> str:
        """That of the file."""
        return self._content.sha256()

    fingerprint = sha256

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of those words that have one, or of all words, read in one pass through the file."""
        wanted = None if words is None else {word.encode("utf-8", "surrogatepass"): word for word in words}
        found: dict[str, Vector] = {}
        for spelled, numbers in self._entries():
            word = spelled.decode("utf-8", "replace") if wanted is None else wanted.get(spelled)
            if word is None or word in found:
                continue
            found[word] = _finite(np.frombuffer(numbers, dtype="<f4").astype(np.float32), self._path, word)
        return found

    def _header(self, file: BinaryIO) -> tuple[int, int]:
        """The number of words and of dimensions."""
        line = file.readline(100)
        fields = line.split()
        if len(fields) == 2 and all(map(bytes.isdigit, fields)) and 0 < int(fields[1]) <= WIDEST:
            return int(fields[0]), int(fields[1])
        raise InputError(
            f"{self._path}: expected word2vec's binary format, which begins with a line of two numbers, the second at "
            f"most {WIDEST:,}, or a model of fastText, found {excerpt(line)}. Get the file again; a text file "
            "must not end in .bin"
        )

    def _entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Each word and the bytes of its vector."""
        size = 4 * self.dim
        with opened(self._path, self._content) as file:
            self._header(file)
            buffer, place = b"", 0
            for number in range(self._count):
                if len(buffer) - place < _LONGEST_WORD + size:
                    buffer, place = buffer[place:] + file.read(_CHUNK + size), 0
                end = buffer.find(b" ", place, place + _LONGEST_WORD)
                if end < 0 or end + 1 + size > len(buffer):
                    raise InputError(
                        f"{self._path}: expected {self._count:,} words of {self.dim} numbers, found the end of the "
                        f"file or no word after {number:,}. Get the file again"
                    )
                # Some writers end an entry with a newline.
                yield buffer[place:end].lstrip(b"\n"), buffer[end + 1 : end + 1 + size]
                place = end + 1 + size
            if (buffer[place:] + file.read(_CHUNK)).strip():  # a text file is longer than 4 bytes a number
                raise InputError(
                    f"{self._path}: expected {self._count:,} words of {self.dim} numbers in binary form, found more "
                    "after them. Get the file again; a text file must not end in .bin"
                )


class FastTextModel:
    """A model of fastText, such as cc.en.300.bin. A word's vector is the mean over the word and its n-grams.

    A word that is not in the model has the mean over its n-grams, if the model has any.

    Args:
        path: the file, not gzipped: vectors are read in place.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._content = path, Content(path)
        self._hashed: tuple[int, ...] | None = None  # the file and the time of its last change when it was hashed
        if path.suffix == ".gz":
            raise InputError(f"{path}: a model of fastText is read in place. Unpack it first: gunzip {path}")
        with opened(path) as file:
            try:
                self._read_header(file)
            except (struct.error, IndexError) as error:
                raise InputError(f"{path}: expected a model of fastText, found a part of one. Get it again") from error

    def _read_header(self, file: BinaryIO) -> None:
        """Reads everything in front of the vectors."""
        _, version = _unpacked(file, "<2i")
        if version not in _VERSIONS:
            raise InputError(
                f"{self._path}: expected version 11 or 12 of fastText's format, found {version}. Use another file"
            )
        # dim, ws, epoch, minCount, neg, wordNgrams, loss, model, bucket, minn, maxn, lrUpdateRate, t
        self.dim, *_, model, self._buckets, self._shortest, self._longest, _, _ = _unpacked(file, "<12id")
        if version == 11 and model == _SUPERVISED:
            self._longest = 0  # that version wrote a value that it did not use
        entries, self._n_words, _, _, pruned = _unpacked(file, "<3i2q")
        if not (0 < self.dim <= WIDEST and 0 <= self._n_words <= entries and self._buckets >= 0):
            raise InputError(
                f"{self._path}: expected vectors of 1 to {WIDEST:,} numbers, found {self.dim}, for {self._n_words:,} "
                f"words of {entries:,} and {self._buckets:,} n-grams. Get the file again"
            )
        words = [_entry(file) for _ in range(entries)][: self._n_words]  # labels follow the words
        self._numbers = {word: number for number, word in enumerate(words)}  # some models have words twice
        (quantised,) = _unpacked(file, "<?")
        if quantised or pruned >= 0:
            raise InputError(f"{self._path}: a quantised model of fastText (.ftz) cannot be read. Use the .bin of it")
        rows, dim = _unpacked(file, "<2q")
        offset, expected = file.tell(), self._n_words + self._buckets * (self._longest > 0)
        size = offset + 4 * rows * dim
        if rows < expected or dim != self.dim or self._path.stat().st_size < size:
            raise InputError(
                f"{self._path}: expected {expected:,} vectors of {self.dim} numbers in {size:,} bytes or more, "
                f"found {rows:,} of {dim} in {self._path.stat().st_size:,}. Get the file again"
            )
        self._file = np.memmap(self._path, dtype=np.uint8, mode="r")
        self._vectors = self._file[offset:size].view("<f4").reshape(rows, dim)

    def sha256(self) -> str:
        """That of the file."""
        return self._content.sha256()

    fingerprint = sha256

    def pick(self, words: Collection[str] | None = None) -> dict[str, Vector]:
        """The vectors of words: of all of them, if the model has n-grams; without words, of those in the model."""
        found: dict[str, Vector] = {}
        for word in self._numbers if words is None else words:
            own = [self._numbers[word]] if word in self._numbers else []
            rows = own + [self._n_words + number for number in self._ngrams(word)]
            if rows:
                found[word] = _finite(self._vectors[rows].mean(axis=0, dtype=np.float32), self._path, word)
        self._compare()
        return found

    def _compare(self) -> None:
        """Compares the hash of the file, after vectors were read in place. Gigabytes: only if it may have changed."""
        state = self._path.stat() if self._path.exists() else None  # another file may have its name by now
        changed = (state.st_ino, state.st_ctime_ns) if state is not None else ()
        if changed != self._hashed:
            self._content.compare(hashlib.sha256(self._file.data).hexdigest())
            self._hashed = changed

    def _ngrams(self, word: str) -> list[int]:
        """The numbers of a word's n-grams among the buckets; the marks < and > count as characters."""
        if word == _END_OF_SENTENCE or not self._longest or not self._buckets:
            return []
        marked = f"<{word}>"
        return [
            _fnv(marked[start:end].encode("utf-8", "surrogatepass")) % self._buckets
            for start in range(len(marked))
            for end in range(start + max(self._shortest, 1), min(start + self._longest, len(marked)) + 1)
            if end - start > 1 or 0 < start < len(marked) - 1  # a mark alone is no n-gram
        ]


def _fnv(text: bytes) -> int:
    """The 32-bit FNV-1a hash as fastText computes it, with bytes as signed numbers."""
    value = 2166136261
    for byte in text:
        value = ((value ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619) & 0xFFFFFFFF
    return value


def _unpacked(file: BinaryIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _entry(file: BinaryIO) -> str:
    """A word of fastText's dictionary; its count and kind follow it."""
    spelled = bytearray()
    while (byte := file.read(1)) != b"\0":
        spelled.append(byte[0])
    file.read(9)
    return spelled.decode("utf-8", "replace")


def _finite(vector: Vector, path: Path, word: str) -> Vector:
    if not np.isfinite(vector).all():
        raise InputError(f"{path}: expected finite numbers for {word!r}, found others. Use another file")
    return vector
