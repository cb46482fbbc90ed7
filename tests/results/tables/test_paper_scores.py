"""The paper's scores in scores.toml, against the numbers of its Table 1."""

import pytest

from results.names import distance, load_paper, relative_error_cut

# Table 1 of arXiv 1802.05365 v2, its last two columns: the increase, absolute and relative.
TABLE_1 = {
    "squad": (4.7, 24.9),
    "snli": (0.7, 5.8),
    "srl": (3.2, 17.2),
    "coref": (3.2, 9.8),
    "ner": (2.06, 21.0),
    "sst5": (3.3, 6.8),
}


@pytest.mark.parametrize("task", TABLE_1)
def test_gains_follow_from_the_stored_scores(task):
    (score,) = [s for s in load_paper().score if s.task == task and s.source.startswith("Table 1")]
    absolute, relative = TABLE_1[task]
    # the paper rounds the NER gain after subtracting: 2.06, but 92.22 - 90.15 = 2.07
    assert score.scores["elmo"] - score.scores["glove"] == pytest.approx(absolute, abs=0.011)
    assert score.error_cut(("glove", "elmo")) == pytest.approx(relative, abs=0.05)


def test_the_rows_are_in_the_papers_order():
    assert load_paper().tasks == list(TABLE_1)


def test_every_task_has_one_score_to_compare_with_and_only_for_the_papers_data():
    paper = load_paper()
    for task in TABLE_1:
        assert sum(score.compared for score in paper.score if score.task == task) == 1
        assert paper.compared("paper", task) is not None
        assert paper.compared("mini", task) is None
    assert paper.compared("paper", "chunking") is None


def test_squad_is_compared_on_the_dev_set():
    """Its test set is hidden; what the suite calls test is the official dev set."""
    score = load_paper().compared("paper", "squad")
    assert score is not None
    assert (score.split, score.scores) == ("dev", {"glove": 80.8, "elmo": 85.6})


def test_nothing_can_be_cut_from_no_error():
    assert relative_error_cut(100.0, 100.0) is None
    assert relative_error_cut(50.0, 25.0) == -50.0


def test_the_papers_own_scores_lie_in_the_bands_and_mini_data_have_none():
    paper = load_paper()
    for task in ("squad", "snli", "ner", "sst5"):
        band, score = paper.expected("paper", task), paper.compared("paper", task)
        assert [distance(score.scores[arm], band.scores[arm]) for arm in ("glove", "elmo")] == [0, 0]
        assert paper.expected("mini", task) is None
    assert paper.expected("paper", "srl") is None


def test_the_distance_to_a_band_has_a_sign():
    assert [distance(score, [50.5, 52.0]) for score in (48.5, 50.5, 51.0, 52.0, 53.0)] == [-2.0, 0, 0, 0, 1.0]
