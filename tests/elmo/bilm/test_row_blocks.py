"""Products in blocks: a row has the same bits with any number of other rows and any number of threads."""

import pytest
import torch

from elmo.bilm.row_blocks import in_blocks
from elmo.common.threads import torch_threads


@pytest.mark.parametrize(("inputs", "outputs"), [(1024, 512), (2048, 2048), (4096, 512), (64, 16)])
def test_a_row_has_the_same_bits_among_any_others(inputs, outputs):
    torch.manual_seed(1)
    product = torch.nn.Linear(inputs, outputs).requires_grad_(False)
    rows = torch.randn(300, inputs)
    expected = in_blocks(product, rows)
    torch.testing.assert_close(expected.double(), product.double()(rows.double()), rtol=0, atol=1e-4)
    product.float()
    for threads in (1, 2):
        with torch_threads(threads):
            for first, last in [(0, 1), (7, 12), (0, 17), (50, 250), (0, 300)]:
                assert torch.equal(in_blocks(product, rows[first:last]), expected[first:last])
            assert torch.get_num_threads() == threads


def test_no_rows_stay_no_rows():
    assert in_blocks(torch.nn.Linear(3, 2), torch.zeros(0, 3)).shape == (0, 2)
