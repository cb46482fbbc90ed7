"""Spans: representations and scores from joined vectors, pruning against its rule, one candidate after the other."""

import itertools

import numpy as np
import pytest
import torch

from tasks.coref.head import EncodedDocument, Spans, prune

SENTENCES = (5, 1, 4)
TOKENS, LONGEST = sum(SENTENCES), 3
ENDS = [4] * 5 + [5] + [9] * 4  # the last token of each token's sentence


@pytest.fixture
def spans():
    torch.manual_seed(1)
    return Spans(input_dim=6, state_dim=8, longest=LONGEST, feature_dim=2, hidden=7, dropout=0.5).double().eval()


@pytest.fixture
def document():
    torch.manual_seed(2)
    vectors, states = torch.randn(TOKENS, 6).double(), torch.randn(TOKENS, 8).double()
    vectors.requires_grad_()
    states.requires_grad_()
    return EncodedDocument(vectors, states, torch.tensor(ENDS), torch.zeros(TOKENS), torch.tensor(0), {})


def every_span():
    """All spans within a sentence, by a walk over the sentences."""
    found, before = [], 0
    for length in SENTENCES:
        found += [
            (before + start, before + end)
            for start, end in itertools.combinations(range(length + 1), 2)
            if end - start <= LONGEST
        ]
        before += length
    return sorted(found)


def represented(spans, document, start, end):
    """The representation of one span, by its definition."""
    states, vectors = document.states[start:end], document.vectors[start:end]
    weights = torch.softmax(states @ spans.attention.weight[0], dim=0)
    return torch.cat(
        [states[0], states[-1], (weights.unsqueeze(1) * vectors).sum(dim=0), spans.width.weight[end - start - 1]]
    )


def test_representations(spans, document):
    chosen = [(0, 1), (0, 3), (2, 5), (5, 6), (7, 10), (9, 10)]
    expected = torch.stack([represented(spans, document, *span) for span in chosen])
    torch.testing.assert_close(spans(document, chosen), expected)


@pytest.mark.parametrize("at_once", [1, 2 * LONGEST, 1000])
def test_every_candidate_is_scored_as_a_joined_vector_would_be(spans, document, at_once):
    scores = spans.candidate_scores(document, at_once)
    assert scores.shape == (TOKENS, LONGEST)
    found = [(start, start + more + 1) for start, more in (scores > -torch.inf).nonzero().tolist()]
    assert found == every_span()
    for start, end in found:
        expected = spans.scorer(represented(spans, document, start, end))
        assert scores[start, end - start - 1].item() == pytest.approx(expected.item(), rel=1e-5)


def cross(one, other):
    (a, b), (c, d) = sorted([one, other])
    return a < c < b < d


def pruned_by_its_rule(scores, most):
    tokens, longest = scores.shape
    ranked = sorted(
        (
            (start, start + more + 1)
            for start in range(tokens)
            for more in range(longest)
            if scores[start, more] > -np.inf
        ),
        key=lambda span: -scores[span[0], span[1] - span[0] - 1],
    )
    taken = []
    for span in ranked:
        if len(taken) < most and not any(cross(span, other) for other in taken):
            taken.append(span)
    return sorted(taken)


@pytest.mark.parametrize("seed", range(20))
def test_pruning_takes_the_best_spans_that_do_not_cross(seed):
    draw = np.random.default_rng(seed)
    scores = draw.normal(size=(12, 5))
    scores[np.arange(12)[:, None] + np.arange(5) >= 12] = -np.inf
    scores[draw.random(scores.shape) < 0.2] = -np.inf
    for most in (1, 4, 10, 100):
        kept = prune(scores, most)
        assert kept == pruned_by_its_rule(scores, most)
    assert not any(cross(*pair) for pair in itertools.combinations(kept, 2))
    assert 10 < len(kept) < np.isfinite(scores).sum()


def test_a_score_that_is_not_a_number_is_kept_for_the_loss_to_show():
    assert prune(np.array([[np.nan], [-np.inf], [-1.0]]), 1) == [(0, 1)]
