"""The command `python -m elmo.download`: download published weights and word vectors ahead of time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import size_in_words
from elmo.download.folder import is_here, obtain
from elmo.download.published import files_of, names

DESCRIPTION = """\
Download published weights and word vectors, or check already downloaded ones against their hashes.

Other commands download these names on first use; this one is for machines that will have no network later. If a
transfer stops, the same command continues it. Files are kept in $ELMO_CACHE (default: ~/.cache/elmo-suite/downloads)
and can be copied there from another machine. ELMO_MIRROR=URL downloads from your server instead, with the same layout
as that folder: URL/allennlp/small/elmo_..., URL/glove/glove.6B.zip.
"""


EXAMPLE = "example: python -m elmo.download allennlp/small glove/6B.300d"


def _listed() -> str:
    """The names, each with its size and whether it is already downloaded."""
    lines = ["names:"]
    for name in names():
        size = sum(file.size or 0 for file in files_of(name))
        lines.append(f"  {name:<24}{size_in_words(size) if size else 'size unknown':>14}{'  here' * is_here(name)}")
    return "\n".join(lines)


def _obtain_all(arguments: Sequence[str] | None) -> int:
    parser = command_parser("elmo.download", DESCRIPTION, f"{_listed()}\n\n{EXAMPLE}")
    parser.add_argument("names", metavar="NAME", nargs="+", help="of weights or word vectors; see below")
    status = 0
    for name in parser.parse_args(arguments).names:
        try:
            print(f"{name}: {obtain(name, thorough=True)}")
        except (InputError, OSError) as error:
            print(f"elmo.download: {error}", file=sys.stderr)
            status = 1
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    again = "stopped; the same command continues from here"
    return exit_status("elmo.download", lambda: _obtain_all(arguments), again)


if __name__ == "__main__":
    sys.exit(main())
