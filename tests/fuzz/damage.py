"""Damage to files: cut short, bits flipped, parts lost, repeated or replaced by other values or by other files."""

import random
import re
from collections.abc import Callable, Sequence

TOKEN = re.compile(rb'"[^"\n]*"|[\w.+-]+')  # a value of JSON, TOML, YAML, CSV or a column
# What a program or a person may write in place of a value, and readers may not expect.
VALUES = (
    *(b"", b"0", b"-1", b"2.5", b"1e999", b"-1e99", b"NaN", b"Infinity", b"9" * 20, b"9" * 5000, b"0x10", b"1_000"),
    *(b"null", b"~", b"true", b"{}", b"[]", b"[[]]", b'{"a": 1}', b'""', b'"x"', b'"\\ud800"', b'"a/b"', b'"\\u0000"'),
    *(b"\0", b"\n", b"\r", b"\t", b" ", b'"', b"\\", b"/", b"..", b"#", b":", b",", b"(", b")", b"&a", b"*a", b"${x}"),
    *(b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", "\u2028\u0085\u00a0".encode(), b"x" * 300, b"[" * 100_000, b"\0" * 5000),
)


def damaged(content: bytes, draw: random.Random, others: Sequence[bytes]) -> bytes:
    """The content with one or two kinds of damage.

    Args:
        content: a good file.
        draw: decides the damage.
        others: good files of other kinds.
    """
    ways: list[Callable[[], bytes]] = [
        lambda: content[: draw.randrange(len(content) + 1)],
        lambda: _flipped(content, draw),
        lambda: _with(content, draw, draw.randbytes(draw.randint(1, 40))),
        lambda: _with(content, draw, draw.choice(VALUES)),
        lambda: _with_other_value(content, draw),
        lambda: _with_other_value(content, draw),
        lambda: _with(content, draw, content[draw.randrange(len(content) + 1) :][:200]),
        lambda: _with(content, draw, draw.choice(others)),
        lambda: draw.choice(others),
    ]
    for _ in range(draw.choice((1, 1, 2))):
        content = draw.choice(ways)()
    return content


def _flipped(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 3, 20)) if content else 0):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _with(content: bytes, draw: random.Random, new: bytes) -> bytes:
    """The content with other bytes in it, between two others or in place of some."""
    start = draw.randrange(len(content) + 1)
    return content[:start] + new + content[start + draw.choice((0, 1, len(new), 200)) :]


def _with_other_value(content: bytes, draw: random.Random) -> bytes:
    """The content with another value in place of one, or of the one before it."""
    places = [found.span() for found in TOKEN.finditer(content[:100_000])] or [(0, 0)]
    start, end = draw.choice(places)
    others = [content[slice(*draw.choice(places))], *draw.sample(VALUES, 3)]
    return content[:start] + draw.choice(others) + content[end:]
