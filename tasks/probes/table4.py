"""The paper's Table 4: nearest uses of a word in context next to GloVe's nearest words; python -m tasks.probes.table4.

`--write` keeps what it finds in the shipped sentences, which were written for the suite, for results/tables.md.
Sentences of SemCor are printed only; what is kept of them is a count.

Shows Table 4 of the paper: for each sense of WORD one use, the nearest other uses by the biLM's top layer, and once the
nearest words by GloVe, which has one vector for all senses. The sentences come with the suite, some with senses, those
of the mini data without; --semcor adds SemCor, with WordNet's senses.

example: python -m tasks.probes.table4 bank --semcor DIR/pos_wsd/semcor/semcor.jsonl
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.common.checks import DEVICES
from elmo.common.errors import command_parser
from elmo.published import weights_choices


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.probes.table4", str(__doc__))
    parser.add_argument("word", metavar="WORD", nargs="?", default="play", help="default: play, as in the paper")
    parser.add_argument("--semcor", metavar="FILE", type=Path, help="SemCor as JSON lines, as task=wsd_probe reads it")
    parser.add_argument("--write", metavar="DIR", type=Path, help="write table4.md; no text of SemCor")
    parser.add_argument("--weights", metavar="W", default="small", help=f"{weights_choices()}; default: small")
    parser.add_argument("--device", choices=DEVICES, default="auto", help="default: a GPU if there is one")
    return parser.run(given, _show)


def _show(options: argparse.Namespace) -> None:
    from tasks.probes.uses import show  # torch: not for --help

    show(options)


if __name__ == "__main__":
    sys.exit(main())
