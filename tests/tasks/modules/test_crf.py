"""The CRF: likelihood, gradients and decoding, compared with pytorch-crf and with enumeration."""

import itertools
import math
import random

import pytest
import torch
from torchcrf import CRF

from tasks.data.text import may_follow
from tasks.modules.crf import ConstrainedCrf

BIOES = ["O", *(f"{prefix}-{label}" for label in ("PER", "LOC") for prefix in "BIES")]


def make_crf(tags, allowed=may_follow, seed=0, scale=2.0):
    crf = ConstrainedCrf(tags, allowed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return crf


def make_batch(lengths, n_tags, seed=0, scale=2.0):
    generator = torch.Generator().manual_seed(seed)
    emissions = scale * torch.randn(len(lengths), max(lengths), n_tags, generator=generator)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return emissions, mask


def path_score(crf, emissions, path):
    """The score of one tag sequence over one sentence, by the definition."""
    score = crf.start_transitions[path[0]] + crf.end_transitions[path[-1]]
    score = score + sum(emissions[step, tag] for step, tag in enumerate(path))
    return float(score + sum(crf.transitions[a, b] for a, b in itertools.pairwise(path)))


def is_allowed(tags, path):
    names = ["", *(tags[number] for number in path), ""]
    return all(may_follow(a, b) for a, b in itertools.pairwise(names))


def test_parameters_are_those_of_the_library():
    """Starting values are drawn by parameter name, and saved models hold these names."""
    crf, library = make_crf(BIOES), CRF(len(BIOES))
    assert isinstance(crf, CRF)
    assert {name: p.shape for name, p in crf.named_parameters()} == {
        name: p.shape for name, p in library.named_parameters()
    }


@torch.no_grad()
def test_likelihood_is_that_of_enumeration():
    tags = BIOES[:5]
    crf = make_crf(tags)
    lengths = [4, 1, 3]
    emissions, mask = make_batch(lengths, len(tags))
    gold = torch.randint(len(tags), mask.shape, generator=torch.Generator().manual_seed(3))
    expected = 0.0
    for row, length in enumerate(lengths):
        scores = [path_score(crf, emissions[row], path) for path in itertools.product(range(len(tags)), repeat=length)]
        right = path_score(crf, emissions[row], gold[row, :length].tolist())
        expected += right - float(torch.logsumexp(torch.tensor(scores, dtype=torch.float64), 0))
    assert float(crf.log_likelihood(emissions, gold, mask).sum()) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("lengths", [[7, 1, 4, 10, 2], [1], [1, 1], [5, 5]])
def test_likelihood_and_gradients_are_those_of_the_library(lengths):
    crf = make_crf(BIOES).double()
    emissions, mask = make_batch(lengths, len(BIOES))
    emissions = emissions.double().requires_grad_()
    gold = torch.randint(len(BIOES), mask.shape, generator=torch.Generator().manual_seed(3))
    weights = torch.linspace(0.5, 2.0, len(lengths), dtype=torch.float64)
    wanted = [emissions, *crf.parameters()]
    ours = crf.log_likelihood(emissions, gold, mask)
    library = CRF.forward(crf, emissions, gold, mask=mask, reduction="none")
    assert torch.allclose(ours, library, rtol=1e-12)
    for mine, theirs in zip(
        torch.autograd.grad((ours * weights).sum(), wanted),
        torch.autograd.grad((library * weights).sum(), wanted, materialize_grads=True),
        strict=True,
    ):
        assert torch.allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_scores_that_differ_by_hundreds_keep_their_gradients():
    """One tag is certain: the likelihood of another is what it costs, and the gradient moves one to the other."""
    crf = make_crf(BIOES, scale=0.0)
    emissions = torch.zeros(1, 3, len(BIOES))
    emissions[..., 0] = 300
    emissions.requires_grad_()
    likelihood = crf.log_likelihood(emissions, torch.ones(1, 3, dtype=torch.long), torch.ones(1, 3, dtype=torch.bool))
    likelihood.sum().backward()
    assert likelihood.item() == pytest.approx(-900)
    expected = torch.zeros(1, 3, len(BIOES))
    expected[..., 0], expected[..., 1] = -1, 1
    assert torch.allclose(emissions.grad, expected)


def test_values_after_the_end_of_a_sentence_do_not_count():
    crf = make_crf(BIOES)
    emissions, mask = make_batch([3, 6], len(BIOES))
    gold = torch.randint(len(BIOES), mask.shape, generator=torch.Generator().manual_seed(3))
    noise = emissions.masked_fill(~mask.unsqueeze(2), float("inf")).requires_grad_()
    likelihood = crf.log_likelihood(noise, gold.masked_fill(~mask, -1), mask)
    assert torch.equal(likelihood, crf.log_likelihood(emissions, gold, mask))
    likelihood.sum().backward()
    assert torch.equal(noise.grad[0, 3:], torch.zeros(3, len(BIOES)))


@torch.no_grad()
@pytest.mark.parametrize("seed", range(5))
def test_decoding_finds_the_best_allowed_sequence(seed):
    tags = BIOES[:5] if seed % 2 else BIOES
    crf = make_crf(tags, seed=seed)
    lengths = [4, 1, 2, 3] if len(tags) == 5 else [3, 1, 2]
    emissions, mask = make_batch(lengths, len(tags), seed=seed)
    decoded = crf.decode(emissions, mask)
    for row, length in enumerate(lengths):
        paths = [p for p in itertools.product(range(len(tags)), repeat=length) if is_allowed(tags, p)]
        best = max(paths, key=lambda path: path_score(crf, emissions[row], path))
        assert decoded[row] == list(best)


@torch.no_grad()
def test_probabilities_are_those_of_enumeration():
    """Of single tags, and of runs of tags: a tag times those before it, each given the next. In float64."""
    tags = BIOES[:5]
    crf, lengths = make_crf(tags, seed=2).double(), [4, 1, 3]
    emissions, mask = make_batch(lengths, len(tags), seed=2, scale=1.0)
    emissions = emissions.double()
    decoded = crf.decode(emissions, mask)
    own, given_next = crf.probabilities(emissions, decoded, mask)
    for row, length in enumerate(lengths):
        paths = [path for path in itertools.product(range(len(tags)), repeat=length) if is_allowed(tags, path)]
        weights = [math.exp(path_score(crf, emissions[row], path)) for path in paths]
        for start, end in itertools.combinations(range(length + 1), 2):
            same = (path[start:end] == tuple(decoded[row][start:end]) for path in paths)
            expected = sum(itertools.compress(weights, same)) / sum(weights)
            found = own[row, end - 1] * given_next[row, start : end - 1].prod()
            assert float(found) == pytest.approx(expected, rel=1e-10)
            assert 0.01 < expected < 0.999 or length == 1, "nothing is certain"


@torch.no_grad()
def test_the_constraint_matters():
    """The sequences of the test above are not simply the best of all."""
    crf = make_crf(BIOES)
    emissions, mask = make_batch([8] * 4, len(BIOES))
    assert any(not is_allowed(BIOES, path) for path in CRF.decode(crf, emissions, mask))


@torch.no_grad()
def test_decoded_tags_follow_the_scheme():
    draw = random.Random(0)
    for seed in range(20):
        lengths = [draw.randrange(1, 15) for _ in range(6)]
        crf = make_crf(BIOES, seed=seed, scale=50.0)
        emissions, mask = make_batch(lengths, len(BIOES), seed=seed, scale=1000.0)
        for path, length in zip(crf.decode(emissions, mask), lengths, strict=True):
            assert len(path) == length
            assert is_allowed(BIOES, path)


@torch.no_grad()
@pytest.mark.parametrize("wrong", ["I-PER", "E-PER", "B-PER"])
def test_a_forbidden_tag_is_never_chosen_whatever_its_score(wrong):
    """A sentence of one token may only be O or S, and one of two never begins with I or E nor ends with B or I."""
    crf = make_crf(BIOES, scale=0.0)
    emissions = torch.zeros(2, 2, len(BIOES))
    emissions[..., BIOES.index(wrong)] = 1e6
    mask = torch.tensor([[True, False], [True, True]])
    single, double = crf.decode(emissions, mask)
    assert BIOES[single[0]] in ("O", "S-PER", "S-LOC")
    assert is_allowed(BIOES, double)


@torch.no_grad()
def test_without_constraints_it_decodes_as_the_library_does():
    tags = [str(number) for number in range(6)]
    crf = make_crf(tags, lambda first, second: True)
    emissions, mask = make_batch([9, 1, 5, 12], len(tags))
    assert crf.decode(emissions, mask) == CRF.decode(crf, emissions, mask)


@torch.no_grad()
def test_other_sentences_and_padding_change_nothing():
    crf = make_crf(BIOES)
    lengths = [7, 1, 4, 10, 2]
    emissions, mask = make_batch(lengths, len(BIOES))
    together = crf.decode(emissions, mask)
    noise = emissions.masked_fill(~mask.unsqueeze(-1), 1e4)
    assert crf.decode(noise, mask) == together
    for row, length in enumerate(lengths):
        alone = crf.decode(emissions[row : row + 1, :length], mask[row : row + 1, :length])
        assert alone == [together[row]]


@torch.no_grad()
def test_half_precision_emissions_are_added_in_full_precision():
    """In bfloat16 the sum 256 + 1 is 256: the better path would be lost in rounding."""
    crf = make_crf(["O", "S-PER"], scale=0.0)
    emissions = torch.zeros(1, 3, 2, dtype=torch.bfloat16)
    emissions[0, 0] = 256
    emissions[0, 1, 1] = 1
    emissions[0, 2] = 256
    assert crf.decode(emissions, torch.ones(1, 3, dtype=torch.bool)) == [[0, 1, 0]]
