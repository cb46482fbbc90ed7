"""Safe output: escapes control characters, and markup on pages, in text from records and folder names."""

import json
import re
import shutil
from typing import TextIO

from elmo.common.files import fitted


def printable(text: str) -> str:
    """The text on one line, with control characters escaped as in JSON."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def printable_on_pages(text: str) -> str:
    """The same for a page, where spaces that do not break stay."""
    return "\u00a0".join(map(printable, text.split("\u00a0")))


def without_markup(text: str) -> str:
    """The text for a cell of a Markdown page: no HTML tag, no further cell, no control characters."""
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", printable_on_pages(text)).replace("|", "\\|")


def terminal_width() -> int:
    """The columns of the terminal, or those that COLUMNS names; 0 for a file or a pipe."""
    return shutil.get_terminal_size((0, 0)).columns


def write(text: str, stream: TextIO | None, exact: bool = False) -> None:
    """Writes the text without control characters; escapes what the stream's encoding cannot represent.

    Lines are broken at spaces where the terminal is too narrow, unless the text is `exact`, for a program.
    """
    if stream is None:  # closed, as by `>&-`
        return
    text = "\n".join(map(printable, text.split("\n")))  # JSON stays JSON
    text = text if exact else fitted(text, terminal_width())
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("±", "+-").encode(encoding, errors="backslashreplace").decode(encoding)
    stream.write(text)
