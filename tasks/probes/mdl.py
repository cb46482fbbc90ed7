"""How many bits of a label a layer saves: minimum description length probes; python -m tasks.probes.mdl.

Sender and receiver know the vectors, and the labels are sent in an online code (Voita and Titov 2020): the first 0.1 %
with equal bits for each label, then each further share by a linear softmax that was fitted on all before it. The
message begins with the strength of the softmax's prior, so that nothing is tuned. The control task (Hewitt and Liang
2019) gives equal words equal labels, drawn with the frequencies of the labels: bits that it saves are memory of words.

Of each property, the code has the labels of random texts of the training split. Orders shuffle these texts.

example: python -m tasks.probes.mdl pos ner --data-dir DIR --weights small --items 2000
"""

import argparse
import sys
from collections.abc import Sequence

from elmo.common.errors import command_parser
from elmo.published import weights_choices
from results.studies import add_study_options

PROPERTIES = ("pos", "ner", "srl", "coref", "wsd")


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.probes.mdl", str(__doc__))
    about = f"of {', '.join(PROPERTIES)}; default: all"
    parser.add_argument("properties", metavar="PROPERTY", nargs="*", choices=[*PROPERTIES, []], help=about)
    parser.add_argument("--data-dir", metavar="DIR", help="the folder of the official files, as data_dir")
    parser.add_argument("--weights", metavar="W", default="medium", help=f"{weights_choices()}; default: medium")
    parser.add_argument("--vectors", metavar="V", default="wink-100d", help="default: wink-100d")
    parser.add_argument("--items", metavar="N", type=int, default=5000, help="labels of a property; default: 5000")
    parser.add_argument("--orders", metavar="N", type=int, default=3, help="default: 3")
    add_study_options(parser)
    return parser.run(given, _show)


def _show(options: argparse.Namespace) -> None:
    from tasks.probes.description_lengths import show  # torch: not for --help

    show(options)


if __name__ == "__main__":
    sys.exit(main())
