"""Fixtures: a biLM and its shelf in a layer store."""

import pytest

from elmo import random_bilm
from elmo.store.shelf import open_shelf


@pytest.fixture
def bilm():
    return random_bilm("tiny", seed=3)


@pytest.fixture
def shelf_of(tmp_path):
    """Opens the shelf of a biLM in a temporary store."""

    def opened(bilm, precision="float32", store=tmp_path / "store", limit_gb=1.0):
        return open_shelf(store, bilm.fingerprint(), bilm.widths, precision, limit_gb)

    return opened
