"""Benchmark of the parts of heads against torch and pytorch-crf: `python -m tests.benchmarks.heads`.

It times forward and backward passes, with one thread on a CPU and torch's default precision, like a run. Values and
gradients are compared in float32 before anything is timed, except for a highway LSTM: its anchor is an LSTM.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torchcrf import CRF

from elmo.common.device import torch_threads
from tasks.features.words import CharacterCnn, CharactersConfig
from tasks.modules.crf import ConstrainedCrf
from tasks.modules.layers import AlternatingHighwayLstm, BiRnn, loops_for, product
from tasks.modules.recurrence_in_torch import Packing
from tests.benchmarks.measuring import rows as table
from tests.benchmarks.measuring.rows import Measurement
from tests.benchmarks.measuring.timing import in_turn, second, single_precision

ROUNDS, BUDGET = 2, 0.6  # rounds at least, and seconds, for each row; a full run takes five times the seconds
TOLERANCE = 1e-4
# cell, sentences, tokens, input, hidden, layers: NER, SNLI and SQuAD of the mini data, and NER in full size
RECURRENCES = [
    (nn.LSTM, 16, 25, 434, 64, 1),
    (nn.LSTM, 32, 20, 306, 32, 1),
    (nn.GRU, 25, 95, 338, 32, 1),
    (nn.LSTM, 64, 30, 434, 200, 2),
]
LARGE_RECURRENCES = [(nn.GRU, 45, 150, 406, 90, 1), (nn.LSTM, 100, 20, 300, 300, 1)]  # SQuAD and SNLI in full size
# sentences, tokens, input, hidden, layers: SRL in full size
HIGHWAYS = [(80, 25, 300, 300, 2)]
LEAST_HIGHWAY = 0.77  # of an LSTM's speed: a layer takes at most 1.3 times as long
# filters, width, words, characters
CONVOLUTIONS = [(128, 3, 150, 14), (100, 5, 900, 18)]
# pairs, tokens, width, tokens: SNLI's alignment, SQuAD's self-attention
ATTENTIONS = [(16, 15, 384, 9), (25, 90, 66, 90)]
# sentences, tokens, tags
CHAINS = [(16, 25, 17), (128, 50, 17)]

Work = Callable[[], Tensor]


def recurrence_rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """Recurrences of heads against torch's, which are cuDNN's on a GPU, and the highway LSTM against the LSTM."""
    torch.manual_seed(0)
    for cell, batch, tokens, width, hidden, layers in RECURRENCES + LARGE_RECURRENCES * full:
        layer = BiRnn(width, hidden, layers, cell=cell).to(device)
        x = torch.randn(batch, tokens, width, device=device, requires_grad=True)
        lengths = some_lengths(batch, tokens)
        ours, theirs = partial(layer, x, lengths), partial(torchs_states, layer, x, lengths)
        shape = f"{width} -> {hidden} x {layers}, {batch} sentences of up to {tokens}"
        wanted = [x, *layer.parameters()]
        yield both_ways(cell.__name__, shape, "torch", ours, theirs, wanted, device, full)
    yield from highway_rows(device, full)


def highway_rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """A layer of a highway LSTM, and its loop over the steps alone, against one direction of an LSTM."""
    torch.manual_seed(0)
    for batch, tokens, width, hidden, layers in HIGHWAYS:
        x = torch.randn(batch, tokens, width, device=device, requires_grad=True)
        lengths = some_lengths(batch, tokens)
        highway = AlternatingHighwayLstm(width, hidden, layers, recurrent_dropout=0.1).to(device)
        paths = {"ours": partial(there_and_back, highway, x, lengths)}
        paths["LSTM"] = partial(there_and_back, BiRnn(width, hidden).to(device), x, lengths)
        shape = f"{width} -> {hidden}, {batch} sentences of up to {tokens}"
        directions = 2 if device.type == "cpu" else 1  # a GPU computes both at once
        yield per_layer("highway LSTM", shape, paths, layers, directions, device, full)
        packing = Packing.of(lengths, tokens, device)
        paths = {"ours": both_loops(packing, hidden, 6, 5), "LSTM": both_loops(packing, hidden, 4, 4)}
        yield per_layer("highway LSTM, loop", shape, paths, 1, 1, device, full)


def there_and_back(layer: nn.Module, x: Tensor, lengths: Tensor) -> None:
    layer(x, lengths).sum().backward()


def both_loops(packing: Packing, hidden: int, blocks: int, recurrent: int) -> Callable[[], Tensor]:
    """The loops forward and back of one direction, on drawn inputs."""
    draw = partial(torch.randn, device=packing.places.device)
    gates, grad = draw(1, len(packing.places), blocks * hidden), draw(1, len(packing.places), hidden)
    weight = draw(1, recurrent * hidden, hidden) / hidden**0.5
    mask = torch.ones(1, packing.sizes[0], hidden, device=gates.device) if recurrent == 5 else None
    loops = loops_for(gates)

    def work() -> Tensor:
        values = gates.clone()
        carried, _, kept = loops.forward(values, weight, None, packing, mask)
        return loops.backward(grad.clone(), values, (carried, kept), weight, packing, mask)

    return work


def per_layer(
    what: str, shape: str, paths: dict[str, Callable], layers: int, directions: int, device, full: bool
) -> Measurement:
    """The row of `layers` highway layers and of an LSTM with these directions, both divided to one."""
    for path in paths.values():
        path()  # compiles
    row = measured(what, shape, "LSTM", paths, device, full)
    return replace(
        row,
        ours=row.ours / layers,
        anchor=row.anchor / directions,
        anchor_name="a direction of an LSTM",
        ratio=row.ratio * layers / directions,
        least_ratio=LEAST_HIGHWAY,
    )


def crf_rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """Likelihood and decoding of a CRF against pytorch-crf."""
    torch.manual_seed(0)
    for batch, tokens, n_tags in CHAINS:
        crf = ConstrainedCrf([str(tag) for tag in range(n_tags)], lambda first, second: True).to(device)
        emissions = torch.randn(batch, tokens, n_tags, device=device, requires_grad=True)
        tags = torch.randint(n_tags, (batch, tokens), device=device)
        mask = (torch.arange(tokens) < some_lengths(batch, tokens)[:, None]).to(device)
        shape = f"{batch} sentences of up to {tokens}, {n_tags} tags"
        ours, theirs = (partial(of, crf, emissions, tags, mask) for of in (our_likelihood, librarys_likelihood))
        wanted = [emissions, *crf.parameters()]
        yield both_ways("CRF likelihood", shape, "pytorch-crf", ours, theirs, wanted, device, full)
        scores = emissions.detach()
        decoders = {"ours": partial(crf.decode, scores, mask), "pytorch-crf": partial(CRF.decode, crf, scores, mask)}
        if decoders["ours"]() != decoders["pytorch-crf"]():
            raise SystemExit("our CRF and pytorch-crf decode differently: a speed of something else means nothing")
        yield measured("CRF decoding", shape, "pytorch-crf", decoders, device, full)


def product_rows(device: torch.device, full: bool) -> Iterator[Measurement]:
    """Character CNN and attention, computed as matrix products, against torch's convolution and products."""
    torch.manual_seed(0)
    for filters, width, words, characters in CONVOLUTIONS:
        cnn = CharacterCnn(CharactersConfig(16, filters, width)).to(device)
        spelling = torch.randint(1, 250, (words, characters), device=device)
        lengths = torch.randint(width, characters + 1, (words,), device=device)
        ours, theirs = partial(cnn, spelling, lengths), partial(torchs_convolution, cnn, spelling, lengths)
        shape = f"{filters} filters of {width}, {words} words"
        yield both_ways("character CNN", shape, "torch", ours, theirs, list(cnn.parameters()), device, full)
    for batch, m, k, n in ATTENTIONS:
        a, b = (torch.randn(batch, rows, k, device=device, requires_grad=True) for rows in (m, n))
        ours, theirs = partial(attend, a, b, product), partial(attend, a, b, torch.bmm)
        shape = f"{m} to {n} tokens of {k}, {batch} pairs"
        yield both_ways("attention", shape, "torch", ours, theirs, [a, b], device, full)


def both_ways(
    what: str, shape: str, library: str, ours: Work, theirs: Work, wanted: Sequence[Tensor], device, full: bool
) -> Measurement:
    """The row of two implementations, forward and backward, after checking that they agree."""
    agree(ours, theirs, wanted)
    paths = {"ours": lambda: ours().sum().backward(), library: lambda: theirs().sum().backward()}
    return measured(what, shape, library, paths, device, full)


def agree(ours: Work, theirs: Work, wanted: Sequence[Tensor]) -> None:
    """Raises an AssertionError unless both give the same values and gradients; also warms up."""
    with single_precision():
        values = ours(), theirs()
        gradients = [torch.autograd.grad(value.sum(), wanted) for value in values]
    torch.testing.assert_close(*values, atol=TOLERANCE, rtol=TOLERANCE)
    for mine, librarys in zip(*gradients, strict=True):
        # Sums over thousands of tokens in another order: values that are small next to the largest may differ by more.
        atol = TOLERANCE * max(1.0, float(librarys.abs().max()))
        torch.testing.assert_close(mine, librarys, atol=atol, rtol=TOLERANCE)


def measured(what: str, shape: str, library: str, paths: dict[str, Callable], device, full: bool) -> Measurement:
    rounds = in_turn(paths, device, f"{what}, {shape}", ROUNDS, BUDGET * (5 if full else 1))
    ours, theirs = 1e3 * rounds.median("ours"), 1e3 * rounds.median(library)
    unit = second(device).replace("s", "ms")
    return Measurement(what, shape, unit, ours, theirs, library, rounds.ratio("ours", library))


def some_lengths(batch: int, tokens: int) -> Tensor:
    lengths = torch.randint(max(1, tokens // 3), tokens + 1, (batch,))
    lengths[0] = tokens
    return lengths


def torchs_states(layer: BiRnn, x: Tensor, lengths: Tensor, hidden: Tensor | None = None) -> Tensor:
    assert hidden is None or hidden.shape[-1] == 0  # torch's stack has no place between its layers
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer.rnn(packed)[0], batch_first=True, total_length=x.shape[1])[0]


def torchs_convolution(cnn: CharacterCnn, spelling: Tensor, lengths: Tensor) -> Tensor:
    windows = cnn.convolution(cnn.embedding(spelling).transpose(1, 2))
    places = torch.arange(windows.shape[2], device=spelling.device)
    outside = places > (lengths - cnn.width).clamp(min=0)[:, None]
    return torch.relu(windows.masked_fill(outside[:, None], float("-inf")).amax(dim=2))


def attend(a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return multiply(torch.softmax(multiply(a, b.transpose(1, 2)) / 9, dim=2), b)


def our_likelihood(crf: ConstrainedCrf, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    return crf.log_likelihood(emissions, tags, mask).float()


def librarys_likelihood(crf: ConstrainedCrf, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    return CRF.forward(crf, emissions, tags, mask=mask, reduction="none")


@contextmanager
def from_libraries() -> Iterator[None]:
    """In the block, heads use torch's recurrences and pytorch-crf; their tags may then violate the tagging scheme."""
    with (
        patch.object(BiRnn, "forward", torchs_states),
        patch.multiple(ConstrainedCrf, log_likelihood=librarys_likelihood, decode=CRF.decode),
    ):
        yield


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.heads", description=__doc__)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu (default) or cuda")
    device, started = parser.parse_args().device, time.perf_counter()
    with torch_threads(1):
        found = [row for part in (recurrence_rows, product_rows, crf_rows) for row in part(device, full=True)]
        table.show(found, device, time.perf_counter() - started)


if __name__ == "__main__":
    main()
