"""Antecedents: scores of joined pairs one by one, the likelihood by enumeration in float64, chains by hand."""

import itertools
import math

import pytest
import torch

from tasks.coref.head import Antecedents, buckets, chains_of, marginal_loss

COUNT, DIM, MOST = 11, 6, 4


@pytest.fixture
def antecedents():
    torch.manual_seed(1)
    return Antecedents(DIM, genres=3, most=MOST, feature_dim=2, hidden=7, dropout=0.5).double().eval()


@pytest.fixture
def given():
    torch.manual_seed(2)
    spans, mention_scores = torch.randn(COUNT, DIM).double(), torch.randn(COUNT).double()
    speakers = torch.randint(3, (COUNT,))
    return spans.requires_grad_(), mention_scores.requires_grad_(), speakers, torch.tensor(2)


def test_each_pair_is_scored_as_a_joined_vector_would_be(antecedents, given):
    spans, mention_scores, speakers, genre = given
    scores = antecedents(*given)
    assert scores.shape == (COUNT, 1 + MOST)
    assert (scores[:, 0] == 0).all()
    for i, back in itertools.product(range(COUNT), range(1, MOST + 1)):
        j = i - back
        if j < 0:
            assert scores[i, back] == -math.inf
            continue
        features = (
            antecedents.distance.weight[back - 1],  # distances up to 4 have buckets of their own
            antecedents.speaker.weight[int(speakers[i] == speakers[j])],
            antecedents.genre.weight[genre],
        )
        pair = torch.cat([spans[i], spans[j], spans[i] * spans[j], *features])
        expected = antecedents.scorer(pair) + mention_scores[i] + mention_scores[j]
        assert scores[i, back].item() == pytest.approx(expected.item(), rel=1e-10)


def test_distances_fall_into_the_buckets_of_the_paper():
    named = {1: [1], 2: [2], 3: [3], 4: [4], 5: [5, 7], 6: [8, 15], 7: [16, 31], 8: [32, 63], 9: [64, 1000]}
    for number, distances in named.items():
        assert (buckets(torch.tensor(distances)) == number - 1).all()


@pytest.mark.parametrize("at_once", [1, 3, 5])
def test_blocks_change_neither_scores_nor_gradients(antecedents, given, at_once):
    chains = torch.tensor([1, 0, 1, 2, 2, 0, 1, 3, 2, 1, 0])
    inputs = [*given[:2], *antecedents.parameters()]
    found = []
    for size in (COUNT, at_once):
        scores = antecedents(*given, at_once=size)
        found.append([scores, *torch.autograd.grad(marginal_loss(scores, chains), inputs)])
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(parts, whole)
        assert (whole != 0).any()


def test_blocks_drop_the_same_values_in_both_passes(antecedents, given):
    """A block is computed again for the gradients: they must be those of the loss that was returned."""
    antecedents.train()
    spans = given[0]
    torch.manual_seed(3)
    marginal_loss(antecedents(*given, at_once=3), torch.ones(COUNT).long()).backward()
    step = torch.randn_like(spans) * 1e-6
    ends = []
    for sign in (1, -1):
        torch.manual_seed(3)
        moved = (spans + sign * step).detach().requires_grad_()
        ends.append(marginal_loss(antecedents(moved, *given[1:], at_once=3), torch.ones(COUNT).long()).item())
    assert (ends[0] - ends[1]) / 2 == pytest.approx((spans.grad * step).sum().item(), rel=1e-4)


def test_one_span_has_no_antecedent(antecedents, given):
    spans, mention_scores, speakers, genre = given
    scores = antecedents(spans[:1], mention_scores[:1], speakers[:1], genre)
    assert scores.tolist() == [[0.0, -math.inf]]
    loss = marginal_loss(scores, torch.tensor([1]))
    assert loss.item() == 0
    loss.backward()


@pytest.mark.parametrize("seed", range(5))
def test_the_likelihood_is_the_sum_over_all_ways_to_choose_gold_antecedents(seed):
    """P = sum over choices of one antecedent per span, all of them gold, of the product of their probabilities."""
    generator = torch.Generator().manual_seed(seed)
    count = 5
    scores = torch.randn(count, 1 + count, generator=generator, dtype=torch.float64) * 3
    scores[:, 0] = 0
    scores = scores.masked_fill(torch.arange(1 + count) > torch.arange(count).unsqueeze(1), -math.inf)
    chains = torch.randint(3, (count,), generator=generator).tolist()
    probabilities = (scores.exp() / scores.exp().sum(dim=1, keepdim=True)).tolist()
    gold = [
        [back for back in range(1, i + 1) if chains[i] and chains[i] == chains[i - back]] or [0] for i in range(count)
    ]
    total = sum(
        math.prod(row[back] for row, back in zip(probabilities, choice, strict=True))
        for choice in itertools.product(*gold)
    )
    assert marginal_loss(scores, torch.tensor(chains)).item() == pytest.approx(-math.log(total), rel=1e-12)


def test_a_gold_antecedent_out_of_reach_is_none():
    scores = torch.tensor([[0.0, -math.inf], [0.0, 1.0], [0.0, 2.0]])
    loss = marginal_loss(scores, torch.tensor([1, 0, 1])).item()  # the third span sees the second only
    assert loss == pytest.approx(math.log(1 + math.e) + math.log(1 + math.e**2), rel=1e-6)


SPANS = [(0, 1), (2, 4), (3, 4), (5, 6), (7, 9)]


@pytest.mark.parametrize(
    ("best", "alone", "expected"),
    [
        ([0, 0, 0, 0, 0], [False] * 5, ()),
        ([0, 1, 0, 0, 0], [False] * 5, (((0, 1), (2, 4)),)),
        ([0, 0, 2, 2, 2], [False] * 5, (((0, 1), (3, 4), (7, 9)), ((2, 4), (5, 6)))),
        ([0, 0, 0, 3, 0], [True, False, True, True, False], (((0, 1), (5, 6)), ((3, 4),))),
        ([], [], ()),
    ],
)
def test_chains_follow_the_best_antecedents(best, alone, expected):
    assert chains_of(SPANS[: len(best)], best, alone) == expected
