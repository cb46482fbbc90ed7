"""The event file of TensorBoard, read back with TensorBoard's own reader."""

import pytest

from elmo.pretrain.run import pretrain
from tests.elmo.common.event_files import read_events
from tests.elmo.pretrain.run_files import curve_of
from tests.elmo.pretrain.training_text import QUIET, settings


def test_it_has_the_values_of_the_curve_of_a_pretraining(text, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra [tensorboard]")
    pretrain(settings(text, tmp_path / "out", 10, tensorboard=True), [], QUIET)
    rows = curve_of(tmp_path / "out")
    assert [row["step"] for row in rows] == ["5", "10"]
    values, _ = read_events(tmp_path / "out" / "tensorboard")
    assert set(values) == set(rows[0])
    for name, found in values.items():
        shown = {str(step): f"{value:.6g}" for step, value in found.items()}  # the digits of the CSV
        assert shown == {row["step"]: row[name] for row in rows if row[name]}
