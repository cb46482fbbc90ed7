"""The WSD probe: nearest senses against cosines by hand, back-off, the arithmetic of the scorer, and a whole run."""

import json
import math
import random
import shutil

import pytest
import torch

from elmo.common.checks import check_ranges
from elmo.common.errors import InputError
from results.records.example_scores import read_examples, read_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME
from results.records.record import read_record
from tasks.probes.wsd import SenseInstance, SenseSentence, WsdProbe, WsdSettings
from tasks.task import FeatureBatch, NoSettings
from tests.tasks.making import DRAWN_WORDS

MONEY, SLOPE, FALL = "bank%1:14:00::", "bank%1:17:01::", "fall%2:38:00::"
DIM = 4


def instance(start, *senses, end=None, entry=None):
    return SenseInstance(start, end or start + 1, entry or f"{senses[0].split(':')[0]}", senses)


def sentence(name, words, *instances, source="semcor"):
    return SenseSentence(name, tuple(words.split()), instances, source)


def probe(answer="nearest"):
    return WsdProbe(WsdSettings(answer), NoSettings())


def features_of(examples, vectors):
    """Padded features from a vector for each (sentence, position)."""
    longest = max(len(example.words) for example in examples)
    padded = torch.full((len(examples), longest, DIM), 99.0)
    for row, example in enumerate(examples):
        for column in range(len(example.words)):
            padded[row, column] = torch.tensor(vectors[example.id, column])
    lengths = torch.tensor([len(example.words) for example in examples])
    nothing = torch.zeros(len(examples), longest, 0)
    return [FeatureBatch(padded, nothing, nothing, torch.arange(longest) < lengths[:, None], lengths)]


def filled(task, train, vectors):
    task.learn_labels(train)
    memory = task.build_head({"input": DIM})
    for example in train:  # one by one: the memory adds up over batches
        memory.remember(features_of([example], vectors), task.collate([example]))
    return memory


def predicted(task, memory, examples, vectors):
    return memory.decode(features_of(examples, vectors), task.collate(examples))


def cosine(first, second):
    product = sum(a * b for a, b in zip(first, second, strict=True))
    return product / math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))


def mean(vectors):
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def test_the_nearest_mean_is_found_among_the_senses_of_the_same_lemma():
    """Random vectors; the means and cosines of every candidate in plain Python."""
    draw = random.Random(3)
    lemmas = {f"{lemma}%{kind}": [f"{lemma}%{kind}:0{n}:00::" for n in range(1, 5)] for lemma in "ab" for kind in "12"}
    examples, vectors = [], {}
    for number in range(40):
        instances, position = [], 0
        for _ in range(draw.randrange(1, 4)):
            size = draw.randrange(1, 3)
            entry = draw.choice(sorted(lemmas))
            senses = draw.sample(lemmas[entry], k=draw.choice((1, 1, 2)))
            instances.append(instance(position, *senses, end=position + size, entry=entry))
            position += size
        examples.append(sentence(f"s{number}", "w " * (position + 1), *instances))
        vectors |= {(f"s{number}", k): [draw.gauss(0.3, 1) for _ in range(DIM)] for k in range(position + 1)}
    train, test = examples[:30], examples[30:]

    def own(example, found):
        return mean([vectors[example.id, k] for k in range(found.start, found.end)])

    means = {
        sense: mean([own(s, found) for s in train for found in s.instances if sense in found.senses])
        for senses in lemmas.values()
        for sense in senses
    }
    expected = [
        [max(lemmas[found.entry], key=lambda sense: cosine(own(s, found), means[sense])) for found in s.instances]
        for s in test
    ]
    task = probe()
    memory = filled(task, train, vectors)
    assert predicted(task, memory, test, vectors) == expected
    assert len({sense for senses in expected for sense in senses}) > 8, "not always the same"
    assert [predicted(task, memory, [one], vectors)[0] for one in test] == expected


def test_of_equal_cosines_the_most_frequent_sense_wins():
    """A static vector has no nearest sense: float rounding must not choose one."""
    words = ["bank"] * 5
    train = [sentence(f"s{n}", "bank", instance(0, MONEY if n in (0, 3) else SLOPE)) for n in range(len(words))]
    vectors = {(f"s{n}", 0): [0.1, 0.2, 0.7, 1 / 3] for n in range(5)}
    task = probe()
    assert predicted(task, filled(task, train, vectors), train[:1], vectors) == [[SLOPE]]
    zero = dict.fromkeys(vectors, [0.0] * DIM)  # a word without a vector
    assert predicted(task, filled(task, train, zero), train[:1], zero) == [[SLOPE]]


TRAIN = (
    sentence("a", "the bank", instance(1, SLOPE)),
    sentence("b", "a bank", instance(1, MONEY)),
    sentence("c", "bank", instance(0, MONEY)),
)
TEST = (sentence("d", "banks fall", instance(0, SLOPE), instance(1, FALL), source="senseval2"),)
VECTORS = {
    **{("a", 1): [1.0, 0, 0, 0], ("b", 1): [0, 1.0, 0, 0], ("c", 0): [0, 1.0, 0, 0], ("d", 0): [0.9, 0.1, 0, 0]},
    **{("a", 0): [0.0] * 4, ("b", 0): [0.0] * 4, ("d", 1): [1.0, 0, 0, 0]},
}


class TestBackOff:
    @staticmethod
    def answered(answer, first_senses):
        task = probe(answer)
        task.first_senses = first_senses
        predictions = predicted(task, filled(task, TRAIN, VECTORS), TEST, VECTORS)
        return predictions, task.score(TEST, predictions)

    def test_only_a_lemma_that_training_does_not_have_backs_off_to_wordnet(self):
        predictions, scores = self.answered("nearest", {"bank%1": MONEY, "fall%2": FALL})
        assert predictions == [[SLOPE, ""]]
        assert scores.values["f1"] == 100
        assert scores.details["backed_off"] == 1

    def test_without_wordnet_it_has_no_answer(self):
        _, scores = self.answered("nearest", {})
        assert {name: scores.values[name] for name in ("precision", "recall")} == {"precision": 100, "recall": 50}
        assert scores.values["f1"] == pytest.approx(200 / 3)
        assert "none for an entry that training does not have" in probe().notes(TEST)["back_off"]

    def test_the_baseline_is_the_first_sense_of_wordnet(self):
        predictions, scores = self.answered("first", {"bank%1": SLOPE, "fall%2": "fall%2:38:03::"})
        assert predictions == [["", ""]]
        assert (scores.values["f1"], scores.details["backed_off"]) == (50, 2)

    def test_or_the_most_frequent_one_in_training(self):
        _, scores = self.answered("first", {})
        assert scores.values["precision"] == 0, "MONEY, twice in training"

    def test_an_unknown_way_to_answer(self):
        with pytest.raises(InputError, match=r"task\.answer: expected nearest or first, found 'mfs'"):
            check_ranges("task", WsdSettings("mfs"))

    def test_a_memory_that_was_not_filled_says_so(self):
        task = probe()
        task.learn_labels(TRAIN)
        with pytest.raises(InputError, match="expected the vectors of senses, found none"):
            predicted(task, task.build_head({"input": DIM}), TEST, VECTORS)


def test_scores_by_hand():
    """Any of several gold keys counts; precision is over what is answered, recall over all."""
    examples = [
        sentence(
            "a", "bank bank fall", instance(0, MONEY, SLOPE), instance(1, MONEY), instance(2, FALL), source="senseval2"
        ),
        sentence("b", "bank", instance(0, MONEY), source="semeval2007"),
        sentence("c", "fall", instance(0, FALL), source="semeval2013"),
    ]
    scores = probe().score(examples, [[SLOPE, SLOPE, ""], [MONEY], [""]])
    assert scores.examples[0] == {
        **{"correct": 1, "answered": 2, "instances": 3},
        **{"senseval2_correct": 1, "senseval2_answered": 2, "senseval2_instances": 3},
        **{
            f"{name}_{count}": 0
            for name in ("semeval2007", "semeval2013")
            for count in ("correct", "answered", "instances")
        },
    }
    right, answered, every = 2, 3, 5
    assert scores.values == pytest.approx(
        {
            "precision": 100 * right / answered,
            "recall": 100 * right / every,
            "f1": 100 * 2 * (2 / 3) * (2 / 5) / (2 / 3 + 2 / 5),
            "senseval2": 100 * 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3),
            "semeval2007": 100,
            "semeval2013": 0,
        }
    )
    assert scores.details["parts_of_speech"]["VERB"] == {"f1": 0, "correct": 0, "answered": 0, "instances": 2}
    assert scores.details["sets"]["semeval2007"] == {"f1": 100, "correct": 1, "answered": 1, "instances": 1}
    other_sets = [sentence(name, "bank", instance(0, MONEY), source=name) for name in ("senseval3", "semeval2015")]
    four = probe().score([*examples, *other_sets], [[SLOPE, SLOPE, ""], [MONEY], [""], [MONEY], [SLOPE]]).values
    assert four["four_sets"] == pytest.approx(100 * 2 * (2 / 4) * (2 / 6) / (2 / 4 + 2 / 6)), "without semeval2007"
    assert four["f1"] == pytest.approx(100 * 2 * (3 / 5) * (3 / 7) / (3 / 5 + 3 / 7))


def test_a_run_from_files(command, tmp_path):
    """Drawn static vectors: each form of a lemma has a sense of its own, and the record says what backed off."""
    rows = [("bank", MONEY), ("bank", MONEY), ("banks", SLOPE)]
    lines = [json.dumps({"tokens": ["The", word, "."], "sense": [None, [sense], None]}) for word, sense in rows]
    (tmp_path / "semcor.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "index.sense").write_text(f"{FALL} 00000001 1 9\n{MONEY} 00000002 1 9\n")
    words = [("bank", "bank", "NOUN", MONEY), ("banks", "bank", "NOUN", SLOPE), ("falls", "fall", "VERB", FALL)]
    body = "".join(
        f'<instance id="t{n}" lemma="{lemma}" pos="{pos}">{word}</instance>'
        for n, (word, lemma, pos, _) in enumerate(words)
    )
    (tmp_path / "senseval2.data.xml").write_text(f'<corpus><sentence id="s0">{body}</sentence></corpus>')
    (tmp_path / "senseval2.gold.key.txt").write_text("".join(f"t{n} {word[-1]}\n" for n, word in enumerate(words)))
    evaluated = "[senseval2.data.xml,senseval2.gold.key.txt]"
    splits = {"train": "[semcor.jsonl,index.sense]", "dev": evaluated, "test": evaluated}
    chosen = [f"datasets.paper.splits.{split}={files}" for split, files in splits.items()]
    where = (*chosen, f"data_dir={tmp_path}", f"runs_dir={tmp_path / 'runs'}", "device=cpu")
    code, _, err = command("task=wsd_probe", "data=paper", "features=elmo", "features.elmo.tune=true", *where)
    assert code == 1
    assert "task=wsd_probe trains nothing: expected features.*.tune=false, found true" in err
    shutil.rmtree(tmp_path / "runs")
    words_alone = ("features=glove", *DRAWN_WORDS, "features.words.unknown=drawn")
    code, _, err = command("task=wsd_probe", "data=paper", *words_alone, *where)
    assert code == 0, err
    assert "warning: test: expected 7,253 instances as published, found 3" in err
    (path,) = (tmp_path / "runs").rglob("record.json")
    record = read_record(path)
    assert record.scores["test"] == {"f1": 100, "precision": 100, "recall": 100, "senseval2": 100}
    assert record.details["backed_off"] == 1
    assert record.data["test"]["back_off"] == "WordNet's first sense"
    (example,) = read_examples(path.with_name(EXAMPLES_NAME), record.fingerprint)
    assert (example["correct"], example["senseval2_instances"]) == (3, 3)
    (kept,) = read_predictions(path.with_name(PREDICTIONS_NAME), record.fingerprint)
    assert kept.example == {"tokens": ["bank", "banks", "falls"]}
    places = [(word, n, n + 1, sense) for n, (word, *_, sense) in enumerate(words)]
    assert [(one["text"], one["start"], one["end"], one["label"]) for one in kept.predicted["senses"]] == places
    assert kept.gold == kept.predicted
