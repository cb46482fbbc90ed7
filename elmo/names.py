"""Names of biLMs and word vectors that can be used instead of paths and are not downloaded on demand."""

from pathlib import Path

GLOVE_50D = "glove-6b-50d"
WINK_100D = "wink-100d"
WORD2VEC = "word2vec"
VECTOR_NAMES = (GLOVE_50D, WINK_100D, WORD2VEC)
SHIPPED = Path(__file__).parent / "pretrained"  # one folder for each biLM in this package


def shipped_names() -> list[str]:
    """The names of the biLMs that come with this package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/options.json"))


def shipped_folder(name: str) -> Path:
    """The folder of a biLM that comes with this package."""
    return SHIPPED / name
