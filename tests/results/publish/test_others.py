"""Tables of published scores and costs: the cards' numbers, the paper's own, and a source for each line."""

import json
from pathlib import Path

from results.names import load_names, load_paper

ROOT = Path(__file__).parents[3]


def tables():
    """The two tables of the file, each as a list of lines by column."""
    lines = (ROOT / "results/published/others.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    first, second = (number for number, row in enumerate(rows) if set("".join(row)) <= {"-", " "})
    anchors, costs = (rows[first - 1], rows[first + 1 : second - 1]), (rows[second - 1], rows[second + 1 :])
    return [[dict(zip(header, row, strict=True)) for row in of] for header, of in (anchors, costs)]


def test_costs_of_our_models_are_those_of_their_cards_and_curves():
    """Tokens and minutes are those of the last line of the log; the size is the one that the paper's page names."""
    (found,) = (row for row in tables()[1] if row[""] == "biLM small")
    log = (ROOT / "elmo/pretrained/small/curve.csv").read_text().splitlines()
    last = dict(zip(log[0].split(","), log[-1].split(","), strict=True))
    assert found["read in all passes"] == f"{int(last['tokens']) / 1e9:.1f} G tokens"
    assert found["time"] == f"{float(last['seconds']) / 60:.1f} minutes, 1 x NVIDIA H200"
    options = json.loads((ROOT / "elmo/pretrained/small/options.json").read_text())
    assert (options["lstm"]["dim"], options["lstm"]["projection_dim"]) == (1024, 128)
    assert found["parameters"] == "13.6 M"


def test_every_published_number_has_a_source():
    anchors, costs = tables()
    assert all(row["source"] != "-" for row in [*anchors, *costs])
    assert {load_names().tasks[task].title for task in load_paper().tasks} <= anchors[0].keys()
    assert "-" not in anchors[0].values()  # the paper's column is complete
