r"""Kinds of test examples for breakdowns, from data alone: python -m tasks.groups task=ner data=paper data_dir=DIR.

Writes RUNS_DIR/test_sets/TASK-HASH.json.gz: for each test example its name and the kinds it belongs to (length, casing,
seen and unseen entities ...), no text. `python -m results.breakdown` and the report then show the scores of each kind.
A run on whole data writes the file itself; this command is for runs that were made before, or elsewhere.

With --right-in, it adds one more distinction, under the name --as: whether another run of the same task and data
answers the example correctly. A head that reads only the hypotheses of SNLI, for example:

  python -m tasks.run task=snli data=mini features=glove task.hypothesis_only=true
  python -m tasks.groups task=snli data=mini --as hypothesis_alone \
      --right-in results/runs/mini/snli/glove/task.hypothesis_only=true/seed-1

Examples:
  python -m tasks.groups task=ner data=paper data_dir=DIR
  python -m tasks.groups task=coref data=litbank data_dir=DIR runs_dir=results/published   all folds
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.common.errors import InputError, command_parser
from results.records.example_scores import ExamplesUnreadable, add_groups, read_examples
from results.records.identity import EXAMPLES_NAME, RECORD_NAME
from results.records.metric import Grouping
from results.records.record import RecordUnreadable, read_record
from tasks.command_line import add_config_dir


def correct_in(run: Path, task: str, test: str, count: int) -> Grouping:
    """Whether a run is right about each test example.

    Args:
        run: its folder.
        task: the task that it must be of.
        test: the hash of the test files that it must have.
        count: of the test examples.
    """
    try:
        record = read_record(run / RECORD_NAME)
        scores = read_examples(run / EXAMPLES_NAME, record.fingerprint) or []
    except (OSError, RecordUnreadable, ExamplesUnreadable) as error:
        raise InputError(f"--right-in: expected the folder of a finished run, found: {error}") from error
    theirs = (record.identity.task, record.data_hashes.get("test"), len(scores))
    if theirs != (task, test, count) or any("correct" not in score for score in scores):
        raise InputError(
            f"--right-in {run}: expected a run of task={task} on the same {count:,} test examples, with `correct` for "
            f"each of them, found {record.identity.title} with {len(scores):,} scores. Name another run"
        )
    return Grouping(("right", "wrong"), [0 if score["correct"] else 1 for score in scores])


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.groups", str(__doc__))
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="+", help="task, data, data_dir, runs_dir, as for a run")
    parser.add_argument("--right-in", metavar="RUN", type=Path, help="the folder of a run, with record.json")
    parser.add_argument("--as", metavar="NAME", dest="name", help="the name of the distinction of --right-in")
    add_config_dir(parser)
    return parser.run(given, _write_all)


def _write_all(options: argparse.Namespace) -> None:
    from tasks.data.datasets import DataSource  # torch takes a second, which --help should not need
    from tasks.running.config import typed_folds

    if (options.right_in is None) != (options.name is None):
        raise InputError("--right-in and --as: expected both or neither")
    for config in typed_folds(options.settings, options.config_dir):
        task, source = config.task, DataSource(config.data, config.data_dir)
        hashes, examples = source.fingerprint(), source.load(task, "test").examples
        groups = task.groups(examples, source.load(task, "train").examples)
        if options.right_in is not None:
            groups[options.name] = correct_in(options.right_in, task.name, hashes["test"], len(examples))
        print(add_groups(config.runs_dir, task.name, hashes, [example.id for example in examples], groups))


if __name__ == "__main__":
    sys.exit(main())
