"""The anchor: a biLM with our weights, computed in the plain way that AllenNLP's documentation describes.

The character encoder reads all 50 characters of every padded position; the LSTMs step over the padded batch, sorted by
length, and multiply input and state at each step. AllenNLP can also compute the vectors of a known vocabulary once
(`vocab_to_cache`): benchmarks of more than one batch are compared with that, too. A slow anchor would make our ratios
too good, so `doubt` compares its speed with that of AllenNLP's code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import linear

from elmo.bilm.model import Bilm
from elmo.bilm.sentences import character_ids
from tests.benchmarks.measuring.timing import Rounds

NAME = "AllenNLP's way"
CACHED = "AllenNLP's way, words cached"
CHUNK = 1024  # words that AllenNLP encodes at once to fill its cache
# Tokens per CPU second at size small that an honest anchor reaches; AllenNLP's own code reached 157 there.
LEAST_SPEED = {"Neoverse-N1": 140.0}


def doubt(speed: float, processor: str) -> str:
    """Why ratios to an anchor of this speed at size small do not count; "" if they do, or if it is unknown."""
    least = LEAST_SPEED.get(processor, 0.0)
    if speed >= least:
        return ""
    return f"at size small the anchor reached {speed:.0f} tokens per CPU second, and {least:.0f} are expected here"


@dataclass(frozen=True)
class Cache:
    """The vectors of known words, (words, projection_dim)."""

    number_of: Mapping[str, int]
    vectors: Tensor


@torch.no_grad()
def fill_cache(bilm: Bilm, words: Sequence[str]) -> Cache:
    """Encodes words, and the marks of sentence ends, in chunks."""
    known = list(dict.fromkeys(["", "<S>", "</S>", *words]))
    chunks = [known[i : i + CHUNK] for i in range(0, len(known), CHUNK)]
    vectors = [bilm.encoder(torch.from_numpy(character_ids(chunk)).to(bilm.device)) for chunk in chunks]
    return Cache({word: number for number, word in enumerate(known)}, torch.cat(vectors))


def parts_with_cache(bilm: Bilm, words: Sequence[str], batch: list[list[str]]) -> dict[str, Callable[[], object]]:
    """The parts that `with_cache` needs timed: filling the cache with a chunk of words, and reading a batch from it."""
    chunk, cache = words[: CHUNK - 3], fill_cache(bilm, [word for sentence in batch for word in sentence])
    return {"cache": partial(fill_cache, bilm, chunk), "from cache": partial(layers, bilm, batch, cache)}


def with_cache(rounds: Rounds, words: int, batches: float) -> Rounds:
    """Adds the path CACHED, which puts `words` into the cache and reads `batches` from it.

    Its time is extrapolated from the time of the parts: measured completely, the anchor alone would take a minute.
    """
    chunks = words / min(words, CHUNK - 3)
    timed = zip(rounds.seconds["cache"], rounds.seconds["from cache"], strict=True)
    return Rounds({**rounds.seconds, CACHED: [chunks * filling + batches * reading for filling, reading in timed]})


@torch.no_grad()
def layers(bilm: Bilm, sentences: list[list[str]], cache: Cache | None = None) -> Tensor:
    """(layers, sentences, tokens, dim), zero where a sentence has ended; with a cache, all words are in it."""
    marked = sorted((["<S>", *words, "</S>"] for words in sentences), key=len, reverse=True)
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]), reverse=True)
    lengths = [len(words) for words in marked]
    padded = [word for words in marked for word in [*words, *[""] * (lengths[0] - len(words))]]
    if cache is None:
        x = bilm.encoder(torch.from_numpy(character_ids(padded)).to(bilm.device))
    else:
        x = cache.vectors[torch.tensor([cache.number_of[word] for word in padded], device=bilm.device)]
    x = x.view(len(marked), lengths[0], -1)  # (sentences, steps, projection_dim)
    halves = [_direction(bilm, 0, x, lengths), _direction(bilm, 1, x, lengths)]
    result = torch.cat(halves, dim=-1)[:, :, 1:]
    for row, length in enumerate(lengths):
        result[:, row, length - 2 :] = 0.0
    back = torch.empty(len(order), dtype=torch.int64)
    back[order] = torch.arange(len(order))
    return result[:, back, : lengths[0] - 2]


def _direction(bilm: Bilm, direction: int, x: Tensor, lengths: list[int]) -> Tensor:
    """One direction's half of every layer, (layers, sentences, steps, projection_dim)."""
    outputs = [x]
    for number, lstm in enumerate(bilm.directions[direction]):
        inputs, output = outputs[-1], torch.zeros_like(x)
        # Two weight matrices, as in AllenNLP; copying them once per layer is negligible.
        to_input, to_state = (part.contiguous() for part in lstm.weight.split(lstm.input_dim, dim=1))
        state = x.new_zeros(len(lengths), lstm.projection_dim)
        cell = x.new_zeros(len(lengths), lstm.cell_dim)
        steps = range(lengths[0]) if direction == 0 else range(lengths[0] - 1, -1, -1)
        for step in steps:
            n = sum(length > step for length in lengths)  # rows that have a token here
            gates = linear(inputs[:n, step], to_input) + linear(state[:n], to_state, lstm.bias)
            i, f, g, o = gates.chunk(4, dim=1)
            memory = torch.sigmoid(i) * torch.tanh(g) + torch.sigmoid(f + 1.0) * cell[:n]
            memory = _clipped(memory, lstm.clips[0])
            projected = linear(torch.sigmoid(o) * torch.tanh(memory), lstm.projection)
            projected = _clipped(projected, lstm.clips[1])
            cell[:n], state[:n], output[:n, step] = memory, projected, projected
        skip = bilm.options.skip_connections and number > 0
        outputs.append(output + inputs if skip else output)
    return torch.stack(outputs)


def _clipped(x: Tensor, most: float | None) -> Tensor:
    return x if most is None else torch.clamp(x, -most, most)
