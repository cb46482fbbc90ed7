"""python -m tests.benchmarks: every speed beside its anchor, in one table, in two minutes; see --help.

BENCH_FORMAT=json prints one JSON document instead, for machines. What goes on is said on stderr.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from elmo.errors import InputError
from tests.benchmarks import STARTED, bilm, embed, epochs, heads, store
from tests.benchmarks.rows import Row, show
from tests.benchmarks.timing import tell, threads

PARTS = ("bilm", "store", "crf", "recurrence", "epochs", "products", "embed")
QUICK = PARTS[:5]
QUICK_EXAMPLES, FULL_EXAMPLES = 100, 400  # of each split, on a CPU
ONE_THREAD = ("crf", "recurrence", "epochs", "products")  # as a run of a task has it


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks", description="Measures every speed beside an anchor, in turn."
    )
    parser.add_argument("--full", action="store_true", help="all parts, longer: twenty minutes on two cores")
    parser.add_argument("--only", type=parts, metavar="PART,...", help=f"some of: {', '.join(PARTS)}")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu (default) or cuda")
    parser.add_argument(
        "--data",
        default="mini",
        metavar="NAME",
        help="of the epochs: mini (default) is shipped, paper wants ELMO_DATA; standin is SNLI's instead of paper",
    )
    parser.add_argument("--tasks", default=",".join(epochs.TASKS), metavar="TASK[=DATA],...", help="of the epochs")
    parser.add_argument(
        "--limit",
        type=int,
        help=f"examples of each split; 0: all (default: {QUICK_EXAMPLES}, --full {FULL_EXAMPLES}; on a GPU all)",
    )
    return parser.parse_args(given)


def parts(text: str) -> list[str]:
    """Names of parts, in the table's order."""
    wanted = [name.strip() for name in text.split(",")]
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(PARTS)}, found {', '.join(map(repr, unknown))}")
    return [name for name in PARTS if name in wanted]


def epoch_rows(options: argparse.Namespace) -> Iterator[Row]:
    gpu = options.device.type != "cpu"
    limit = options.limit
    if limit is None:
        limit = 0 if gpu else FULL_EXAMPLES if options.full else QUICK_EXAMPLES
    pairs = [name.partition("=") for name in options.tasks.split(",")]
    tasks = [(task, data or options.data) for task, _, data in pairs]
    return epochs.rows(tasks, limit, options.device, 3 if options.full or gpu else 1, options.full)


def main(given: Sequence[str] | None = None) -> int:
    """Measures, prints, and gives 1 where a part could not be measured."""
    options = arguments(given)
    # One precision for all paths; the products of anchors and of ours alike.
    torch.backends.cudnn.allow_tf32 = False
    measure: dict[str, Callable[[], Iterator[Row]]] = {
        "bilm": partial(bilm.rows, options.device, options.full),
        "store": partial(store.rows, options.device, options.full),
        "crf": partial(heads.crf_rows, options.device, options.full),
        "recurrence": partial(heads.recurrence_rows, options.device, options.full),
        "epochs": partial(epoch_rows, options),
        "products": partial(heads.product_rows, options.device, options.full),
        "embed": partial(embed.rows, options.device, options.full),
    }
    rows, failures = [], []
    for part in options.only or (PARTS if options.full else QUICK):
        try:
            with threads(1 if part in ONE_THREAD else torch.get_num_threads()):
                rows.extend(measure[part]())
        except InputError as error:  # what other parts found shall not be lost for a file that is missing
            failures.append(f"{part}: {error}")
    tell("")
    show(rows, options.device, time.perf_counter() - STARTED)
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
