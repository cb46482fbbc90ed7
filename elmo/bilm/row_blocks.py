"""Matrix products in blocks of rows: on a CPU, the bits of a row then do not depend on the other rows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmo.common.threads import torch_threads

# Libraries multiply few rows in another order than many, and treat the rows after full vector instructions differently.
# MKL has another order from 190 rows on, if they have 1,024 numbers or more, and with several threads. So every product
# has a multiple of LEAST rows, at most MOST, and one thread.
LEAST = 16
MOST = 128


def in_blocks(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """What `compute` makes of each row; on a CPU block by block, the last one padded with zeros.

    Args:
        compute: a function that treats all rows alike: (rows, dim) -> (rows, other dim).
        rows: (rows, dim).
    """
    if rows.device.type != "cpu" or not len(rows):
        return compute(rows)
    padded = pad(rows, (0, 0, 0, -len(rows) % LEAST))
    with torch_threads(1):
        blocks = [compute(block) for block in torch.split(padded, MOST)]
    return (blocks[0] if len(blocks) == 1 else torch.cat(blocks))[: len(rows)]
