"""Products in int8: each form of the compiled code, and torch, against integers in numpy, bit by bit."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.bilm.lstm import ProjectedLstm, ReadingOrder
from elmo.common.int8 import FINE, LEVELS, NOT_NEGATIVE, in_steps, product

LARGEST = {LEVELS: 127, NOT_NEGATIVE: 255, FINE: 128 * 127 + 63}
SHAPES = [(1, 1), (7, 16), (130, 17), (257, 64), (2048, 70)]
FORMS = ("", "-DPORTABLE", "-DLANES=8 -DROWS=3", "-DLANES=4 -DROWS=6")
TINY = np.float32(2.0**-126)


def drawn(depth, columns, levels):
    """Rows of very different sizes, one of them zero, and weights with a column of zeros."""
    generator = torch.Generator().manual_seed(depth)
    rows = torch.randn(23, depth, generator=generator) * torch.logspace(-30, 6, 23)[:, None]
    rows[11] = 0
    weight, bias = torch.randn(columns, depth, generator=generator), torch.randn(columns, generator=generator)
    weight[0] = 0
    return (rows.abs() if levels == NOT_NEGATIVE else rows), weight, bias


def in_numpy(rows, weight, levels):
    """The definition: sums of integers, rounded once a part, times both steps. All else in single precision."""
    rows, weight = rows.numpy(), weight.numpy()
    steps = np.maximum(np.abs(weight).max(axis=1) / np.float32(127), TINY)
    whole = np.rint(weight / steps[:, None]).astype(np.int64)
    of_row = np.maximum(np.abs(rows).max(axis=1) / np.float32(LARGEST[levels]), TINY)
    read = np.rint(rows * (np.float32(1) / of_row)[:, None]).astype(np.int64)
    assert np.abs(read).max() == LARGEST[levels]
    if levels == FINE:
        high = (read + 64) // 128
        low = read - 128 * high
        assert max(np.abs(high).max(), np.abs(low).max()) <= 127
        sums = np.float32(128) * (high @ whole.T).astype(np.float32) + (low @ whole.T).astype(np.float32)
    else:
        sums = (read @ whole.T).astype(np.float32)
    return torch.from_numpy(sums * (of_row[:, None] * steps[None, :]))


@pytest.mark.parametrize("levels", LARGEST)
@pytest.mark.parametrize(("depth", "columns"), SHAPES)
def test_torch_equals_integers(depth, columns, levels):
    rows, weight, _ = drawn(depth, columns, levels)
    whole, step = in_steps(weight)
    assert torch.equal(product(rows, whole.t(), step, levels), in_numpy(rows, weight, levels))


def test_nan_and_infinity_are_not_hidden_by_rounding():
    rows, weight, _ = drawn(40, 8, LEVELS)
    rows[1, 3], rows[2, 5] = float("nan"), float("inf")
    whole, step = in_steps(weight + 1)
    found = product(rows, whole.t(), step).isfinite()
    assert found.all(dim=1).tolist() == found.any(dim=1).tolist() == [row not in (1, 2) for row in range(23)]


class TestCompiled:
    """The form for this processor, the portable one, and those of other vectors."""

    @pytest.fixture(params=FORMS)
    def compiled(self, request):
        return library(request.param)

    @pytest.mark.parametrize("levels", LARGEST)
    @pytest.mark.parametrize(("depth", "columns"), SHAPES)
    def test_products_equal_integers_and_no_row_depends_on_the_others(self, compiled, depth, columns, levels):
        rows, weight, bias = drawn(depth, columns, levels)
        whole, step = in_steps(weight)
        panels = compiled.panels(whole, bias, step)
        found = compiled.product(rows, panels, levels)
        assert torch.equal(found, in_numpy(rows, weight, levels) + bias)
        for size in range(1, 9):
            assert torch.equal(compiled.product(rows[9 : 9 + size].contiguous(), panels, levels), found[9 : 9 + size])

    @pytest.mark.parametrize("levels", LARGEST)
    def test_nan_and_infinity_are_not_hidden_by_rounding(self, compiled, levels):
        rows, weight, bias = drawn(40, 8, levels)
        rows[1, 3], rows[2, 5] = float("nan"), float("inf")
        whole, step = in_steps(weight + 1)
        found = compiled.product(rows, compiled.panels(whole, bias, step), levels).isfinite()
        assert found.all(dim=1).tolist() == found.any(dim=1).tolist() == [row not in (1, 2) for row in range(23)]

    @pytest.mark.parametrize("dims", [(1, 1, 1), (9, 70, 33), (300, 20, 270), (20, 520, 65)])
    def test_the_lstm_has_the_same_bits_in_all_forms(self, compiled, dims):
        for found, right in zip(lstm(compiled, *dims), lstm(library(""), *dims), strict=True):
            assert torch.equal(found, right)

    def test_nan_stays_within_its_sentence(self, compiled):
        outputs, state, cell = lstm(compiled, 9, 70, 33, spoilt=1)  # the first token of the second longest sentence
        assert state.isnan().all(dim=1).tolist() == cell.isnan().all(dim=1).tolist() == [False, True, *[False] * 5]
        assert not outputs[0].isnan().any()


def lstm(compiled, input_dim, cell_dim, projection_dim, spoilt=None):
    """Outputs, last states and last cells of a random LSTM in int8."""
    generator = torch.Generator().manual_seed(cell_dim)
    sizes = ReadingOrder.of([3, 9, 1, 6, 9, 2, 2]).step_sizes
    drawn = ProjectedLstm(input_dim, cell_dim, projection_dim, (3.0, 0.5)).requires_grad_(False)
    for parameter in drawn.parameters():
        parameter.normal_(generator=generator).div_(max(1, parameter[0].numel()) ** 0.5)
    x, state, cell = (
        torch.randn(n, width, generator=generator) for n, width in ((32, input_dim), (7, projection_dim), (7, cell_dim))
    )
    if spoilt is not None:
        x[spoilt] = float("nan")
    panels = compiled.lstm_panels(drawn.weight, drawn.used_bias(), drawn.projection, int8=True)
    return compiled.lstm(x, sizes, panels, state, cell, (3.0, 0.5)), state, cell


@cache
def library(defines):
    in_c = pytest.importorskip("elmo.kernels.in_c", reason="elmo/kernels is not there")
    if not any(map(shutil.which, in_c.COMPILERS)):
        pytest.skip("needs a C compiler")
    with tempfile.TemporaryDirectory() as folder:  # it stays loaded
        return in_c.CompiledBilm(in_c.load_library(Path(folder), *defines.split()))


def test_this_processor_uses_its_own_instructions(tmp_path):
    """Otherwise the tests above compare the portable form with itself."""
    in_c = pytest.importorskip("elmo.kernels.in_c", reason="elmo/kernels is not there")
    instructions = {"avx512_vnni": "dpbusd", "avx_vnni": "dpbusd", "asimddp": "sdot"}
    expected = {name for flag, name in instructions.items() if any(flag in line.split() for line in in_c.processor())}
    if not expected or shutil.which("objdump") is None:
        pytest.skip("needs objdump, and a processor with products of int8")
    in_c.load_library(tmp_path)
    (path,) = tmp_path.iterdir()
    listing = subprocess.run(["objdump", "-d", path], capture_output=True, text=True, check=True).stdout
    assert expected.pop() in listing
