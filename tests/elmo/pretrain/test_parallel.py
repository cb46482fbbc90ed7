"""Processes of a parallel run wait for the first one longer than torch's limit of minutes."""

import pytest

from tests.elmo.pretrain.training_text import run_in_two_processes

SLOW_FIRST = """
import os
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path

from torch import distributed

from elmo.pretrain.train import started

folder = Path(sys.argv[2]).parent
(folder / f"loaded-{os.environ['RANK']}").touch()
while len(list(folder.glob("loaded-*"))) < 2:  # loading torch may take longer than the limit
    time.sleep(0.05)
distributed.init_process_group = partial(distributed.init_process_group, timeout=timedelta(seconds=2))
with started(cuda=False) as workers:
    if workers.first:
        time.sleep(4)
        Path(sys.argv[1]).touch()
    workers.wait()
    Path(f"{sys.argv[2]}-{workers.rank}").write_text(str(Path(sys.argv[1]).exists()))
"""


@pytest.mark.integration
def test_a_slow_first_process_is_waited_for(tmp_path, repository):
    run_in_two_processes(SLOW_FIRST, tmp_path / "store", tmp_path / "seen", repository)
    assert [(tmp_path / f"seen-{rank}").read_text() for rank in (0, 1)] == ["True", "True"]
