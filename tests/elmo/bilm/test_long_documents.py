"""Tests that memory grows with the number of tokens, not with sentences times the longest sentence."""

import tracemalloc

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import elmo.common.device
from elmo import BilmOptions, random_bilm
from elmo.bilm import lstm
from elmo.bilm.lstm import ReadingOrder
from elmo.bilm.model import Bilm
from elmo.embed.one_file import embed_file
from elmo.embed.settings import EmbedSettings
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import open_shelf
from tests.elmo.bilm.test_lstm_on_gpu import read_together
from tests.elmo.store.stores import layers_of

SENTENCES = [*[["a", "short", "one", f"{i}"] for i in range(23)], [f"w{i % 50}" for i in range(300)]]
TOKENS = sum(map(len, SENTENCES))


class Largest(TorchDispatchMode):
    """Records the size in bytes of the largest result of any operation."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.bytes = max(self.bytes, leaf.untyped_storage().nbytes())
        return result


@pytest.fixture
def bilm(monkeypatch):
    """A biLM with gates wider than its layers, as at all real sizes, computed in torch so that results are visible."""
    monkeypatch.setattr(elmo.common.device, "available_cores", lambda: 1)
    monkeypatch.setenv("ELMO_KERNEL", "0")
    for name in ("GATES_AHEAD", "GATES_AHEAD_ON_GPU"):
        monkeypatch.setattr(lstm, name, 2**12)
    return random_bilm(BilmOptions(cell_dim=64, projection_dim=8, filters=((1, 8), (3, 8)), n_highway=0), seed=1)


def layer_bytes(bilm):
    return 4 * bilm.n_layers * TOKENS * bilm.dim


def test_the_bilm_makes_nothing_larger_than_its_result(bilm, monkeypatch):
    for read in (Bilm._read_all, read_together):
        monkeypatch.setattr(Bilm, "_read_all", read)
        with Largest() as largest:
            bilm.token_layers(SENTENCES)
        assert largest.bytes == layer_bytes(bilm)
    for name in ("GATES_AHEAD", "GATES_AHEAD_ON_GPU"):
        monkeypatch.setattr(lstm, name, 2**40)
    with Largest() as largest:
        bilm.token_layers(SENTENCES)
    assert largest.bytes > 4 * layer_bytes(bilm), "without the bound on gates this test would notice"


@pytest.mark.parametrize("stored", [True, False])
def test_cached_layers_are_returned_without_padding(bilm, tmp_path, stored):
    shelf = open_shelf(tmp_path, bilm.fingerprint(), bilm.widths, "float32", 1.0) if stored else None
    cached = CachedLayers(bilm, shelf)
    with Largest() as largest:
        cached.prepare(SENTENCES)
        found = cached.token_layers(SENTENCES)
    assert largest.bytes <= layer_bytes(bilm)
    torch.testing.assert_close(found, bilm.token_layers(SENTENCES), rtol=0, atol=1e-6)
    with Largest() as largest:
        layers_of(cached, SENTENCES)
    assert largest.bytes > 10 * layer_bytes(bilm), "what padding would take"


@pytest.mark.parametrize("state", ["carried", "zero"])
def test_a_file_with_one_long_line_is_embedded_without_padding(bilm, tmp_path, state):
    source = tmp_path / "in.txt"
    source.write_text("\n".join(map(" ".join, SENTENCES)) + "\n", encoding="utf-8")
    with Largest() as largest:
        embed_file(bilm, source, tmp_path / "out.hdf5", EmbedSettings(state=state, batch_size=64))
    assert largest.bytes <= layer_bytes(bilm)


def test_the_reading_order_needs_no_memory_for_padding():
    lengths = [50_000, *[10] * 1000]
    tracemalloc.start()
    packing = ReadingOrder.of(lengths)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert packing.positions.shape == (2, sum(lengths))
    assert peak < 200 * sum(lengths)  # padded, one byte each would be 50 million
