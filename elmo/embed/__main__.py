"""The command `python -m elmo.embed`: write the biLM layers of a text to a file, or of many texts to a folder.

Embed sentences, one per line, with a frozen biLM. IN is a text file, "-" for standard input, or, with --column, a CSV
or TSV table with a header. Words are split at whitespace; --tokenise ptb splits raw text into words and sentences. A
line of several sentences is embedded sentence by sentence, and stays one line in OUT.

OUT has all layers of every token, or a single one with --layers last|average; with --pool mean it has one vector per
line, the mean over its tokens (zeros for an empty line). The ending of OUT selects the format:
  .hdf5     one dataset per line, named "0", "1", "2", ... by line number (by row of a table), of shape (layers, tokens,
            dim), pooled (layers, dim). "sentence_to_index" is a JSON object that maps the words of each line, joined by
            single spaces, to the number of the first line with these words
  .parquet  a table with a row per line: source (the name of IN), line, tokens, and vectors (one per token) or vector

With --out FOLDER, IN may be many files or patterns ('texts/*/*.txt'). Each gives a Parquet file (shard), which appears
when it is complete: texts/2020/a.txt becomes FOLDER/2020/a.txt.parquet. After an interruption the same command makes
the missing ones. --engine ray computes shards in parallel on Ray Data, on this machine or on a cluster whose machines
share IN, FOLDER and --weights (a file, or the name of a shipped biLM). A shard is the same to the last bit with both
engines, on the same kind of device.

By default every sentence starts from a zero state, so its vectors depend on that sentence alone. With --state carried
the LSTM state is carried from batch to batch as in bilm-tf: lines are batched in file order, N at a time, and row i of
a batch continues row i of the batch before.

examples: python -m elmo.embed sentences.txt layers.hdf5 --weights allennlp/original --layers average
          python -m elmo.embed reviews.csv reviews.parquet --column text --tokenise ptb --pool mean
          python -m elmo.embed 'texts/*.txt' --out shards --engine ray --address auto --threads 4
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import get_args

from elmo.common.checks import DEVICES, MOST_THREADS
from elmo.common.errors import command_parser, exit_status
from elmo.common.files import expanded
from elmo.embed.settings import BATCH_SIZE, BATCH_SIZE_ON_A_GPU, EmbedSettings
from elmo.published import weights_choices
from elmo.tokeniser import Tokenise

MOST_GPUS = 64  # of a worker


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("elmo.embed", str(__doc__))
    parser.usage = "%(prog)s IN OUT [options]\n       %(prog)s IN [IN ...] --out FOLDER [options]"
    about = 'text, one sentence per line; a table; or "-". OUT follows it, and is replaced if it exists; with --out '
    about += "there may be any number of files and patterns instead"
    parser.add_argument("paths", metavar="IN", nargs="+", help=about)
    parser.add_argument("--weights", metavar="W", default="small", help=f"{weights_choices()}; default: small")
    parser.add_argument("--tokenise", choices=get_args(Tokenise), help="ptb for raw text; default: %(default)s")
    parser.add_argument("--column", metavar="NAME", help="IN is a .csv or .tsv table: embed this column")
    parser.add_argument("--pool", choices=("none", "mean"), help="mean: one vector per line; default: %(default)s")
    parser.add_argument("--layers", choices=("all", "last", "average"), help="default: %(default)s")
    parser.add_argument("--state", choices=("zero", "carried"), help="default: %(default)s")
    sizes = f"sentences in a batch (default: {BATCH_SIZE}; {BATCH_SIZE_ON_A_GPU} on a GPU with --state zero)"
    parser.add_argument("--batch-size", metavar="N", type=int, help=sizes)
    precisions = "of OUT; int8: float32, computed with int8 products, faster on most CPUs; default: %(default)s"
    parser.add_argument("--precision", choices=("float32", "float16", "int8"), help=precisions)
    about = "default: a GPU if there is one; with Ray --gpus"
    parser.add_argument("--device", choices=DEVICES, default="auto", help=about)
    many = parser.add_argument_group("many files")
    many.add_argument("--out", metavar="FOLDER", help="write a Parquet shard for each IN there")
    many.add_argument("--engine", choices=("local", "ray"), default="local", help="default: local, in this process")
    many.add_argument("--threads", metavar="N", type=int, help="of torch in a worker, and CPUs for Ray; default: 1")
    many.add_argument("--workers", metavar="N", type=int, help="Ray workers; default: as many as fit")
    many.add_argument("--gpus", metavar="G", type=float, help="of a Ray worker, such as 0.5; default: 1 with cuda")
    many.add_argument("--address", metavar="HOST:PORT", help="a Ray cluster; default: $RAY_ADDRESS, or a local Ray")
    parser.set_defaults(**asdict(EmbedSettings()))
    return parser


def _check(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Ends the program if the options do not go together."""
    for name, least, most in (("threads", 1, MOST_THREADS), ("workers", 1, MOST_THREADS), ("gpus", 0, MOST_GPUS)):
        value = getattr(options, name)
        if value is not None and not least <= value <= most:
            parser.error(f"--{name} must be from {least} to {most:,}, found {value}")
    if options.batch_size is not None and options.batch_size < 1:
        parser.error(f"--batch-size must be at least 1, found {options.batch_size}")
    if options.state == "carried" and (options.tokenise == "ptb" or options.column is not None):
        parser.error("--state carried needs one sentence per line, split into words. Leave out --tokenise and --column")
    on_ray = options.engine == "ray"
    if not on_ray and (options.workers, options.gpus, options.address) != (None, None, None):
        parser.error("--workers, --gpus and --address need --engine ray")
    if on_ray and options.gpus is not None and options.device == ("cpu" if options.gpus else "cuda"):
        parser.error(f"--device {options.device} cannot be used with --gpus {options.gpus:g}")
    if options.out is None and (on_ray or options.threads is not None):
        parser.error("--engine ray and --threads need --out FOLDER")
    if options.out is None and len(options.paths) != 2:
        parser.error(f"expected IN and OUT, or many IN and --out FOLDER, found {len(options.paths)} paths")
    if options.out is not None and "-" in options.paths:
        parser.error("standard input cannot be used with --out; write it to a file first")


def _embed_one(options: argparse.Namespace, settings: EmbedSettings) -> None:
    from elmo.bilm.weight_files import find_weights, load_bilm  # torch: not for --help
    from elmo.common.device import choose_device
    from elmo.embed.one_file import embed_file, refuse_overwrite

    source, target = map(Path, options.paths)
    refuse_overwrite("the biLM", find_weights(options.weights), target)
    bilm = load_bilm(options.weights, settings.products).to(choose_device(options.device))
    bilm.remember_words()
    with tempfile.TemporaryDirectory() as folder:
        if options.paths[0] == "-":  # the source is read twice
            source = Path(folder) / "standard input"
            with source.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        n_tokens = embed_file(bilm, source, target, settings)
    print(f"{target}: {n_tokens:,} tokens")


def _embed_many(options: argparse.Namespace, settings: EmbedSettings) -> None:
    from elmo.bilm.weight_files import load_bilm  # torch: not for --help
    from elmo.common.device import choose_device
    from elmo.embed.shards import ShardsJob, find_inputs, unfinished, working_in, write_shards

    bilm = load_bilm(options.weights, settings.products)
    # A driver of Ray need not have the GPUs of its workers.
    gpus = options.gpus if options.gpus is not None else float(options.device == "cuda")
    on_ray = options.engine == "ray"
    path = Path(options.weights).expanduser().absolute()
    job = ShardsJob(
        folder=expanded(options.out, "--out").absolute(),
        weights=str(path) if path.exists() else options.weights,
        fingerprint=bilm.fingerprint(),
        settings=settings,
        device=("cuda" if gpus else "cpu") if on_ray else choose_device(options.device).type,
        threads=options.threads or 1,
    )
    inputs = find_inputs(options.paths)
    with working_in(job.folder):
        missing = unfinished(job, inputs)
        n_tokens = write_shards(job, missing, bilm, (options.address, options.workers, gpus) if on_ray else None)
    before = f", {len(inputs) - len(missing)} were there" if len(missing) < len(inputs) else ""
    print(f"{options.out}: {len(missing)} shards written{before}, {n_tokens:,} tokens")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)
    _check(options, parser)
    settings = EmbedSettings(**{field.name: getattr(options, field.name) for field in fields(EmbedSettings)})
    again = "nothing was written" if options.out is None else "the same command writes the missing shards"
    work = _embed_one if options.out is None else _embed_many
    return exit_status("elmo.embed", lambda: work(options, settings), f"interrupted; {again}")


if __name__ == "__main__":
    sys.exit(main())
