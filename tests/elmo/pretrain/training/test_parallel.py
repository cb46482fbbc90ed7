"""Processes of a parallel run wait for the first one longer than torch's limit of minutes."""

import os
import socket
import time
from datetime import timedelta
from functools import partial
from multiprocessing import get_context

import pytest
from torch import distributed

from elmo.pretrain.training.parallel import started

PATIENCE = 300  # seconds for what takes a few


def wait_for_a_slow_first_process(rank, port, folder):
    """One of two processes; the first does its work in twice the time of torch's limit, here 2 seconds."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}  # as torchrun does
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    distributed.init_process_group = partial(distributed.init_process_group, timeout=timedelta(seconds=2))
    with started(cuda=False) as workers:
        if workers.first:
            time.sleep(4)
            (folder / "store").touch()
        workers.wait()
        (folder / f"seen-{workers.rank}").write_text(str((folder / "store").exists()))


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_slow_first_process_is_waited_for(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    forked = get_context("fork")  # torch is loaded already
    processes = [forked.Process(target=wait_for_a_slow_first_process, args=(rank, port, tmp_path)) for rank in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)
    assert [process.exitcode for process in processes] == [0, 0]
    assert [(tmp_path / f"seen-{rank}").read_text() for rank in (0, 1)] == ["True", "True"]
