"""Fixtures: an empty folder of downloads, and a local mirror."""

import hashlib
from dataclasses import replace

import pytest

from elmo import download, random_bilm, save_bilm
from elmo.published import PUBLISHED, VECTORS
from tests.elmo.download.mirror import EIGHT_FORTY, OPTIONS, SIX, WEIGHTS
from tests.serving import Site, serving


@pytest.fixture(scope="module")
def bilm():
    return random_bilm("tiny", seed=3)


@pytest.fixture(scope="module")
def bilm_files(bilm, tmp_path_factory):
    """The content of options and weights of a small biLM."""
    folder = tmp_path_factory.mktemp("bilm")
    save_bilm(bilm, folder / "weights.hdf5")
    return (folder / "options.json").read_bytes(), (folder / "weights.hdf5").read_bytes()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setitem(download.BUSY, "backoff_factor", 0.0)
    return tmp_path / "cache"


@pytest.fixture
def site(cache, bilm_files, monkeypatch):
    """A mirror with a biLM and both archives; the archives are known by size and hash."""
    for name, entry in VECTORS.items():
        content = EIGHT_FORTY if "840B" in name else SIX
        known = replace(entry.archive, size=len(content), sha256=hashlib.sha256(content).hexdigest())
        monkeypatch.setitem(VECTORS, name, replace(entry, archive=known))
        monkeypatch.setitem(PUBLISHED, name, (known,))
    files = {
        OPTIONS: bilm_files[0],
        WEIGHTS: bilm_files[1],
        "/glove/glove.6B.zip": SIX,
        "/glove/glove.840B.300d.zip": EIGHT_FORTY,
    }
    with serving(Site(files)) as site:
        monkeypatch.setenv("ELMO_MIRROR", site.url)
        yield site
