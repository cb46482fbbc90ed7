"""Calibration: errors of models that are made to be calibrated or over-confident, temperatures, and the command."""

import math

import numpy as np
import pytest

from results import calibration
from results.calibration import binned, calibration_error, cooled, fitted_temperature, right_of_surest
from results.records.example_scores import write_confidences
from results.records.identity import CONFIDENCES_NAME
from results.records.record import read_record
from tests.results.making import first_right, make_record, save


def judged(*groups):
    """One prediction an example: (probability, how many, how many are right)."""
    return [[(share, int(at < right))] for share, count, right in groups for at in range(count)]


def drawn(odds_times, count=20_000):
    """Predictions whose log odds are those of being right, times a factor: 1 is calibrated, more is too sure."""
    log_odds = np.random.default_rng(0).uniform(-1, 3, count)
    right = np.random.default_rng(1).random(count) < 1 / (1 + np.exp(-log_odds))
    shares = 1 / (1 + np.exp(-odds_times * log_odds))
    return [[(share, int(of))] for share, of in zip(shares, right, strict=True)]


def error(predictions, temperature=None):
    return float(calibration_error(binned(predictions, temperature).sum(axis=0)))


def test_a_calibrated_model_has_no_error():
    assert error(judged((0.7, 10, 7), (0.9, 10, 9), (0.5, 4, 2))) == pytest.approx(0)


def test_an_over_confident_model_has_what_it_is_too_sure_by():
    assert error(judged((0.9, 100, 60))) == pytest.approx(30)
    assert error(judged((0.9, 100, 60), (0.6, 300, 210))) == pytest.approx((100 * 30 + 300 * 10) / 400)


def test_examples_with_several_predictions_or_none_count_by_prediction():
    assert error([[(0.9, 1), (0.9, 0)], [], [(0.4, 0)]]) == pytest.approx((2 * 40 + 40) / 3)
    assert error([[], []]) == 0


@pytest.mark.parametrize("factor", [1, 3, 0.5])
def test_the_temperature_undoes_a_factor_of_the_log_odds(factor):
    predictions = drawn(factor)
    temperature = fitted_temperature(predictions)
    assert temperature == pytest.approx(factor, rel=0.05)
    assert error(predictions, temperature) < 1.2
    assert (error(predictions) < 1.2) == (factor == 1)


def test_one_temperature_keeps_the_order_and_one_half():
    shares = np.array([0.1, 0.5, 0.7, 0.9])
    hot = cooled(shares, 2.0)
    assert hot[1] == pytest.approx(0.5)
    assert math.log(hot[3] / (1 - hot[3])) == pytest.approx(math.log(9) / 2)
    assert (np.diff(hot) > 0).all()


def test_what_is_all_right_has_no_temperature():
    assert fitted_temperature(judged((0.9, 10, 10))) == 1


def test_right_of_the_surest():
    predictions = judged((0.9, 6, 6), (0.8, 2, 1), (0.3, 2, 0))
    assert right_of_surest(predictions, 0.8) == pytest.approx(100 * 7 / 8)
    assert right_of_surest(predictions, 1) == pytest.approx(70)
    assert right_of_surest([[], []], 0.8) == 0


@pytest.fixture
def runs(tmp_path):
    for features, share in (("glove", 0.9), ("elmo", 0.8)):
        for seed, right in ((1, 70), (2, 72)):
            record = make_record(float(right), task="sst5", metric="accuracy", features=features, seed=seed)
            path = save(tmp_path, record, first_right(right))
            kept = {"dev": judged((share, 100, 70)), "test": judged((share, 100, right))}
            write_confidences(path.with_name(CONFIDENCES_NAME), read_record(path).fingerprint, kept)
    return tmp_path


def test_the_command_prints_errors_before_and_after(runs, capsys):
    assert calibration.main(["--runs", str(runs), "--write", str(runs / "kept"), "--format", "md"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| SST-5")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [cell[4].split(",")[0] for cell in cells] == ["19.00", "9.00"]  # 90 and 80 minus 71
    assert cells[1][5].split(",")[0] == "-10.00"
    assert float(cells[0][6].split("±")[0]) == pytest.approx(math.log(9) / math.log(7 / 3), abs=0.01)
    assert [float(cell[7].split(",")[0]) for cell in cells] == pytest.approx([1, 1], abs=0.1)
    assert (runs / "kept" / "calibration.svg").exists()


def test_runs_without_confidences_are_named(tmp_path, capsys):
    save(tmp_path, make_record(70.0, task="sst5", metric="accuracy"), first_right(70))
    assert calibration.main(["--runs", str(tmp_path)]) == 1
    assert "confidences=true" in capsys.readouterr().err
