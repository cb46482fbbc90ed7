"""Output files of `python -m elmo.embed`: HDF5, npy, Arrow or Parquet, by the ending of their name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
import numpy.typing as npt

from elmo.common.errors import InputError
from elmo.common.files import replacing
from elmo.common.processes import interrupts_held_back

# HDF5's overhead: measured, about 365 bytes a line and some kilobytes a file. The sentence index is JSON, which needs
# at most six characters for a byte of text. The other formats need less.
BYTES_A_LINE, BYTES_A_FILE, BYTES_A_BYTE_OF_TEXT = 600, 100_000, 6
MORE_SPACE = "free some space, or use another disk, --precision float16 or --layers last"
LINES_IN_A_BATCH = 1024  # of an Arrow file
LENGTHS = ".lengths.npy"
ARROW, PARQUET = WRITTEN_IN_ORDER = ".arrow", ".parquet"

Values = npt.NDArray[Any]  # (layers, tokens, dim)


@dataclass(frozen=True)
class Layout:
    """What an output holds of each token or line.

    Attributes:
        layers: their number.
        dim: width of a vector.
        precision: of a value.
        pooled: whether each line has one vector, instead of one for each token.
    """

    layers: int
    dim: int
    precision: str
    pooled: bool


class VectorFile(Protocol):
    """A file under construction; lines may come in any order."""

    def add(self, number: int, words: Sequence[str], values: Values) -> None:
        """Adds the layers of a line, numbered from 0."""

    def close(self, complete: bool) -> None:
        """Closes it; `complete` is false if an error ended it before."""


class HdfOutput:
    """One dataset per line, and an index of lines by their words. Pooled lines have no axis of tokens."""

    def __init__(self, partial: Path, target: Path, needed: int, pooled: bool) -> None:
        self._file = _created(partial, target, needed)
        self._pooled = pooled
        self._first_line: dict[str, int] = {}

    def close(self, complete: bool) -> None:
        """Closes the file."""
        with interrupts_held_back():
            if complete:
                index = self._file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps({text: str(number) for text, number in self._first_line.items()})
            self._file.close()  # releases the space that was not used

    def add(self, number: int, words: Sequence[str], values: Values) -> None:
        """Adds the layers of a line."""
        self._file.create_dataset(str(number), data=values[:, 0] if self._pooled else values)
        text = " ".join(words)
        self._first_line[text] = min(number, self._first_line.get(text, number))


class NpyOutput:
    """One array: one row per line if pooled, else per token, all lines one after the other.

    A row is (layers, dim), or (dim,) for a single layer. Without pooling, a second file has the tokens of each line.
    """

    def __init__(self, partial: Path, target: Path, lengths: Sequence[int], layout: Layout) -> None:
        rows = [1] * len(lengths) if layout.pooled else list(lengths)
        self._starts = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
        shape = (sum(rows), layout.layers, layout.dim) if layout.layers > 1 else (sum(rows), layout.dim)
        self._lengths = None if layout.pooled else (target.with_suffix(LENGTHS), np.array(lengths, dtype=np.int64))
        self._rows: npt.NDArray[Any] | None = None
        if sum(rows):
            self._rows = np.lib.format.open_memmap(partial, "w+", np.dtype(layout.precision), shape)
            # A write to a mapped file ends the process on a full disk.
            _reserve(partial, target, partial.stat().st_size)
        else:  # nothing can be mapped
            with partial.open("wb") as file:
                np.save(file, np.zeros(shape, layout.precision))

    def close(self, complete: bool) -> None:
        """Closes the file."""
        if isinstance(self._rows, np.memmap):
            self._rows.flush()
        if complete and self._lengths is not None:
            path, lengths = self._lengths
            with replacing(path) as partial, partial.open("wb") as file:
                np.save(file, lengths)

    def add(self, number: int, words: Sequence[str], values: Values) -> None:
        """Adds the layers of a line."""
        if self._rows is not None:
            rows = self._rows[self._starts[number] : self._starts[number + 1]]
            rows[...] = values.swapaxes(0, 1).reshape(rows.shape)


class ArrowOutput:
    """An Arrow file with one row per line: `line`, `tokens`, and `vector` if pooled, else `vectors`, one per token.

    A vector has dim values, or, with all layers, one such list for each layer. With the name of a source, it is a
    Parquet file, and `source` is its first column: rows of many such files can be distinguished.
    """

    def __init__(self, partial: Path, layout: Layout, source: str | None = None) -> None:
        import pyarrow as pa

        self._pa, self._layout, self._source = pa, layout, source
        vector = pa.list_(pa.from_numpy_dtype(np.dtype(layout.precision)), layout.dim)
        if layout.layers > 1:
            vector = pa.list_(vector, layout.layers)
        vectors = pa.field("vector", vector) if layout.pooled else pa.field("vectors", pa.list_(vector))
        fields = [pa.field("line", pa.int64()), pa.field("tokens", pa.list_(pa.string())), vectors]
        if source is None:
            self._schema = pa.schema(fields)
            self._writer = pa.ipc.new_file(str(partial), self._schema)
        else:
            import pyarrow.parquet

            self._schema = pa.schema([pa.field("source", pa.string()), *fields])
            # Dictionaries are for texts that repeat; vectors do not.
            repeated = ["source", "tokens.list.element"]
            self._writer = pa.parquet.ParquetWriter(str(partial), self._schema, use_dictionary=repeated)
        self._waiting: dict[int, tuple[Sequence[str], Values]] = {}
        self._written = 0

    def close(self, complete: bool) -> None:
        """Closes the file."""
        if complete:
            self._write(1)
        self._writer.close()

    def add(self, number: int, words: Sequence[str], values: Values) -> None:
        """Adds the layers of a line; they wait for the lines before them."""
        self._waiting[number] = words, values
        if len(self._waiting) >= LINES_IN_A_BATCH:
            self._write(LINES_IN_A_BATCH)

    def _write(self, least: int) -> None:
        """Writes the lines that follow those written, if there are at least so many."""
        past = self._written
        while past in self._waiting:
            past += 1
        if past - self._written < least:
            return
        numbers = range(self._written, past)
        words, values = zip(*(self._waiting.pop(number) for number in numbers), strict=True)
        pa = self._pa
        vectors = pa.array(np.concatenate([value.swapaxes(0, 1).reshape(-1) for value in values]))
        vectors = pa.FixedSizeListArray.from_arrays(vectors, self._layout.dim)
        if self._layout.layers > 1:
            vectors = pa.FixedSizeListArray.from_arrays(vectors, self._layout.layers)
        if not self._layout.pooled:
            ends = np.cumsum([0, *(value.shape[1] for value in values)], dtype=np.int32)
            vectors = pa.ListArray.from_arrays(pa.array(ends), vectors)
        columns = [pa.array(numbers, pa.int64()), pa.array(map(list, words), pa.list_(pa.string())), vectors]
        if self._source is not None:
            columns.insert(0, pa.array([self._source] * len(numbers)))
        self._writer.write_batch(pa.record_batch(columns, schema=self._schema))
        self._written = past


@contextmanager
def open_output(
    partial: Path, target: Path, lengths: Sequence[int], layout: Layout, needed: int, source: str
) -> Iterator[VectorFile]:
    """The output in the format of the target's name: .npy, .arrow, .parquet, otherwise HDF5.

    Args:
        partial: the path to write to.
        target: the path that the file will have.
        lengths: the tokens of each line.
        layout: of the vectors.
        needed: bytes to reserve for HDF5.
        source: name of the input in a Parquet file.
    """
    output: VectorFile
    if target.suffix == ".npy":
        output = NpyOutput(partial, target, lengths, layout)
    elif target.suffix == ARROW:
        output = ArrowOutput(partial, layout)
    elif target.suffix == PARQUET:
        output = ArrowOutput(partial, layout, source)
    else:
        output = HdfOutput(partial, target, needed, layout.pooled)
    complete = False
    try:
        yield output
        complete = True
    finally:
        output.close(complete=complete)


def _created(partial: Path, target: Path, needed: int) -> h5py.File:
    """An HDF5 file with its disk space reserved: HDF5 crashes the process if a write fails."""
    try:
        with interrupts_held_back():
            h5py.File(partial, "w").close()
            _reserve(partial, target, needed)
            return h5py.File(partial, "r+")
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(f"{target}: cannot write there: {reason}") from error


def _reserve(partial: Path, target: Path, needed: int) -> None:
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        with partial.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, needed)
    except OSError as error:
        raise InputError(
            f"{target}: cannot reserve {needed / 1e6:,.1f} MB there: {error.strerror}; {MORE_SPACE}"
        ) from error
