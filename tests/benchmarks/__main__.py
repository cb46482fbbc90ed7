"""Command line of `python -m tests.benchmarks`: all speeds and their anchors in one table, in two minutes; see --help.

BENCH_FORMAT=json prints one JSON document instead. Progress goes to stderr.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial

import torch

from elmo.common.device import torch_threads
from elmo.common.errors import InputError
from tests.benchmarks import STARTED, bilm, embed, epochs, heads, representations, store
from tests.benchmarks.measuring.rows import Measurement, show
from tests.benchmarks.measuring.timing import show_status, single_precision

PARTS = ("bilm", "store", "crf", "recurrence", "epochs", "products", "embed", "representations")
QUICK = PARTS[:5]
QUICK_EXAMPLES, FULL_EXAMPLES = 64, 400  # of each split, on a CPU
# One thread, and the precision that torch has by default.
AS_IN_A_RUN = ("crf", "recurrence", "epochs", "products", "representations")


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measures speeds, each in turn with an anchor.",
        epilog="BENCH_FORMAT=json prints JSON. Without --full: " + ", ".join(QUICK) + ".",
    )
    parser.add_argument("--full", action="store_true", help="all parts, and more rounds of each")
    parser.add_argument("--only", type=parts, metavar="PART,...", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu (default) or cuda")
    parser.add_argument(
        "--data",
        default="mini",
        metavar="NAME",
        help="of the epochs: mini (default) is shipped, paper wants ELMO_DATA; snli100k is a part of SNLI's",
    )
    parser.add_argument("--tasks", default=",".join(epochs.TASKS), metavar="TASK[=DATA],...", help="of the epochs")
    parser.add_argument(
        "--limit",
        type=int,
        help=f"examples of each split; 0: all (default: {QUICK_EXAMPLES}, --full {FULL_EXAMPLES}; on a GPU all)",
    )
    options = parser.parse_args(given)
    if options.device.type == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device {options.device}: torch {torch.__version__} finds no GPU here")
    return options


def parts(text: str) -> list[str]:
    """Names of parts, in the order of the table."""
    wanted = [name.strip() for name in text.split(",")]
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(PARTS)}, found {', '.join(map(repr, unknown))}")
    return [name for name in PARTS if name in wanted]


def jobs(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Iterator[Measurement]]]]:
    """Measurements to make, by the name of their part; the epochs of each task are one job."""
    device, full = options.device, options.full
    gpu = device.type != "cpu"
    limit = options.limit
    if limit is None:
        limit = 0 if gpu else FULL_EXAMPLES if full else QUICK_EXAMPLES
    measure = {
        "bilm": bilm.rows,
        "store": store.rows,
        "crf": heads.crf_rows,
        "recurrence": heads.recurrence_rows,
        "products": heads.product_rows,
        "embed": embed.rows,
        "representations": representations.rows,
    }
    for part in options.only or (PARTS if full else QUICK):
        if part != "epochs":
            yield part, partial(measure[part], device, full)
            continue
        for task, _, data in (name.partition("=") for name in options.tasks.split(",")):
            rounds = 3 if full else 1
            yield part, partial(epochs.rows, [(task, data or options.data)], limit, device, rounds, full)


def main(given: Sequence[str] | None = None) -> int:
    """Measures and prints; returns 1 if something could not be measured."""
    options = arguments(given)
    rows: list[Measurement] = []
    failures = []
    for part, measure in jobs(options):
        alone = part in AS_IN_A_RUN
        try:
            with torch_threads(1 if alone else torch.get_num_threads()), nullcontext() if alone else single_precision():
                rows.extend(measure())
        except InputError as error:  # a missing file must not lose the other results
            failures.append(f"{part}: {error}")
    show_status("")
    show(rows, options.device, time.perf_counter() - STARTED)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
