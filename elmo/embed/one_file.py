"""Embedding a file: the biLM layers of its lines go to one HDF5 or Parquet file, which appears when it is complete."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn
from torch import Tensor

from elmo.bilm.model import Bilm, CarriedState
from elmo.bilm.sentences import in_batches
from elmo.common.errors import InputError
from elmo.common.files import replacing, require_space, sha256_of, table_rows, utf8_lines
from elmo.common.progress import progress_bar
from elmo.embed.settings import BATCH_SIZE, BATCH_SIZE_ON_A_GPU, EmbedSettings
from elmo.store.cached_layers import TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_A_GPU, require_half_holds
from elmo.tokeniser import Tokenise, Tokeniser

PARQUET = ".parquet"
HDF5 = (".hdf5", ".h5")
# Sentences are sorted by length within windows of this many batches: with similar lengths, LSTM steps are full. The
# layers of a window wait in memory: on a GPU 2.5 GB for the original biLM and 25 tokens a line.
BATCHES_IN_A_WINDOW = 8
# HDF5's overhead: measured, about 365 bytes a line and some kilobytes a file. The sentence index is JSON, which needs
# at most six characters for a byte of text. Parquet needs less.
BYTES_A_LINE, BYTES_A_FILE, BYTES_A_BYTE_OF_TEXT = 600, 100_000, 6

Values = npt.NDArray[Any]  # (layers, tokens, dim)


@dataclass(frozen=True)
class InputLine:
    """An input line: its number, counted from 0, and its sentences in words, which the biLM reads one by one."""

    number: int
    sentences: list[list[str]]

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def words(self) -> list[str]:
        """The words of all sentences."""
        return list(chain.from_iterable(self.sentences))


Write = Callable[[Sequence[InputLine], Sequence[Values]], None]  # adds the next lines and what is written of each


def _of_line(settings: EmbedSettings, layers: Values) -> Values:
    """The part of a line's layers to write: (layers, tokens, dim), or, pooled, their mean, (layers, 1, dim)."""
    if settings.pool == "mean":  # zero without tokens
        layers = layers.sum(axis=1, keepdims=True) / np.float32(max(layers.shape[1], 1))
    return layers.astype(settings.kept, copy=False)


def read_lines(path: Path, tokenise: Tokenise = "whitespace", column: str | None = None) -> Iterator[InputLine]:
    """The lines of a UTF-8 text file, or a column of a table, in words; empty lines are kept.

    Args:
        path: the file.
        tokenise: ptb also splits lines into sentences. Otherwise a line is one, perhaps empty: with a carried state, an
            empty line has a row, too.
        column: of a table.
    """
    split = Tokeniser(tokenise).paragraph if tokenise == "ptb" else lambda line: [line.split()]
    texts = utf8_lines(path) if column is None else (text for _, (text,) in table_rows(path, [column]))
    for number, text in enumerate(texts):
        yield InputLine(number, [sentence for line in text.split("\n") for sentence in split(line)])


@contextmanager
def _hdf5_writer(path: Path, pooled: bool, needed: int) -> Iterator[Write]:
    """Writes one dataset per line, and an index of lines by their words. Pooled lines have no axis of tokens."""
    first_line: dict[str, str] = {}
    h5py.File(path, "w").close()
    with path.open("r+b") as reserved:  # HDF5 crashes the process if a write fails; it releases what it did not need
        os.posix_fallocate(reserved.fileno(), 0, needed)
    with h5py.File(path, "r+") as file:

        def write(lines: Sequence[InputLine], values: Sequence[Values]) -> None:
            for line, value in zip(lines, values, strict=True):
                file.create_dataset(str(line.number), data=value[:, 0] if pooled else value)
                first_line.setdefault(" ".join(line.words), str(line.number))

        yield write
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = json.dumps(first_line)


@contextmanager
def _parquet_writer(
    path: Path, layers: int, dim: int, settings: EmbedSettings, source: str, metadata: Mapping[str, str]
) -> Iterator[Write]:
    """Writes a row per line: `source`, `line`, `tokens`, and `vector` if pooled, else `vectors`, one per token.

    A vector has dim values, or, with several layers, one such list for each layer. Rows of many such files can be
    distinguished by the name of their source.
    """
    import pyarrow as pa
    import pyarrow.parquet

    pooled, sizes = settings.pool == "mean", [dim, layers] if layers > 1 else [dim]
    vector = pa.from_numpy_dtype(np.dtype(settings.kept))
    for size in sizes:
        vector = pa.list_(vector, size)
    fields = {"source": pa.string(), "line": pa.int64(), "tokens": pa.list_(pa.string())}
    fields |= {"vector": vector} if pooled else {"vectors": pa.list_(vector)}
    schema = pa.schema(fields, metadata=metadata)

    def write(lines: Sequence[InputLine], values: Sequence[Values]) -> None:
        vectors = pa.array(np.concatenate([value.swapaxes(0, 1).reshape(-1) for value in values]))
        for size in sizes:
            vectors = pa.FixedSizeListArray.from_arrays(vectors, size)
        if not pooled:
            ends = np.cumsum([0, *(value.shape[1] for value in values)], dtype=np.int32)
            vectors = pa.ListArray.from_arrays(pa.array(ends), vectors)
        numbers = pa.array([line.number for line in lines], pa.int64())
        tokens = pa.array([line.words for line in lines], pa.list_(pa.string()))
        columns = [pa.array([source] * len(lines)), numbers, tokens, vectors]
        writer.write_batch(pa.record_batch(columns, schema=schema))

    # Dictionaries are for texts that repeat; vectors do not.
    with pa.parquet.ParquetWriter(str(path), schema, use_dictionary=["source", "tokens.list.element"]) as writer:
        yield write


def selected(layers: Tensor, choice: str) -> Tensor:
    """All layers, the last one or their average, always as (layers, tokens, dim)."""
    if choice == "all":
        return layers
    return layers[-1:] if choice == "last" else layers.mean(dim=0, keepdim=True)


def embed_file(
    bilm: Bilm, source: Path, target: Path, settings: EmbedSettings, shard: tuple[str, Mapping[str, str]] | None = None
) -> int:
    """Writes the layers of every line of `source` to `target`, which appears only when it is complete.

    Batches depend on the file, the settings and the kind of device alone, and so do the last bits of the layers.

    Args:
        bilm: computes the layers, on its device.
        source: a text or a table.
        target: .parquet, .hdf5 or .h5.
        settings: without a batch size, the default for the device is used (carried states: always 64).
        shard: the name of the source and the metadata in a Parquet file of many, which shows no progress bar.

    Returns:
        The number of tokens embedded.

    Raises:
        InputError: a line cannot be used, or the source has changed while it was read; it is read twice.
    """
    if source.exists() and not source.is_file() and not source.is_dir():
        raise InputError(f"{source}: expected a file, since it is read twice; write the sentences to one first")
    if target.is_dir() or target.suffix not in (PARQUET, *HDF5):
        raise InputError(f"{target}: expected the name of a file that ends in {', '.join(HDF5)} or {PARQUET}")
    refuse_overwrite("the sentences", source, target)
    # Reports wrong lines before any work.
    lengths = [len(line) for line in read_lines(source, settings.tokenise, settings.column)]
    sha256 = sha256_of(source)
    on_cpu, carried, pooled = bilm.device.type == "cpu", settings.state == "carried", settings.pool == "mean"
    kept = bilm.n_layers if settings.layers == "all" else 1
    needed = (len(lengths) if pooled else sum(lengths)) * kept * bilm.dim * np.dtype(settings.kept).itemsize
    needed += len(lengths) * BYTES_A_LINE + BYTES_A_FILE + source.stat().st_size * BYTES_A_BYTE_OF_TEXT
    if target.parent.is_dir():
        remedy = "free some space, or use another disk, --precision float16 or --layers last"
        require_space(target.parent, needed, target.name, remedy)
    lines = read_lines(source, settings.tokenise, settings.column)
    size = settings.batch_size or (BATCH_SIZE if on_cpu or carried else BATCH_SIZE_ON_A_GPU)
    most_tokens = TOKENS_AT_ONCE if on_cpu else TOKENS_AT_ONCE_ON_A_GPU
    state = CarriedState() if carried else None
    name, metadata = shard or (source.name, {})
    with (
        replacing(target) as partial,
        progress_bar(
            Console(stderr=True, quiet=shard is not None), MofNCompleteColumn(), TextColumn("lines")
        ) as progress,
        _parquet_writer(partial, kept, bilm.dim, settings, name, metadata)
        if target.suffix == PARQUET
        else _hdf5_writer(partial, pooled, needed) as write,
    ):
        task = progress.add_task("embedding", total=len(lengths))
        while window := list(islice(lines, size if carried else size * BATCHES_IN_A_WINDOW)):
            values: dict[int, Values] = {}
            for batch in [window] if carried else in_batches(most_tokens, sorted(window, key=len), size):
                computed = bilm.token_layers([sentence for line in batch for sentence in line.sentences], state)
                exact = selected(computed, settings.layers).cpu().numpy()
                if settings.precision == "float16":
                    require_half_holds(float(np.abs(exact).max(initial=0)))
                ends = np.cumsum([len(line) for line in batch])
                for line, layers in zip(batch, np.split(exact, ends[:-1], axis=1), strict=True):
                    values[line.number] = _of_line(settings, layers)
                progress.advance(task, len(batch))
            write(window, [values[line.number] for line in window])
        if sha256_of(source) != sha256:
            raise InputError(f"{source}: has changed while it was read, so nothing was written. Run the command again")
    return sum(lengths)


def refuse_overwrite(what: str, file: Path, target: Path) -> None:
    """Raises an error instead of overwriting an input file."""
    if target.exists() and file.exists() and target.samefile(file):
        raise InputError(f"{target}: cannot write there: it would overwrite {what}; name another file")
