"""The CRF's likelihood and its gradients in Triton, one program per sentence; the plain form is in torch.

A step is a product with the transitions, which stay in registers, so that a loop is one launch; torch needs five for
every token. As in `crf_in_torch`, probabilities are scaled to one at each step, in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

# mypy: disable-error-code="misc,no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,import-untyped"
# ruff: noqa: ANN001, ANN202, N803

SIZES = ["tokens"]  # differs between batches; Triton would compile another kernel if 16 divides it


@triton.jit
def _square(values, n_tags, other, TAGS: tl.constexpr):
    """A matrix over tags, (TAGS, TAGS), `other` outside."""
    tag = tl.arange(0, TAGS)
    inside = (tag < n_tags)[:, None] & (tag < n_tags)[None, :]
    return tl.load(values + tag[:, None] * n_tags + tag[None, :], mask=inside, other=other)


@triton.jit
def _double(values, tag, n_tags):
    """A row over tags in float64, minus infinity outside."""
    return tl.load(values + tag, mask=tag < n_tags, other=float("-inf")).to(tl.float64)


@triton.jit(do_not_specialize=SIZES)
def _likelihood(
    emissions,
    transitions,
    starts,
    ends,
    tags,
    lengths,
    value,
    forward,
    scales,
    at_end,
    tokens,
    n_tags,
    TAGS: tl.constexpr,
):
    sentence = tl.program_id(0)
    tag = tl.arange(0, TAGS)
    inside = tag < n_tags
    emissions += sentence * tokens * n_tags
    forward += sentence * tokens * n_tags
    tags += sentence * tokens
    length = tl.load(lengths + sentence)
    follow = tl.exp(_square(transitions, n_tags, float("-inf"), TAGS).to(tl.float64))  # (from, to)
    scores = _double(emissions, tag, n_tags)
    highest = tl.max(scores)
    reached = tl.exp(scores - highest) * tl.exp(_double(starts, tag, n_tags))
    total = tl.sum(reached)
    alpha = reached / total  # the probability of each tag, given the tokens so far
    partition = tl.log(total) + highest
    tl.store(scales + sentence * tokens, total)
    tl.store(forward + tag, alpha, inside)
    gold = tl.load(tags)
    found = tl.load(starts + gold).to(tl.float64) + tl.load(emissions + gold).to(tl.float64)
    for step in range(1, length):
        row = step * n_tags
        scores = _double(emissions + row, tag, n_tags)
        highest = tl.max(scores)
        reached = tl.sum(alpha[:, None] * follow, axis=0) * tl.exp(scores - highest)
        total = tl.sum(reached)
        alpha = reached / total
        partition += tl.log(total) + highest
        tl.store(scales + sentence * tokens + step, total)
        tl.store(forward + row + tag, alpha, inside)
        before = gold
        gold = tl.load(tags + step)
        found += tl.load(transitions + before * n_tags + gold).to(tl.float64)
        found += tl.load(emissions + row + gold).to(tl.float64)
    ending = tl.sum(alpha * tl.exp(_double(ends, tag, n_tags)))
    found += tl.load(ends + gold).to(tl.float64)
    tl.store(at_end + sentence, ending)
    tl.store(value + sentence, found - partition - tl.log(ending))


@triton.jit(do_not_specialize=SIZES)
def _gradients(
    emissions,
    transitions,
    ends,
    tags,
    lengths,
    weights,
    forward,
    scales,
    at_end,
    by_tag,
    by_pair,
    by_last,
    tokens,
    n_tags,
    TAGS: tl.constexpr,
):
    sentence = tl.program_id(0)
    tag = tl.arange(0, TAGS)
    inside = tag < n_tags
    emissions += sentence * tokens * n_tags
    forward += sentence * tokens * n_tags
    by_tag += sentence * tokens * n_tags
    tags += sentence * tokens
    length, weight = tl.load(lengths + sentence), tl.load(weights + sentence)
    follow = tl.exp(_square(transitions, n_tags, float("-inf"), TAGS).to(tl.float64))  # (from, to)
    beta = tl.exp(_double(ends, tag, n_tags)) / tl.load(at_end + sentence) * weight  # the backward values
    gold = tl.load(tags + length - 1)
    alpha = tl.load(forward + (length - 1) * n_tags + tag, inside, other=0.0)
    tl.store(by_last + sentence * n_tags + tag, weight * (tag == gold) - alpha * beta, inside)
    pairs = tl.zeros([TAGS, TAGS], dtype=tl.float64)
    for back in range(length - 1):
        step = length - 1 - back
        row = step * n_tags
        tl.store(by_tag + row + tag, weight * (tag == gold) - alpha * beta, inside)
        scores = _double(emissions + row, tag, n_tags)
        read = beta * tl.exp(scores - tl.max(scores)) / tl.load(scales + sentence * tokens + step)
        alpha = tl.load(forward + row - n_tags + tag, inside, other=0.0)
        before = tl.load(tags + step - 1)
        pairs -= alpha[:, None] * follow * read[None, :]
        pairs += weight * ((tag == before)[:, None] & (tag == gold)[None, :])
        beta = tl.sum(follow * read[None, :], axis=1)
        gold = before
    tl.store(by_tag + tag, weight * (tag == gold) - alpha * beta, inside)
    square = inside[:, None] & inside[None, :]
    tl.store(by_pair + sentence * n_tags * n_tags + tag[:, None] * n_tags + tag[None, :], pairs, square)


def likelihood(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
) -> tuple[Tensor, Sequence[Tensor]]:
    """The log-likelihood of the tags, and the tensors for its gradients."""
    batch, tokens, n_tags = emissions.shape
    emissions, lengths = emissions.contiguous(), mask.sum(dim=1, dtype=torch.int32)
    forward = torch.empty(batch, tokens, n_tags, dtype=torch.float64, device=emissions.device)
    value, scales, at_end = forward.new_empty(batch), forward.new_empty(batch, tokens), forward.new_empty(batch)
    tensors = emissions, transitions, starts, ends, tags.contiguous(), lengths, value, forward, scales, at_end
    _likelihood[(batch,)](*tensors, tokens, n_tags, TAGS=triton.next_power_of_2(n_tags), num_warps=_warps(n_tags))
    return value, (emissions, lengths, forward, scales, at_end)


def gradients(
    weight: Tensor, kept: Sequence[Tensor], transitions: Tensor, ends: Tensor, tags: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of emissions, transitions, starts and ends: gold counts minus marginal probabilities."""
    emissions, lengths, *found = kept
    batch, tokens, n_tags = emissions.shape
    by_tag = torch.zeros_like(found[0])
    by_pair, by_last = by_tag.new_empty(batch, n_tags, n_tags), by_tag.new_empty(batch, n_tags)
    tensors = emissions, transitions, ends, tags.contiguous(), lengths, weight, *found, by_tag, by_pair, by_last
    _gradients[(batch,)](*tensors, tokens, n_tags, TAGS=triton.next_power_of_2(n_tags), num_warps=_warps(n_tags))
    return by_tag, by_pair.sum(dim=0), by_tag[:, 0].sum(dim=0), by_last.sum(dim=0)


def _warps(n_tags: int) -> int:
    """The number of warps that share a matrix of transitions."""
    return 1 if n_tags <= 32 else 4 if n_tags <= 64 else 8
