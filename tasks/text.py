r"""Export of a task's training text, to tune a biLM on: python -m tasks.text task=ner data=paper > ner.txt.

The paper tunes its biLM for one epoch on a task's training text, without the labels, before it freezes the biLM.

Prints the training text of a task: each sentence (passage, question, premise ...) once, one per line, tokens separated
by spaces. No labels, nothing of dev or test. To tune a biLM on it and use that:

  python -m tasks.text task=ner data=paper > ner.txt
  python -m elmo.pretrain init=small corpus=ner.txt out=tuned name=small-ner budget.tokens=600000 \
      heldout_fraction=0.05 training.batch_tokens=2048 training.learning_rate=0.002
  python -m tasks.run task=ner data=paper features=elmo features.elmo.weights=tuned/export/small-ner

600000 is three times CoNLL-2003's 197,521 words. For your own dataset, use data=PATH.yaml.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from elmo.common.errors import command_parser
from elmo.common.files import print_lines
from tasks.command_line import add_config_dir, group_options

if TYPE_CHECKING:
    from tasks.running.config import Run


def training_text(config: "Run") -> list[str]:
    """The sentences of a task's training examples, each once, in order."""
    examples = config.source.load(config.task, "train").examples
    return list(dict.fromkeys(map(" ".join, chain.from_iterable(map(config.task.texts, examples)))))


def main(given: Sequence[str] | None = None) -> int:
    """Prints the text; the exit status is 1 if the settings or the data are wrong."""
    parser = command_parser("tasks.text", str(__doc__))
    about = f"task ({', '.join(group_options('task'))}), data, data_dir, as for a run"
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="+", help=about)
    add_config_dir(parser)
    return parser.run(given, _print_text)


def _print_text(options: argparse.Namespace) -> None:
    from tasks.running.config import typed_config  # torch takes a second, which --help should not need

    print_lines(f"{line}\n" for line in training_text(typed_config(options.settings, options.config_dir)))


if __name__ == "__main__":
    sys.exit(main())
