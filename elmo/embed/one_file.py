"""Embedding a file: the biLM layers of its lines go to one output file, which appears when it is complete."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn
from torch import Tensor

from elmo.bilm.model import Bilm, CarriedState
from elmo.common.errors import InputError
from elmo.common.files import replacing, require_space, sha256_of
from elmo.common.processes import handling, interrupts_held_back
from elmo.common.progress import Reporter, progress_bar
from elmo.embed.lines import batches_by_length, batches_in_order, read_text
from elmo.embed.output import (
    BYTES_A_BYTE_OF_TEXT,
    BYTES_A_FILE,
    BYTES_A_LINE,
    MORE_SPACE,
    WRITTEN_IN_ORDER,
    Layout,
    open_output,
)
from elmo.store.cached_layers import TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_A_GPU, CachedLayers
from elmo.store.shelf import open_shelf
from elmo.store.spot_check import require_half_holds
from elmo.tokeniser import Tokenise

# A batch has at most --batch-size sentences, and at most as many tokens as the cache embeds at once (or one sentence):
# memory grows with the tokens. A GPU needs many sentences in parallel to be busy.
BATCH_SIZE, BATCH_SIZE_ON_A_GPU = 64, 1024
# Some formats need lines in order, and the layers of a window wait in memory: 2.5 GB here for the original biLM and 25
# tokens a line, 20 GB for 64 batches of a GPU.
LINES_THAT_WAIT = 8192


def selected(layers: Tensor, choice: str) -> Tensor:
    """All layers, the last one or their average, always as (layers, tokens, dim)."""
    if choice == "all":
        return layers
    return layers[-1:] if choice == "last" else layers.mean(dim=0, keepdim=True)


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
        target: its ending chooses the format, see `open_output`.
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
    lengths = [len(line.words) for line in read_text(source, settings.tokenise, settings.column)]
    sha256 = sha256 or sha256_of(source)
    total, kept = len(lengths), bilm.n_layers if settings.layers == "all" else 1
    precision, carried, pooled = settings.precision, settings.carried, settings.pooled
    layout = Layout(kept, bilm.dim, precision, pooled)
    needed = (total if pooled else sum(lengths)) * kept * bilm.dim * np.dtype(precision).itemsize
    needed += total * BYTES_A_LINE + BYTES_A_FILE + source.stat().st_size * BYTES_A_BYTE_OF_TEXT
    if target.parent.is_dir():
        require_space(target.parent, needed, target.name, MORE_SPACE)
    lines = read_text(source, settings.tokenise, settings.column)
    on_cpu = bilm.device.type == "cpu"
    size = settings.batch_size or (BATCH_SIZE if on_cpu or carried else BATCH_SIZE_ON_A_GPU)
    most_tokens = TOKENS_AT_ONCE if on_cpu else TOKENS_AT_ONCE_ON_A_GPU
    window = LINES_THAT_WAIT if target.suffix in WRITTEN_IN_ORDER else None
    batches = batches_in_order(lines, size) if carried else batches_by_length(lines, size, most_tokens, window)
    state = CarriedState() if carried else None
    stored = None
    if store is not None:
        shelf = open_shelf(store, bilm.fingerprint(), bilm.widths, precision)
        stored = CachedLayers(bilm, shelf, precision, memory_gb=0).to(bilm.device)
    reporter = Reporter("elmo.embed:", brief=True, bars=False)  # warnings of the store only
    n_tokens = 0
    with (
        replacing(target) as partial,
        _removed_on_sigterm(partial),
        open_output(partial, target, lengths, layout, needed, name or source.name) as output,
        progress_bar(Console(stderr=True, quiet=quiet), MofNCompleteColumn(), TextColumn("lines")) as progress,
    ):
        task = progress.add_task("embedding", total=total)
        for batch in batches:
            if any(lengths[line.number : line.number + 1] != [len(line.words)] for line in batch):
                raise _changed(source)
            sentences = [part for line in batch for part in line.parts]
            if stored is not None:
                stored.prepare(sentences, reporter)
            computed = bilm.token_layers(sentences, state) if stored is None else stored.token_layers(sentences)
            exact = selected(computed, settings.layers).cpu().numpy()
            if precision == "float16":
                require_half_holds(float(np.abs(exact).max(initial=0)))
            ends = np.cumsum([len(line.words) for line in batch])
            with interrupts_held_back():
                for line, values in zip(batch, np.split(exact, ends[:-1], axis=1), strict=True):
                    kept_values = mean_of(values) if pooled else values
                    output.add(line.number, line.words, kept_values.astype(precision, copy=False))
            n_tokens += int(ends[-1])
            progress.advance(task, len(batch))
        if sha256_of(source) != sha256:
            raise _changed(source)
    return n_tokens


def _changed(source: Path) -> InputError:
    return InputError(f"{source}: has changed while it was read, so nothing was written. Run the command again")


def mean_of(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The mean over tokens, zero without any: (layers, tokens, dim) -> (layers, 1, dim)."""
    sums: npt.NDArray[np.float32] = values.sum(axis=1, keepdims=True)
    return sums / np.float32(max(values.shape[1], 1))


def _check(source: Path, target: Path) -> None:
    """Rejects paths that would fail late or overwrite something."""
    refuse_odd_name(source)
    if source.exists() and not source.is_file() and not source.is_dir():
        raise InputError(f"{source}: expected a file, since it is read twice; write the sentences to one first")
    if target.is_dir():
        raise InputError(f"{target}: cannot write there: it is a folder; name a file in it")
    refuse_overwrite("the sentences", source, target)


def refuse_odd_name(path: Path) -> None:
    """Raises an error for a path that is no text: Parquet files and manifests name their sources."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{os.fsencode(path)!r}: expected a path in UTF-8. Rename the file or its folder") from error


def refuse_overwrite(what: str, file: Path, target: Path) -> None:
    """Raises an error instead of overwriting an input file."""
    if target.exists() and file.exists() and target.samefile(file):
        raise InputError(f"{target}: cannot write there: it would overwrite {what}; name another file")


def _removed_on_sigterm(partial: Path) -> AbstractContextManager[None]:
    """Removes a file if SIGTERM ends the process in the block. It does not raise: h5py callbacks swallow exceptions."""

    def end(number: int, frame: FrameType | None) -> None:
        partial.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)

    return handling(signal.SIGTERM, end, signal.SIG_DFL)
