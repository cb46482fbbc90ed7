"""The command `python -m elmo.embed`: write the biLM layers of a text to an HDF5, npy or Arrow file."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import FrameType
from typing import get_args

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import MofNCompleteColumn, TextColumn
from torch import Tensor

from elmo.bilm.model import Bilm, CarriedState
from elmo.bilm.weight_files import bilm_files, load_bilm, weights_choices
from elmo.common.device import CHOICES, choose_device
from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import handling, interrupts_held_back, replacing, require_space
from elmo.common.progress import Reporter, progress_bar
from elmo.embed_output import (
    BYTES_A_BYTE_OF_TEXT,
    BYTES_A_FILE,
    BYTES_A_LINE,
    MORE_SPACE,
    open_output,
)
from elmo.store.cached_layers import TOKENS_AT_ONCE, TOKENS_AT_ONCE_ON_A_GPU, CachedLayers, require_half_holds
from elmo.store.opening import open_shelf
from elmo.store.shelf import ShelfDescription
from elmo.tables import table_rows
from elmo.tokeniser import Tokenise, Tokeniser

# A batch has at most --batch-size sentences, and at most as many tokens as the cache embeds at once (or one sentence):
# memory grows with the tokens. A GPU needs many sentences in parallel to be busy.
BATCH_SIZE, BATCH_SIZE_ON_A_GPU = 64, 1024
# Sentences are sorted by length within windows of this many batches: with similar lengths, LSTM steps are full.
BATCHES_IN_A_WINDOW = 64
STANDARD_INPUT = Path("-")

DESCRIPTION = """\
Embed sentences, one a line, with a frozen biLM. IN is a text file, "-" for standard input, or, with --column, a CSV or
TSV table with a header. Words are split at whitespace; --tokenise ptb splits raw text into words and sentences, as
`elmo.tokenise` does. A line of several sentences is embedded sentence by sentence, and stays one line in OUT.

OUT has all layers of every token, or a single one with --layers last|average; with --pool mean one vector a line, the
mean over its tokens. Its ending chooses the format:
  .hdf5   one dataset a line, named "0", "1", "2", ... by line number (by row of a table), of shape (layers, tokens,
          dim), pooled (layers, dim). An empty line has zero tokens. The dataset "sentence_to_index" holds one JSON
          object from each line's words, joined by one blank, to the number of the first line that has them.
          Any other ending means this format, too.
  .npy    one array, a row a token (all lines one after the other; OUT.lengths.npy has the tokens of each line) or,
          pooled, a row a line. A row is (layers, dim), or (dim,) for a single layer. numpy.load(OUT, mmap_mode="r")
  .arrow  a table with a row a line: line, tokens, and vectors (one a token) or, pooled, vector

By default every sentence starts from a zero state, so its vectors depend on that sentence alone. With --state carried
the LSTM state is carried from batch to batch as in bilm-tf: lines are batched in file order, N at a time, and row i of
a batch continues row i of the batch before.

--store DIR reads layers from a layer store and adds the missing ones. Benchmark runs share them if the precision is the
same (float16 by default). It cannot be used with --state carried, whose layers depend on the lines before.
"""

EXAMPLE = """\
examples: python -m elmo.embed sentences.txt layers.hdf5 --weights allennlp/original --layers average
          echo 'It rained. We stayed in.' | python -m elmo.embed - out.npy --tokenise ptb --pool mean --layers last
          python -m elmo.embed reviews.csv reviews.arrow --column text --tokenise ptb --pool mean
"""


@dataclass(frozen=True)
class InputLine:
    """An input line: its number, counted from 0, its words, and the sentences in it, if there may be several."""

    number: int
    words: list[str]
    sentences: list[list[str]] | None = None

    @property
    def parts(self) -> list[list[str]]:
        """What the biLM reads one by one."""
        return [self.words] if self.sentences is None else self.sentences


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


def read_text(path: Path, tokenise: Tokenise = "whitespace", column: str | None = None) -> Iterator[InputLine]:
    """The lines of a text file, or the rows of a table, in words."""
    if column is None and tokenise == "whitespace":
        yield from read_lines(path)
        return
    tokeniser = Tokeniser(tokenise)
    texts = _texts(path) if column is None else (text for _, (text,) in table_rows(path, [column]))
    for number, text in enumerate(texts):
        sentences = [sentence for line in text.split("\n") for sentence in tokeniser.paragraph(line)]
        yield InputLine(number, list(chain.from_iterable(sentences)), sentences)


def _texts(path: Path) -> Iterator[str]:
    """The lines of a text file as they are; `read_lines` splits them only to report what cannot be decoded."""
    return (" ".join(line.words) for line in read_lines(path))


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
    """All layers, the last one or their average, always as (layers, tokens, dim)."""
    if choice == "all":
        return layers
    return layers[-1:] if choice == "last" else layers.mean(dim=0, keepdim=True)


def embed_file(
    bilm: Bilm,
    source: Path,
    target: Path,
    layers: str,
    carried: bool,
    batch_size: int | None,
    precision: str,
    store: Path | None = None,
    tokenise: Tokenise = "whitespace",
    column: str | None = None,
    pooled: bool = False,
) -> int:
    """Writes the layers of every line of `source` to `target`, which appears only when it is complete.

    With a store, the layers that it holds are read from it and the others are added, in the same precision. Without a
    batch size, the default for the device is used (carried states: always 64). See DESCRIPTION for the rest.

    Returns:
        The number of tokens embedded.
    """
    _check(source, target)
    lengths = [len(line.words) for line in read_text(source, tokenise, column)]  # reports wrong lines before any work
    total, kept = len(lengths), bilm.n_layers if layers == "all" else 1
    needed = (total if pooled else sum(lengths)) * kept * bilm.dim * np.dtype(precision).itemsize
    needed += total * BYTES_A_LINE + BYTES_A_FILE + source.stat().st_size * BYTES_A_BYTE_OF_TEXT
    if target.parent.is_dir():
        require_space(target.parent, needed, target.name, MORE_SPACE)
    lines = read_text(source, tokenise, column)
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
        open_output(partial, target, lengths, kept, bilm.dim, precision, pooled, needed) as output,
        progress_bar(Console(stderr=True), MofNCompleteColumn(), TextColumn("lines")) as progress,
    ):
        task = progress.add_task("embedding", total=total)
        for batch in batches:
            sentences = [part for line in batch for part in line.parts]
            if stored is not None:
                stored.prepare(sentences, reporter)
            computed = bilm.token_layers(sentences, state) if stored is None else stored.token_layers(sentences)
            exact = selected(computed, layers).cpu().numpy()
            if precision == "float16":
                require_half_holds(float(np.abs(exact).max(initial=0)))
            ends = np.cumsum([len(line.words) for line in batch])
            with interrupts_held_back():
                for line, values in zip(batch, np.split(exact, ends[:-1], axis=1), strict=True):
                    kept_values = mean_of(values) if pooled else values
                    output.add(line.number, line.words, kept_values.astype(precision, copy=False))
            n_tokens += int(ends[-1])
            progress.advance(task, len(batch))
    return n_tokens


def mean_of(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The mean over tokens, zero without any: (layers, tokens, dim) -> (layers, 1, dim)."""
    sums: npt.NDArray[np.float32] = values.sum(axis=1, keepdims=True)
    return sums / np.float32(max(values.shape[1], 1))


@contextmanager
def _file_of(source: Path) -> Iterator[Path]:
    """The file to read, which is read twice: standard input becomes a temporary one."""
    if source != STANDARD_INPUT:
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "standard input"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path


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


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("elmo.embed", DESCRIPTION, EXAMPLE)
    parser.add_argument("source", metavar="IN", type=Path, help='text, a line a sentence; a table; or "-"')
    parser.add_argument("target", metavar="OUT", type=Path, help="output file; replaced if it exists")
    parser.add_argument("--weights", metavar="W", default="small", help=f"{weights_choices()}; default: small")
    parser.add_argument("--options", metavar="O", help="options.json of the weights (default: the one next to them)")
    parser.add_argument(
        "--tokenise", choices=get_args(Tokenise), default="whitespace", help="ptb for raw text; default: whitespace"
    )
    parser.add_argument("--column", metavar="NAME", help="IN is a .csv or .tsv table: embed this column")
    parser.add_argument(
        "--pool", choices=("none", "mean"), default="none", help="mean: one vector a line; default: none"
    )
    parser.add_argument("--layers", choices=("all", "last", "average"), default="all", help="default: all")
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
    if options.state == "carried" and (options.tokenise == "ptb" or options.column is not None):
        parser.error("--state carried needs a sentence a line in words; it cannot be used with --tokenise or --column")

    def work() -> None:
        for file in bilm_files(options.weights, options.options):
            _refuse_overwrite("the biLM", file, options.target)
        bilm = load_bilm(options.weights, options.options).to(choose_device(options.device))
        with _file_of(options.source) as source:
            n_tokens = embed_file(
                bilm,
                source,
                options.target,
                options.layers,
                options.state == "carried",
                options.batch_size,
                options.precision,
                options.store,
                options.tokenise,
                options.column,
                options.pool == "mean",
            )
        print(f"{options.target}: {n_tokens:,} tokens")

    return exit_status("elmo.embed", work, "interrupted; nothing was written")


if __name__ == "__main__":
    sys.exit(main())
