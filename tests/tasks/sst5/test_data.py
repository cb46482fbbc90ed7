"""Sentiment trees: parsing, which phrases are read, errors with file and line, and scores."""

import re

import pytest

from elmo.common.errors import InputError
from tasks.modules.biattentive import BcnSettings
from tasks.sst5 import LABELS, Node, Sentiment, SentimentExample, Sst5, TreeReader, parse_tree, read_trees
from tests.tasks.making import run_of

WORKS = "(3 (2 It) (3 (3 works) (2 .)))"
FAILS = "(1 (2 It) (1 (1 fails) (2 .)))"


def file_of(tmp_path, content):
    path = tmp_path / "trees.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(tmp_path, content, split="train", **settings):
    return read_trees(file_of(tmp_path, content), split, TreeReader(**settings))


def simple(examples):
    return [(" ".join(example.words), LABELS.index(example.label)) for example in examples]


class TestParsing:
    def test_words_and_nodes(self):
        words, nodes = parse_tree(WORKS)
        assert words == ("It", "works", ".")
        assert nodes == [Node(2, 0, 1), Node(3, 1, 2), Node(2, 2, 3), Node(3, 1, 3), Node(3, 0, 3)]

    @pytest.mark.parametrize("text", [WORKS.replace(" ", "  "), f"  {WORKS} ", WORKS.replace(" (", "("), WORKS + "\t"])
    def test_spaces_do_not_matter(self, text):
        assert parse_tree(text) == parse_tree(WORKS)

    def test_trees_need_not_be_binary(self):
        assert parse_tree("(3 (2 (2 a)) (2 b) (3 c))")[1] == [
            Node(2, 0, 1),
            Node(2, 0, 1),
            Node(2, 1, 2),
            Node(3, 2, 3),
            Node(3, 0, 3),
        ]

    def test_a_no_break_space_is_part_of_a_word(self):
        assert parse_tree("(2 (2 2\u00a01\\/2) (2 stars))")[0] == ("2\u00a01\\/2", "stars")

    def test_a_label_may_be_a_word_too(self):
        assert parse_tree("(2 (2 9) (2 3))")[0] == ("9", "3")

    def test_against_counting_brackets(self):
        """As many nodes as opening brackets, as many words as leaves."""
        text = "(2 (2 (1 No) (2 one)) (1 (1 (2 goes) (2 (2 home) (2 early))) (2 .)))"
        words, nodes = parse_tree(text)
        assert len(nodes) == text.count("(")
        assert list(words) == re.findall(r"([^()\s]+)\)", text)
        for node in nodes:
            leaf = node.end - node.start == 1
            assert not leaf or f"({node.label} {words[node.start]})" in text


class TestExamples:
    def test_training_reads_phrases_dev_and_test_sentences(self, tmp_path):
        content = f"{WORKS}\n{FAILS}\n"
        sentences = [("It works .", 3), ("It fails .", 1)]
        phrases = [("It", 2), ("works", 3), (".", 2), ("works .", 3), ("fails", 1), ("fails .", 1)]
        assert simple(read(tmp_path, content)) == sentences + phrases
        for split in ("dev", "test"):
            assert simple(read(tmp_path, content, split)) == sentences
            assert simple(read(tmp_path, content, split, eval_phrases=True)) == sentences + phrases
        assert simple(read(tmp_path, content, train_phrases=False)) == sentences

    def test_ids_name_the_line_and_are_unique(self, tmp_path):
        examples = read(tmp_path, f"{WORKS}\n{FAILS}\n")
        assert [example.id for example in examples[:2]] == ["trees.txt:1", "trees.txt:2"]
        assert examples[2] == SentimentExample("trees.txt:1.0", ("It",), "neutral", whole=False)
        assert len({example.id for example in examples}) == len(examples)

    def test_phrases_that_occur_again(self, tmp_path):
        """A phrase with its label is read once, with two labels twice; sentences are all kept."""
        content = f"{WORKS}\n{WORKS}\n(3 works)\n(4 works)\n"
        whole = [("It works .", 3), ("It works .", 3), ("works", 3), ("works", 4)]
        assert simple(read(tmp_path, content)) == [*whole, ("It", 2), (".", 2), ("works .", 3)]
        four = [("It", 2), ("works", 3), (".", 2), ("works .", 3)]
        assert simple(read(tmp_path, content, unique_phrases=False)) == whole + 2 * four

    def test_short_phrases_are_left_out_but_not_short_sentences(self, tmp_path):
        content = f"{WORKS}\n(3 Good)\n"
        assert simple(read(tmp_path, content, min_phrase_tokens=2)) == [("It works .", 3), ("Good", 3), ("works .", 3)]
        assert len(read(tmp_path, content, min_phrase_tokens=4)) == 2

    def test_escapes(self, tmp_path):
        content = "(2 (2 -LRB-) (2 (2 ``) (2 (2 and\\/or) (2 (2 \\*) (2 (2 '') (2 -RRB-))))))\n"
        assert read(tmp_path, content)[0].words == ("(", '"', "and/or", "*", '"', ")")
        words = read(tmp_path, content, plain=False)[0].words
        assert words == ("-LRB-", "``", "and\\/or", "\\*", "''", "-RRB-")

    @pytest.mark.parametrize(
        "content",
        [f"{WORKS}\r\n{FAILS}\r\n", f"\ufeff{WORKS}\n{FAILS}", f"{WORKS}\n{FAILS}\n\n \n"],
        ids=["CRLF", "byte order mark", "blank at the end"],
    )
    def test_accepted_differences_between_files(self, tmp_path, content):
        assert read(tmp_path, content) == read(tmp_path, f"{WORKS}\n{FAILS}\n")

    def test_rows_of_the_hub(self, tmp_path):
        rows = [{"tree": WORKS}, {"tree": FAILS}]
        from_rows = Sst5(BcnSettings(), TreeReader()).from_rows
        assert simple(from_rows(rows, "train")) == simple(read(tmp_path, f"{WORKS}\n{FAILS}\n"))
        with pytest.raises(InputError, match=r"dev, row 1: unbalanced brackets.*data\.hub\.columns"):
            from_rows([{"tree": WORKS}, {"tree": "(3 (2 It)"}], "dev")


class TestBadInput:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("(3 (2 It) (3 works)", "unbalanced brackets: expected 1 more closing at the end"),
            ("(3 (2 It) (3 works", "unbalanced brackets: expected 2 more closing at the end"),
            ("(3 (2 It) (3 works)))", "unbalanced brackets: the tree ends before column 21"),
            ("(3 (2 It) (3 works)) (2 .)", "unbalanced brackets: the tree ends before column 22"),
            (") (3 It)", "found a line that begins with no bracket"),
            ("(5 (2 It) (3 works))", "expected a label from 0 to 4 at column 2, found '5'"),
            ("(3 (-1 It) (3 works))", "expected a label from 0 to 4 at column 5, found '-1'"),
            ("(3 (2 It) (positive works))", "expected a label from 0 to 4 at column 12, found 'positive'"),
            ("((2 It) (3 works))", "expected a label from 0 to 4 at column 2, found a bracket"),
            ("(S (NP It) (VP works))", "expected a label from 0 to 4 at column 2, found 'S'"),
            (
                "(3 (2) (3 works))",
                "the node at column 4: expected a label and either one word or further nodes",
            ),
            ("()", "the node at column 1: expected a label and either"),
            (
                "(3 It works)",
                "either one word or further nodes, found 2 words and 0 nodes",
            ),
            ("(3 (2 It) works)", "found 1 words and 1 nodes"),
            ("", "expected a tree such as (3 (2 It) (3 works)), found an empty line"),
            ("  \t", "expected a tree such as (3 (2 It) (3 works)), found an empty line"),
            ("EU I-ORG", "expected a tree such as (3 (2 It) (3 works)), found a line that begins with no bracket: 'EU"),
            ('{"gold_label": "neutral"}', "found a line that begins with no bracket: '{\"gold"),
            ("4\tIt works .", "found a line that begins with no bracket"),
            ("\u00a0(3 (2 It) (3 works))", "found a line that begins with no bracket: '\\xa0(3"),
            ("\f(3 (2 It) (3 works))", "found a line that begins with no bracket: '\\x0c(3"),
        ],
    )
    def test_says_where_and_what_was_expected(self, tmp_path, line, expected):
        with pytest.raises(InputError) as caught:
            read(tmp_path, f"{WORKS}\n{line}\n{WORKS}\n")
        message = str(caught.value)
        assert message.startswith(f"{tmp_path / 'trees.txt'}, line 2: ")
        assert expected in message
        assert "Correct or remove the line, or check data.splits" in message

    def test_a_file_of_another_task_fails_at_its_first_line(self, tmp_path):
        with pytest.raises(InputError, match=r"line 1: expected a tree such as .*'\{\"version\""):
            read(tmp_path, '{"version": "1.1", "data": []}\n')

    def test_not_utf8(self, tmp_path):
        with pytest.raises(InputError, match="line 2: expected UTF-8"):
            read(tmp_path, f"{WORKS}\n(2 caf".encode() + b"\xe9)\n")


class TestTask:
    def examples(self):
        return [SentimentExample(str(label), ("a", "b"), LABELS[label]) for label in (0, 1, 2, 3, 4, 4)]

    def test_scores(self):
        """Three of six right; of the five that are not neutral, four on the right side."""
        predictions = [
            Sentiment(LABELS[0], positive=False),
            Sentiment(LABELS[0], positive=False),
            Sentiment(LABELS[2], positive=True),
            Sentiment(LABELS[2], positive=True),
            Sentiment(LABELS[4], positive=True),
            Sentiment(LABELS[1], positive=False),
        ]
        scores = Sst5(BcnSettings(), TreeReader()).score(self.examples(), predictions)
        assert scores.values == {"accuracy": 50.0, "binary_accuracy": 80.0}
        assert scores.details["binary_examples"] == 5
        assert scores.details["confusion"] == {
            "labels": list(LABELS),
            "gold_by_predicted": [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 1]],
        }
        assert [tuple(example.values()) for example in scores.examples] == [
            (1, 1, 1),
            (0, 1, 1),
            (1, 0, 0),
            (0, 1, 1),
            (1, 1, 1),
            (0, 1, 0),
        ]
        assert list(scores.examples[0]) == ["correct", "polar", "polar_correct"]

    def test_neutral_texts_alone_have_no_binary_score(self):
        neutral = [self.examples()[2]]
        assert Sst5(BcnSettings(), TreeReader()).score(neutral, [Sentiment(LABELS[2], positive=True)]).values == {
            "accuracy": 100.0,
            "binary_accuracy": 0.0,
        }

    def test_counts(self, tmp_path):
        task = Sst5(BcnSettings(), TreeReader())
        assert task.counts(task.read(file_of(tmp_path, f"{WORKS}\n{FAILS}\n"), "train")) == {
            "sentences": 2,
            "tokens": 6,
            "examples": 8,
            "negative": 3,
            "neutral": 2,
            "positive": 3,
        }


def test_settings_of_the_preset():
    """Facts B.2: AllenNLP's preset, but for the dropout of the joined vectors (conf/task/sst5.yaml says why)."""
    for arm in ("glove", "elmo", "elmo_random"):
        config = run_of("task=sst5", f"features={arm}", "data=paper")
        assert vars(config.task.settings) == {
            "dim": 300,
            "dim_dropout": 0.25,
            "hidden": 300,
            "pooled_dropout": 0.1,
            "maxout": [1200, 600],
            "maxout_dropout": [0.2, 0.3],
            "pool": 4,
        }
        assert config.features.characters is None
        assert config.features.words.trainable is False
        trainer = config.trainer
        assert (trainer.optimizer, trainer.lr, trainer.grad_norm, trainer.batch_size) == ("adam", 0.001, 5.0, 100)
        assert (trainer.epochs, trainer.patience) == (40, 5)
    elmo = config.features.elmo
    assert (elmo.places, elmo.l2, elmo.dropout, elmo.layer_norm) == (["input"], 0.001, 0.0, False)


def test_which_phrases_are_read_is_a_setting():
    config = run_of("task=sst5", "data=paper", "datasets.paper.reader.min_phrase_tokens=4")
    assert config.task.reader == TreeReader(min_phrase_tokens=4)
    assert config.variant == {"data.reader.min_phrase_tokens": 4}
    with pytest.raises(InputError, match=r"task\.maxout_dropout: expected one for each of the 2 layers"):
        run_of("task=sst5", "task.maxout_dropout=[0.2]")


@pytest.fixture(scope="module")
def treebank(unpacked):
    return unpacked("sst5") / "sst5"


class TestOfficialFiles:
    @pytest.mark.parametrize(("split", "sentences"), [("dev", 1101), ("test", 2210)])
    def test_sentences(self, treebank, split, sentences):
        examples = read_trees(treebank / f"{split}.txt", split, TreeReader())
        assert len(examples) == sentences
        assert {example.label for example in examples} == set(LABELS)

    def test_training_phrases(self, treebank):
        """All nodes of the smallest file, no phrase with two labels, and each phrase of the training file once."""
        nodes = read_trees(treebank / "dev.txt", "train", TreeReader(unique_phrases=False, plain=False))
        sentences = [example for example in nodes if example.whole]
        assert len(sentences) == 1_101
        assert sum(len(example.words) for example in sentences) * 2 - len(sentences) == len(nodes)  # binary trees
        label_of = {example.words: example.label for example in nodes}
        assert all(label_of[example.words] == example.label for example in nodes)
        unique = Sst5(BcnSettings(), TreeReader()).read(treebank / "train.txt", "train")
        assert (len(unique), sum(example.whole for example in unique)) == (159_283, 8_544)
        assert not any("LRB" in word or "\\" in word for example in unique for word in example.words)
