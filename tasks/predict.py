"""The command `python -m tasks.predict`: applies a trained model to text. See `tasks.running.predict`.

RUN was made with keep_weights=true. INPUT is a file, or - for standard input.

--input text   one example per line:
                 ner     a sentence                  srl    a sentence with *one* predicate between asterisks
                 sst5    a sentence                  coref  a document
                 snli    premise TAB hypothesis      squad  passage TAB question
                 classify  a text
               Text is split into words as `elmo.tokenise` does.
--input csv, tsv   one example per row, for files that end in .csv and .tsv. The first line names the columns:
                 ner, sst5, srl, coref  text         snli   sentence1, sentence2
                 classify  that of the run's data    squad  context, question
--input json   one JSON object per line, for files that end in .jsonl, with the same texts:
                 ner, sst5, classify  {"text": ...} or {"tokens": [...]}
                 srl        {"text": ...} or {"tokens": [...], "predicate": 2}, counted from 0
                 coref      {"text": ...} or {"sentences": [[...], ...]}
                 snli       {"sentence1": ..., "sentence2": ...}
                 squad      {"context": ..., "question": ...}
               An "id" is kept, also as a column; otherwise it is the number of the example. srl appends the
               predicate's position: ID:2.
--input data   a file of the task's format, read as the run's own data were. --score prints its scores.

--output text  ner, srl: words and tags in columns, and an empty line; sst5, snli, classify: the label;
               squad: the answer; coref: one chain per line, its mentions separated by " | ", and an empty line
--output csv   the rows of a table with all of their columns, the prediction and the probabilities of all labels
--output json  one JSON object per example. Places are tokens, the end excluded; "characters" are those of the raw text.
               sst5, snli, classify: "probabilities" of all labels; tags, answers and chains have none.

A text that is empty, not readable or too long gets an empty line, {"id": ..., "error": ...} or a row
without a prediction, and a message on standard error. The others are predicted, and the exit status is 1.

example: echo 'Ada Lind lives in Oslo.' | python -m tasks.predict results/runs/mini/ner/elmo/seed-4
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.common.checks import DEVICES
from elmo.common.errors import InputError, command_parser
from tasks.command_line import INPUT_KINDS, add_config_dir


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.predict", str(__doc__))
    about = "folder of a run made with keep_weights=true, or one above it with no other such run"
    parser.add_argument("run", metavar="RUN", type=Path, help=about)
    parser.add_argument("source", metavar="INPUT", type=Path, nargs="?", help="default: -, standard input")
    about = "default: by the ending of INPUT, else text"
    parser.add_argument("--input", choices=("text", *INPUT_KINDS.values(), "data"), help=about)
    parser.add_argument("--output", choices=("text", "json", "csv"), default="text", help="default: text")
    parser.add_argument("--score", action="store_true", help="print the scores of labelled data on standard error")
    parser.add_argument("--device", choices=DEVICES, default="auto", help="default: a GPU if there is one")
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="CPU threads; default: 1, as in runs")
    add_config_dir(parser)
    return parser.run(arguments, _predict)


def _predict(options: argparse.Namespace) -> int:
    from tasks.running.predict import predict  # torch takes a second, which --help should not need

    if options.score and options.input != "data":
        raise InputError("--score needs labels: use it with --input data")
    return predict(options)


if __name__ == "__main__":
    sys.exit(main())
