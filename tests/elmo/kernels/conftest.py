"""A cache of compiled code for each test that builds it."""

import pytest

from elmo.bilm.fast import kernel_module


@pytest.fixture
def library_cache(monkeypatch, tmp_path, forget_library):
    """The cache folder of the compiled library, empty, as in a new process."""
    monkeypatch.setenv("ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    forget_library()
    yield tmp_path / "cache"
    forget_library()


@pytest.fixture
def forget_library():
    """Makes this process look for its library again."""
    return kernel_module("in_c")._load.cache_clear
