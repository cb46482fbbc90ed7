"""Text classification of a user's tables: reading, errors with file and line, labels, and the contract of tasks."""

import random

import pytest

from elmo.common.checks import check_ranges
from elmo.common.errors import InputError
from tasks.classify import Classify, LabelledText, TableReader, read_rows, read_table
from tasks.modules.biattentive import BcnSettings
from tasks.task import SPLITS
from tests.tasks.making import DRAWN_WORDS
from tests.tasks.test_contract import Setup, TestContract, fitted  # noqa: F401 (the tests that run here, too)

WORDS = {"boats": "oar mast keel deck", "birds": "wing nest beak feather", "bread": "dough oven crust yeast"}


def written(path, rows, header="text,label", encoding="utf-8"):
    path.write_text("\n".join([header, *rows]) + "\n", encoding=encoding)
    return path


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    """Texts of words that have one label each, in place of mini data."""
    root, draw = tmp_path_factory.mktemp("csv"), random.Random(1)
    for split in SPLITS:
        rows = []
        for _ in range(60):
            label = draw.choice(sorted(WORDS))
            first, second = draw.choices(WORDS[label].split(), k=2)
            rows.append(f'"The {first}, and {second}. A {draw.choice("abc")}.",{label}')
        written(root / f"{split}.csv", rows)
    small = "task.dim=12", "task.hidden=12", "task.maxout=[12]", "task.maxout_dropout=[0.1]"
    return Setup("classify", "words", (f"data_dir={root}", *small))


class TestReading:
    def test_tables_with_quotes_tabs_and_names_of_their_own(self, tmp_path):
        expected = [("It isn 't , he said", "bad"), ("A boat . It sank .", "3")]
        rows = ['1,bad,"It isn\'t, he said"', '2, 3 ,"A boat.\nIt sank."', ""]
        table = written(tmp_path / "a.csv", rows, "\ufeffid,stars,review")
        found = read_table(table, TableReader(text="review", label="stars"))
        assert [(" ".join(one.words).replace("is n't", "isn 't"), one.label) for one in found] == expected
        assert [one.id for one in found] == ["a.csv:2", "a.csv:4"]
        table = written(tmp_path / "a.tsv", ['He "left\tgood'], "text\tlabel")
        assert [(one.words, one.label) for one in read_table(table, TableReader())] == [(("He", '"', "left"), "good")]
        (one,) = read_table(table, TableReader(tokenise="whitespace"))
        assert one.words == ("He", '"left')

    @pytest.mark.parametrize(
        ("name", "rows", "header", "expected"),
        [
            ("a.txt", [], "text,label", r"a\.txt: expected a table whose name ends in \.csv or \.tsv"),
            ("a.csv", [], "text,labels", r"a\.csv, line 1: expected one column 'label' in the header, found text, lab"),
            ("a.csv", ["a,b", "a"], "text,label", r"a\.csv, line 3: expected 2 columns as in the header, found 1"),
            ("a.csv", ["a,b,c"], "text,label", r"line 2: expected 2 columns .* found 3\. Put quotes around texts"),
            ("a.csv", ["a,b", " ,b"], "text,label", r"a\.csv, line 3: expected words as text, found ' '"),
            ("a.csv", ["a, "], "text,label", r"a\.csv, line 2: expected a label, found ' '"),
            (
                "a.csv",
                ['"a,b'],
                "text,label",
                r"line 2: expected a table, found: unexpected end of data\. Check the q",
            ),
        ],
    )
    def test_wrong_tables_are_explained(self, tmp_path, name, rows, header, expected):
        with pytest.raises(InputError, match=expected):
            read_table(written(tmp_path / name, rows, header), TableReader())

    def test_a_line_that_is_not_utf_8_is_named(self, tmp_path):
        rows = ["a,b"] * 5000  # more than is decoded at once
        table = written(tmp_path / "a.csv", [*rows, "caf\xe9,b"], "text,label", encoding="latin-1")
        expected = r"a\.csv, line 5002: expected UTF-8 text, found: .* at byte 3\. Convert the file: iconv"
        with pytest.raises(InputError, match=expected):
            read_table(table, TableReader())

    def test_rows_of_the_hub(self):
        rows = [{"text": "A boat sank.", "label": 3}, {"text": "Fine", "label": "good"}]
        found = read_rows(rows, "train", TableReader())
        assert [(one.id, one.label) for one in found] == [("train:0", "3"), ("train:1", "good")]
        with pytest.raises(InputError, match="train, row 0: expected a label, found None"):
            read_rows([{"text": "A", "label": None}], "train", TableReader())
        with pytest.raises(InputError, match=r"data\.reader\.tokenise"):
            check_ranges("data.reader", TableReader(tokenise="words"))


def test_a_label_that_is_not_in_training_counts_as_wrong():
    task = Classify(BcnSettings(), TableReader())
    examples = [LabelledText(str(number), ("a",), label) for number, label in enumerate(["b", "a", "new"])]
    task.learn_labels(examples[:2])
    assert task.labels == ["a", "b"]
    assert task.targets(examples)["label"].tolist() == [1, 0, 0]
    scores = task.score(examples, ["b", "a", "a"])
    assert scores.values["accuracy"] == pytest.approx(200 / 3)
    assert scores.details["labels"]["new"]["recall"] == 0
    assert [task.gold_fields(example) for example in examples] == [{"label": "b"}, {"label": "a"}, {"label": "new"}]
    with pytest.raises(InputError, match=r"expected at least two labels in training, found b\. Does data\.reader"):
        task.learn_labels(examples[:1])


@pytest.mark.integration
def test_a_table_is_one_yaml(command, tmp_path):
    rows = [f"The {word} is here,{label}" for label, words in WORDS.items() for word in words.split()]
    written(tmp_path / "all.csv", rows, "review,kind")
    files = "{train: [all.csv], dev: [all.csv], test: [all.csv]}"
    (tmp_path / "mine.yaml").write_text(f"task: classify\nsplits: {files}\nreader: {{text: review, label: kind}}\n")
    sizes = "task.dim=12", "task.hidden=12", "task.maxout=[12]", "task.maxout_dropout=[0.0]", "task.pooled_dropout=0"
    small = (
        *sizes,
        "task.dim_dropout=0",
        "features.dropout=0",
        "trainer.patience=null",
        "trainer.batch_size=4",
        "trainer.lr=0.01",
    )
    chosen = "task=classify", f"data={tmp_path / 'mine.yaml'}", f"data_dir={tmp_path}", "features=glove", *DRAWN_WORDS
    code, _, err = command(*chosen, *small, f"runs_dir={tmp_path / 'runs'}")
    assert code == 0, err
    assert "accuracy: dev 100.00, test 100.00" in err
