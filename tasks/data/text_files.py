"""Text files: strict UTF-8 lines, and the treebank escapes in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elmo.common.errors import InputError

# Treebanks escape brackets and quotes. Word vectors and biLMs are trained on plain text, which has no escapes.
TREEBANK_ESCAPES = {
    **{"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"},
    **{"``": '"', "''": '"'},
}


def utf8_lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without their line ends; a byte order mark and CRLF are accepted.

    Only a line feed ends a line: tweets and web pages contain all the other separators of Unicode. A carriage return
    within a line is an error. Such a file probably uses it as its line end, and would be read as one line.
    """
    number = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                if "\r" in text:
                    raise InputError(
                        f"{path}, line {number}: expected lines that end in LF or CRLF, found a carriage return within "
                        f"one, at character {text.index(chr(13))}. Save the file with line ends LF or CRLF"
                    )
                yield text
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {number}: expected UTF-8: {error.reason} at byte {error.start}") from error
