import pytest


@pytest.fixture
def vectors(tmp_path):
    """A file of vectors that are easy to tell apart: word number, 10, 100."""
    words = ["the", "cat", "sat", ".", "dogs", "unicorn", "mat", "The"]
    path = tmp_path / "vectors.txt"
    path.write_text("".join(f"{word} {number} 10 100\n" for number, word in enumerate(words)))
    return str(path)
