"""The POS probe: its files, its control task, its two classifiers, and the contract of every task."""

import random
from collections import Counter

import pytest
import torch

from elmo.common.checks import check_ranges
from elmo.common.errors import InputError
from tasks.probes.pos import LinearTagger, PosProbe, PosReader, PosSettings, TaggedSentence, drawn_tags
from tasks.task import SPLITS, Batch, FeatureBatch
from tests.tasks.test_contract import Setup, TestContract, fitted  # noqa: F401 (the tests that run here, too)

CONLLU = PosReader(word_column=1, tag_column=4, comments=True, conllu=True)
ROOM = {"DT": "the a", "NN": "dog cat house tree", "VBZ": "sees likes finds", "RB": "often", ",": ","}


def line(number, word, tag):
    return "\t".join([str(number), word, word, "X", tag, *"_____"])


def written(path, sentences):
    """A CoNLL-U file of these sentences, lists of words and tags."""
    blocks = [
        [f"# sent_id = {number}", *(line(k, *pair) for k, pair in enumerate(sentence, start=1)), ""]
        for number, sentence in enumerate(sentences)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(row for block in blocks for row in block))
    return path


def task(reader=CONLLU, **settings):
    return PosProbe(PosSettings(**settings), reader)


@pytest.fixture(scope="module")
def setup(tmp_path_factory):
    """Short sentences in which a word has one tag, in place of mini data; vectors that can be learned."""
    root, draw = tmp_path_factory.mktemp("ewt"), random.Random(1)
    pairs = [(word, tag) for tag, words in ROOM.items() for word in words.split()]
    for split in SPLITS:
        written(root / f"{split}.conllu", [draw.sample(pairs, k=draw.randrange(1, 6)) for _ in range(60)])
    files = [f"datasets.ewt.splits.{split}=[{split}.conllu]" for split in SPLITS]
    return Setup("pos_probe", "words", (f"data_dir={root}", "features.words.unknown=drawn", *files))


class TestReading:
    def test_lines_of_conllu_that_are_no_words_are_left_out(self, tmp_path):
        path = tmp_path / "some.conllu"
        rows = ["# text = Don't (stop)", line("1-2", "Don't", "_"), line(1, "Do", "VBP"), line(2, "n't", "RB")]
        rows += [line("2.1", "please", "UH"), line(3, "-LRB-", "-LRB-"), line(4, "stop", "VB"), line(5, ")", "-RRB-")]
        path.write_text("\n".join(rows) + "\n\n")
        (sentence,) = task().read(path, "train")
        assert sentence.words == ("Do", "n't", "(", "stop", ")")
        assert sentence.tags == ("VBP", "RB", "-LRB-", "VB", "-RRB-")

    def test_columns_of_words_and_tags(self, tmp_path):
        path = tmp_path / "wsj.txt"
        path.write_text("Stocks NNS\nfell VBD\n. .\n\n1-2 CD\n`` ``\n")
        found = [(example.id, example.words, example.tags) for example in task(PosReader()).read(path, "train")]
        assert found == [
            ("wsj.txt:0", ("Stocks", "fell", "."), ("NNS", "VBD", ".")),
            ("wsj.txt:1", ("1-2", '"'), ("CD", "``")),
        ]

    @pytest.mark.parametrize(
        ("row", "expected"),
        [
            (line(2, "stop", "_"), "line 2: expected a tag, found none: '2.tstop"),
            ("2\tstop\tstop\tX", "line 2: expected 10 columns, with word_column=1 and tag_column=4, found 4"),
            ("stop VB", "line 2: expected 10 columns, with word_column=1 and tag_column=4, found 2"),
        ],
    )
    def test_a_wrong_line_is_named(self, tmp_path, row, expected):
        path = tmp_path / "some.conllu"
        path.write_text(f"{line(1, 'Do', 'VBP')}\n{row}\n")
        with pytest.raises(InputError, match=f"some.conllu, {expected}.*Correct the line, or data.reader"):
            task().read(path, "train")


class TestControl:
    def test_every_word_has_one_tag_and_a_seed_gives_the_same_again(self):
        draw_again = drawn_tags.__wrapped__  # not those of an earlier call
        labels = ("1 DT", "3 NN")
        words = [f"word{number}" for number in range(300)]
        drawn = [[tag(word) for tag in [draw_again(labels, draw)] for word in words] for draw in (0, 0, 1)]
        assert drawn[0] == drawn[1] != drawn[2]
        tag = draw_again(labels, 0)
        assert [tag(word) for word in reversed(words)] == drawn[0][::-1], "in any order"
        assert tag("Word1") == draw_again(labels, 0)("Word1")

    def test_tags_are_drawn_as_often_as_training_has_them(self):
        """20,000 words: each share is within five standard deviations of its expectation."""
        counts = {"DT": 60, "NN": 30, "VB": 9, "X": 1}
        tag = drawn_tags(tuple(f"{count} {name}" for name, count in counts.items()), 4)
        found = Counter(tag(f"w{number}") for number in range(20000))
        for name, count in counts.items():
            share = count / 100
            assert abs(found[name] / 20000 - share) < 5 * (share * (1 - share) / 20000) ** 0.5, name

    def test_words_that_training_does_not_have_get_a_tag_of_training(self):
        probe = task()
        probe.learn_labels([TaggedSentence("a", ("the", "dog"), ("DT", "NN"))])
        (gold,) = probe.gold([TaggedSentence("b", ("a", "the", "the", "tree"), ("UH",) * 4)])
        assert gold["tags"] == ["UH"] * 4
        assert set(gold["control"]) <= {"DT", "NN"}
        assert gold["control"][1] == gold["control"][2]
        (seen,) = probe.gold([TaggedSentence("a", ("the", "dog"), ("DT", "NN"))])
        assert seen["control"][0] == gold["control"][1], "in every split"

    def test_can_be_left_out(self):
        probe = task(control=False)
        example = TaggedSentence("a", ("the", "dog"), ("DT", "NN"))
        probe.learn_labels([example])
        assert probe.targets([example]).keys() == {"tags"}
        assert probe.score([example], probe.gold([example])).values == {"accuracy": 100}

    def test_a_negative_seed_is_an_error(self):
        with pytest.raises(InputError, match=r"task\.draw: expected at least 0, found -1"):
            check_ranges("task", PosSettings(draw=-1))


def test_scores_of_two_sentences_by_hand():
    probe = task()
    examples = [TaggedSentence("a", ("the", "dog", "barks"), ("DT", "NN", "VBZ")), TaggedSentence("b", ("a",), ("DT",))]
    probe.learn_labels(examples)
    control = [gold["control"] for gold in probe.gold(examples)]
    wrong = next(tag for tag in ("DT", "NN", "VBZ") if tag != control[0][0])
    scores = probe.score(
        examples,
        [{"tags": ["DT", "NN", "NN"], "control": [wrong, *control[0][1:]]}, {"tags": ["DT"], "control": control[1]}],
    )
    assert scores.examples == [
        {"correct": 2, "control_correct": 2, "tokens": 3},
        {"correct": 1, "control_correct": 1, "tokens": 1},
    ]
    assert scores.values == {"accuracy": 75, "control_accuracy": 75, "selectivity": 0}
    assert scores.details["tags"] == {
        "DT": {"accuracy": 100, "gold": 2},
        "NN": {"accuracy": 100, "gold": 1},
        "VBZ": {"accuracy": 0, "gold": 1},
    }
    assert probe.prediction_fields(examples[1], {"tags": ["NN"], "control": ["DT"]}) == {
        "tokens": ["a"],
        "tags": ["NN"],
    }
    assert probe.gold_fields(examples[0]) == {"tokens": ["the", "dog", "barks"], "tags": ["DT", "NN", "VBZ"]}
    only_tags = probe.score(examples, [{**gold, "control": ["-"] * len(gold["tags"])} for gold in probe.gold(examples)])
    assert only_tags.values == {"accuracy": 100, "control_accuracy": 0, "selectivity": 100}


def test_the_classifiers_are_linear_and_apart():
    """Scores and loss against plain sums, and no gradient of one kind of tags in the other's classifier."""
    head = LinearTagger(["DT", "NN"], ("tags", "control"), 3)
    vectors = torch.randn(2, 3, 3, generator=torch.Generator().manual_seed(1))
    lengths = torch.tensor([3, 2])
    mask = torch.tensor([[True] * 3, [True, True, False]])
    nothing = torch.zeros(2, 3, 0)
    features = [FeatureBatch(vectors, nothing, nothing, mask, lengths)]
    gold = torch.tensor([[0, 1, -1], [1, 1, -1]])  # an unknown tag, and padding
    batch = Batch(["a", "b"], ([("w",) * 3, ("w",) * 2],), {"tags": gold, "control": torch.full((2, 3), -1)})
    loss = head.loss(features, batch)
    weight, bias = (parameter.detach() for parameter in head.classifiers["tags"].parameters())
    expected = 0.0
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        scores = [float(weight[tag] @ vectors[row, column] + bias[tag]) for tag in range(2)]
        expected -= scores[gold[row, column]] - float(torch.logsumexp(torch.tensor(scores), 0))
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    assert head.classifiers["tags"].weight.grad.abs().sum() > 0
    assert head.classifiers["control"].weight.grad.abs().sum() == 0
    decoded = head.decode(features, batch)
    assert [len(tags["control"]) for tags in decoded] == [3, 2]
    assert decoded[1]["tags"] == [["DT", "NN"][int((weight @ vectors[1, k] + bias).argmax())] for k in range(2)]
