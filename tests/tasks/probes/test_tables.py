"""Tables 5 and 6: what their cells run, and the metrics that their rows show."""

import pytest

from results.experiments import load_experiment
from tasks.probes.pos import PosProbe
from tasks.probes.wsd import WsdProbe
from tasks.running.config import typed_config


@pytest.mark.parametrize(
    ("name", "task", "arms"), [("table5", WsdProbe, 6), ("table6", PosProbe, 5), ("table6_wsj", PosProbe, 5)]
)
def test_every_row_shows_a_metric_of_its_task(name, task, arms):
    experiment = load_experiment(name)
    assert len(experiment.arms) == arms
    assert {row.metric or task.metric for row in experiment.rows} <= task.metrics.keys()
    assert {cell.named["task"] for cell in experiment.cells} == {task.name}
    assert experiment.rows[0].paper["layer1"] != experiment.rows[0].paper["layer2"]


def test_table_6_on_the_paper_s_data_has_the_arms_of_table_6():
    ours, papers = load_experiment("table6"), load_experiment("table6_wsj")
    assert papers.arms == ours.arms
    assert papers.rows[0].paper == ours.rows[0].paper
    assert {cell.named["data"] for cell in papers.cells} == {"paper"}
    assert {cell.named["data"] for cell in ours.cells} == {"ewt"}


def test_the_arms_of_table_6_read_what_their_names_say():
    found = {}
    for cell in load_experiment("table6").cells[:5]:
        features = typed_config(cell.overrides).features
        found[cell.arm] = (features.words is not None, features.elmo and (features.elmo.control, features.elmo.layers))
    assert found == {
        "glove": (True, None),
        "elmo_matched": (False, ("matched", "1")),
        "elmo_layer0": (False, (None, "0")),
        "layer1": (False, (None, "1")),
        "layer2": (False, (None, "2")),
    }
