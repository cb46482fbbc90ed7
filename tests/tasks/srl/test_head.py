"""The head of semantic roles: its loss, the predicate's flag, and decoding under the constraints of BIO."""

from dataclasses import replace
from itertools import pairwise, product

import pytest
import torch

from elmo.common.checks import check_ranges
from elmo.common.errors import InputError
from tasks.data.text import may_follow_in_iob2
from tasks.modules.seeding import initialise
from tasks.srl import DeepSrl, SrlSettings
from tasks.task import Batch, FeatureBatch

TAGS = ["O", "B-A", "I-A", "B-V", "I-V"]
LENGTHS = torch.tensor([5, 5, 3])
MASK = torch.arange(5) < LENGTHS[:, None]
SMALL = SrlSettings(hidden=12, layers=2, flag_dim=4, recurrent_dropout=0.0)
# The first two are one sentence with two predicates, whose arguments differ.
PREDICATES = torch.tensor([0, 3, 1])
GOLD = torch.tensor([[3, 1, 2, 0, 0], [0, 1, 0, 3, 1], [0, 3, 4, 0, 0]])


@pytest.fixture
def features():
    torch.manual_seed(0)
    vectors = torch.randn(3, 5, 6)
    vectors[1] = vectors[0]
    return FeatureBatch(vectors, torch.zeros(3, 5, 0), torch.randn(3, 5, 2), MASK, LENGTHS)


@pytest.fixture
def head():
    head = DeepSrl(SMALL, TAGS, 6, 2)
    initialise(head, 1, "head")
    return head


def batch_of(predicates=PREDICATES, tags=GOLD):
    return Batch([], (), {"predicate": predicates, "tags": tags})


def named(path):
    return [TAGS[tag] for tag in path]


def part(features, row):
    """The features of one example without padding."""
    end = int(LENGTHS[row])
    cut = (tensor[row : row + 1, :end] for tensor in (features.input, features.hidden, features.output, features.mask))
    return FeatureBatch(*cut, LENGTHS[row : row + 1])


def test_the_loss_is_the_mean_over_examples_of_the_mean_over_words(head, features):
    probabilities = head._emissions(features, batch_of()).double().softmax(dim=-1)
    by_example = [
        sum(-probabilities[row, word, GOLD[row, word]].log().item() for word in range(length)) / length
        for row, length in enumerate(LENGTHS.tolist())
    ]
    assert head.loss([features], batch_of()).item() == pytest.approx(sum(by_example) / 3, rel=1e-5)


def test_padding_and_other_examples_change_nothing(head, features):
    emissions = head._emissions(features, batch_of())
    for row, length in enumerate(LENGTHS.tolist()):
        alone = head._emissions(part(features, row), batch_of(PREDICATES[row : row + 1]))
        torch.testing.assert_close(emissions[row, :length], alone[0], rtol=1e-4, atol=1e-5)


def test_the_predicates_of_one_sentence_differ_by_the_flag_alone(head, features):
    alike = replace(features, output=torch.zeros(3, 5, 2))

    def emissions(*predicates):
        return head._emissions(alike, batch_of(torch.tensor(predicates)))

    first, second, _ = emissions(0, 0, 1)
    torch.testing.assert_close(first, second)
    first, second, _ = emissions(0, 3, 1)
    assert (first - second).abs().max() > 1e-3
    without, _, _ = emissions(-1, 3, 1)
    assert (first - without).abs().max() > 1e-3


def test_it_learns_different_arguments_for_two_predicates_of_a_sentence(head, features):
    optimizer = torch.optim.Adam(head.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        head.loss([features], batch_of()).backward()
        optimizer.step()
    expected = [named(GOLD[row, :length]) for row, length in enumerate(LENGTHS.tolist())]
    assert head.decode([features], batch_of()) == expected


@pytest.mark.parametrize("seed", range(5))
def test_decoding_finds_the_best_valid_tags(head, features, monkeypatch, seed):
    """Against all sequences of five tags over up to five words: sum of scores, BIO kept."""
    torch.manual_seed(seed)
    scores = torch.randn(3, 5, 5)
    scores[..., 2] += 1.0  # I-A would often be best where it is not allowed
    monkeypatch.setattr(head, "_emissions", lambda *_: scores)
    for row, tags in enumerate(head.decode([features], batch_of())):
        every = product(range(5), repeat=int(LENGTHS[row]))
        valid = [path for path in every if all(may_follow_in_iob2(*pair) for pair in pairwise(["", *named(path)]))]
        best = max(valid, key=lambda path: sum(scores[row, word, tag].item() for word, tag in enumerate(path)))
        assert tags == named(best)


def test_the_projection_starts_orthogonal_and_the_flags_small(head):
    weight = head.projection.weight  # (5, 14)
    torch.testing.assert_close(weight @ weight.t(), torch.eye(5), rtol=0, atol=1e-5)
    assert head.flags.weight.abs().max() <= 1.0  # (6 / (2 + 4)) ** 0.5, the bound of Xavier


@pytest.mark.parametrize(
    "settings", [{"hidden": 0}, {"layers": 0}, {"layers": 101}, {"flag_dim": 0}, {"recurrent_dropout": 1.0}]
)
def test_settings_out_of_range(settings):
    with pytest.raises(InputError, match=rf"task\.{next(iter(settings))}: expected"):
        check_ranges("task", SrlSettings(**settings))


@torch.no_grad()
def test_a_tag_has_the_probability_of_its_softmax(head, features):
    shares = head._emissions(features, batch_of()).double().softmax(dim=-1)
    answers = head.decode_with_probabilities([features], batch_of())
    assert [tags for tags, _ in answers] == head.decode([features], batch_of())
    for row, (tags, found) in enumerate(answers):
        expected = [shares[row, word, TAGS.index(tag)].item() for word, tag in enumerate(tags)]
        assert found == pytest.approx(expected, rel=1e-5)
