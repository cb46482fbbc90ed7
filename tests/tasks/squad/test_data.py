"""Files of SQuAD 1.1: their contents, and the errors for malformed ones."""

import json

import pytest

from elmo.common.errors import InputError
from tasks.data.datasets import DataSource
from tasks.squad.task import Squad, SquadReader, SquadSettings, answer_text, held_out, read_rows, read_squad
from tasks.task import SPLITS
from tests.tasks.making import run_of

CONTEXT = "The “Great” Anglo-Saxon king of 1066, aged 66, died in 1066."


def answer(text, start=None, **more):
    return {"answer_start": CONTEXT.index(text) if start is None else start, "text": text, **more}


def question(*answers, name="q1", text="Who?"):
    return {"id": name, "question": text, "answers": list(answers)}


def article(*questions, title="Kings", context=CONTEXT):
    return {"title": title, "paragraphs": [{"context": context, "qas": list(questions)}]}


def write(tmp_path, content, name="train-v1.1.json"):
    path = tmp_path / name
    text = content if isinstance(content, str) else json.dumps({"version": "1.1", "data": content})
    path.write_text(text, encoding="utf-8")
    return path


def read(tmp_path, content, **reader):
    return read_squad(write(tmp_path, content), "train", SquadReader(**reader))


def meant(example):
    """The texts of all places that an example is trained on."""
    return [answer_text(example, span) for span in example.spans]


class TestAnswers:
    def test_a_question(self, tmp_path):
        (example,) = read(tmp_path, [article(question(answer("king"), answer("Anglo-Saxon king")))])
        assert example.id == "q1"
        assert example.question == ("Who", "?")
        assert example.passage.tokens.words[:4] == ("The", '"', "Great", '"')
        assert example.answers == ("king", "Anglo-Saxon king")
        assert meant(example) == ["king"]
        assert example.unaligned == 0

    def test_only_one_place_unless_the_file_says_otherwise(self, tmp_path):
        (example,) = read(tmp_path, [article(question(answer("1066", CONTEXT.rindex("1066"))))])
        assert meant(example) == ["1066"]
        assert example.passage.tokens.place(*example.spans[0])[0] == CONTEXT.rindex("1066")

    def test_all_occurrences(self, tmp_path):
        (example,) = read(tmp_path, [article(question(answer("1066", occurrences=2)))])
        assert meant(example) == ["1066", "1066"]
        assert len(set(example.spans)) == 2

    def test_of_several_occurrences_those_that_are_whole_tokens(self, tmp_path):
        """66 also ends 1066, twice, and first of all."""
        (example,) = read(tmp_path, [article(question(answer("66", occurrences=3)))])
        assert meant(example) == ["66"]
        assert example.unaligned == 0

    def test_not_aligned(self, tmp_path):
        (example,) = read(tmp_path, [article(question(answer("axon kin"), answer("king")))])
        assert meant(example) == ["Saxon king"]
        assert example.answers == ("axon kin", "king"), "scored as they are"
        task = Squad(SquadSettings(), SquadReader())
        assert task.notes([example])["unaligned_answers"] == 1
        assert task.score([example], task.gold([example])).values["f1"] == pytest.approx(200 / 3)

    def test_any_predicted_span_is_a_piece_of_the_passage(self, tmp_path):
        (example,) = read(tmp_path, [article(question(answer("king")))])
        for first in range(len(example.passage.tokens)):
            for past in range(first + 1, len(example.passage.tokens) + 1):
                assert answer_text(example, (first, past)) in CONTEXT
        assert answer_text(example, (0, len(example.passage.tokens))) == CONTEXT

    def test_batches(self, tmp_path):
        content = [article(question(answer("1066", occurrences=2)), question(answer("Anglo-Saxon"), name="q2"))]
        examples = read(tmp_path, content)
        batch = Squad(SquadSettings(), SquadReader()).collate(examples)
        assert batch.ids == ["q1", "q2"]
        assert batch.texts == ([examples[0].passage.tokens.words] * 2, [("Who", "?")] * 2)
        assert batch.targets["meant"].tolist() == [[True, True], [True, False]]
        words = [[batch.texts[0][0][i] for i in row] for row in batch.targets["starts"].tolist()]
        assert (words[0], words[1][0]) == (["1066", "1066"], "Anglo")
        assert batch.texts[0][0][batch.targets["ends"][1, 0]] == "Saxon"


class TestBadInput:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                "EU I-ORG\nrejects O\n",
                r"as in SQuAD 1.1, found Invalid JSON: .* at line 1 .* Is it a file of this task",
            ),
            ('{"a": 1}\n{"a": 2}\n', r"Invalid JSON: .* at line 2 "),
            ('{"gold_label": "-", "sentence1": "x"}', r"found data Field required"),
            ("[1]", r"found Input should be an object\. Is it a file of this task"),
            ([{"paragraphs": []}], r"found data\.0\.title Field required"),
            ([{"title": "T", "paragraphs": [{"qas": []}]}], r"found data\.0\.paragraphs\.0\.context Field required"),
            ([article(question(), context=" ")], r"question 'q1': expected a question and a passage with words, .*' '"),
            ([article({"question": "Who?", "answers": []})], r"data\.0\.paragraphs\.0\.qas\.0\.id Field required"),
            ([article({"id": "q7", "answers": []})], r"qas\.0\.question Field required"),
            (
                [article(question(answer("king"), text=" \u200b"))],
                r"question 'q1': expected a question and a",
            ),
            ([article(question(name="q8"))], r"question 'q8': expected at least one answer, .* SQuAD 2.0"),
            ([article(question({"text": "king"}))], r"qas\.0\.answers\.0\.answer_start Field required"),
            (
                [article(question({"answer_start": "3", "text": "king"}))],
                r"answer_start Input should be a valid int",
            ),
            ([article(question(answer("king", 5)))], r"question 'q1': expected the answer 'king' at character 5 of "),
            ([article(question(answer("king", -4)))], r"question 'q1': expected the answer 'king' at character -4"),
            ([article(question(answer("king", 5000)))], r"at character 5000 of a passage of 60 characters, found ''"),
            ([article(question(answer("", 5)))], r"question 'q1': expected the answer ''"),
            ([article(title="K\ud800")], r"Invalid JSON: unexpected end of hex escape at line 1"),
        ],
    )
    def test_names_file_and_place(self, tmp_path, content, message):
        with pytest.raises(InputError, match=message) as caught:
            read(tmp_path, content)
        assert "train-v1.1.json" in str(caught.value)

    def test_no_utf8(self, tmp_path):
        path = tmp_path / "train.json"
        path.write_bytes(b'{"data": "\xff"}')
        with pytest.raises(InputError, match=r"train.json: expected JSON as in SQuAD 1.1, found Invalid JSON"):
            read_squad(path, "train", SquadReader())

    @pytest.mark.parametrize("settings", [{"select_on": "test"}, {"dev_share": 0.0}, {"dev_share": 1.0}])
    def test_settings(self, settings):
        with pytest.raises(InputError, match=rf"data\.reader\.{next(iter(settings))}: expected"):
            Squad(SquadSettings(), SquadReader(**settings))


class TestSplits:
    """Forty articles in the training file, two in the official dev file."""

    def ids(self, tmp_path, split, name, **reader):
        titles = [f"train {i}" for i in range(40)] if name.startswith("train") else ["dev 0", "dev 1"]
        content = [article(question(answer("king"), name=title), title=title) for title in titles]
        return {example.id for example in read_squad(write(tmp_path, content, name), split, SquadReader(**reader))}

    def test_dev_is_cut_from_the_training_articles(self, tmp_path):
        cut = {"select_on": "train_articles", "dev_share": 0.05}
        train = self.ids(tmp_path, "train", "train-v1.1.json", **cut)
        dev = self.ids(tmp_path, "dev", "train-v1.1.json", **cut)
        assert len(dev) == 2
        assert not train & dev
        assert len(train | dev) == 40
        assert dev == held_out((f"train {i}" for i in reversed(range(40))), 0.05)
        assert self.ids(tmp_path, "dev", "dev-v1.1.json", **cut) == set()
        assert self.ids(tmp_path, "test", "dev-v1.1.json", **cut) == {"dev 0", "dev 1"}

    def test_selection_on_the_official_dev_set(self, tmp_path):
        peeking = {"select_on": "official_dev"}
        assert len(self.ids(tmp_path, "train", "train-v1.1.json", **peeking)) == 40
        assert self.ids(tmp_path, "dev", "train-v1.1.json", **peeking) == set()
        assert self.ids(tmp_path, "dev", "dev-v1.1.json", **peeking) == {"dev 0", "dev 1"}

    def test_rows_of_the_hub(self):
        rows = [hub_row(title, i) for title in ("A", "B") for i in range(3)]
        reader = SquadReader(select_on="train_articles", dev_share=0.5)
        train, dev = read_rows(rows, "train", reader), read_rows(rows, "dev", reader)
        assert (len(train), len(dev)) == (3, 3)
        assert meant(train[0]) == ["king"]
        assert train[0].passage is train[1].passage
        assert {train[0].passage.title, dev[0].passage.title} == {"A", "B"}
        both = read_rows(rows, "test", reader)  # one text in two articles
        assert [example.passage.title for example in both] == ["A"] * 3 + ["B"] * 3
        with pytest.raises(InputError, match=r"train: expected JSON as in SQuAD 1.1, found data.0.title Field"):
            read_rows([{"id": "x", "answers": []}], "train", SquadReader())


def hub_row(title, number):
    answers = {"text": ["king"], "answer_start": [CONTEXT.index("king")]}
    return {"id": f"{title} {number}", "title": title, "context": CONTEXT, "question": "Who?", "answers": answers}


@pytest.fixture
def hub(datasets, tmp_path):
    """SQuAD as the hub has it, in small, and with a `test` that the real one lacks."""
    (tmp_path / "hub").mkdir()
    for split, titles in (("train", 20), ("validation", 2), ("test", 2)):
        rows = datasets.Dataset.from_list([hub_row(f"{split} {i}", "only") for i in range(titles)])
        rows.to_parquet(tmp_path / "hub" / f"{split}-00000-of-00001.parquet")
    return tmp_path / "hub"


class TestHub:
    def titles(self, hub, *settings):
        """The articles in each split from the hub, no file being there."""
        run = run_of("task=squad", "data=paper", f"datasets.paper.hub.path={hub}", *settings)
        source = DataSource(run.data, hub / "no files")
        splits = {split: source.load(run.task, split).examples for split in SPLITS}
        return {split: {example.id.removesuffix(" only") for example in splits[split]} for split in SPLITS}

    def test_dev_is_cut_from_the_training_articles(self, hub):
        titles = self.titles(hub, "datasets.paper.reader.dev_share=0.1")
        everything = {f"train {i}" for i in range(20)}
        assert titles["dev"] == held_out(everything, 0.1)
        assert titles["train"] == everything - titles["dev"]
        assert titles["test"] == {"validation 0", "validation 1"}

    def test_selection_on_the_official_dev_set(self, hub):
        titles = self.titles(hub, "datasets.paper.reader.select_on=official_dev")
        assert titles["train"] == {f"train {i}" for i in range(20)}
        assert titles["dev"] == titles["test"] == {"validation 0", "validation 1"}

    def test_a_dataset_with_a_dev_set_of_its_own_is_not_selected_on_test(self, hub):
        own = ["datasets.paper.hub.splits.dev=validation", "datasets.paper.hub.splits.test=test"]
        titles = self.titles(hub, "datasets.paper.reader.select_on=official_dev", *own)
        assert titles["dev"] == {"validation 0", "validation 1"}
        assert titles["test"] == {"test 0", "test 1"}


@pytest.fixture(scope="module")
def official(unpacked):
    """The folder of the official files."""
    return unpacked("squad") / "squad"


OFFICIAL = Squad(SquadSettings(), SquadReader(select_on="train_articles"))


@pytest.mark.integration
def test_the_official_files(official):
    test = OFFICIAL.read(official / "dev-v1.1.json", "test")
    counts = OFFICIAL.counts(test)
    assert (counts["articles"], counts["questions"], counts["answers"]) == (48, 10_570, 34_726)
    assert OFFICIAL.notes(test)["unaligned_answers"] < 0.01 * counts["answers"]
    scores = OFFICIAL.score(test, OFFICIAL.gold(test)).values
    assert 98.5 < scores["em"] < 100, "what is left are answers that begin or end within a word"
    dev = OFFICIAL.counts(OFFICIAL.read(official / "train-v1.1.json", "dev"))
    assert (dev["articles"], dev["questions"]) == (22, 5_248)
    kinds = OFFICIAL.groups(test, [])["article"]
    of_title = {example.passage.title: kinds.labels[kind] for example, kind in zip(test, kinds.of, strict=True)}
    known = {"Rhine": "place", "Black_Death": "history", "Oxygen": "science", "Doctor_Who": "society", "Kenya": "place"}
    assert {title: of_title[title] for title in known} == known
    assert "article" not in OFFICIAL.groups(test[1:], []), "the kinds are those of the whole official set"


@pytest.mark.slow
def test_the_official_training_file(official):
    train = OFFICIAL.read(official / "train-v1.1.json", "train")
    counts = OFFICIAL.counts(train)
    assert (counts["articles"], counts["questions"]) == (442 - 22, 87_599 - 5_248)
    assert OFFICIAL.notes(train)["unaligned_answers"] < 0.005 * counts["answers"]
    assert OFFICIAL.notes(train)["questions_with_several_places"] > 8_000


def test_scores_of_questions_number_their_articles(tmp_path):
    articles = [("B", 2), ("A", 1), ("B", 1)]  # a title twice, as rows of the hub may have it
    examples = read_rows(
        [
            {
                "id": f"{title}{i}{number}",
                "title": title,
                "context": f"{title} is here.",
                "question": "Where?",
                "answers": {"text": ["here"], "answer_start": [5]},
            }
            for i, (title, count) in enumerate(articles)
            for number in range(count)
        ],
        "test",
        SquadReader(),
    )
    scores = Squad(SquadSettings(), SquadReader()).score(examples, [(2, 3)] * 4)
    assert [example["article"] for example in scores.examples] == [0, 0, 1, 0]
    assert scores.values == {"f1": 100.0, "em": 100.0}
