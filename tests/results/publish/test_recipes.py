"""Runs of an older recipe: marked wherever they are shown, and compared only with each other."""

import re

import pytest

from results.names import load_names
from results.publish import main
from tests.results.making import run_report, run_table
from tests.results.publish.finished_runs import GLOVE, other_settings, save_run

NEWEST = load_names().tasks["sst5"].recipe
ARMS = {
    "glove": (50, NEWEST),
    "elmo": (60, NEWEST),
    "elmo_random": (40, 1),
    "word2vec": (55, 1),
}  # right of 100, recipe


@pytest.fixture
def mixed(tmp_path):
    """SST-5 with two arms and another setting that were not run again."""
    folder = tmp_path / "mixed"
    for features, (right, recipe) in ARMS.items():
        config = GLOVE if features == "glove" else {}
        save_run(folder, right, task="sst5", features=features, recipe=recipe, config=config)
    save_run(folder, 58, task="sst5", features="elmo", recipe=1, variant={"features.elmo.dropout": 0.1})
    return folder


def test_the_terminal(mixed, capsys):
    _, out, _ = run_table(capsys, "--runs", mixed)
    assert re.search(r"^SST-5, GloVe 50-d\S* +50.00 \(1\) +60.00 \(1\) +\+10.00\b", out, re.MULTILINE)
    _, out, _ = run_table(capsys, "--runs", mixed, "--wide", "--notes")
    assert "50.00 (1) " in out
    assert "40.00 (1)°" in out
    assert "\n  ° an older recipe of the task\n" in out


def test_the_page_of_tables(mixed, root):
    main(["--runs", str(mixed)], root)
    settings = other_settings(root / "results" / "published")
    assert re.search(r"^\| SST-5, .*biLM dropout 0.1.* \| accuracy \| - \| 58.00 \(1\)° \|", settings, re.MULTILINE)
    figure = (root / "results" / "published" / "errors-removed.svg").read_text()
    assert "50.0 to 60.0, ELMo 20.0 %" in figure
    assert "word2vec" not in figure, "55 would be 10 % of another recipe's errors"


def test_the_report(mixed):
    _, page = run_report(mixed)
    assert "60.00 (1)" in page
    assert "55.00 (1)°" in page
    assert "Of an older recipe of the task: untrained biLM (control), recipe 1; word2vec, recipe 1." in page


def test_an_experiment_by_arm(mixed, capsys):
    save_run(mixed, 60, task="sst5", features="elmo", variant={"features.elmo.weights": "medium"})
    _, out, _ = run_table(capsys, "--runs", mixed, "--experiment", "representations")
    cells = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "60.00 (1)† [" in cells["+ ELMo, medium"]
    assert "55.00 (1)°†" in cells["word2vec"]
    assert "[" not in cells["word2vec"]


def test_two_recipes_have_no_gain(tmp_path, capsys):
    save_run(tmp_path, 50, task="sst5", features="glove", recipe=NEWEST)
    save_run(tmp_path, 60, task="sst5", features="elmo", recipe=1)
    status, out, _ = run_table(capsys, "--runs", tmp_path, "--check")
    assert status == 1
    assert re.search(r"^SST-5\S* +50.00 \(1\) +60.00 \(1\)° ", out, re.MULTILINE)
    assert f"SST-5: GloVe and + ELMo: no gain, because their recipes differ: {NEWEST} and 1\n" in out


def test_a_line_over_shares_ends_where_the_recipe_changes(tmp_path):
    def lines(recipe):
        save_run(tmp_path / "runs", 20, task="sst5", recipe=recipe, variant={"train_fraction": 0.1})
        _, page = run_report(tmp_path / "runs")
        (figure,) = re.findall(r"(<svg(?:(?!<svg).)*?share of the training examples \(log\).*?</svg>)", page, re.DOTALL)
        return page, len(re.findall(r"<(?:polyline|path)[^>]*stroke-width=\"2\"", figure))

    for share, right in ((0.3, 30), (0.5, 40)):
        save_run(tmp_path / "runs", right, task="sst5", recipe=NEWEST, variant={"train_fraction": share})
    page, one = lines(recipe=NEWEST)
    assert "GloVe, by share of the training examples: 10 %: 20.0, 30 %: 30.0, 50 %: 40.0." in page
    page, two = lines(recipe=1)
    assert "GloVe, by share of the training examples: 10 %*: 20.0, 30 %: 30.0, 50 %: 40.0." in page
    assert "share of the training examples (log); * recipe 1" in page
    assert two == one + 1
