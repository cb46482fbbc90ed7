"""The command `python -m elmo.embed`: write the biLM layers of a text file to an HDF5 file."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType

import h5py
import numpy as np
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn
from torch import Tensor

from elmo.bilm.model import Bilm, CarriedState
from elmo.bilm.weight_files import bilm_files, load_bilm, weights_choices
from elmo.common.device import CHOICES, choose_device
from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import handling, interrupts_held_back, replacing, require_space
from elmo.common.progress import Reporter, progress_bar
from elmo.store.cached_layers import TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_A_GPU, CachedLayers, require_half_holds
from elmo.store.opening import open_shelf
from elmo.store.shelf import ShelfDescription

# A batch has at most --batch-size sentences, and at most as many tokens as the cache embeds at once (or one sentence):
# memory grows with the tokens. A GPU needs many sentences in parallel to be busy.
BATCH_SIZE, BATCH_SIZE_ON_A_GPU = 64, 1024
# Sentences are sorted by length within windows of this many batches: with similar lengths, LSTM steps are full.
BATCHES_IN_A_WINDOW = 64
# HDF5's overhead: measured, about 365 bytes a line and some kilobytes a file. The sentence index is JSON, which needs
# at most six characters for a byte of text.
BYTES_A_LINE, BYTES_A_FILE, BYTES_A_BYTE_OF_TEXT = 600, 100_000, 6
MORE_SPACE = "free some space, or use another disk, --precision float16 or --layers top"

DESCRIPTION = """\
Embed whitespace-tokenised sentences, one a line, with a frozen biLM.

OUT is an HDF5 file with one dataset a line, named "0", "1", "2", ... by line number, of shape (layers, tokens, dim):
all layers, or a single one with --layers top|average. An empty line gives a dataset of zero tokens. The dataset
"sentence_to_index" holds one JSON object from each line's words, joined by one blank, to the number of the first line
that has them.

By default every sentence starts from a zero state, so its vectors depend on that sentence alone. With --state carried
the LSTM state is carried from batch to batch as in bilm-tf: lines are batched in file order, N at a time, and row i of
a batch continues row i of the batch before.

--store DIR reads layers from a layer store and adds the missing ones. Benchmark runs share them if the precision is the
same (float16 by default). It cannot be used with --state carried, whose layers depend on the lines before.
"""

EXAMPLE = "example: python -m elmo.embed sentences.txt layers.hdf5 --weights allennlp/original --layers average"


@dataclass(frozen=True)
class InputLine:
    """An input line: its number, counted from 0, and its words."""

    number: int
    words: list[str]


def read_lines(path: Path) -> Iterator[InputLine]:
    """The lines of a UTF-8 text file, split at whitespace; empty lines are kept."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                yield InputLine(number, line.decode("utf-8-sig" if number == 0 else "utf-8").split())
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}, line {number + 1}: expected UTF-8 text: {error.reason} at byte {error.start}"
        ) from error
    except OSError as error:
        raise InputError(f"{path}: cannot read the sentences: {error.strerror}") from error


def batches_in_order(lines: Iterable[InputLine], size: int) -> Iterator[list[InputLine]]:
    """The lines in file order, `size` at a time."""
    remaining = iter(lines)
    return iter(lambda: list(islice(remaining, size)), [])


def batches_by_length(
    lines: Iterable[InputLine], size: int, most_tokens: int = TOKENS_AT_ONCE
) -> Iterator[list[InputLine]]:
    """Batches of similar lengths, of at most `size` lines and `most_tokens` padded tokens (or one long line)."""
    for window in batches_in_order(lines, size * BATCHES_IN_A_WINDOW):
        batch: list[InputLine] = []
        for line in sorted(window, key=lambda line: len(line.words)):
            tokens = (len(batch) + 1) * len(line.words)  # the newest line is the longest
            if batch and (len(batch) == size or tokens > most_tokens):
                yield batch
                batch = []
            batch.append(line)
        yield batch


def selected(layers: Tensor, choice: str) -> Tensor:
    """All layers, the top one or their average, always as (layers, tokens, dim)."""
    if choice == "all":
        return layers
    return layers[-1:] if choice == "top" else layers.mean(dim=0, keepdim=True)


def embed_file(
    bilm: Bilm,
    source: Path,
    target: Path,
    layers: str,
    carried: bool,
    batch_size: int | None,
    precision: str,
    store: Path | None = None,
) -> int:
    """Writes the layers of every line of `source` to `target`, which appears only when it is complete.

    With a store, the layers that it holds are read from it and the others are added, in the same precision. Without a
    batch size, the default for the device is used (carried states: always 64).

    Returns:
        The number of tokens embedded.
    """
    _check(source, target)
    first_line: dict[str, int] = {}
    lengths = [len(line.words) for line in read_lines(source)]  # also reports undecodable lines before any work
    total, kept = len(lengths), bilm.n_layers if layers == "all" else 1
    needed = sum(lengths) * kept * bilm.dim * np.dtype(precision).itemsize
    needed += total * BYTES_A_LINE + BYTES_A_FILE + source.stat().st_size * BYTES_A_BYTE_OF_TEXT
    if target.parent.is_dir():
        require_space(target.parent, needed, target.name, MORE_SPACE)
    lines = read_lines(source)
    on_cpu = bilm.device.type == "cpu"
    size = batch_size or (BATCH_SIZE if on_cpu or carried else BATCH_SIZE_ON_A_GPU)
    most_tokens = TOKENS_AT_ONCE if on_cpu else TOKENS_AT_ONCE_ON_A_GPU
    batches = batches_in_order(lines, size) if carried else batches_by_length(lines, size, most_tokens)
    bilm.remember_words()
    state = CarriedState() if carried else None
    stored = None
    if store is not None:
        shelf = open_shelf(store, ShelfDescription(bilm.fingerprint(), bilm.widths, precision))
        stored = CachedLayers(bilm, shelf, precision, memory_gb=0).to(bilm.device)
    reporter = Reporter("elmo.embed:", brief=True, bars=False)  # warnings of the store only
    n_tokens = 0
    with (
        replacing(target) as partial,
        _removed_on_sigterm(partial),
        _create(partial, target, needed) as file,
        progress_bar(Console(stderr=True), MofNCompleteColumn(), TextColumn("lines")) as progress,
    ):
        task = progress.add_task("embedding", total=total)
        for batch in batches:
            sentences = [line.words for line in batch]
            if stored is not None:
                stored.prepare(sentences, reporter)
            computed = bilm.token_layers(sentences, state) if stored is None else stored.token_layers(sentences)
            exact = selected(computed, layers).cpu().numpy()
            if precision == "float16":
                require_half_holds(float(np.abs(exact).max(initial=0)))
            embedded = exact.astype(precision, copy=False)
            ends = np.cumsum([len(words) for words in sentences])
            with interrupts_held_back():
                for line, values in zip(batch, np.split(embedded, ends[:-1], axis=1), strict=True):
                    file.create_dataset(str(line.number), data=values)
                    text = " ".join(line.words)
                    first_line[text] = min(line.number, first_line.get(text, line.number))
            n_tokens += int(ends[-1])
            progress.advance(task, len(batch))
        index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = json.dumps({text: str(number) for text, number in first_line.items()})
    return n_tokens


def _check(source: Path, target: Path) -> None:
    """Refuses paths that would fail late or overwrite something."""
    if source.exists() and not source.is_file() and not source.is_dir():
        raise InputError(f"{source}: expected a file, since it is read twice; write the sentences to one first")
    if target.is_dir():
        raise InputError(f"{target}: cannot write there: it is a folder; name a file in it")
    _refuse_overwrite("the sentences", source, target)


def _refuse_overwrite(what: str, file: Path, target: Path) -> None:
    """Refuses to overwrite an input file."""
    if target.exists() and file.exists() and target.samefile(file):
        raise InputError(f"{target}: cannot write there: it would overwrite {what}; name another file")


def _removed_on_sigterm(partial: Path) -> AbstractContextManager[None]:
    """Removes a file if SIGTERM ends the process in the block. It does not raise: h5py callbacks swallow exceptions."""

    def end(number: int, frame: FrameType | None) -> None:
        partial.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)

    return handling(signal.SIGTERM, end, signal.SIG_DFL)


def _create(partial: Path, target: Path, needed: int) -> h5py.File:
    """An HDF5 file with its disk space reserved: HDF5 crashes the process if a write fails."""
    try:
        with interrupts_held_back():
            h5py.File(partial, "w").close()
            _reserve(partial, target, needed)
            return h5py.File(partial, "r+")  # closing it releases the space that was not used
    except OSError as error:
        there = target.absolute().parent.is_dir()
        reason = "its folder does not exist" if not there else os.strerror(error.errno) if error.errno else error
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


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("elmo.embed", DESCRIPTION, EXAMPLE)
    parser.add_argument("source", metavar="IN.txt", type=Path, help="sentences, one a line, words split at whitespace")
    parser.add_argument("target", metavar="OUT.hdf5", type=Path, help="output file; replaced if it exists")
    parser.add_argument("--weights", metavar="W", required=True, help=weights_choices())
    parser.add_argument("--options", metavar="O", help="options.json of the weights (default: the one next to them)")
    parser.add_argument("--layers", choices=("all", "top", "average"), default="all", help="default: all")
    parser.add_argument("--state", choices=("zero", "carried"), default="zero", help="default: zero")
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=int,
        help=f"sentences in a batch (default: {BATCH_SIZE}; {BATCH_SIZE_ON_A_GPU} on a GPU with --state zero)",
    )
    parser.add_argument(
        "--precision", choices=("float32", "float16"), default="float32", help="of OUT; default: float32"
    )
    parser.add_argument("--store", metavar="DIR", type=Path, help="a layer store to read from and write to")
    parser.add_argument("--device", choices=CHOICES, default="auto", help="default: a GPU where there is one")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.batch_size is not None and options.batch_size < 1:
        parser.error(f"--batch-size must be at least 1, found {options.batch_size}")
    if options.store is not None and options.state == "carried":
        parser.error("--store holds layers that depend on their sentence alone; it cannot be used with --state carried")

    def work() -> None:
        for file in bilm_files(options.weights, options.options):
            _refuse_overwrite("the biLM", file, options.target)
        bilm = load_bilm(options.weights, options.options).to(choose_device(options.device))
        n_tokens = embed_file(
            bilm,
            options.source,
            options.target,
            options.layers,
            options.state == "carried",
            options.batch_size,
            options.precision,
            options.store,
        )
        print(f"{options.target}: {n_tokens:,} tokens")

    return exit_status("elmo.embed", work, "interrupted; nothing was written")


if __name__ == "__main__":
    sys.exit(main())
