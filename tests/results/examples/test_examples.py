"""python -m results.examples: counts, order, marks, choices and errors."""

import re

import pytest

from elmo.common.files import read_json, write_json
from results.examples import example_texts, main, output_lines
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME
from tests.results.examples.making import LOC, ORG, PER, entities_run

RIGHT, LABEL, HALF, NONE = [PER, LOC], [PER, ORG], [PER], []
FIRST = [RIGHT, LABEL, RIGHT, NONE, LABEL, HALF]
SECOND = [RIGHT, RIGHT, HALF, HALF, LABEL, RIGHT]


@pytest.fixture
def pair(tmp_path):
    return [entities_run(tmp_path, FIRST, features="glove"), entities_run(tmp_path, SECOND, features="elmo")]


def asked(capsys, *arguments):
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_text_has_the_counts_and_both_runs_next_to_gold(pair, capsys):
    status, out, _ = asked(capsys, *pair)
    assert status == 0
    head, *examples = out.split("\n\n")
    assert "mini NER, 6 test examples" in head
    counts = [line.split() for line in examples[0].splitlines()]
    assert [line[:2] for line in counts[:2]] == [["fixed", "2"], ["broken", "1"]]
    assert examples[0].splitlines()[2:] == ["  both wrong       2", "  both right       1"]
    assert examples[2].splitlines() == [
        "fixed  test.txt:1  F1 50.0 -> 100.0",
        "  text  Ada Lind left Oslo",
        "  gold  PER Ada Lind | LOC Oslo",
        "  A     PER Ada Lind | -LOC Oslo | +ORG Oslo",
        "  B     PER Ada Lind | LOC Oslo",
    ]
    order = [(one.split()[0], one.split("test.txt:")[1][0]) for one in examples[2:]]
    # the largest difference first: 0 -> 66.7 before 50 -> 50
    assert order == [("fixed", "1"), ("fixed", "5"), ("broken", "2"), ("both", "3"), ("both", "4"), ("both", "0")]


def test_some_of_them(pair, capsys):
    for show, ids in (("fixed", "1"), ("broken", "2"), ("both-wrong", "34")):
        _, out, _ = asked(capsys, *pair, "--show", show, "--limit", "2" if show == "both-wrong" else "1")
        assert re.findall(r"test\.txt:(\d)", out) == list(ids)


def test_two_seeds_of_one_arm_have_names_of_their_own(tmp_path, capsys):
    runs = [entities_run(tmp_path, FIRST, features="elmo", seed=seed) for seed in (1, 2)]
    _, out, _ = asked(capsys, *runs)
    assert "  A  + ELMo, seed 1\n  B  + ELMo, seed 2\n" in out


def test_text_of_the_data_cannot_control_the_terminal(tmp_path, capsys):
    evil = {**PER, "text": "Ada \x1b[31mLind"}
    runs = [entities_run(tmp_path, [[evil]], gold=[evil], features=arm) for arm in ("glove", "elmo")]
    _, out, _ = asked(capsys, *runs)
    assert "Ada \\u001b[31mLind" in out
    assert "\x1b" not in out


class TestErrors:
    def refused(self, capsys, *arguments):
        status, out, err = asked(capsys, *arguments)
        assert (status, out) == (1, "")
        return err

    def test_no_run(self, pair, tmp_path, capsys):
        err = self.refused(capsys, pair[0], tmp_path / "nowhere")
        assert f"{tmp_path / 'nowhere'}: expected the folder of a finished run" in err
        assert "No such file or directory" in err

    def test_runs_without_predictions_say_how_to_make_them(self, pair, tmp_path, capsys):
        old = entities_run(tmp_path / "old", FIRST, kept=False, features="glove", seed=4, variant={"trainer.lr": 0.5})
        err = self.refused(capsys, old, pair[1])
        assert f"{old}: expected {PREDICTIONS_NAME} and {EXAMPLES_NAME} next to the record, with" in err
        assert "run it again with runs_dir=NEW" in err

    def test_other_test_files(self, pair, tmp_path, capsys):
        other = entities_run(tmp_path / "other", FIRST, test="ef" * 32, features="elmo")
        err = self.refused(capsys, pair[0], other)
        assert "expected two runs of one task on the same test examples, found mini ner glove" in err

    def test_another_limit(self, pair, tmp_path, capsys):
        other = entities_run(tmp_path, FIRST[:3], features="elmo", limit=3)
        err = self.refused(capsys, pair[0], other)
        assert "expected two runs of one task on the same test examples, found mini" in err

    def test_damaged_files(self, pair, capsys):
        content = read_json(pair[0] / EXAMPLES_NAME)
        write_json(pair[0] / EXAMPLES_NAME, {**content, "scores": content["scores"][:2]})
        assert "with as many predictions as scores" in self.refused(capsys, *pair)
        (pair[1] / PREDICTIONS_NAME).write_bytes(b"")
        assert f"{pair[1] / PREDICTIONS_NAME}: expected predictions" in self.refused(capsys, pair[1], pair[0])

    def test_a_negative_limit(self, pair, capsys):
        assert "--limit: expected at least 0, found -1" in self.refused(capsys, *pair, "--limit", "-1")


def lines(output, gold, right=False, example=None):
    found = output_lines(example or {}, output, gold, right)
    return [[sign + text for sign, text in line] for line in found]


def mentions(*places):
    return [{"text": f"m{place}", "start": place, "end": place + 1} for place in places]


class TestMarks:
    def test_labels_and_answers(self):
        assert lines({"label": "good"}, {"label": "bad"}) == [["+good"]]
        assert lines({"label": "good"}, {"label": "good"}, right=True) == [["good"]]
        assert lines({"answer": "97", "characters": [3, 5]}, {"answers": ["98", "98 steps"]}) == [["+97"]]
        assert lines({"answers": ["98", "98 steps"]}, {"answers": ["98", "98 steps"]}, right=True) == [
            ["98", "98 steps"]
        ]
        assert lines({"prediction": {"a": 1}}, {"prediction": {"a": 2}}) == [['+{"a": 1}']]

    def test_tags_alone_and_tags_that_repeat_spans(self):
        example = {"tokens": ["a", "dog"]}
        assert lines({"tags": ["DT", "VB"]}, {"tags": ["DT", "NN"]}, example=example) == [["a/DT", "+dog/VB"]]
        both = {"tags": ["O", "O"], "entities": []}
        assert lines(both, both, right=True, example=example) == [["(none)"]]

    def test_spans_in_the_order_of_the_text(self):
        assert lines({"spans": [ORG]}, {"spans": [LOC, PER]}) == [["-PER Ada Lind", "-LOC Oslo", "+ORG Oslo"]]

    def test_what_scores_as_right_has_no_marks(self):
        assert lines({"spans": [PER, ORG]}, {"spans": [PER, LOC]}, right=True) == [["PER Ada Lind", "ORG Oslo"]]

    def test_chains_are_paired_with_the_gold_chain_that_shares_most(self):
        gold = [mentions(0, 3, 6), mentions(1, 4), mentions(2, 5)]
        found = [mentions(0, 4), mentions(1, 3, 6), mentions(7, 8)]
        # found[1] shares two mentions with gold[0]; found[0] is then left with gold[1]; no chain with gold[2]
        assert lines({"chains": found}, {"chains": gold}) == [
            ["+m0", "-m1", "m4"],
            ["-m0", "+m1", "m3", "m6"],
            ["-m2", "-m5"],
            ["+m7", "+m8"],
        ]
        assert lines({"chains": gold}, {"chains": gold}, right=True) == [["m0", "m3", "m6"], ["m1", "m4"], ["m2", "m5"]]

    def test_empty_chains_are_not_shown(self):
        assert lines({"chains": [[], mentions(1, 4)]}, {"chains": [mentions(1), []]}) == [["m1", "+m4"]]
        assert lines({"chains": [[]]}, {"chains": [mentions(2)]}) == [["-m2"]]

    def test_texts_of_examples(self):
        assert example_texts({"tokens": ["Ada", "left"], "predicate": 1}) == [
            ("text", "Ada left"),
            ("predicate", "left"),
        ]
        assert example_texts({"context": "C", "question": "Q"}) == [("context", "C"), ("question", "Q")]
        assert example_texts({"tokens": ["a"], "predicate": None}) == [("text", "a")]
