"""The command `python -m elmo.embed`: write the biLM layers of a text to an HDF5, npy, Arrow or Parquet file."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import get_args

from elmo.bilm.weight_files import bilm_files, load_bilm, weights_choices
from elmo.common.device import CHOICES, choose_device
from elmo.common.errors import command_parser, exit_status
from elmo.embed.one_file import BATCH_SIZE, BATCH_SIZE_ON_A_GPU, EmbedSettings, embed_file, refuse_overwrite
from elmo.tokeniser import Tokenise

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
  .parquet  the same, with the name of IN as its first column, source

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

    settings = EmbedSettings(**{field.name: getattr(options, field.name) for field in fields(EmbedSettings)})

    def work() -> None:
        for file in bilm_files(options.weights, options.options):
            refuse_overwrite("the biLM", file, options.target)
        bilm = load_bilm(options.weights, options.options).to(choose_device(options.device))
        with _file_of(options.source) as source:
            n_tokens = embed_file(bilm, source, options.target, settings, options.store)
        print(f"{options.target}: {n_tokens:,} tokens")

    return exit_status("elmo.embed", work, "interrupted; nothing was written")


if __name__ == "__main__":
    sys.exit(main())
