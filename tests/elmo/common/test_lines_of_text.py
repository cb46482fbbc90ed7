"""Lines of text files: line ends and encoding."""

import pytest

from elmo.common.errors import InputError
from elmo.common.files import utf8_lines


def read(tmp_path, content):
    path = tmp_path / "some.txt"
    path.write_bytes(content.encode())
    return list(utf8_lines(path))


@pytest.mark.parametrize("content", ["a O\nb O\n", "a O\r\nb O\r\n", "a O\nb O\r\n", "a O\r\nb O\r", "\ufeffa O\nb O"])
def test_accepted_line_ends(tmp_path, content):
    assert read(tmp_path, content) == ["a O", "b O"]


@pytest.mark.parametrize(
    ("content", "line", "character"), [("a O\rb O\r", 1, 3), ("EU O\r\nrejects\tO\rcalls\tO\n", 2, 9), ("\ra O", 1, 0)]
)
def test_a_carriage_return_within_a_line_is_refused(tmp_path, content, line, character):
    """A file with no other ends of lines would be read as a single one, and most of it lost without a word."""
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    assert str(caught.value) == (
        f"{tmp_path / 'some.txt'}, line {line}: expected lines that end in LF or CRLF, found a carriage return within "
        f"one, at character {character}. Save the file with line ends LF or CRLF"
    )
