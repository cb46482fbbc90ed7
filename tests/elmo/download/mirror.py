"""Content of the mirror in tests: small files under the published names."""

import io
import zipfile

MEDIUM = "elmo_2x2048_256_2048cnn_1xhighway"  # of unknown size and hash, so that anything may be served in its place
OPTIONS, WEIGHTS = f"/allennlp/medium/{MEDIUM}_options.json", f"/allennlp/medium/{MEDIUM}_weights.hdf5"
TEXT = {dim: f"the {'0.5 ' * (dim - 1)}1\nat home {'0.25 ' * (dim - 1)}2\n".encode() for dim in (50, 100, 300)}


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


SIX = zipped({f"glove.6B.{dim}d.txt": TEXT[dim] for dim in (50, 100)})
EIGHT_FORTY = zipped({"glove.840B.300d.txt": TEXT[300]})


def names_in(folder):
    return {path.name for path in folder.iterdir()}
