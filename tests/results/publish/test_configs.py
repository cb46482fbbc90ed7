"""Configs of records that contradict the run's name, or those of other seeds."""

import pytest

from results.publish import main
from tests.results.publish.finished_runs import save_run


def save_with_config(runs, number=1, **changes):
    """A run with the seed of this number and a config as runs write it, with these values in place of its own."""
    config = {
        "seed": number,
        "trainer": {"lr": 0.001, "epochs": 24},
        "data": {"name": "paper", "splits": {"test": ["a"]}},
        "features": {"name": "glove", "words": {"vectors": "glove-6b-50d"}},
    }
    return save_run(runs, 50, task="sst5", seed=number, variant={"trainer.epochs": 24}, config=config | changes)


EDITED = {
    "its seed": ({"seed": 3}, "config: seed: expected 1, as in the run's name, found 3"),
    "its data": ({"data": {"name": "mini"}}, "config: data.name: expected paper, as in the run's name, found mini"),
    "its variant": ({"trainer": {"epochs": 2}}, "config: trainer.epochs: expected 24, as in the run's name, found 2"),
}


@pytest.mark.parametrize(("changes", "reason"), EDITED.values(), ids=EDITED)
def test_a_config_that_contradicts_the_name(root, tmp_path, capsys, changes, reason):
    """The fingerprint does not cover the config. Such a run is refused, and nothing is made of one edited later."""
    save_with_config(tmp_path / "runs", **changes)
    assert main(["--runs", str(tmp_path / "runs")], root) == 1
    assert reason in capsys.readouterr().out
    save_with_config(root / "results" / "published", **changes)
    for given in ([], ["--check"]):
        assert main(given, root) == 1
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("results/published/paper/sst5/glove/trainer.epochs=24/seed-1/record.json: ")
        assert reason in line


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trainer": {"lr": 0.1, "epochs": 24}}, "found trainer.lr: 0.001 and 0.1"),
        ({"features": {"name": "glove", "words": {"vectors": "wink-100d"}}}, "found features.words.vectors"),
        ({"data": {"name": "paper", "splits": {"test": ["b"]}}}, ""),  # the fingerprint has the hash of its content
        ({"trainer": {"lr": 0.001, "epochs": 24, "eps": None}}, ""),  # a key that was added later, with its default
        ({"trainer": {"lr": 0.001, "epochs": 24, "eps": 0.1}}, "found trainer.eps: null and 0.1"),
    ],
)
def test_a_config_that_contradicts_that_of_another_seed(root, capsys, changes, reason):
    published = root / "results" / "published"
    save_with_config(published)
    save_with_config(published, number=2, **changes)
    assert main([], root) == main(["--check"], root) == bool(reason)
    out = capsys.readouterr().out
    assert reason in out
    assert out.count("record.json") == (2 * 2 if reason else 0)
    assert (root / "results" / "tables.md").exists() is not bool(reason), "tables of such records would be wrong"
