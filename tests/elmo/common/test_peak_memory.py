"""The peak of a run's memory, against an array of known size."""

import numpy as np
import pytest
import torch

import elmo.common.device
from elmo.common.device import forget_peak, peak_mb

CPU = torch.device("cpu")
MB = 2**20


def hold_for_a_moment(megabytes):
    np.ones(megabytes * MB, dtype=np.uint8)


@pytest.mark.skipif(not (elmo.common.device.PROCESS / "clear_refs").exists(), reason="only Linux can reset the peak")
def test_memory_of_an_earlier_run_does_not_count():
    forget_peak(CPU)
    before = peak_mb(CPU)
    hold_for_a_moment(300)
    assert before + 250 < peak_mb(CPU) < before + 350
    forget_peak(CPU)
    assert peak_mb(CPU) < before + 100
    hold_for_a_moment(150)
    assert before + 100 < peak_mb(CPU) < before + 250


def test_without_proc_it_is_the_peak_of_the_process(monkeypatch, tmp_path):
    monkeypatch.setattr(elmo.common.device, "PROCESS", tmp_path / "not" / "there")
    hold_for_a_moment(200)
    forget_peak(CPU)
    assert peak_mb(CPU) > 200


@pytest.mark.gpu
def test_on_a_gpu_too():
    device = torch.device("cuda")
    forget_peak(device)
    before = peak_mb(device)
    torch.ones(64 * MB, dtype=torch.uint8, device=device)
    assert peak_mb(device) == pytest.approx(before + 64, abs=1)
    forget_peak(device)
    assert peak_mb(device) == pytest.approx(before, abs=1)
