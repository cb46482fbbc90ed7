"""Text on its way to a terminal: names come from anybody's records and folders, and must not act on the terminal."""

import json
from typing import TextIO


def printable(text: str) -> str:
    """The text on one line, with what a terminal would act on as JSON writes it, such as an escape."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else json.dumps(sign)[1:-1] for sign in text)


def printable_lines(text: str) -> str:
    """The same for a text of several lines, which stay lines; JSON that goes through it stays JSON."""
    return "\n".join(map(printable, text.split("\n")))


def write(text: str, stream: TextIO) -> None:
    """Writes the text so that it can only be read; in plain ASCII to a terminal that knows no better."""
    text = printable_lines(text)
    encoding = stream.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("±", "+-").encode(encoding, errors="backslashreplace").decode(encoding)
    stream.write(text)
