"""The mini data: well-formed, balanced, varied, without copies or templates, and as their cards say.

A failure names the texts at fault, or shows the line that the card should have.
"""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import mean

import pytest

from elmo.common.files import read_json
from tasks import snli, sst5
from tasks.data.datasets import SHIPPED, DataSource
from tasks.data.text import iob2, tokens_of
from tasks.ner import ColumnReader, read_columns
from tasks.squad.task import answer_scores
from tasks.srl import kind_of
from tasks.task import SPLITS
from tests.tasks.making import looks_at, run_of
from tests.tasks.mini import chance
from tests.tasks.mini.mini_measures import (
    KINDS,
    alike,
    config_of,
    counts_in_card,
    equal,
    examples_of,
    figures,
    kappa,
    labels_of,
    pair_id,
    path_of,
    patterns,
    read,
    scene_of,
    section,
    texts_of,
)

EXAMPLES = {"ner": "sentences", "sst5": "sentences", "snli": "pairs", "squad": "questions", "srl": "predicates"}
SIZES = {
    "ner": (900, 200, 500),
    "sst5": (1000, 200, 500),
    "snli": (1200, 250, 600),
    "squad": (1500, 300, 500),
    "srl": (700, 150, 300),
}
# The data set and its split; SQuAD's own test set is hidden.
ORIGINALS = {
    "ner": ("paper", "train"),
    "sst5": ("paper", "train"),
    "snli": ("paper", "dev"),
    "squad": ("paper", "test"),
    "srl": ("ewt", "train"),
}
EVERY_TASK = pytest.mark.parametrize("task", KINDS)
EVERY_SPLIT = pytest.mark.parametrize("split", SPLITS)
ALIKE = 0.6
MODIFIERS = "ADJ|ADV|CAU|COM|DIR|DIS|EXT|GOL|LOC|LVB|MNR|MOD|NEG|PRD|PRP|TMP"
ROLE = re.compile(rf"(C-)?V|(R-|C-)?(ARG[0-4]|ARGM-({MODIFIERS}))")


def number(cell):
    return float(cell.replace(",", ""))


class TestFormat:
    @EVERY_TASK
    @EVERY_SPLIT
    def test_every_file_can_be_read(self, task, split):
        config = config_of(task)
        loaded = DataSource(config.data, config.data_dir).load(config.task, split)
        assert loaded.warnings == []
        # Each SNLI file has one pair without an agreed label, which the reader must handle.
        assert loaded.counts.get("dropped", 0) == (1 if task == "snli" else 0)

    @EVERY_TASK
    def test_a_look_at_the_data_finds_nothing(self, task):
        for facts, warnings in looks_at(config_of(task).task, examples_of(task)).values():
            assert warnings == []
            assert all(shared["examples"] == 0 for shared in facts.values())

    @EVERY_SPLIT
    def test_tags_are_iob2(self, split):
        for example in examples_of("ner")[split]:
            assert iob2(example.spans, len(example.words)) == list(example.tags), example
            assert {span.label for span in example.spans} <= {"PER", "LOC", "ORG", "MISC"}, example

    @EVERY_SPLIT
    def test_trees_are_binary(self, split):
        for line in path_of("sst5", split).read_text(encoding="utf-8").splitlines():
            words, nodes = sst5.parse_tree(line)
            assert len(nodes) == len({(node.start, node.end) for node in nodes}) == 2 * len(words) - 1, line
            assert {node.label for node in nodes} <= set(range(5)), line

    @EVERY_SPLIT
    def test_a_scene_is_three_premises_with_two_hypotheses_and_each_of_these_has_every_label(self, split):
        scenes = defaultdict(list)
        for example in examples_of("snli")[split]:
            scenes[scene_of(example)].append(example)
        for name, pairs in scenes.items():
            kinds = [{pair.premise for pair in pairs}, {pair.hypothesis for pair in pairs}]
            assert [*map(len, kinds), len(pairs)] == [3, 2, 6], name
            assert len({(pair.hypothesis, pair.label) for pair in pairs}) == 6, name

    @EVERY_SPLIT
    def test_answers_are_at_their_offsets_and_whole_tokens(self, split):
        for article in json.loads(path_of("squad", split).read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                context, tokens = paragraph["context"], tokens_of(paragraph["context"])
                for question in paragraph["qas"]:
                    assert question["answers"], question
                    for answer in question["answers"]:
                        begin, end = answer["answer_start"], answer["answer_start"] + len(answer["text"])
                        assert context[begin:end] == answer["text"], question
                        assert tokens.aligned(begin, end), question

    @EVERY_SPLIT
    def test_each_predicate_has_one_v_and_whole_phrases_of_known_roles(self, split):
        for example in examples_of("srl")[split]:
            labels = [span.label for span in example.spans]
            assert [span.start for span in example.spans if span.label == "V"] == [example.predicate], example
            assert kind_of(example.pos) in ("verbal", "nominal", "adjectival"), example
            assert all(ROLE.fullmatch(label) for label in labels), example
            # A pronoun has an antecedent and a second part a first; no core role occurs twice.
            assert {label[2:] for label in labels if label[:2] in ("R-", "C-")} <= set(labels), example
            core = [label for label in labels if re.fullmatch("ARG[0-4]", label)]
            assert len(core) == len(set(core)), example
            for _, start, end in example.spans:
                assert chance.is_word(example.words[start]), example
                assert chance.is_word(example.words[end - 1]) or example.words[end - 1] == "'", example

    @EVERY_SPLIT
    def test_passages_have_40_to_90_words(self, split):
        for context in {example.passage.context for example in examples_of("squad")[split]}:
            assert 40 <= len(context.split()) <= 90, context


class TestCounts:
    @EVERY_TASK
    def test_sizes(self, task):
        sizes = [len(examples) for examples in examples_of(task).values()]
        assert all(size >= least for size, least in zip(sizes, SIZES[task], strict=True))
        assert [number(counts_in_card(task)[EXAMPLES[task]][split]) for split in SPLITS] == sizes

    @EVERY_TASK
    @EVERY_SPLIT
    def test_counts_on_the_card_are_right(self, task, split):
        found, stated = figures(task, examples_of(task)[split]), counts_in_card(task)
        assert {row: cells[split] for row, cells in stated.items()} == {row: found[row] for row in stated}
        assert {f"{label}, %" for label in labels_of(task, examples_of(task)[split])} <= stated.keys()

    @EVERY_TASK
    @pytest.mark.integration
    @pytest.mark.slow
    def test_counts_of_the_original_on_the_card_are_right(self, task, unpacked):
        data, split = ORIGINALS[task]
        name = Path(run_of(f"task={task}", f"data={data}").data.splits[split][0])
        path = unpacked(name.parent.name) / name
        found, stated = figures(task, read(task, path, "test")), counts_in_card(task)
        assert {row: cells["original"] for row, cells in stated.items()} == {row: found[row] for row in stated}

    @pytest.mark.parametrize(("task", "labels"), [("ner", 4), ("sst5", 5), ("snli", 3)])  # others have no labels
    def test_labels_have_about_the_shares_of_the_original(self, task, labels):
        shares = {row: cells for row, cells in counts_in_card(task).items() if row.endswith(", %")}
        assert len(shares) == labels
        for row, cells in shares.items():
            for split in SPLITS:
                assert abs(number(cells[split]) - number(cells["original"])) < 3, (row, split)

    @EVERY_SPLIT
    def test_snli_is_balanced(self, split):
        assert len(set(Counter(labels_of("snli", examples_of("snli")[split])).values())) == 1


class TestCopies:
    @EVERY_TASK
    def test_no_text_twice(self, task):
        assert equal(texts_of(task)) == []

    @EVERY_TASK
    def test_no_text_nearly_twice(self, task):
        """Within its scene a hypothesis may be like any other sentence: that is what traps are made of."""
        near = alike(texts_of(task), ALIKE)
        assert [(a, b) for a, b in near if a.group != b.group or a.kind == b.kind == "premise"] == []

    def test_splits_share_no_title_and_no_name_of_an_example(self):
        for name_of in (lambda example: example.passage.title, lambda example: example.id):
            names = [{name_of(example) for example in examples} for examples in examples_of("squad").values()]
            assert len(set.union(*names)) == sum(map(len, names))

    @EVERY_TASK
    @EVERY_SPLIT
    def test_no_template(self, task, split):
        """No 5-gram with an open slot is in more than 1 % of a split's texts; any two texts may share one."""
        for kind in KINDS[task]:
            texts = [text for text in texts_of(task) if (text.kind, text.split) == (kind, split)]
            most = max(2, len(texts) / 100)
            assert {pattern: count for pattern, count in patterns(texts).items() if count > most} == {}, kind


class TestLikeTheOriginal:
    """Ratios of ours to the original's, from the card, whose figures are recomputed above.

    Templates and a small stock of words halve the types per token, and telegrams halve the length; what is let pass is
    what separates one writer from many, or captions of photographs (SNLI's premises) from premises of all domains.
    Passages and the sentences of SRL are shorter by design; the words of passages are counted above.
    """

    @pytest.mark.parametrize(
        ("task", "kind"),
        [
            ("ner", "sentence"),
            ("sst5", "sentence"),
            ("snli", "premise"),
            ("snli", "hypothesis"),
            ("squad", "question"),
        ],
    )
    def test_lengths(self, task, kind):
        cells = counts_in_card(task)[f"{kind}: tokens, mean"]
        assert all(0.75 < number(cells[split]) / number(cells["original"]) < 1.25 for split in SPLITS), cells

    @EVERY_TASK
    def test_variety(self, task):
        for kind in KINDS[task]:
            cells = counts_in_card(task)[f"{kind}: types / tokens"]
            assert all(0.8 < number(cells[split]) / number(cells["original"]) < 1.3 for split in SPLITS), cells


class TestShortcuts:
    @EVERY_TASK
    def test_the_card_states_chance(self, task):
        assert str(chance.chance(task)) in section(task, "Chance").splitlines()

    def test_the_hypothesis_alone_does_not_predict_the_label(self):
        def score(kind):
            pairs = {
                split: [(getattr(example, kind), example.label) for example in examples]
                for split, examples in examples_of("snli").items()
            }
            return chance.naive_bayes(pairs["train"], pairs["test"])

        alone = {kind: score(kind) for kind in KINDS["snli"]}
        line = "Naive Bayes on test: hypothesis alone {hypothesis:.1f} %, premise alone {premise:.1f} % accuracy."
        assert line.format(**alone) in section("snli", "Chance").splitlines()
        assert abs(alone["hypothesis"] - 100 / 3) < 3


class TestAgreement:
    """100 test examples of each task (60 sentences of SRL), labelled again without sight of the gold labels."""

    def second_reading(self, task, name_of):
        """The rows of a second reading, by name of an example, and the examples with these names."""
        path = SHIPPED / task / "second_reading.tsv"
        labels = dict(line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
        examples = {name_of(example): example for example in examples_of(task)["test"]}
        assert labels.keys() <= examples.keys()
        assert len(labels) >= 100
        return list(labels.values()), [examples[name] for name in labels]

    def test_ner(self):
        path = SHIPPED / "ner" / "second_reading.txt"
        again = read_columns(path, ColumnReader())
        gold = {example.words: example for example in examples_of("ner")["test"]}
        assert len({example.words for example in again} & gold.keys()) == len(again) >= 100
        f1 = config_of("ner").task.score([gold[e.words] for e in again], [e.tags for e in again]).values["f1"]
        self.assert_stated("ner", f"{len(again)} sentences: entity F1 {f1:.1f}.")

    def test_srl(self):
        path = SHIPPED / "srl" / "second_reading.txt"
        again = read("srl", path, "test")
        gold = {(example.words, example.predicate): example for example in examples_of("srl")["test"]}
        tags = [iob2(example.spans, len(example.words)) for example in again]
        f1 = config_of("srl").task.score([gold[e.words, e.predicate] for e in again], tags).values["f1"]
        sentences = len({example.words for example in again})
        self.assert_stated("srl", f"{sentences} sentences, {len(again)} predicates: argument F1 {f1:.1f}.")

    def test_sst5(self):
        labels, examples = self.second_reading("sst5", lambda example: example.id.rpartition(":")[2])
        gold, again = [sst5.LABELS.index(example.label) for example in examples], list(map(int, labels))
        steps = [abs(a - b) for a, b in zip(gold, again, strict=True)]
        same, close = (100 * mean(step <= most for step in steps) for most in (0, 1))
        line = f"same label {same:.1f} %, within one step {close:.1f} %, kappa {kappa(gold, again):.2f}."
        self.assert_stated("sst5", f"{len(again)} sentences: {line}")

    def test_snli(self):
        again, examples = self.second_reading("snli", pair_id)
        gold = [example.label for example in examples]
        assert set(again) <= set(snli.LABELS)
        same = 100 * mean(a == b for a, b in zip(gold, again, strict=True))
        self.assert_stated("snli", f"{len(again)} pairs: same label {same:.1f} %, kappa {kappa(gold, again):.2f}.")

    def test_squad(self):
        again, examples = self.second_reading("squad", lambda example: example.id)
        scores = answer_scores([example.answers for example in examples], again).values
        self.assert_stated("squad", f"{len(again)} questions: exact match {scores['em']:.1f}, F1 {scores['f1']:.1f}.")

    def assert_stated(self, task, found):
        assert f"Agreement of the second reading, {found}" in section(task, "Agreement").splitlines()


def test_the_card_of_snli_says_that_it_does_not_teach_inference():
    text = " ".join((SHIPPED / "snli" / "card.md").read_text(encoding="utf-8").split())
    runs = sorted((SHIPPED.parents[1] / "results" / "published" / "mini" / "snli" / "elmo").glob("*/examples.json.gz"))
    assert len(runs) == 3
    correct = [[example["correct"] for example in read_json(run)["scores"]] for run in runs]
    labels = [example.label for example in examples_of("snli")["test"]]
    right = {
        label: mean(run[i] for run in correct for i, gold in enumerate(labels) if gold == label)
        for label in set(labels)
    }
    assert f"ELMo runs are right on {mean(map(mean, correct)):.0%} of the test pairs".replace("%", " %") in text
    by_label = "on {:.0%} of the entailments, {:.0%} of the neutral pairs and {:.0%} of the contradictions"
    by_label = by_label.format(right["entailment"], right["neutral"], right["contradiction"])
    assert by_label.replace("%", " %") in text
