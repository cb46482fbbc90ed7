"""Two folders of records: what differs in settings, inputs and versions, and whether scores agree beyond noise."""

from dataclasses import replace

import pytest

import results.diff
from tests.results.making import CLEAN, first_right, make_record, save


def put(runs, right, **options):
    """Three seeds that have so many of 400 examples right, and one more or less."""
    for seed, extra in zip((1, 2, 3), (-1, 0, 1), strict=True):
        record = make_record((right + extra) / 4, task="sst5", metric="accuracy", data="mini", seed=seed, **options)
        save(runs, record, first_right(right + extra, 400))


def diff(capsys, *folders):
    status = results.diff.main(list(map(str, folders)))
    return status, capsys.readouterr().out


@pytest.fixture
def two(tmp_path):
    return tmp_path / "a", tmp_path / "b"


def test_copies_are_equal(capsys, two):
    for runs in two:
        put(runs, 300)
    status, out = diff(capsys, *two)
    assert status == 0
    assert out.splitlines() == [
        "mini sst5 glove: 75.00±0.25 (3), 75.00±0.25 (3): equal",
        "1 in both, 0 of them with scores that differ beyond noise",
    ]


def test_scores_within_and_beyond_noise(capsys, two):
    for runs, right in zip(two, (300, 301), strict=True):
        put(runs, right)
    assert diff(capsys, *two)[0] == 0
    put(two[1], 250)
    status, out = diff(capsys, *two)
    assert status == 1
    assert "-12.50 (-" in out
    assert "differ beyond noise" in out.splitlines()[0]


def test_what_differs_is_named(capsys, two):
    put(two[0], 300)
    put(two[1], 300, lr=0.01, environment=replace(CLEAN, packages={"torch": "2.7.0"}))
    _, out = diff(capsys, *two)
    assert "  settings: trainer.lr 0.001 and 0.01\n" in out
    assert "  versions: packages.torch 2.6.0 and 2.7.0\n" in out


def test_runs_of_one_folder_alone(capsys, two):
    for runs in two:
        put(runs, 300)
    put(two[1], 310, features="elmo")
    assert f"only in {two[1]}: mini sst5 elmo\n" in diff(capsys, *two)[1]


def test_a_folder_without_records(capsys, tmp_path):
    assert results.diff.main([str(tmp_path), str(tmp_path)]) == 1
    assert "expected records of finished runs, found none" in capsys.readouterr().err
