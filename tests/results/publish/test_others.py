"""Tables of published scores and costs: the cards' numbers, the paper's own, and a source for each line."""

import json
from pathlib import Path

from results.names import load_paper
from results.records.typed_json import read_toml
from results.tables_page import Others, anchors_sheet, costs_sheet

ROOT = Path(__file__).parents[3]


def cells(sheet, name):
    """The cells of a line by column."""
    return next(dict(zip(sheet.headers, line, strict=True)) for line in sheet.lines if line[0] == name)


def test_costs_of_our_models_are_those_of_their_cards_and_curves():
    """Tokens and minutes are those of the last line of the log; the size is the one that the paper's page names."""
    found = cells(costs_sheet(read_toml(Others, "others.toml")), "biLM small")
    log = (ROOT / "elmo/pretrained/small/curve.csv").read_text().splitlines()
    last = dict(zip(log[0].split(","), log[-1].split(","), strict=True))
    assert found["read in all passes"] == f"{int(last['tokens']) / 1e9:.1f} G tokens"
    assert found["time"] == f"{float(last['seconds']) / 60:.1f} minutes, 1 x NVIDIA H200"
    options = json.loads((ROOT / "elmo/pretrained/small/options.json").read_text())
    assert (options["lstm"]["dim"], options["lstm"]["projection_dim"]) == (1024, 128)
    assert found["parameters"] == "13.6 M"


def test_every_published_number_has_a_source():
    others = read_toml(Others, "others.toml")
    assert all(own.source for own in others.system)
    assert all(own["source"] for own in others.cost)
    assert {task for own in others.system for task in own.scores} <= set(load_paper().tasks)
    shown = cells(anchors_sheet(others), "best before ELMo")
    assert "-" not in shown.values()  # the paper's column is complete
