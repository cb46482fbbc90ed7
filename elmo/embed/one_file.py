"""Embedding a file: the biLM layers of its lines go to one HDF5 or Parquet file, which appears when it is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn
from torch import Tensor

from elmo.bilm.model import Bilm, CarriedState
from elmo.common.errors import InputError
from elmo.common.files import replacing, require_space, sha256_of
from elmo.common.processes import interrupts_held_back
from elmo.common.progress import Reporter, progress_bar
from elmo.embed.lines import batches_by_length, batches_in_order, read_lines
from elmo.store.cached_layers import TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_A_GPU, CachedLayers, require_half_holds
from elmo.store.shelf import open_shelf
from elmo.tokeniser import Tokenise

PARQUET = ".parquet"
DROPPED = (".npy", ".arrow")  # formats of earlier versions
# A batch has at most --batch-size sentences, and at most as many tokens as the cache embeds at once (or one sentence):
# memory grows with the tokens. A GPU needs many sentences in parallel to be busy.
BATCH_SIZE, BATCH_SIZE_ON_A_GPU = 64, 1024
# Parquet has the lines in order, and the layers of a window wait in memory: 2.5 GB here for the original biLM and 25
# tokens a line, 20 GB for 64 batches of a GPU.
LINES_THAT_WAIT = 8192
LINES_IN_A_BATCH = 1024  # of a Parquet file
# HDF5's overhead: measured, about 365 bytes a line and some kilobytes a file. The sentence index is JSON, which needs
# at most six characters for a byte of text. Parquet needs less.
BYTES_A_LINE, BYTES_A_FILE, BYTES_A_BYTE_OF_TEXT = 600, 100_000, 6
MORE_SPACE = "free some space, or use another disk, --precision float16 or --layers last"

Values = npt.NDArray[Any]  # (layers, tokens, dim)


@dataclass(frozen=True)
class EmbedSettings:
    """The options that decide the content of an output, with its text and its biLM; named as on the command line."""

    layers: str = "all"
    pool: str = "none"
    precision: str = "float32"
    state: str = "zero"
    tokenise: Tokenise = "whitespace"
    column: str | None = None
    batch_size: int | None = None

    @property
    def carried(self) -> bool:
        """Whether the state of the LSTMs is carried from batch to batch."""
        return self.state == "carried"

    @property
    def pooled(self) -> bool:
        """Whether a line has one vector."""
        return self.pool == "mean"

    def of_line(self, layers: Values) -> Values:
        """What is written of a line's layers: (layers, tokens, dim), or, pooled, their mean, (layers, 1, dim)."""
        if self.pooled:  # zero without tokens
            layers = layers.sum(axis=1, keepdims=True) / np.float32(max(layers.shape[1], 1))
        return layers.astype(self.precision, copy=False)


class HdfOutput:
    """One dataset per line, and an index of lines by their words. Pooled lines have no axis of tokens."""

    def __init__(self, partial: Path, target: Path, needed: int, pooled: bool) -> None:
        try:
            with interrupts_held_back():
                h5py.File(partial, "w").close()
                _reserve(partial, target, needed)
                self._file = h5py.File(partial, "r+")
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else error
            raise InputError(f"{target}: cannot write there: {reason}") from error
        self._pooled = pooled
        self._first_line: dict[str, int] = {}

    def add(self, number: int, words: Sequence[str], values: Values) -> None:
        """Adds the layers of a line, numbered from 0."""
        self._file.create_dataset(str(number), data=values[:, 0] if self._pooled else values)
        text = " ".join(words)
        self._first_line[text] = min(number, self._first_line.get(text, number))

    def close(self, complete: bool) -> None:
        """Closes the file; `complete` is false if an error ended it before."""
        with interrupts_held_back():
            if complete:
                index = self._file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
                index[0] = json.dumps({text: str(number) for text, number in self._first_line.items()})
            self._file.close()  # releases the space that was not used


class ParquetOutput:
    """A row per line: `source`, `line`, `tokens`, and `vector` if pooled, else `vectors`, one per token.

    A vector has dim values, or, with several layers, one such list for each layer. Rows of many such files can be
    distinguished by the name of their source.
    """

    def __init__(self, partial: Path, layers: int, dim: int, settings: EmbedSettings, source: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        self._pa, self._pooled, self._source = pa, settings.pooled, source
        self._sizes = [dim, layers] if layers > 1 else [dim]
        vector = pa.from_numpy_dtype(np.dtype(settings.precision))
        for size in self._sizes:
            vector = pa.list_(vector, size)
        vectors = pa.field("vector", vector) if settings.pooled else pa.field("vectors", pa.list_(vector))
        fields = {"source": pa.string(), "line": pa.int64(), "tokens": pa.list_(pa.string())}
        self._schema = pa.schema([*fields.items(), vectors])
        # Dictionaries are for texts that repeat; vectors do not.
        repeated = ["source", "tokens.list.element"]
        self._writer = pa.parquet.ParquetWriter(str(partial), self._schema, use_dictionary=repeated)
        self._waiting: dict[int, tuple[Sequence[str], Values]] = {}
        self._written = 0

    def add(self, number: int, words: Sequence[str], values: Values) -> None:
        """Adds the layers of a line, numbered from 0; they wait for the lines before them."""
        self._waiting[number] = words, values
        if len(self._waiting) >= LINES_IN_A_BATCH:
            self._write(LINES_IN_A_BATCH)

    def close(self, complete: bool) -> None:
        """Closes the file; `complete` is false if an error ended it before."""
        if complete:
            self._write(1)
        self._writer.close()

    def _write(self, least: int) -> None:
        """Writes the lines that follow those written, if there are at least so many."""
        past = self._written
        while past in self._waiting:
            past += 1
        if past - self._written < least:
            return
        numbers, pa = range(self._written, past), self._pa
        words, values = zip(*(self._waiting.pop(number) for number in numbers), strict=True)
        vectors = pa.array(np.concatenate([value.swapaxes(0, 1).reshape(-1) for value in values]))
        for size in self._sizes:
            vectors = pa.FixedSizeListArray.from_arrays(vectors, size)
        if not self._pooled:
            ends = np.cumsum([0, *(value.shape[1] for value in values)], dtype=np.int32)
            vectors = pa.ListArray.from_arrays(pa.array(ends), vectors)
        tokens = pa.array(map(list, words), pa.list_(pa.string()))
        columns = [pa.array([self._source] * len(numbers)), pa.array(numbers, pa.int64()), tokens, vectors]
        self._writer.write_batch(pa.record_batch(columns, schema=self._schema))
        self._written = past


def _reserve(partial: Path, target: Path, needed: int) -> None:
    """Reserves disk space: HDF5 crashes the process if a write fails."""
    try:
        with partial.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, needed)
    except OSError as error:
        raise InputError(
            f"{target}: cannot reserve {needed / 1e6:,.1f} MB there: {error.strerror}; {MORE_SPACE}"
        ) from error


def selected(layers: Tensor, choice: str) -> Tensor:
    """All layers, the last one or their average, always as (layers, tokens, dim)."""
    if choice == "all":
        return layers
    return layers[-1:] if choice == "last" else layers.mean(dim=0, keepdim=True)


def embed_file(
    bilm: Bilm,
    source: Path,
    target: Path,
    settings: EmbedSettings,
    store: Path | None = None,
    name: str | None = None,
    sha256: str | None = None,
    quiet: bool = False,
) -> int:
    """Writes the layers of every line of `source` to `target`, which appears only when it is complete.

    Batches depend on the file, the settings and the kind of device alone, and so do the last bits of the layers.

    Args:
        bilm: computes the layers, on its device.
        source: a text or a table.
        target: .parquet, otherwise HDF5.
        settings: without a batch size, the default for the device is used (carried states: always 64).
        store: a layer store: layers that it has are read from it and the others are added, in the same precision.
        name: of the source in a Parquet file; its file name by default.
        sha256: of the source, if it is known; what is there now counts by default.
        quiet: show no progress bar.

    Returns:
        The number of tokens embedded.

    Raises:
        InputError: a line cannot be used, or the source has changed while it was read; it is read twice.
    """
    _check(source, target)
    # Reports wrong lines before any work.
    lengths = [len(line.words) for line in read_lines(source, settings.tokenise, settings.column)]
    sha256 = sha256 or sha256_of(source)
    in_order, on_cpu = target.suffix == PARQUET, bilm.device.type == "cpu"
    kept = bilm.n_layers if settings.layers == "all" else 1
    vectors = len(lengths) if settings.pooled else sum(lengths)
    needed = vectors * kept * bilm.dim * np.dtype(settings.precision).itemsize
    needed += len(lengths) * BYTES_A_LINE + BYTES_A_FILE + source.stat().st_size * BYTES_A_BYTE_OF_TEXT
    if target.parent.is_dir():
        require_space(target.parent, needed, target.name, MORE_SPACE)
    lines = read_lines(source, settings.tokenise, settings.column)
    size = settings.batch_size or (BATCH_SIZE if on_cpu or settings.carried else BATCH_SIZE_ON_A_GPU)
    most_tokens = TOKENS_AT_ONCE if on_cpu else TOKENS_AT_ONCE_ON_A_GPU
    window = LINES_THAT_WAIT if in_order else None
    batches = batches_in_order(lines, size) if settings.carried else batches_by_length(lines, size, most_tokens, window)
    state, stored = CarriedState() if settings.carried else None, None
    if store is not None:
        shelf = open_shelf(store, bilm.fingerprint(), bilm.widths, settings.precision)
        stored = CachedLayers(bilm, shelf, settings.precision, memory_gb=0).to(bilm.device)
    reporter = Reporter("elmo.embed:", brief=True, bars=False)  # warnings of the store only
    n_tokens = 0
    with (
        replacing(target) as partial,
        progress_bar(Console(stderr=True, quiet=quiet), MofNCompleteColumn(), TextColumn("lines")) as progress,
    ):
        output = (
            ParquetOutput(partial, kept, bilm.dim, settings, name or source.name)
            if in_order
            else HdfOutput(partial, target, needed, settings.pooled)
        )
        complete = False
        task = progress.add_task("embedding", total=len(lengths))
        try:
            for batch in batches:
                sentences = [sentence for line in batch for sentence in line.sentences]
                if stored is not None:
                    stored.prepare(sentences, reporter)
                computed = bilm.token_layers(sentences, state) if stored is None else stored.token_layers(sentences)
                exact = selected(computed, settings.layers).cpu().numpy()
                if settings.precision == "float16":
                    require_half_holds(float(np.abs(exact).max(initial=0)))
                ends = np.cumsum([len(line.words) for line in batch])
                with interrupts_held_back():
                    for line, values in zip(batch, np.split(exact, ends[:-1], axis=1), strict=True):
                        output.add(line.number, line.words, settings.of_line(values))
                n_tokens += int(ends[-1])
                progress.advance(task, len(batch))
            if sha256_of(source) != sha256:
                raise InputError(
                    f"{source}: has changed while it was read, so nothing was written. Run the command again"
                )
            complete = True
        finally:
            output.close(complete)
    return n_tokens


def _check(source: Path, target: Path) -> None:
    """Rejects paths that would fail late or overwrite something."""
    if source.exists() and not source.is_file() and not source.is_dir():
        raise InputError(f"{source}: expected a file, since it is read twice; write the sentences to one first")
    if target.is_dir():
        raise InputError(f"{target}: cannot write there: it is a folder; name a file in it")
    if target.suffix in DROPPED:
        raise InputError(f"{target}: expected a name that ends in .hdf5 or {PARQUET}, found {target.suffix}")
    refuse_overwrite("the sentences", source, target)


def refuse_overwrite(what: str, file: Path, target: Path) -> None:
    """Raises an error instead of overwriting an input file."""
    if target.exists() and file.exists() and target.samefile(file):
        raise InputError(f"{target}: cannot write there: it would overwrite {what}; name another file")
