"""Online codes of labels: lengths against closed forms, the items of properties, and the command on mini data."""

import math
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from elmo import SIZES, random_bilm, save_bilm
from tasks.probes import description_lengths as mdl
from tasks.probes.description_lengths import (
    SHARES,
    STRENGTHS,
    ProbeItem,
    control_labels,
    fitted,
    online_bits,
    uniform_bits,
)
from tasks.probes.mdl import main

NAME = math.log2(len(STRENGTHS))  # bits that name the strength


def entropy(shares):
    return -sum(share * math.log2(share) for share in shares)


def noise(count, width, seed=0):
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def test_shares_double_up_to_all():
    assert SHARES[0] == 0.001
    assert SHARES[-1] == 1
    assert all(1.9 < later / earlier <= 2 for earlier, later in pairwise(SHARES))


def test_a_uniform_code_compresses_by_one():
    """Labels alternate and vectors say nothing: both are equally often in each share, so that every label costs 1."""
    labels = ["a", "b"] * 1000
    assert online_bits(torch.ones(2000, 3), labels) == pytest.approx(2000 + NAME, rel=1e-3)
    assert uniform_bits(labels) / 2000 == 1


def test_labels_without_any_sign_cost_their_entropy():
    """After the first share, which is sent with one bit a label."""
    labels = ["a", "a", "a", "b"] * 1000
    expected = 4 + 3996 * entropy((0.75, 0.25)) + NAME
    assert online_bits(torch.ones(4000, 3), labels) == pytest.approx(expected, rel=0.005)


def test_a_control_of_words_that_do_not_recur_costs_the_entropy_of_its_labels():
    shares = {"x": 0.6, "y": 0.3, "z": 0.1}
    real = [label for label, share in shares.items() for _ in range(round(share * 4000))]
    items = [ProbeItem(at, [(0, 1)], (f"word {at}",), label) for at, label in enumerate(real)]
    labels = control_labels(items)
    assert {label: labels.count(label) / 4000 for label in shares} == pytest.approx(shares, abs=0.03)
    drawn = [labels.count(label) / 4000 for label in shares]
    assert online_bits(noise(4000, 8), labels) / 4000 == pytest.approx(entropy(drawn), rel=0.02)


def test_equal_words_have_equal_control_labels():
    items = [ProbeItem(at, [(0, 1)], (f"w{at % 50}",), "ab"[at % 2]) for at in range(500)]
    labels = control_labels(items)
    assert labels[:50] * 10 == labels
    assert set(labels) == {"a", "b"}


def test_vectors_that_tell_the_label_save_most_of_it_and_a_memory_of_words_is_the_controls():
    words = [at % 20 for at in range(2000)]
    vectors, real = torch.eye(20)[words], ["even" if word % 2 == 0 else "odd" for word in words]
    control = control_labels(
        [ProbeItem(0, [(0, 1)], (str(word),), label) for word, label in zip(words, real, strict=True)]
    )
    assert uniform_bits(real) / online_bits(vectors, real) > 8
    assert uniform_bits(control) / online_bits(vectors, control) > 8  # selectivity is about 0
    assert uniform_bits(control) / online_bits(noise(2000, 20), control) < 1.02


def test_the_bias_gives_the_frequencies_and_a_strong_prior_keeps_weights_at_zero():
    labels = torch.tensor([0] * 70 + [1] * 20 + [2] * 10)
    weights = fitted(noise(100, 5), labels, 1000.0, torch.zeros(6, 3))
    assert weights[:-1].abs().max() < 0.03
    torch.testing.assert_close(weights[-1].softmax(0), torch.tensor([0.7, 0.2, 0.1]), atol=0.01, rtol=0)


def test_the_fit_has_no_gradient():
    vectors, labels = noise(200, 4), (noise(200, 1, seed=1)[:, 0] > 0).long()
    weights = fitted(vectors, labels, 1.0, torch.zeros(5, 2))
    shares = (vectors @ weights[:-1] + weights[-1]).softmax(-1) - torch.eye(2)[labels]
    gradient = vectors.T @ shares + weights[:-1]
    assert gradient.abs().max() < 0.1  # the loss is about 139


def test_arguments_are_next_to_their_predicate_and_entities_alone():
    spans = [("ARG0", 0, 2), ("V", 2, 3), ("ARG1", 3, 4)]
    frame = SimpleNamespace(spans=spans, predicate=2)
    assert list(mdl._spans(frame)) == [([(0, 2), (2, 3)], "ARG0"), ([(3, 4), (2, 3)], "ARG1")]
    assert list(mdl._spans(SimpleNamespace(spans=[("PER", 1, 3)]))) == [([(1, 3)], "PER")]


def test_each_link_has_its_antecedent_and_a_mention_of_another_chain():
    document = SimpleNamespace(id="d", chains=[((0, 1), (4, 5), (6, 8)), ((2, 3), (7, 8))])
    found = list(mdl._links(document))
    assert [(places, label) for places, label in found if label == "linked"] == [
        ([(0, 1), (4, 5)], "linked"),
        ([(4, 5), (6, 8)], "linked"),
        ([(2, 3), (7, 8)], "linked"),
    ]
    chain_of = {mention: number for number, one in enumerate(document.chains) for mention in one}
    others = [places for places, label in found if label == "not linked"]
    assert len(others) == 3
    assert all(chain_of[first] != chain_of[second] and first[1] <= second[0] for first, second in others)


def test_senses_are_numbers_of_wordnets_files():
    sense = SimpleNamespace(start=1, end=2, senses=("bank%1:17:01::", "bank%1:14:00::"))
    sentence = SimpleNamespace(instances=[sense, SimpleNamespace(start=3, end=4, senses=())])
    assert list(mdl._senses(sentence)) == [([(1, 2)], "1:17")]


def test_the_command_probes_mini_data_and_keeps_what_it_prints(tmp_path, monkeypatch, capsys):
    weights = tmp_path / "bilm" / "weights.safetensors"
    save_bilm(random_bilm(SIZES["tiny"], seed=1), weights)
    monkeypatch.setattr(mdl, "PROPERTIES", {"ner": ("entities", "task=ner data=mini", mdl._spans)})
    monkeypatch.setattr(mdl, "SOURCES", {"1": mdl.SOURCES["1"]})
    words = [
        "ner",
        "--weights",
        str(weights.parent),
        "--items",
        "60",
        "--orders",
        "2",
        "--write",
        str(tmp_path / "kept"),
    ]
    assert main(words) == 0
    first = (tmp_path / "kept" / "mdl.md").read_text()
    assert "| entities (60 of " in first
    assert first.splitlines()[2].replace("|", " ").split()[-1] in capsys.readouterr().out
    assert main(words) == 0
    assert (tmp_path / "kept" / "mdl.md").read_text() == first
    assert "hollow: the control task" in (tmp_path / "kept" / "mdl.svg").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--items", "1"], "--items: expected at least 2, found 1"),
        (["--items", "-5"], "--items: expected at least 2, found -5"),
        (["--orders", "0"], "--orders: expected at least 1, found 0"),
    ],
)
def test_too_little_to_probe(capsys, words, message):
    assert main(words) == 1
    assert capsys.readouterr().err == f"tasks.probes.mdl: {message}\n"


def test_a_folder_that_cannot_be_made_is_said_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mdl, "probe", lambda *_: pytest.fail("the work has begun"))
    (tmp_path / "file").touch()
    assert main(["ner", "--write", str(tmp_path / "file" / "kept")]) == 1
    assert capsys.readouterr().err.startswith(f"tasks.probes.mdl: --write={tmp_path}/file/kept: expected a folder")
