"""Names that can be used instead of paths: of the biLMs and word vectors that are here, and of published files.

Published are AllenNLP's biLMs, flair's character LMs, CoVe and Stanford's GloVe. Sizes and hashes are listed only where
they are published: the size of `small` by AllenNLP; size and hash of `original` by the copy under the same file name in
the hub's lysandre/elmo, and logs of AllenNLP users show the same size; those of the GloVe archives are the same in
torchtext, in Embeddings.jl and on the hub. For the others the hash of the first download counts (see `elmo.download`).
The servers could not be reached when this was written; the downloads are tested against a local server.
"""

from dataclasses import dataclass
from pathlib import Path

SHIPPED = Path(__file__).parent / "pretrained"  # one folder for each biLM in this package
GLOVE_50D = "glove-6b-50d"
WINK_100D = "wink-100d"
WORD2VEC = "word2vec"
VECTOR_NAMES = (GLOVE_50D, WINK_100D, WORD2VEC)  # word vectors that are not downloaded

# Two URLs of one bucket; the second is the one in AllenNLP's older configs.
ALLENNLP = ("https://allennlp.s3.amazonaws.com/models/elmo", "https://s3-us-west-2.amazonaws.com/allennlp/models/elmo")
# Stanford's server is often down; the copy on the hub is by Stanford too.
STANFORD = ("https://nlp.stanford.edu/data", "https://huggingface.co/stanfordnlp/glove/resolve/main")
COVE = ("https://s3.amazonaws.com/research.metamind.io/cove",)
FLAIR = ("https://flair.informatik.hu-berlin.de/resources/embeddings/flair",)


@dataclass(frozen=True)
class PublishedFile:
    """A file on a server.

    Attributes:
        name: its name, on the server and locally.
        folders: URLs of the folders that have it, in the order in which they are tried.
        size: in bytes, if known.
        sha256: of its content, if known.
    """

    name: str
    folders: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class PublishedVectors:
    """Word vectors: a text file in an archive.

    Attributes:
        archive: a zip file.
        member: the name of the text file in it.
        dim: width of a vector.
    """

    archive: PublishedFile
    member: str
    dim: int


def _bilm(shape: str, size: int | None = None, sha256: str | None = None) -> tuple[PublishedFile, PublishedFile]:
    """A biLM as AllenNLP publishes it: options.json and weights in HDF5."""
    folders = tuple(f"{folder}/{shape}" for folder in ALLENNLP)
    weights = PublishedFile(f"elmo_{shape}_weights.hdf5", folders, size, sha256)
    return PublishedFile(f"elmo_{shape}_options.json", folders), weights


GLOVE_6B = PublishedFile(
    "glove.6B.zip", STANFORD, 862_182_613, "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb"
)
GLOVE_840B = PublishedFile(
    "glove.840B.300d.zip", STANFORD, 2_176_768_927, "c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f"
)

BILMS: dict[str, tuple[PublishedFile, PublishedFile]] = {
    "allennlp/small": _bilm("2x1024_128_2048cnn_1xhighway", 54_402_456),
    "allennlp/medium": _bilm("2x2048_256_2048cnn_1xhighway"),
    "allennlp/original": _bilm(
        "2x4096_512_2048cnn_2xhighway", 374_434_792, "a6b92b9ccbb13fe489faacd2221c795d4bebe84b75f8aded9d85ea464fa5c994"
    ),
    "allennlp/original-5.5b": _bilm("2x4096_512_2048cnn_2xhighway_5.5B"),
}

# A forward and a backward LM each, of 2,048 and of 1,024 units.
CHARACTER_LMS: dict[str, tuple[PublishedFile, ...]] = {
    "flair/news": tuple(PublishedFile(f"news-{way}-0.4.1.pt", FLAIR) for way in ("forward", "backward")),
    "flair/news-fast": tuple(
        PublishedFile(f"lm-news-english-{way}-1024-v0.2rc.pt", FLAIR) for way in ("forward", "backward")
    ),
}

TRANSLATION_ENCODERS: dict[str, tuple[PublishedFile, ...]] = {
    "cove/wmt-lstm": (PublishedFile("wmtlstm-8f474287.pth", COVE),)
}

VECTORS: dict[str, PublishedVectors] = {
    **{f"glove/6B.{dim}d": PublishedVectors(GLOVE_6B, f"glove.6B.{dim}d.txt", dim) for dim in (50, 100, 200, 300)},
    "glove/840B.300d": PublishedVectors(GLOVE_840B, "glove.840B.300d.txt", 300),
}

# The files behind each name.
PUBLISHED: dict[str, tuple[PublishedFile, ...]] = {
    **(BILMS | CHARACTER_LMS | TRANSLATION_ENCODERS),
    **{name: (vectors.archive,) for name, vectors in VECTORS.items()},
}


def shipped_names() -> list[str]:
    """The names of the biLMs that come with this package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/options.json"))


def weights_choices() -> str:
    """Describes the accepted weights, for help texts."""
    names = ", ".join([*shipped_names(), *BILMS])
    return f"an .hdf5 or .safetensors file, its folder, or a name: {names} (allennlp/* are downloaded)"
