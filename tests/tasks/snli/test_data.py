"""SNLI files and rows: contents, dropped pairs, and errors with file and line."""

import json

import pytest

from elmo.common.errors import InputError
from results.experiments import load_experiment
from results.names import load_paper
from tasks.data.datasets import DataSource, HubConfig, _drawn
from tasks.running.config import typed_config
from tasks.snli import LABELS, EsimSettings, PairReader, Snli
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
        return Snli(EsimSettings(), PairReader(**settings)).read(path, "train")

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
        pairs = Snli(EsimSettings(), PairReader()).read(path, "train")
        assert [pair.id for pair in pairs] == [
            "pairs.jsonl:1",
            "pairs.jsonl:3",
        ]

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("{'gold_label': 1}", "expected a JSON object, found no JSON (key must be a string"),
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
            Snli(EsimSettings(), PairReader()).read(path, "train")


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
            Snli(EsimSettings(), PairReader()).from_rows([BARE, {**BARE, "gold_label": "yes"}], "dev")


def of_100k(folder, name, lines):
    """data=snli100k with this training file, cut to three lines."""
    (folder / "snli").mkdir(parents=True)
    for file in (name, "snli_1.0_dev.jsonl", "snli_1.0_test.jsonl"):
        (folder / "snli" / file).write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = run_of("task=snli", "data=snli100k").data
    config.first, config.expected, config.hub.path = {"train": 3}, {}, str(folder / "hub")
    return DataSource(config, folder)


class TestFirst100k:
    """The same data from a file of the first lines, from the official file with parses, and from the hub."""

    LINES = (BARE, {**BARE, "gold_label": "-"}, {**BARE, "gold_label": "entailment"})
    CUT, OFFICIAL = "snli_1.0_train_100k.jsonl", "snli_1.0_train.jsonl"

    def test_both_files_are_the_same_data(self, task, tmp_path):
        official = [{**PAIR, **line} for line in (*self.LINES, BARE)]
        sources = [
            of_100k(tmp_path / "cut", self.CUT, self.LINES),
            of_100k(tmp_path / "official", self.OFFICIAL, official),
        ]
        hashes = [source.fingerprint()["train"] for source in sources]
        assert hashes[0] == hashes[1]
        inputs = [{name: it for name, it in own.inputs.items() if "train" in name} for own in sources]
        assert inputs[0] == inputs[1] == {f"data.train/snli/{self.CUT}": hashes[0]}
        pairs = [source.load(task, "train").examples for source in sources]
        assert pairs[0] == pairs[1]
        assert [pair.label for pair in pairs[0]] == ["neutral", "entailment"]
        assert sources[0].load(task, "train").counts["dropped"] == 1

    def test_the_rows_of_the_hub_are_the_same_data(self, task, tmp_path):
        datasets = pytest.importorskip("datasets")
        kinds = {"premise": datasets.Value("string"), "hypothesis": datasets.Value("string")}
        features = datasets.Features({**kinds, "label": datasets.ClassLabel(names=list(LABELS))})
        texts = {"premise": [BARE["sentence1"]] * 4, "hypothesis": [BARE["sentence2"]] * 4}
        (tmp_path / "hub" / "hub").mkdir(parents=True)
        rows = datasets.Dataset.from_dict({**texts, "label": [1, -1, 0, 2]}, features=features)
        rows.to_parquet(tmp_path / "hub/hub/train-0.parquet")
        hub = of_100k(tmp_path / "hub", "other.jsonl", self.LINES)
        files = of_100k(tmp_path / "files", self.CUT, self.LINES)
        assert hub.fingerprint()["train"] == files.fingerprint()["train"]
        assert hub.load(task, "train").examples == files.load(task, "train").examples

    def test_labels_texts_and_their_order_identify_it(self, tmp_path):
        others = [
            {**BARE, "gold_label": "contradiction"},
            {**BARE, "sentence1": "Other."},
            {**BARE, "sentence2": "No."},
        ]
        versions = [[first, *self.LINES[1:]] for first in (BARE, *others)] + [self.LINES[::-1]]
        found = [of_100k(tmp_path / str(i), self.CUT, lines).fingerprint()["train"] for i, lines in enumerate(versions)]
        assert len(set(found)) == len(versions)

    def test_a_change_during_the_run_is_found(self, task, tmp_path):
        source = of_100k(tmp_path, self.CUT, self.LINES)
        source.fingerprint()
        (tmp_path / "snli" / self.CUT).write_text(json.dumps({**BARE, "sentence2": "Other."}))
        with pytest.raises(InputError, match="the train split changed during the run"):
            source.load(task, "train")

    def test_a_bad_line_is_named(self, task, tmp_path):
        with pytest.raises(InputError, match=r"train, row 1: expected the fields .* found no sentence2"):
            of_100k(tmp_path / "a", self.CUT, [BARE, without("sentence2")]).load(task, "train")
        with pytest.raises(InputError, match=r"train_100k\.jsonl, line 2: expected a JSON object, found a list"):
            of_100k(tmp_path / "b", self.CUT, [BARE, []]).load(task, "train")

    def test_it_is_for_this_task_alone_and_not_compared_with_the_paper(self):
        assert load_paper().compared("paper", "snli") is not None
        assert load_paper().compared("snli100k", "snli") is None
        with pytest.raises(InputError, match="data=snli100k is for task=snli, found task=ner"):
            run_of("task=ner", "data=snli100k")

    def test_the_paper_s_recipe_applies(self):
        here, there = (run_of("task=snli", f"data={data}").resolved for data in ("snli100k", "paper"))
        assert [here[part] for part in ("task", "trainer", "features")] == [
            there[part] for part in ("task", "trainer", "features")
        ]


@pytest.fixture(scope="module")
def official_pairs(unpacked):
    return unpacked("snli")


@pytest.mark.parametrize(("split", "pairs"), [("train", 99_890), ("dev", 9_842), ("test", 9_824)])
def test_real_files_have_the_expected_counts(official_pairs, split, pairs):
    chosen = run_of("task=snli", "data=snli100k")
    loaded = DataSource(chosen.data, official_pairs).load(chosen.task, split)
    assert loaded.warnings == []
    assert loaded.counts["pairs"] == sum(loaded.counts[label] for label in LABELS) == pairs
    assert chosen.data.expected[split]["pairs"] == pairs
    if split != "train":
        paper = run_of("task=snli", "data=paper")
        assert DataSource(paper.data, official_pairs).load(paper.task, split).warnings == []
    assert max(map(chosen.task.size, loaded.examples)) < 200


@pytest.mark.parametrize("pairs", [549, 5_494, 54_937])
def test_figure_1_draws_the_paper_s_shares_of_the_official_set(pairs):
    """0.1, 1 and 10 % of 549,367 pairs, as shares of 99,890."""
    shares = [
        float(cell.named["train_fraction"])
        for cell in load_experiment("figure1").cells
        if cell.named["data"] == "snli100k" and cell.seed == 1
    ]
    assert pairs in {len(_drawn(list(range(99_890)), share, 1)) for share in shares}


def test_without_the_official_training_file_the_first_lines_are_named(tmp_path, monkeypatch):
    def unreachable(*arguments, **settings):
        raise ConnectionError("no hub")

    monkeypatch.setattr("datasets.load_dataset", unreachable)
    run = typed_config(["task=snli", "data=paper", f"data_dir={tmp_path}"])
    with pytest.raises(InputError, match=r"snli_1\.0_train\.jsonl.*; data=snli100k trains on the first 100,000 lines"):
        DataSource(run.data, run.data_dir).fingerprint()
    assert "instead" not in run.resolved["data"], "a record does not change with advice"
    assert "first" not in run.resolved["data"], "nor with a setting that it does not have"
