"""The paper's numbers next to ours in the table of an experiment, and the verdicts on the differences."""

import re

import pytest

from tests.results.making import make_record, run_table, save, with_config


class TestThePapersNumbers:
    """Of Table 3: SQuAD 85.1, 85.6 and 84.8, SNLI 88.9, 89.5 and 88.7."""

    @pytest.fixture
    def table3(self, tmp_path, capsys):
        for data, task, variant in (("paper", "squad", {"trainer.epochs": 12}), ("snli100k", "snli", {})):
            for place, score in (("input", 80.0), ("output", 79.0)):
                settings = {**variant, "features.elmo.places": f"[{place}]"}
                record = make_record(score, data=data, task=task, features="elmo", variant=settings, dev=score + 1)
                save(tmp_path, record)
        for seed, score in ((1, 84.0), (2, 84.4)):
            record = make_record(score, task="squad", features="elmo", variant={"trainer.epochs": 12}, seed=seed)
            save(tmp_path, with_config(record, features={"elmo": {"places": ["input", "output"]}}))
        out = run_table(capsys, "--runs", tmp_path, "--experiment", "table3", "--wide", "--format", "md")[1]
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in out.splitlines() if line.startswith("|")]
        return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]

    @pytest.fixture
    def own_file(self, tmp_path):
        return tmp_path / "mine.toml"

    def test_the_difference_is_shown_where_the_examples_are_the_paper_s(self, table3):
        squad = table3[0]
        assert squad["task"] == "SQuAD 1.1, dev, 12 epochs"
        assert (squad["paper"], squad["both"]) == ("85.1 → 85.6 → 84.8", "84.20±0.28 (2)")
        assert squad["both to paper's"].startswith("-1.40 open (")
        assert (squad["output"], squad["output to paper's"]) == ("79.00 (1)", "-5.80 one run")

    def test_the_paper_s_gain_is_next_to_ours(self, table3):
        squad, snli, *_ = table3
        assert squad["paper's gain"] == "+0.50"
        assert squad["gain, 95 % interval"].startswith("+4.20")
        assert (snli["metric"], snli["paper's gain"], snli["gain, 95 % interval"]) == ("dev F1", "+0.60", "-")

    def test_other_data_have_no_difference(self, table3):
        snli = table3[1]
        assert (snli["paper"], snli["output"], snli["output to paper's"]) == ("88.9 → 89.5 → 88.7", "80.00 (1)", "-")

    def test_a_file_may_have_the_number_of_one_arm_alone(self, own_file, tmp_path, capsys):
        own_file.write_text(
            'title = "One number"\nseeds = [1]\ncompare = ["glove", "elmo"]\n'
            '[arms]\nglove = ["features=glove"]\nelmo = ["features=elmo"]\n'
            '[[rows]]\noverrides = ["task=ner", "data=paper"]\npaper = {elmo = 92.2}\n'
        )
        for features, score in (("glove", 90.0), ("elmo", 92.0)):
            save(tmp_path / "runs", make_record(score, features=features))
        code, out, _ = run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own_file, "--wide")
        assert (code, "+2.00" in out, "-0.20 one run" in out) == (0, True, True)

    def test_a_number_of_the_file_may_be_equivalent(self, own_file, tmp_path, capsys):
        """90.05 and 90.15: quantile(0.95, 1) = 6.31 times 0.0707 sqrt(3 / 2) is more than the margin of 0.3."""
        own_file.write_text(
            'title = "One number"\nseeds = [1, 2, 3, 4, 5]\n[arms]\nglove = ["features=glove"]\n'
            '[[rows]]\noverrides = ["task=ner", "data=paper"]\npaper = {glove = 90.1}\n'
        )
        verdicts = []
        for seeds in (2, 5):  # with five: 2.13 * 0.05 * sqrt(6 / 5)
            for seed in range(1, seeds + 1):
                save(tmp_path / "runs", make_record(90.05 + 0.1 * (seed % 2), seed=seed))
            verdicts += re.findall(
                r"\d (open|equivalent)\b",
                run_table(capsys, "--runs", tmp_path / "runs", "--experiment", own_file, "--wide")[1],
            )
        assert verdicts == ["open", "equivalent"]
