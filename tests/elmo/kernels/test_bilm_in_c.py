import copy
import logging
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import torch

from elmo import random_bilm
from elmo.bilm import fast
from elmo.bilm.encoder import CharacterEncoder
from elmo.bilm.lstm import ProjectedLstm, ReadingOrder
from elmo.bilm.options import BilmOptions

pytest.importorskip("elmo.kernels.in_c", reason="elmo/kernels is not there")
from elmo.kernels import in_c
from elmo.kernels.in_c import bilm as kernel

pytestmark = pytest.mark.skipif(not any(map(shutil.which, in_c.COMPILERS)), reason="needs a C compiler")
WORDS = [
    "",
    "a",
    "the",
    "<S>",
    "</S>",
    "中文",
    "x" * 46,
    "y" * 47,
    "z" * 48,
    "w" * 90,
    *[f"word{i}" for i in range(60)],
]


@pytest.fixture(autouse=True)
def _switched_on(monkeypatch):
    monkeypatch.delenv("ELMO_KERNEL", raising=False)


def libraries(cache):
    """The files in a cache folder, which must be private."""
    folder = cache / f"kernel-{os.geteuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    return list(folder.iterdir())


def random_lstm(input_dim, cell_dim, projection_dim, cell_clip=None, projection_clip=None, scale=1.0):
    generator = torch.Generator().manual_seed(cell_dim)
    lstm = ProjectedLstm(input_dim, cell_dim, projection_dim, (cell_clip, projection_clip)).requires_grad_(False)
    for parameter in lstm.parameters():
        parameter.normal_(generator=generator).mul_(scale / max(1, parameter[0].numel()) ** 0.5)
    return lstm


def run(lstm, lengths, dtype=torch.float32, change=None):
    """Packed outputs, last states and last cells for random inputs and states."""
    generator = torch.Generator().manual_seed(5)
    packing = ReadingOrder.of(lengths)
    drawn = [
        torch.randn(n, width, generator=generator).to(dtype)
        for n, width in (
            (sum(lengths), lstm.input_dim),
            (len(lengths), lstm.projection_dim),
            (len(lengths), lstm.cell_dim),
        )
    ]
    if change:
        change(drawn[0])
    return lstm(drawn[0], packing.step_sizes, drawn[1], drawn[2]), drawn[1], drawn[2]


@pytest.mark.parametrize("clips", [(None, None), (0.4, None), (None, 0.2), (3.0, 3.0)])
@pytest.mark.parametrize("dims", [(1, 1, 1), (5, 11, 4), (16, 64, 16), (9, 70, 33), (300, 20, 270), (20, 520, 65)])
def test_the_lstm_equals_torch_in_double_precision(dims, clips):
    lstm = random_lstm(*dims, *clips, scale=2.0)
    assert kernel() is not None
    lengths = [3, 9, 1, 6, 9, 2, 2, *[1] * 7, *[5] * 40]
    expected = run(copy.deepcopy(lstm).double(), lengths, torch.float64)
    for found, right in zip(run(lstm, lengths), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), right.numpy(), atol=2e-5)
    if clips[1] == 0.2:
        assert expected[0].abs().max() == 0.2  # the clip binds


def test_gates_that_saturate():
    lstm = random_lstm(4, 8, 4, scale=500.0)
    expected = run(copy.deepcopy(lstm).double(), [3, 2], torch.float64)
    for found, right in zip(run(lstm, [3, 2]), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), right.numpy(), rtol=1e-4, atol=1e-3)


def test_nan_stays_within_its_sentence():
    def spoil(x):
        x[1] = float("nan")  # the first token of the second longest sentence

    for clip in (None, 3.0):
        found, state, cell = run(random_lstm(5, 11, 4, clip, clip), [4, 3, 2], change=spoil)
        assert found[1].isnan().all()
        assert state.isnan().all(dim=1).tolist() == cell.isnan().all(dim=1).tolist() == [False, True, False]
        assert not found[0].isnan().any()


@pytest.mark.parametrize(("depth", "columns"), [(1, 1), (7, 16), (256, 17), (257, 64), (600, 100)])
def test_products_equal_double_precision_and_no_row_depends_on_the_others(depth, columns):
    generator = torch.Generator().manual_seed(1)
    x, weight = (torch.randn(n, depth, generator=generator) for n in (50, columns))
    bias = torch.randn(columns, generator=generator)
    panels = kernel().panels(weight, bias)
    found = kernel().product(x, panels)
    right = x.double() @ weight.double().t() + bias.double()
    np.testing.assert_allclose(found.numpy(), right.numpy(), atol=1e-5 * depth**0.5)
    for size in range(1, 14):
        assert torch.equal(kernel().product(x[20 : 20 + size].contiguous(), panels), found[20 : 20 + size])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("n_highway", [0, 2])
def test_the_encoder_equals_torch_in_double_precision(activation, n_highway):
    filters = ((1, 3), (2, 40), (7, 21))
    options = BilmOptions(8, 10, filters=filters, char_dim=5, n_highway=n_highway, activation=activation)
    encoder = random_bilm(options, seed=3).encoder
    assert isinstance(encoder, CharacterEncoder)
    assert fast.compiled(*encoder.parameters()) is not None
    right = copy.deepcopy(encoder).double().encode_words(WORDS)
    found = encoder.encode_words(WORDS)
    np.testing.assert_allclose(found.numpy(), right.numpy(), atol=5e-6)
    for words in (WORDS[:1], WORDS[6:10], WORDS[::-7]):
        assert torch.equal(encoder.encode_words(words), found[[WORDS.index(word) for word in words]])


def test_gradients_never_go_through_the_kernel():
    encoder = random_bilm("tiny", seed=3).encoder.requires_grad_(True)
    encoder.encode_words(["some", "words"]).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())


@pytest.mark.parametrize("switch", ["1", "0"])
def test_prepared_weights_are_updated_after_every_change(switch, monkeypatch):
    monkeypatch.setenv("ELMO_KERNEL", switch)
    bilm, other = random_bilm("tiny", seed=1), random_bilm("tiny", seed=2)
    sentences = [["some", "words"], ["more"]]
    before, right = bilm.token_layers(sentences), other.token_layers(sentences)
    duplicate = copy.deepcopy(bilm)
    bilm.load_state_dict(other.state_dict())
    assert torch.equal(bilm.token_layers(sentences), right)
    assert torch.equal(duplicate.token_layers(sentences), before)
    assert bilm.double().token_layers(sentences).dtype == torch.float64
    assert torch.equal(bilm.float().token_layers(sentences), right)
    with torch.no_grad():
        for name, parameter in bilm.named_parameters():
            parameter.copy_(duplicate.get_parameter(name))
    assert torch.equal(bilm.token_layers(sentences), before)


def test_tensors_of_another_kind_are_refused():
    panels = kernel().panels(torch.ones(3, 4))
    for wrong in (torch.ones(2, 5), torch.ones(2, 4).double(), torch.ones(4, 2).t()):
        with pytest.raises(ValueError, match=r"expected contiguous float32 values of shape \(\d, 4\) on the CPU"):
            kernel().product(wrong, panels)


class TestBuilding:
    @pytest.fixture(autouse=True)
    def _compiled_quickly(self, monkeypatch):
        """Where libraries are and whose they are does not depend on how fast they compute."""
        monkeypatch.setattr(in_c, "FLAGS", ("-O0", *in_c.FLAGS[1:]))

    def test_it_is_built_once(self, library_cache, monkeypatch, forget_library):
        assert kernel() is not None
        (library,) = libraries(library_cache)
        forget_library()
        monkeypatch.setattr(in_c, "_compile", None)
        assert kernel() is not None
        assert libraries(library_cache) == [library]

    @pytest.mark.parametrize("changed", ["bilm.c", "loops.c", "panels.h"])
    def test_of_other_sources_there_is_another_library(self, monkeypatch, tmp_path, changed):
        compiler = next(filter(None, map(shutil.which, in_c.COMPILERS)))
        before = in_c._cache_key(compiler)
        shutil.copytree(in_c.SOURCES, tmp_path / "sources")
        monkeypatch.setattr(in_c, "SOURCES", tmp_path / "sources")
        assert in_c._cache_key(compiler) == before
        with (tmp_path / "sources" / changed).open("a") as file:
            file.write("/* changed */\n")
        assert in_c._cache_key(compiler) != before

    @pytest.mark.processes
    def test_processes_at_once(self, library_cache):
        code = "from elmo.kernels.in_c import bilm; assert bilm() is not None"
        running = [subprocess.Popen([sys.executable, "-c", code], env=os.environ) for _ in range(2)]
        assert [process.wait() for process in running] == [0, 0]
        assert len(libraries(library_cache)) == 1

    def assert_in_torch(self, caplog, reason):
        with caplog.at_level(logging.WARNING):
            assert kernel() is None
            assert random_bilm("tiny", seed=1).token_layers([["some", "words"]]).shape == (3, 2, 16)
        assert [record.getMessage().startswith("no compiled code, torch") for record in caplog.records] == [True]
        assert reason in caplog.text

    def test_without_a_compiler_torch_is_used_and_one_line_logged(self, library_cache, monkeypatch, caplog):
        monkeypatch.setenv("PATH", "")
        self.assert_in_torch(caplog, "no C compiler was found (looked for cc, gcc, clang)")

    def test_with_a_compiler_that_fails(self, library_cache, monkeypatch, caplog, tmp_path):
        (tmp_path / "cc").write_text('#!/bin/sh\n[ "$1" = --version ] || { echo "bilm.c:1: error: no" >&2; exit 1; }\n')
        (tmp_path / "cc").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        self.assert_in_torch(caplog, "cc fails: bilm.c:1: error: no")
        assert libraries(library_cache) == []

    def test_where_nothing_can_be_written(self, library_cache, monkeypatch, caplog):
        monkeypatch.setenv("TMPDIR", str(library_cache))
        monkeypatch.setattr(tempfile, "tempdir", str(library_cache))
        monkeypatch.setenv("HOME", str(library_cache))
        library_cache.write_text("a file where the folders should be")
        with caplog.at_level(logging.WARNING):
            assert kernel() is None
        assert "no compiled code, torch is used" in caplog.text

    @pytest.mark.parametrize("mode", [0o770, 0o755])
    def test_a_planted_library_is_not_loaded(self, library_cache, caplog, tmp_path, mode):
        planted = self.plant(library_cache, tmp_path)
        planted.parent.chmod(mode)
        self.assert_built_elsewhere(caplog, planted, tmp_path)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
    def test_a_library_in_a_folder_of_another_user_is_not_loaded(self, library_cache, caplog, tmp_path):
        planted = self.plant(library_cache, tmp_path)
        os.chown(planted.parent, 12345, -1)
        self.assert_built_elsewhere(caplog, planted, tmp_path)

    def test_a_library_behind_a_link_is_not_loaded(self, library_cache, caplog, tmp_path):
        planted = self.plant(library_cache, tmp_path)
        planted.parent.rename(tmp_path / "theirs")
        planted.parent.symlink_to(tmp_path / "theirs")
        self.assert_built_elsewhere(caplog, planted, tmp_path)

    def plant(self, library_cache, tmp_path):
        """A library under a valid name that writes a file when it is loaded."""
        source = tmp_path / "planted.c"
        source.write_text(
            "#include <stdio.h>\n__attribute__((constructor)) static void run(void)"
            f' {{ fclose(fopen("{tmp_path}/ran", "w")); }}\n'
        )
        compiler = next(filter(None, map(shutil.which, in_c.COMPILERS)))
        subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "planted.so", source], check=True)
        key = in_c._cache_key(compiler)
        folder = library_cache / f"kernel-{os.geteuid()}"
        folder.mkdir(parents=True, mode=0o700)
        planted = folder / f"elmo-{key}.so"
        planted.write_bytes((tmp_path / "planted.so").read_bytes())
        return planted

    def test_the_planted_library_is_loaded_from_a_private_folder(self, library_cache, tmp_path):
        """Shows that the tests above can fail."""
        self.plant(library_cache, tmp_path)
        in_c.library()
        assert (tmp_path / "ran").exists()

    def assert_built_elsewhere(self, caplog, planted, tmp_path):
        with caplog.at_level(logging.WARNING):
            assert kernel() is not None
        assert not (tmp_path / "ran").exists()
        (record,) = caplog.records
        assert record.getMessage().startswith(f"compiled code is not cached in {planted.parent}: expected")
        assert list(planted.parent.iterdir()) == [planted]

    def test_without_a_private_folder_it_is_built_for_this_process_only(self, library_cache, monkeypatch, tmp_path):
        self.plant(library_cache, tmp_path).parent.chmod(0o755)
        monkeypatch.setenv("HOME", str(library_cache / "nothing"))
        (library_cache / "nothing").write_text("a file where the folder should be")
        assert kernel() is not None
        assert not (tmp_path / "ran").exists()

    def test_switched_off_it_is_neither_built_nor_mentioned(self, library_cache, monkeypatch, caplog):
        monkeypatch.setenv("ELMO_KERNEL", "0")
        assert kernel() is None
        assert not library_cache.exists()
        assert not caplog.records
