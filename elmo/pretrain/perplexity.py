"""The command `python -m elmo.pretrain.perplexity`: perplexity or masked loss of a language model.

Measure the perplexity of an exported biLM on any text, in each direction, or the masked loss of a masked LM. Each
sentence is read from a zero state, with the full softmax, cased; <UNK> is predicted, and the line that is printed has
its rate. `elmo/pretrain/objective.py` defines both values.

example: python -m elmo.pretrain.perplexity news.txt --weights small
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from elmo.common.checks import DEVICES
from elmo.common.errors import command_parser
from elmo.pretrain.corpus.text import WINDOW
from elmo.tokeniser import Tokenise


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("elmo.pretrain.perplexity", str(__doc__))
    about = ".txt, .gz or .xz, a folder, or a token store (its held-out part)"
    parser.add_argument("text", metavar="TEXT", type=Path, help=about)
    about = "a model with its output layer, or a name (default: small)"
    parser.add_argument("--weights", metavar="W", default="small", help=about)
    parser.add_argument("--softmax", metavar="DIR", help="the output layer of W (default: W-softmax next to W)")
    parser.add_argument("--tokenise", choices=get_args(Tokenise), help="default: as in training")
    unseen = (
        "the training text of the biLM: leave out documents of TEXT (a blank line ends one) if at least half of their "
        f"lines share {WINDOW} characters in a row with these files and folders"
    )
    parser.add_argument("--unseen-in", metavar="CORPUS", nargs="+", default=[], help=unseen)
    parser.add_argument("--device", choices=DEVICES, default="auto", help="default: a GPU if there is one")
    return parser.run(arguments, _measure)


def _measure(options: argparse.Namespace) -> None:
    from elmo.pretrain.measuring import measure  # torch: not for --help

    measure(options)


if __name__ == "__main__":
    sys.exit(main())
