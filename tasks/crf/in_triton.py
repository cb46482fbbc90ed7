"""A CRF's walks along sentences on a GPU, one kernel each: a program walks along one sentence; see `tasks.crf.Walks`.

A step is a product with the transitions, which stay in registers, so a walk is one launch where torch would need five
for every token.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# mypy: disable-error-code="misc,no-untyped-def,no-untyped-call,untyped-decorator,import-not-found,import-untyped"
# ruff: noqa: ANN001, ANN202, N803


@triton.jit
def _square(values, n_tags, other, TAGS: tl.constexpr):
    """A matrix over tags, (TAGS, TAGS), `other` outside."""
    tag = tl.arange(0, TAGS)
    inside = (tag < n_tags)[:, None] & (tag < n_tags)[None, :]
    return tl.load(values + tag[:, None] * n_tags + tag[None, :], mask=inside, other=other)


@triton.jit
def _filtered(potentials, first, follow, lengths, forward, totals, batch, tokens, n_tags, TAGS: tl.constexpr):
    sentence = tl.program_id(0)
    tag = tl.arange(0, TAGS)
    inside = tag < n_tags
    follow_tile = _square(follow, n_tags, 0.0, TAGS)  # (from, to)
    length = tl.load(lengths + sentence)
    reached = tl.load(first + tag, inside, other=0.0)
    reached *= tl.load(potentials + sentence * n_tags + tag, inside, other=0.0)
    total = tl.sum(reached)
    alpha = reached / total
    tl.store(totals + sentence, total)
    tl.store(forward + sentence * n_tags + tag, alpha, inside)
    for step in range(1, tokens):
        row = step * batch + sentence
        total = total * 0 + 1  # a finished sentence steps in place
        if step < length:
            reached = tl.sum(alpha[:, None] * follow_tile, axis=0)
            reached *= tl.load(potentials + row * n_tags + tag, inside, other=0.0)
            total = tl.sum(reached)
            alpha = reached / total
        tl.store(totals + row, total)
        tl.store(forward + row * n_tags + tag, alpha, inside)


@triton.jit
def _smoothed(scaled, behind, follow, lengths, backward, reading, batch, tokens, n_tags, TAGS: tl.constexpr):
    sentence = tl.program_id(0)
    tag = tl.arange(0, TAGS)
    inside = tag < n_tags
    follow_tile = _square(follow, n_tags, 0.0, TAGS)  # (from, to)
    length = tl.load(lengths + sentence)
    beta = tl.load(behind + sentence * n_tags + tag, inside, other=0.0)
    for back in range(tokens):
        step = tokens - 1 - back
        row = step * batch + sentence
        tl.store(backward + row * n_tags + tag, beta, inside)
        read = tl.zeros_like(beta)
        if (step < length) & (step > 0):
            read = beta * tl.load(scaled + row * n_tags + tag, inside, other=0.0)
            beta = tl.sum(follow_tile * read[None, :], axis=1)
        tl.store(reading + row * n_tags + tag, read, inside)


@triton.jit
def _best_paths(emissions, starts, transitions, ends, lengths, history, paths, tokens, n_tags, TAGS: tl.constexpr):
    sentence = tl.program_id(0)
    tag = tl.arange(0, TAGS)
    inside = tag < n_tags
    never = float("-inf")
    transition = _square(transitions, n_tags, never, TAGS)  # (from, to)
    length = tl.load(lengths + sentence)
    emissions += sentence * tokens * n_tags
    history += sentence * tokens * n_tags
    paths += sentence * tokens
    score = tl.load(starts + tag, inside, other=never) + tl.load(emissions + tag, inside, other=never)
    for step in range(1, length):
        best, previous = tl.max(score[:, None] + transition, axis=0, return_indices=True)
        score = best + tl.load(emissions + step * n_tags + tag, inside, other=never)
        tl.store(history + step * n_tags + tag, previous, inside)
    tl.debug_barrier()  # all threads see the history that one of them now follows back
    last = tl.argmax(score + tl.load(ends + tag, inside, other=never), axis=0)
    for back in range(length):
        step = length - 1 - back
        tl.store(paths + step, last)
        if step > 0:
            last = tl.load(history + step * n_tags + last)


def filtered(potentials: Tensor, first: Tensor, follow: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """How likely each tag is, given what came up to it, and by how much each step was scaled."""
    tokens, batch, n_tags = potentials.shape
    forward, totals = torch.empty_like(potentials), potentials.new_empty(tokens, batch)
    tensors = potentials, first, follow, mask.sum(dim=1, dtype=torch.int32), forward, totals
    _filtered[(batch,)](*tensors, batch, tokens, n_tags, TAGS=triton.next_power_of_2(n_tags), num_warps=_warps(n_tags))
    return forward, totals


def smoothed(scaled: Tensor, behind: Tensor, follow: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What comes after each tag, and the same with the tag's own potential."""
    tokens, batch, n_tags = scaled.shape
    backward, reading = torch.empty_like(scaled), torch.empty_like(scaled)
    tensors = scaled, behind, follow, mask.sum(dim=1, dtype=torch.int32), backward, reading
    _smoothed[(batch,)](*tensors, batch, tokens, n_tags, TAGS=triton.next_power_of_2(n_tags), num_warps=_warps(n_tags))
    return backward, reading


def best_paths(emissions: Tensor, starts: Tensor, transitions: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
    """The tag numbers of the highest sum of scores."""
    batch, tokens, n_tags = emissions.shape
    history = torch.empty(batch, tokens, n_tags, dtype=torch.int32, device=emissions.device)
    paths = torch.zeros(batch, tokens, dtype=torch.int32, device=emissions.device)
    tensors = emissions.contiguous(), starts, transitions, ends, mask.sum(dim=1, dtype=torch.int32), history, paths
    _best_paths[(batch,)](*tensors, tokens, n_tags, TAGS=triton.next_power_of_2(n_tags), num_warps=_warps(n_tags))
    return paths


def _warps(n_tags: int) -> int:
    """How many groups of threads share a matrix of transitions."""
    return 1 if n_tags <= 32 else 4 if n_tags <= 64 else 8
