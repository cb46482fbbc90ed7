"""SNLI files and rows: contents, dropped pairs, and errors with file and line."""

import json

import pytest

from elmo.common.errors import InputError
from results.analysis.paper_scores import load_paper
from tasks.data.datasets import DataSource, HubConfig
from tasks.running.config import typed_config
from tasks.snli.data import LABELS, PairReader, read_pairs, read_rows
from tasks.snli.head import EsimSettings
from tasks.snli.task import Snli
from tests.tasks.making import run_of

PAIR = {
    "annotator_labels": ["neutral"],
    "gold_label": "neutral",
    "pairID": "1.jpg#0r1n",
    "sentence1": "He said (quietly) that they're late.",
    "sentence1_binary_parse": "( He ( ( said ( -LRB- ( quietly -RRB- ) ) ) ( that ( they ( 're late ) ) ) ) . )",
    "sentence2": "``No,'' nobody came.",
    "sentence2_binary_parse": "( `` ( No , ) '' ( nobody ( came . ) ) )",
}
BARE = {key: PAIR[key] for key in ("gold_label", "sentence1", "sentence2")}


def without(field):
    return {key: value for key, value in BARE.items() if key != field}


@pytest.fixture
def read(tmp_path):
    """The pairs of a file that has these lines: texts, or objects to be written as JSON."""

    def read(*lines, **settings):
        path = tmp_path / "pairs.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        path.write_bytes("\n".join(texts).encode())
        return read_pairs(path, PairReader(**settings))

    return read


@pytest.fixture
def task():
    return Snli(EsimSettings(), PairReader())


class TestWords:
    def test_the_parse_s_tokens_with_plain_brackets_and_quotes(self, read):
        (pair,) = read(PAIR)
        assert pair.premise == ("He", "said", "(", "quietly", ")", "that", "they", "'re", "late", ".")
        assert pair.hypothesis == ('"', "No", ",", '"', "nobody", "came", ".")
        assert (pair.id, pair.label) == ("pairs.jsonl:1", "neutral")

    @pytest.mark.parametrize(
        "line", [BARE, {**PAIR, "sentence1_binary_parse": "", "sentence2_binary_parse": None}, PAIR]
    )
    def test_without_a_parse_the_text_is_tokenised_the_same_way(self, read, line):
        (pair,) = read(line, parses=line is not PAIR)
        assert (pair.premise, pair.hypothesis) == (read(PAIR)[0].premise, read(PAIR)[0].hypothesis)

    def test_a_premise_of_two_sentences_and_two_lines_is_one_text(self, read):
        (pair,) = read({**BARE, "sentence1": "It rained. We\nstayed in."})
        assert pair.premise == ("It", "rained", ".", "We", "stayed", "in", ".")

    def test_equal_sentences_are_one_object(self, read):
        first, second = read(BARE, {**BARE, "sentence2": BARE["sentence1"]})
        assert first.premise is second.premise is second.hypothesis


class TestFiles:
    def test_blank_lines_byte_order_mark_and_crlf_are_accepted(self, tmp_path):
        path = tmp_path / "pairs.jsonl"
        path.write_bytes(
            b"\xef\xbb\xbf" + b"\r\n".join([json.dumps(BARE).encode(), b"", json.dumps(PAIR).encode(), b""])
        )
        assert [pair.id for pair in read_pairs(path, PairReader())] == ["pairs.jsonl:1", "pairs.jsonl:3"]

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("{'gold_label': 1}", "expected a JSON object, found no JSON (Expecting property name"),
            ("EU NNP B-NP B-ORG", "expected a JSON object, found no JSON"),
            ("(3 (2 It) (4 works))", "expected a JSON object, found no JSON"),
            ("[1, 2]", "expected a JSON object, found a list"),
            (
                {"version": "1.1", "data": []},
                "expected the fields gold_label, sentence1, sentence2, found no gold_label",
            ),
            (without("sentence2"), "expected the fields gold_label, sentence1, sentence2, found no sentence2:"),
            (without("gold_label"), "found no gold_label:"),
            ({**BARE, "sentence1": None}, "expected text in sentence1, found None"),
            ({**BARE, "gold_label": 2}, "expected text in gold_label, found 2"),
            (
                {**BARE, "gold_label": "maybe"},
                "expected the label entailment, neutral, contradiction or -, found 'maybe'",
            ),
            ({**BARE, "sentence2": "  "}, "expected words in sentence2, found none"),
            ({**PAIR, "sentence1_binary_parse": "( )"}, "expected words in sentence1, found none"),
        ],
    )
    def test_a_bad_line_is_named_with_what_was_expected(self, read, tmp_path, line, expected):
        with pytest.raises(InputError) as caught:
            read(BARE, line)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path / 'pairs.jsonl'}, line 2: ")
        assert expected in message
        assert message.endswith("Is this a file of SNLI's format?")
        assert len(message) < 400

    def test_a_long_line_is_not_shown_in_full(self, read):
        with pytest.raises(InputError) as caught:
            read(json.dumps({"data": "x" * 100_000}))
        assert len(str(caught.value)) < 400

    def test_other_bytes_than_utf8(self, tmp_path):
        path = tmp_path / "pairs.jsonl"
        path.write_bytes(json.dumps(BARE).encode() + b"\n\xff\n")
        with pytest.raises(InputError, match="line 2: expected UTF-8"):
            read_pairs(path, PairReader())


def source_of(folder, lines, hub=None):
    """A user's dataset whose three files all have these lines."""
    (folder / "snli").mkdir()
    for split in ("train", "dev", "test"):
        (folder / "snli" / f"snli_1.0_{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = run_of("task=snli", "data=paper").data
    config.expected = {}
    config.hub = hub
    return DataSource(config, folder)


class TestWithoutALabel:
    LINES = ({**BARE, "gold_label": "-"}, BARE, {**BARE, "gold_label": "-", "sentence2": ""}, BARE)

    def test_pairs_are_dropped_and_counted(self, task, tmp_path):
        loaded = source_of(tmp_path, self.LINES).load(task, "train")
        assert [pair.id for pair in loaded.examples] == ["snli_1.0_train.jsonl:2", "snli_1.0_train.jsonl:4"]
        assert loaded.counts == {"pairs": 2, "neutral": 2, "distinct_sentences": 2, "tokens": 34, "dropped": 2}

    def test_also_in_rows(self, task):
        rows = [{**BARE, "gold_label": label} for label in (None, "neutral", "-", "entailment")]
        pairs = task.from_rows(rows, "dev")
        assert [task.usable(pair) for pair in pairs] == [False, True, False, True]
        assert [pair.id for pair in pairs] == ["dev:0", "dev:1", "dev:2", "dev:3"]


class TestHub:
    def test_rows_as_the_hub_has_them(self, task, datasets, tmp_path):
        features = datasets.Features(
            {
                "premise": datasets.Value("string"),
                "hypothesis": datasets.Value("string"),
                "label": datasets.ClassLabel(names=list(LABELS)),
            }
        )
        columns = {"premise": ["It rains."] * 4, "hypothesis": ["It is wet."] * 4, "label": [0, 1, -1, 2]}
        (tmp_path / "hub").mkdir()
        datasets.Dataset.from_dict(columns, features=features).to_parquet(tmp_path / "hub/validation-0.parquet")
        config = run_of("task=snli", "data=paper").data
        config.hub = HubConfig(path=str(tmp_path / "hub"), columns=config.hub.columns)
        loaded = DataSource(config, tmp_path).load(task, "dev")
        assert [pair.label for pair in loaded.examples] == list(LABELS)
        assert loaded.counts["dropped"] == 1
        assert loaded.examples[0].hypothesis == ("It", "is", "wet", ".")

    def test_a_bad_row_is_named(self):
        with pytest.raises(InputError, match=r"dev, row 1: expected the label .*found 'yes'. Check data\.hub\.columns"):
            read_rows([BARE, {**BARE, "gold_label": "yes"}], "dev", PairReader())


def test_the_stand_in_is_for_this_task_alone_and_not_compared_with_the_paper():
    assert load_paper().compared("paper", "snli") is not None
    assert load_paper().compared("standin", "snli") is None
    with pytest.raises(InputError, match="data=standin is for task=snli, found task=ner"):
        run_of("task=ner", "data=standin")


@pytest.fixture(scope="module")
def official_pairs(unpacked):
    return unpacked("snli")


@pytest.mark.parametrize(("split", "pairs"), [("train", 8_330 + 44_983), ("dev", 9_842), ("test", 9_824)])
def test_real_files_have_the_expected_counts(official_pairs, split, pairs):
    chosen = run_of("task=snli", "data=standin")
    loaded = DataSource(chosen.data, official_pairs).load(chosen.task, split)
    assert loaded.warnings == []
    assert loaded.counts["pairs"] == sum(loaded.counts[label] for label in LABELS) == pairs
    assert chosen.data.expected[split] == {"pairs": pairs}
    if split != "train":
        paper = run_of("task=snli", "data=paper")
        assert DataSource(paper.data, official_pairs).load(paper.task, split).warnings == []
    assert max(map(chosen.task.size, loaded.examples)) < 200


def test_without_the_official_training_file_the_standin_is_named(tmp_path, monkeypatch):
    def unreachable(*arguments, **settings):
        raise ConnectionError("no hub")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    run = typed_config(["task=snli", "data=paper", f"data_dir={tmp_path}"])
    with pytest.raises(InputError, match=r"snli_1\.0_train\.jsonl.*; data=standin has the official dev and test sets"):
        DataSource(run.data, run.data_dir).fingerprint()
    assert "instead" not in run.resolved["data"], "a record does not change with advice"
