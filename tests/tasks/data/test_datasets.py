"""Datasets from files and from the hub: examples, counts, hashes and errors."""

import hashlib
import sys
import time
from typing import ClassVar

import pytest

from elmo.common.errors import InputError
from tasks.data.datasets import DataConfig, DataSource, HubConfig, common_labels
from tasks.ner import ColumnReader, Ner, NerSettings
from tests.tasks.making import run_of

TRAIN = "EU B-ORG\nrejects O\nGerman B-MISC\ncalls O\n\nPeter B-PER\nBlackburn I-PER\n\nYes O\n"
DEV = "Paris B-LOC\n\nNo O\n"
TEST = "Rome B-LOC\nand O\nBern B-LOC\n"
TAGS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC", "B-MISC", "I-MISC"]


@pytest.fixture
def ner():
    return Ner(NerSettings(), ColumnReader())


@pytest.fixture
def files(tmp_path):
    """A data folder with three small files."""
    for name, content in (("train", TRAIN), ("dev", DEV), ("test", TEST)):
        (tmp_path / f"{name}.txt").write_text(content)
    return tmp_path


def config(**settings):
    splits = {split: [f"{split}.txt"] for split in ("train", "dev", "test")}
    return DataConfig(**{"name": "mine", "task": "ner", "splits": splits, **settings})


class TestFiles:
    def test_examples_of_a_split(self, ner, files):
        loaded = DataSource(config(), files).load(ner, "train")
        assert [example.words for example in loaded.examples] == [
            ("EU", "rejects", "German", "calls"),
            ("Peter", "Blackburn"),
            ("Yes",),
        ]
        assert loaded.counts == {"sentences": 3, "tokens": 7, "entities": 3, "MISC": 1, "ORG": 1, "PER": 1}
        assert loaded.warnings == []

    def test_a_split_may_have_several_files(self, ner, files):
        splits = {"train": ["train.txt", "dev.txt"], "dev": ["dev.txt"], "test": ["test.txt"]}
        loaded = DataSource(config(splits=splits), files).load(ner, "train")
        assert [example.id for example in loaded.examples][2:] == ["train.txt:2", "dev.txt:0", "dev.txt:1"]

    def test_a_name_with_a_star_stands_for_the_files_that_match(self, ner, files):
        for name in ("b/two.part", "a/deep/one.part", "a/other.txt"):
            (files / name).parent.mkdir(parents=True, exist_ok=True)
            (files / name).write_text(f"{name} O\n")
        splits = {"train": ["**/*.part", "dev.txt"], "dev": ["a/**/*.part"], "test": ["no/*.part"]}
        source = DataSource(config(splits=splits), files)
        words = [example.words[0] for example in source.load(ner, "train").examples]
        assert words == ["a/deep/one.part", "b/two.part", "Paris", "No"]
        assert [example.words[0] for example in source.load(ner, "dev").examples] == ["a/deep/one.part"]
        with pytest.raises(InputError, match=r"the test split needs .*no/\*\.part, which is not there"):
            source.load(ner, "test")

    def test_advice_for_those_who_cannot_have_the_files_ends_the_error(self, ner, files):
        splits = {"train": ["no.txt"], "dev": ["dev.txt"], "test": ["test.txt"]}
        source = DataSource(config(splits=splits, instead="data=other can be had"), files)
        with pytest.raises(InputError, match=r"which is not there.* the variable ELMO_DATA; data=other can be had$"):
            source.load(ner, "train")

    def test_a_split_may_be_a_list_of_documents(self, ner, files):
        """In the order of the list, which the hash covers as it covers the documents."""
        splits = {"train": ["parts/{fold}.ids"], "dev": ["dev.txt"], "test": ["{fold}.txt"]}
        listed = config(splits=splits, folds=2, documents="{id}.txt").of_fold(0)
        (files / "parts").mkdir()
        (files / "parts" / "0.ids").write_text("test.tsv\n\ntrain.tsv\n")
        (files / "0.txt").write_text(TEST)
        source = DataSource(listed, files)
        loaded = source.load(ner, "train")
        assert [example.id for example in loaded.examples] == ["test.txt:0", *(f"train.txt:{n}" for n in range(3))]
        hashes = [source.fingerprint()["train"]]
        (files / "parts" / "0.ids").write_text("train.tsv\ntest.tsv\n")
        hashes.append(source.fingerprint()["train"])
        (files / "test.txt").write_text(TEST + "\nNo O\n")
        hashes.append(source.fingerprint()["train"])
        assert len(set(hashes)) == 3

    def test_documents_that_are_not_there_or_not_listed(self, ner, files):
        splits = {"train": ["train.ids"], "dev": ["dev.txt"], "test": ["test.txt"]}
        listed = config(splits=splits, documents="texts/{id}.conll")
        with pytest.raises(InputError, match=r"the train split needs \S*train\.ids, which is not there"):
            DataSource(listed, files).load(ner, "train")
        (files / "train.ids").write_text("".join(f"{name}.tsv\n" for name in "abcde"))
        missing = r"needs \S*texts/a\.conll, \S*b\.conll, \S*c\.conll and 2 more, which is not there"
        with pytest.raises(InputError, match=missing):
            DataSource(listed, files).load(ner, "train")
        (files / "train.ids").write_text("\n")
        with pytest.raises(InputError, match="the train split has no examples"):
            DataSource(listed, files).fingerprint()

    def test_limit_keeps_the_first_but_counts_all(self, ner, files):
        loaded = DataSource(config(), files, limit=2).load(ner, "train")
        assert [example.words[0] for example in loaded.examples] == ["EU", "Peter"]
        assert (loaded.counts["sentences"], loaded.counts["used"]) == (3, 2)

    def test_a_share_of_the_training_examples_is_drawn_by_the_seed(self, ner, files):
        (files / "train.txt").write_text("".join(f"w{number} O\n\n" for number in range(200)))

        def drawn(fraction, seed, split="train"):
            loaded = DataSource(config(), files, None, fraction, seed).load(ner, split)
            return [example.id for example in loaded.examples], loaded.counts

        fifty, counts = drawn(0.25, 1)
        assert (len(fifty), counts["used"], counts["sentences"]) == (50, 50, 200)
        assert fifty == drawn(0.25, 1)[0]
        everything = drawn(1.0, 1)[0]
        assert fifty == [name for name in everything if name in set(fifty)] != everything[:50]
        assert set(drawn(0.1, 1)[0]) < set(fifty)
        assert len(set(fifty) & set(drawn(0.25, 2)[0])) < 30, "12.5 of 50 are expected to be in both"
        assert len(drawn(0.0001, 1)[0]) == 1
        assert drawn(0.25, 1, "dev") == drawn(1.0, 2, "dev")

    def test_unusable_examples_are_dropped_and_counted(self, ner, files, monkeypatch):
        monkeypatch.setattr(ner, "usable", lambda example: bool(example.spans))
        loaded = DataSource(config(expected={"train": {"sentences": 2}}), files, limit=1).load(ner, "train")
        assert [example.words[0] for example in loaded.examples] == ["EU"]
        assert (loaded.counts["sentences"], loaded.counts["dropped"]) == (2, 1)
        assert loaded.warnings == []
        (files / "dev.txt").write_text("No O\n")
        with pytest.raises(InputError, match="the dev split has no examples"):
            DataSource(config(), files).load(ner, "dev")

    def test_other_counts_than_published_are_reported(self, ner, files):
        expected = {"train": {"sentences": 14041, "PER": 1, "EVENT": 2}}
        loaded = DataSource(config(expected=expected), files, limit=1).load(ner, "train")
        assert loaded.warnings == [
            "train: expected 14,041 sentences as published, found 3",
            "train: expected 2 EVENT as published, found 0",
        ]

    def test_a_missing_file_is_named_with_its_folder(self, ner, files):
        (files / "dev.txt").unlink()
        with pytest.raises(InputError) as caught:
            DataSource(config(), files).load(ner, "dev")
        message = str(caught.value)
        assert "data=mine" in message
        assert "dev split" in message
        for hint in (str(files / "dev.txt"), "data_dir=DIR", "ELMO_DATA"):
            assert hint in message
        with pytest.raises(InputError, match="dev split"):
            DataSource(config(), files).fingerprint()

    def test_an_empty_split_is_an_error(self, ner, files):
        (files / "dev.txt").write_text("\n\n")
        with pytest.raises(InputError, match=rf"data=mine: the dev split has no examples\. Check {files / 'dev.txt'}"):
            DataSource(config(), files).load(ner, "dev")

    def test_an_empty_file_is_an_error_before_training(self, files):
        """The test split is read after it."""
        (files / "test.txt").write_text("")
        with pytest.raises(
            InputError, match=rf"data=mine: the test split has no examples\. Check {files / 'test.txt'}"
        ):
            DataSource(config(), files).fingerprint()

    @pytest.mark.parametrize("names", [["t*st.txt", "test.txt"], ["dev.txt", "test.txt", "test.txt"]])
    def test_a_file_twice_in_a_split_is_an_error(self, files, names):
        source = config(splits={"train": ["train.txt"], "dev": ["dev.txt"], "test": names})
        with pytest.raises(InputError, match=r"data=mine: splits\.test: expected each file once, found one twice"):
            DataSource(source, files).fingerprint()

    def test_a_split_without_files_is_an_error(self, files):
        with pytest.raises(InputError, match=r"the dev split needs a file in data\.splits, which is not there"):
            DataSource(config(splits={"train": ["train.txt"]}), files).fingerprint()

    def test_fingerprint_follows_the_content_alone(self, files, tmp_path_factory):
        before = DataSource(config(), files).fingerprint()
        inner = hashlib.sha256(DEV.encode()).digest()
        assert before["dev"] == hashlib.sha256(inner).hexdigest()
        elsewhere = tmp_path_factory.mktemp("copy")
        for split in ("train", "dev", "test"):
            (elsewhere / f"{split}.txt").write_bytes((files / f"{split}.txt").read_bytes())
        assert DataSource(config(), elsewhere).fingerprint() == before
        (elsewhere / "test.txt").write_text(TEST + "x O\n")
        after = DataSource(config(), elsewhere).fingerprint()
        assert after["test"] != before["test"]
        assert (after["train"], after["dev"]) == (before["train"], before["dev"])

    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    def test_a_split_that_changed_after_hashing_is_an_error(self, ner, files, split):
        source = DataSource(config(), files)
        source.fingerprint()
        assert source.load(ner, split).examples
        source.check_unchanged()
        path = files / f"{split}.txt"
        hashes = [hashlib.sha256(path.read_bytes())]
        assert source.inputs[f"data.{split}/{split}.txt"] == hashes[0].hexdigest()
        path.write_text(path.read_text() + "\nx O\n")
        hashes.append(hashlib.sha256(path.read_bytes()))
        expected = f"data=mine: the {split} split changed during the run: {split}.txt. .*retry=failed$"
        with pytest.raises(InputError, match=expected):
            source.load(ner, split)
        with pytest.raises(InputError, match=expected):
            source.check_unchanged()
        now = hashlib.sha256(hashes[1].digest()).hexdigest()
        assert source.fingerprint()[split] == now
        assert source.load(ner, split).examples[-1].words == ("x",)

    def test_a_change_while_a_file_is_read(self, ner, files, monkeypatch):
        source = DataSource(config(), files)
        source.fingerprint()
        read = ner.read

        def replaced_meanwhile(path, split):
            examples = read(path, split)
            path.write_text("Other O\n")
            return examples

        monkeypatch.setattr(ner, "read", replaced_meanwhile)
        with pytest.raises(InputError, match="the dev split changed"):
            source.load(ner, "dev")


def rows_of(text):
    sentences = [[line.split() for line in block.splitlines()] for block in text.strip().split("\n\n")]
    return {
        "id": [str(number) for number in range(len(sentences))],
        "tokens": [[word for word, _ in sentence] for sentence in sentences],
        "ner_tags": [[TAGS.index(tag) for _, tag in sentence] for sentence in sentences],
    }


@pytest.fixture
def hub(datasets, tmp_path):
    """A dataset as the hub stores it: parquet files, labels as numbers with names in the schema."""
    features = datasets.Features(
        {
            "id": datasets.Value("string"),
            "tokens": datasets.Sequence(datasets.Value("string")),
            "ner_tags": datasets.Sequence(datasets.ClassLabel(names=TAGS)),
        }
    )
    folder = tmp_path / "on_the_hub"
    folder.mkdir()
    for name, content in (("train", TRAIN), ("validation", DEV), ("test", TEST)):
        rows = datasets.Dataset.from_dict(rows_of(content), features=features)
        rows.to_parquet(folder / f"{name}-00000-of-00001.parquet")
    return HubConfig(path=str(folder), columns={"words": "tokens", "tags": "ner_tags"})


class TestHub:
    @pytest.mark.parametrize("split", ["train", "dev", "test"])
    def test_the_same_examples_as_from_the_files(self, ner, files, hub, split):
        from_files = DataSource(config(), files).load(ner, split)
        from_hub = DataSource(config(splits={}, hub=hub), files).load(ner, split)
        content = [[(e.words, e.spans, e.tags) for e in loaded.examples] for loaded in (from_files, from_hub)]
        assert content[0] == content[1]
        assert from_files.counts == from_hub.counts

    def test_a_missing_label_is_none_and_never_another_label(self, ner, datasets, tmp_path, monkeypatch):
        features = datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])}
        )
        (tmp_path / "hub").mkdir()
        rows = datasets.Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, -1, 0]}, features=features)
        rows.to_parquet(tmp_path / "hub" / "train-00000-of-00001.parquet")
        seen = []
        monkeypatch.setattr(ner, "from_rows", lambda rows, split: seen.extend(rows) or [])
        hub = HubConfig(path=str(tmp_path / "hub"), columns={"words": "text", "tags": "label"})
        with pytest.raises(InputError, match="no examples"):
            DataSource(config(splits={}, hub=hub), tmp_path).load(ner, "train")
        assert [row["tags"] for row in seen] == ["yes", None, "no"]

    def test_files_come_first(self, ner, files, hub):
        (files / "dev.txt").write_text("Other O\n")
        assert DataSource(config(hub=hub), files).load(ner, "dev").examples[0].words == ("Other",)

    def test_the_hub_is_used_where_files_are_absent(self, ner, files, hub):
        (files / "dev.txt").unlink()
        assert DataSource(config(hub=hub), files).load(ner, "dev").examples[0].words == ("Paris",)

    def test_fingerprint_follows_the_rows(self, files, hub):
        first = DataSource(config(splits={}, hub=hub), files).fingerprint()
        again = DataSource(config(splits={}, hub=hub), files).fingerprint()
        swapped = HubConfig(hub.path, splits={"train": "train", "dev": "test", "test": "test"}, columns=hub.columns)
        other = DataSource(config(splits={}, hub=swapped), files).fingerprint()
        assert first == again
        assert other == {**first, "dev": first["test"]}

    def test_rows_do_not_replace_files_that_were_hashed(self, ner, files, hub):
        source = DataSource(config(hub=hub), files)
        source.fingerprint()
        (files / "test.txt").unlink()
        with pytest.raises(InputError, match="the test split changed"):
            source.load(ner, "test")

    def test_files_do_not_replace_rows_that_were_hashed(self, ner, files, hub):
        (files / "test.txt").unlink()
        source = DataSource(config(hub=hub), files)
        source.fingerprint()
        (files / "test.txt").write_text("Other O\n")
        with pytest.raises(InputError, match="the test split changed"):
            source.load(ner, "test")

    def test_a_column_that_is_not_there(self, ner, files, hub):
        hub.columns["tags"] = "labels"
        expected = r"labels, found id, tokens, ner_tags\. Name .* in data\.hub\.columns$"
        with pytest.raises(InputError, match=f"^data=mine, on the hub {hub.path}: expected the columns {expected}"):
            DataSource(config(splits={}, hub=hub), files).load(ner, "dev")

    def test_a_row_without_a_value(self, ner, datasets, tmp_path):
        rows = datasets.Dataset.from_dict({"text": [["a"], None], "tags": [["O"], ["O"]]})
        (tmp_path / "hub").mkdir()
        rows.to_parquet(tmp_path / "hub" / "train-00000-of-00001.parquet")
        hub = HubConfig(path=str(tmp_path / "hub"), columns={"words": "text", "tags": "tags"})
        with pytest.raises(InputError, match=r"expected text in each row of train, found none in row 1\. Name the"):
            DataSource(config(splits={}, hub=hub), tmp_path).load(ner, "train")

    @pytest.mark.parametrize(
        ("task", "column", "left"),
        [
            ("ner", "tags", "words"),
            ("snli", "gold_label", "sentence1, sentence2"),
            ("squad", "title", "id, context, question, answers"),
            ("sst5", "tree", "none"),
        ],
    )
    def test_a_needed_column_without_a_name(self, tmp_path, task, column, left):
        chosen = run_of(f"task={task}", "data=paper")
        columns = chosen.data.hub.columns
        assert sorted(columns) == sorted(chosen.task.columns)
        del columns[column]
        with pytest.raises(InputError) as caught:
            DataSource(chosen.data, tmp_path).load(chosen.task, "dev")
        assert str(caught.value) == (
            f"data=paper, on the hub {chosen.data.hub.path}: expected a name for {column}, found {left}. Name the "
            "dataset's columns in datasets.paper.hub.columns"
        )

    def test_a_request_to_the_hub_is_reported(self, ner, files, hub, capsys):
        source = DataSource(config(hub=hub), files)
        source.load(ner, "dev")
        assert capsys.readouterr().err == ""
        (files / "dev.txt").unlink()
        (files / "test.txt").unlink()
        for split in ("dev", "test"):
            source.load(ner, split)
        line = f"data=mine: found no {files / 'dev.txt'}; loading {hub.path} from the hub\n"
        assert capsys.readouterr().err.count(line) == 1

    def test_an_unreachable_hub_names_the_files_to_add(self, ner, datasets, tmp_path, monkeypatch):
        monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the hub's library waits between its attempts
        absent = HubConfig(path="nobody/no-such-dataset", columns={"words": "tokens", "tags": "ner_tags"})
        with pytest.raises(InputError) as caught:
            DataSource(config(hub=absent), tmp_path / "empty").load(ner, "dev")
        for hint in (str(tmp_path / "empty" / "dev.txt"), "nobody/no-such-dataset", "data_dir=DIR", "ELMO_DATA"):
            assert hint in str(caught.value)

    def test_files_need_no_datasets_library(self, ner, files, monkeypatch):
        monkeypatch.setitem(sys.modules, "datasets", None)
        assert DataSource(config(), files).load(ner, "dev").examples


class TestCommonLabels:
    CONLL, WNUT = ("LOC", "MISC", "ORG", "PER"), ("corporation", "group", "location", "person", "product")
    TABLE: ClassVar = {"person": "PER", "location": "LOC", "corporation": "ORG", "group": "ORG"}

    def test_a_table_says_what_has_a_counterpart(self):
        called = {"corporation": "ORG", "group": "ORG", "location": "LOC", "person": "PER", "product": None}
        assert common_labels(self.WNUT, self.TABLE, {}) == called
        assert common_labels(self.CONLL, {}, self.TABLE) == {"LOC": "LOC", "MISC": None, "ORG": "ORG", "PER": "PER"}

    def test_without_tables_labels_are_called_the_same(self):
        assert common_labels(self.CONLL, {}, {}) == dict(zip(self.CONLL, self.CONLL, strict=True))

    def test_both_tables_must_have_it(self):
        assert common_labels(self.WNUT[:2], self.TABLE, {"PER": "PER"}) == {"corporation": None, "group": None}
        assert common_labels(["PER", "NORP"], {"PER": "PER"}, self.TABLE) == {"PER": "PER", "NORP": None}
