"""Tests of the choice of a device; the number of GPUs is faked."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
import torch

from elmo.common.device import choose_device, own_device, upload
from elmo.common.errors import InputError
from tests.elmo.common.waiting import wait_for

# For each number of GPUs that it reads, forks a process that chooses its devices and waits.
WORKERS = """
import os, signal, sys, torch
torch.cuda.is_available = lambda: True
torch.cuda.set_device = lambda device: None
from elmo.common.device import own_device
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a killed one is gone at once
for gpus in sys.stdin:
    if os.fork() == 0:
        torch.cuda.device_count = lambda: int(gpus)
        print(os.getpid(), own_device("auto"), own_device("cuda"), own_device("cpu"), flush=True)
        signal.pause()
"""


@pytest.fixture
def gpu_of_a_new_process(tmp_path):
    """Starts processes that see so many GPUs and wait; gives the id of the process and the devices it has chosen."""
    server = subprocess.Popen(
        [sys.executable, "-c", WORKERS],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    started = []

    def start(gpus):
        server.stdin.write(f"{gpus}\n")
        server.stdin.flush()
        process, *devices = server.stdout.readline().split()
        started.append(int(process))
        return int(process), devices

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    server.communicate()


def is_gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.integration
def test_processes_share_the_gpus_evenly_and_a_dead_one_leaves_its_own_to_the_next(gpu_of_a_new_process):
    workers = [gpu_of_a_new_process(gpus=2) for _ in range(3)]
    assert [devices for _, devices in workers] == [[f"cuda:{index}"] * 2 + ["cpu"] for index in (0, 1, 0)]
    killed = workers[1][0]
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: is_gone(killed))
    assert gpu_of_a_new_process(gpus=2)[1][0] == "cuda:1"


def test_a_launcher_that_shows_one_gpu_has_chosen(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert own_device("auto") == own_device("cuda") == torch.device("cuda")
    assert list(tmp_path.iterdir()) == []


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert own_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="no usable GPU here; use cpu or auto"):
        own_device("cuda")
    with pytest.raises(InputError, match="one of auto, cpu, cuda, found 'gpu'"):
        choose_device("gpu")


def test_a_launcher_that_hides_them_is_told_how_to_give_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(InputError, match=r"CUDA_VISIBLE_DEVICES is empty.*num_gpus=1"):
        own_device("cuda")


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_a_gpu_fetches_them_without_the_host_waiting():
    device = torch.device("cuda")
    tensors = [torch.arange(1000), torch.rand(7) > 0.5, torch.rand(2, 3)]
    upload(tensors[0], device)  # starts CUDA
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = [upload(tensor, device) for tensor in tensors]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for tensor, other in zip(tensors, found, strict=True):
        assert other.is_cuda
        assert torch.equal(tensor, other.cpu())
