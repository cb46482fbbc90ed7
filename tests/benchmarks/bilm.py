"""Benchmark of the biLM: tokens a second, compared with AllenNLP's method and, on a GPU, with cuDNN's LSTM."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor

from elmo import SIZES, Bilm, random_bilm
from elmo.bilm import fast
from elmo.kernels.in_c import SWITCH
from elmo.store.cached_layers import CachedLayers
from tests.benchmarks import text
from tests.benchmarks.bilm_gpu import cudnn_layers, unclipped_torch_lstm
from tests.benchmarks.measuring import anchor
from tests.benchmarks.measuring.rows import Measurement
from tests.benchmarks.measuring.timing import Rounds, in_turn, processor, second, show_status

INT8 = "in int8"
CUDNN = "cuDNN's LSTM, no clipping"
TOLERANCE = 1e-4  # on a GPU; on a CPU half of it: single precision at these sizes, and sums in another order
CHECKED = 4, 12  # sentences, and words of each, on which all paths must agree before they are timed

Path = Callable[[list[list[str]]], Tensor]


@dataclass(frozen=True)
class Workload:
    """A size of the biLM, and the text that it reads.

    Attributes:
        size: its name.
        sentences: of a batch.
        stream: batches in a row, with an empty word cache before the first; 0 leaves it out. On a GPU, a store is
            filled with as many batches.
        rounds: how often each path reads the batch.
        halved: whether only the first half of each sentence is read.
    """

    size: str
    sentences: int
    stream: int
    rounds: int
    halved: bool = False

    def batch(self) -> list[list[str]]:
        sentences = text.sentences(self.sentences)
        return [sentence[: (len(sentence) + 1) // 2] for sentence in sentences] if self.halved else sentences

    def shape(self) -> str:
        return f"{self.size}, {self.sentences} {'half ' * self.halved}sentences"


# Size original costs the anchor 25 CPU seconds. Sentences of half the length take half of that, and the ratio drops by
# a twentieth. Half as many sentences would favour us: a step reads all weights for any number of sentences, which costs
# the anchor more.
QUICK = (Workload("small", 64, 20, 1), Workload("original", 64, 0, 1, halved=True))
FULL = (Workload("small", 64, 20, 5), Workload("original", 64, 0, 3))
ON_A_GPU = (Workload("small", 64, 300, 7), Workload("original", 64, 300, 7))
AIMS = {
    ("small", "compiled"): 7.0,
    ("small", "in torch"): 5.0,
    ("small", "stream"): 10.0,
    ("original", "compiled"): 2.5,
    ("original", "in torch"): 2.0,
    ("small", INT8): 15.0,
    ("small", f"{INT8}, a stream"): 20.0,
    ("original", INT8): 6.0,
}
PAIR, PAIR_RATIO = ("medium", "small"), 1.0  # the first in int8 is as fast as the second in float32
LARGEST_ERROR = 0.1  # of int8 layers, as a share of their length
OF_CUDNN, OF_OWN_BATCHES = 0.5, 10.0  # aims on a GPU


def rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """The rows of all sizes; if the anchor is too slow at size small, no ratio to it counts."""
    if device.type != "cpu":
        for work in ON_A_GPU:
            yield from gpu_rows(work, device)
        return
    doubt = ""
    for work in FULL if full else QUICK:
        for row in cpu_rows(work, device):
            if work.size == "small" and row.anchor is not None:
                doubt = doubt or anchor.doubt(row.anchor, processor(device))
            yield row.doubted(doubt)
    yield pair_row(device, 5 if full else 1)


def pair_row(device: torch.device, rounds: int) -> Measurement:
    """A larger biLM in int8 next to a small one in float32."""
    batch = text.sentences(64)
    tokens = sum(map(len, batch))
    large, little = PAIR
    against = f"{little} in float32"
    paths = {large: random_bilm(large, seed=1).use_int8(), against: random_bilm(little, seed=1)}
    for bilm in paths.values():
        bilm.layers(batch[:1])  # converts weights
    timed = {name: partial(bilm.layers, batch) for name, bilm in paths.items()}
    found = in_turn(timed, device, f"biLM, {large} in int8", rounds)
    return rate(found, large, against, f"biLM, {INT8}", f"{large}, 64 sentences", tokens, tokens, device, PAIR_RATIO)


def cpu_rows(work: Workload, device: torch.device) -> Iterator[Measurement]:
    """One batch, compiled and in torch, and a stream of batches."""
    show_status(f"biLM, {work.size}: builds and compares")
    bilm = random_bilm(work.size, seed=1)
    batch = work.batch()
    paths: dict[str, Path] = {"compiled": bilm.layers, "in torch": partial(torch_alone, bilm)}
    if fast.compiled() is None:
        del paths["compiled"]
    sentences, words = CHECKED
    agree(paths, bilm, [sentence[:words] for sentence in batch[:sentences]], TOLERANCE / 2)
    paths[anchor.NAME] = partial(anchor.layers, bilm)
    rounded = random_bilm(work.size, seed=1).use_int8()
    nearly_agree(rounded, bilm, batch[:sentences])
    paths[INT8] = rounded.layers
    batches = [text.sentences(work.sentences, seed) for seed in range(work.stream)]
    streaming = random_bilm(work.size, seed=1) if batches else bilm

    def stream(reader: Bilm) -> None:
        reader.remember_words()  # forgets all words
        for some in batches:
            reader.layers(some)

    timed = {name: partial(path, batch) for name, path in paths.items()}
    if batches:
        rounded_stream = random_bilm(work.size, seed=1).use_int8()
        timed |= {"stream": partial(stream, streaming), f"{INT8}, a stream": partial(stream, rounded_stream)}
    streamed = text.words(sentence for some in batches for sentence in some)
    cached = anchor.parts_with_cache(bilm, streamed, batch) if batches else {}
    rounds = in_turn(timed | cached, device, f"biLM, {work.size}", work.rounds)
    tokens = sum(map(len, batch))
    for name in timed:
        aim = AIMS.get((work.size, name))
        if name.endswith("stream"):  # without a cache, the anchor is as fast on a stream as on a batch
            shape = f"{work.size}, {work.stream} batches of {work.sentences}"
            read = sum(len(sentence) for some in batches for sentence in some)
            what = f"biLM, {next(iter(paths))}, a stream" if name == "stream" else f"biLM, {name}"
            yield rate(rounds, name, anchor.NAME, what, shape, read, tokens, device, aim)
            cached_rounds = anchor.with_cache(rounds, len(streamed), read / tokens)
            yield rate(cached_rounds, name, anchor.CACHED, what, shape, read, read, device, None)
        elif name != anchor.NAME:
            yield rate(rounds, name, anchor.NAME, f"biLM, {name}", work.shape(), tokens, tokens, device, aim)


def gpu_rows(work: Workload, device: torch.device) -> Iterator[Measurement]:
    """One batch, and batches of our choice as for filling a store; with clipping, and without."""
    show_status(f"biLM, {work.size}: builds and compares")
    shape = SIZES[work.size]
    clipped = random_bilm(shape, seed=1).to(device)
    unclipped = random_bilm(replace(shape, cell_clip=None, projection_clip=None), seed=1).to(device)
    lstms = [[unclipped_torch_lstm(lstm) for lstm in direction] for direction in unclipped.directions]
    batch = work.batch()
    clipping: dict[str, Path] = {"clipped": clipped.layers}
    others: dict[str, Path] = {"no clipping": unclipped.layers, CUDNN: partial(cudnn_layers, unclipped, lstms)}
    agree(clipping, clipped, batch, TOLERANCE)  # also warms up
    agree(others, unclipped, batch, TOLERANCE)
    paths = clipping | others | {anchor.NAME: partial(anchor.layers, clipped)}
    timed = {name: partial(path, batch) for name, path in paths.items()}
    rounds = in_turn(timed, device, f"biLM, {work.size}: one batch", work.rounds)
    tokens = sum(map(len, batch))
    for name, against, aim in (
        ("clipped", anchor.NAME, None),
        ("clipped", CUDNN, OF_CUDNN),
        ("no clipping", CUDNN, OF_CUDNN),
    ):
        yield rate(rounds, name, against, f"biLM, {name}", work.shape(), tokens, tokens, device, aim)

    # All different, as in a store.
    sentences = sorted({tuple(sentence) for sentence in text.sentences(work.sentences * work.stream)})
    filling = {
        f"{name}, own batches": partial(fill, bilm, sentences)
        for name, bilm in (("clipped", clipped), ("no clipping", unclipped))
    }
    for path in filling.values():
        path()  # warms up
    words = text.words(sentences)
    anchors = {anchor.NAME: partial(anchor.layers, clipped, batch), **anchor.parts_with_cache(clipped, words, batch)}
    rounds = in_turn(filling | anchors, device, f"biLM, {work.size}: batches of our own choice", 2)
    read = sum(map(len, sentences))
    rounds = anchor.with_cache(rounds, len(words), read / tokens)
    for name in filling:
        size = f"{work.size}, {len(sentences):,} sentences"
        yield rate(rounds, name, anchor.NAME, f"biLM, {name}", size, read, tokens, device, OF_OWN_BATCHES)
        yield rate(rounds, name, anchor.CACHED, f"biLM, {name}", size, read, read, device, None)


def fill(bilm: Bilm, sentences: list[tuple[str, ...]]) -> None:
    """Embeds sentences into the device's memory, with an empty word cache."""
    bilm.remember_words()
    CachedLayers(bilm, None, "float16", memory_gb=40).to(bilm.device).prepare(sentences)


def rate(
    rounds: Rounds,
    path: str,
    against: str,
    what: str,
    shape: str,
    tokens: int,
    anchor_tokens: int,
    device: torch.device,
    aim: float | None,
) -> Measurement:
    """Tokens a second of a path and of its anchor, which may have read another number of tokens."""
    return Measurement(
        what,
        shape,
        f"tokens/{second(device)}",
        tokens / rounds.median(path),
        anchor_tokens / rounds.median(against),
        against,
        rounds.ratio(path, against) * tokens / anchor_tokens,
        aim,
    )


def agree(paths: Mapping[str, Path], bilm: Bilm, batch: list[list[str]], tolerance: float) -> None:
    """Ends the program unless all paths give the layers that the anchor computes from the biLM's weights."""
    expected = anchor.layers(bilm, batch)
    for name, path in paths.items():
        difference = float((path(batch) - expected).abs().max())
        if not difference <= tolerance:
            sys.exit(f"{name} and {anchor.NAME} differ by {difference:.1e}: a speed of something else means nothing")


def nearly_agree(rounded: Bilm, bilm: Bilm, batch: list[list[str]]) -> None:
    """Ends the program if int8 changes a layer by more than its rounding; this also converts the weights."""
    found, exact = (model.token_layers(batch).flatten(1) for model in (rounded, bilm))
    error = float(((found - exact).norm(dim=1) / exact.norm(dim=1)).max())
    if not error <= LARGEST_ERROR:
        sys.exit(f"int8 and float32 differ by {error:.1%}: a speed of something else means nothing")


def torch_alone(bilm: Bilm, sentences: list[list[str]]) -> Tensor:
    """The layers, computed with the compiled kernel switched off."""
    with patch.dict(os.environ, {SWITCH: "0"}):
        return bilm.layers(sentences)
