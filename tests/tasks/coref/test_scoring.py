"""Coreference scores: by hand, against brute force, and against the official scorer in Perl."""

import itertools
import random
import re
import shutil
import subprocess

import numpy as np
import pytest

from tasks.coref.task import COREF_METRICS, most_similar, score_documents

A, B, C, D, E, F, G = ((i, i + 1) for i in range(7))
GOLD = [[[A, B, C], [D, E], [F]]]  # one document
PREDICTED = [[[A, B], [C, D], [F], [G]]]
PERL_NAMES = {"muc": "muc", "bcub": "b_cubed", "ceafe": "ceaf_e"}


def f1(precision, recall):
    return 2 * precision * recall / (precision + recall)


class TestByHand:
    def test_values(self):
        values = score_documents(GOLD, PREDICTED).values
        muc = f1(1 / 2, 1 / 3)  # one right link, A-B; two predicted, three gold
        # A, B: all of their predicted chain is right, 2 of 3 of their gold chain; C, D: half each; F: all; G: none
        b_cubed = f1((1 + 1 + 1 / 2 + 1 / 2 + 1 + 0) / 6, (2 / 3 + 2 / 3 + 1 / 3 + 1 / 2 + 1) / 6)
        ceaf_e = f1((4 / 5 + 2 / 4 + 1) / 4, (4 / 5 + 2 / 4 + 1) / 3)
        expected = {"muc": muc, "b_cubed": b_cubed, "ceaf_e": ceaf_e, "average": (muc + b_cubed + ceaf_e) / 3}
        assert {name: values[name] for name in expected} == pytest.approx({k: 100 * v for k, v in expected.items()})

    def test_values_without_singletons(self):
        values = score_documents(GOLD, PREDICTED).values
        b_cubed = f1((1 + 1 + 1 / 2 + 1 / 2) / 4, (2 / 3 + 2 / 3 + 1 / 3 + 1 / 2) / 5)
        ceaf_e = f1((4 / 5 + 2 / 4) / 2, (4 / 5 + 2 / 4) / 2)
        expected = {"b_cubed": b_cubed, "ceaf_e": ceaf_e, "average": (f1(1 / 2, 1 / 3) + b_cubed + ceaf_e) / 3}
        expected = {f"{name}_without_singletons": 100 * value for name, value in expected.items()}
        assert {name: values[name] for name in expected} == pytest.approx(expected)

    def test_details_are_precision_and_recall(self):
        details = score_documents(GOLD, PREDICTED).details
        assert details["muc"] == pytest.approx({"precision": 50, "recall": 100 / 3})
        assert details["ceaf_e"] == pytest.approx({"precision": 57.5, "recall": 230 / 3})

    def test_a_perfect_response_has_100_everywhere(self):
        assert set(score_documents(GOLD, GOLD).values.values()) == {100}

    @pytest.mark.parametrize(("gold", "predicted"), [([[]], [[]]), ([[[A, B]]], [[]]), ([[]], [[[A, B]]]), ([], [])])
    def test_zero_where_a_side_is_empty(self, gold, predicted):
        assert set(score_documents(gold, predicted).values.values()) == {0}


def test_numerators_and_denominators_are_summed_over_documents():
    """Not the mean of documents: 1 of 1 and 0 of 3 gold links are a recall of 1/4."""
    scores = score_documents([[[A, B]], [[A, B, C, D]]], [[[A, B]], []])
    assert scores.details["muc"] == {"precision": 100, "recall": 25}


def test_the_declared_metrics_recompute_every_value_from_the_examples():
    draw = random.Random(1)
    documents = [(random_chains(draw), random_chains(draw)) for _ in range(6)]
    for count in (1, 3, 6):
        scores = score_documents(*zip(*documents[:count], strict=True))
        assert len(scores.examples) == count
        assert {name: metric.of_examples(scores.examples) for name, metric in COREF_METRICS.items()} == scores.values


def test_the_assignment_equals_brute_force():
    draw = np.random.default_rng(0)
    for rows, columns in itertools.product(range(5), range(6)):
        matrix = draw.integers(0, 4, (rows, columns)) / 3
        wide = matrix if rows <= columns else matrix.T
        choices = itertools.permutations(range(wide.shape[1]), wide.shape[0])
        best = max(sum(row[column] for row, column in zip(wide, choice, strict=True)) for choice in choices)
        assert most_similar(matrix) == pytest.approx(best)


# No two cross: the scorer's format cannot tell which mention ends where if they are in one chain.
MENTIONS = [(start, end) for start in range(0, 40, 4) for end in range(start + 1, start + 5)]


def random_chains(draw):
    """Up to 14 mentions, some of them nested, in chains of which many are singletons; at times none."""
    chains = {}
    for mention in draw.sample(MENTIONS, draw.choice([0, *range(4, 15)])):
        chains.setdefault(draw.randrange(6), []).append(mention)
    return list(chains.values())


def altered(draw, chains):
    """A response: some mentions lost, some moved to another chain, some invented."""
    new = [[m for m in chain if draw.random() < 0.7] for chain in chains]
    moved = {}
    for number, chain in enumerate(new):
        for mention in chain:
            moved.setdefault(draw.randrange(6) if draw.random() < 0.3 else number, []).append(mention)
    moved.setdefault(draw.randrange(6), []).append((40, 41 + draw.randrange(3)))
    return [] if draw.random() < 0.1 else list(moved.values())


def column_file(documents, words=45):
    """Documents in the scorer's format, where a mention of chain 3 is (3 at its first and 3) at its last word."""
    lines = []
    for number, chains in enumerate(documents):
        cells = [[] for _ in range(words)]
        for chain, mentions in enumerate(chains):
            for start, end in sorted(mentions, key=lambda mention: -mention[1]):
                if end - start == 1:
                    cells[start].append(f"({chain})")
                else:
                    cells[start].append(f"({chain}")
                    cells[end - 1].append(f"{chain})")
        lines += [f"#begin document (d{number});"]
        lines += [f"d{number}\t0\t{i}\tw\t{'|'.join(cell) or '-'}" for i, cell in enumerate(cells)]
        lines += ["#end document"]
    return "\n".join(lines) + "\n"


def read_column_file(path):
    """The chains of each document; a chain's open mentions close last in, first out, as in the scorer."""
    documents = []
    for line in path.read_text().splitlines():
        if line.startswith("#begin"):
            chains, opened, position = {}, {}, 0
            documents.append(chains)
        elif line.strip() and not line.startswith("#"):
            for begin, chain, end in re.findall(r"(\(?)(\d+)(\)?)", line.rstrip().split("\t")[-1]):
                if begin:
                    opened.setdefault(chain, []).append(position)
                if end:
                    chains.setdefault(chain, []).append((opened[chain].pop(), position + 1))
            position += 1
    return [list(chains.values()) for chains in documents]


@pytest.fixture(scope="module")
def official(shared):
    """Runs the official scorer: (numerator, denominator, percent) of recall and precision, and percent F1."""
    folder = shared / "reference" / "coref-scorer"
    if not folder.is_dir() or not shutil.which("perl"):
        pytest.skip("needs perl, and shared/reference/coref-scorer next to the checkout")

    def run(metric, key, response):
        command = ["perl", folder / "scorer.pl", metric, key, response, "none"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
        pattern = r"Coreference: Recall: \((\S+) / (\S+)\) (\S+)%\tPrecision: \((\S+) / (\S+)\) (\S+)%\tF1: (\S+)%"
        return list(map(float, re.search(pattern, printed).groups()))

    run.folder = folder
    return run


def check_against(official, key, response, gold, predicted, suffix=""):
    """Counts equal up to rounding, percentages to the digits that the scorer prints; it cuts off the others."""
    scores = score_documents(gold, predicted)
    for perl, name in PERL_NAMES.items():
        name = name + suffix if name + suffix in COREF_METRICS else name  # MUC has one form
        recall_num, recall_den, recall, precision_num, precision_den, precision, f1 = official(perl, key, response)
        for ratio, sums in zip(
            COREF_METRICS[name].terms[0], [(precision_num, precision_den), (recall_num, recall_den)], strict=True
        ):
            columns = (*ratio.sum, *ratio.over)
            assert [sum(e[c] for e in scores.examples) for c in columns] == pytest.approx(sums, rel=1e-12)
        ours = (scores.details[name]["recall"], scores.details[name]["precision"], scores.values[name])
        for value, printed in zip(ours, (recall, precision, f1), strict=True):
            assert -1e-9 < value - printed < 0.01 + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_the_official_scorer_on_random_documents(official, tmp_path, seed):
    draw = random.Random(seed)
    gold = [random_chains(draw) for _ in range(10)]
    predicted = [altered(draw, chains) for chains in gold]
    assert 20 < score_documents(gold, predicted).values["average"] < 90
    for suffix, least in (("", 1), ("_without_singletons", 2)):
        key, response = tmp_path / f"key{suffix}", tmp_path / f"response{suffix}"
        for path, documents in ((key, gold), (response, predicted)):
            kept = [[chain for chain in chains if len(chain) >= least] for chains in documents]
            path.write_text(column_file(kept))
            found = [sorted(map(sorted, chains)) for chains in read_column_file(path)]
            assert found == [sorted(map(sorted, chains)) for chains in kept]
        check_against(official, key, response, gold, predicted, suffix)


def test_the_official_scorer_on_its_own_test_files(official):
    data = official.folder / "test" / "DataFiles"
    responses = sorted(data.glob("*.response"))
    assert len(responses) > 30
    for response in responses:
        key = data / f"{response.name.rsplit('-', 1)[0]}.key"
        gold, predicted = read_column_file(key), read_column_file(response)
        if response.name not in ("TC-A-7.response", "TC-A-8.response", "TC-A-9.response"):  # the scorer repairs them
            check_against(official, key, response, gold, predicted)
