"""python -m tests.benchmarks.heads: what heads are made of on a CPU, beside torch's and pytorch-crf's, alternately."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torchcrf import CRF

from tasks.crf import ConstrainedCrf
from tasks.features import CharacterCnn, CharactersConfig
from tasks.layers import BiRnn, product
from tests.benchmarks.__main__ import timed

ROUNDS = 5
# cell, sentences, tokens, input, hidden, layers: mini and full sizes of NER, SNLI, SQuAD and SST-5
RECURRENCES = [
    (nn.LSTM, 16, 25, 434, 64, 1),
    (nn.LSTM, 64, 30, 434, 200, 2),
    (nn.LSTM, 32, 20, 306, 32, 1),
    (nn.GRU, 25, 95, 338, 32, 1),
    (nn.GRU, 45, 150, 406, 90, 1),
    (nn.LSTM, 100, 20, 300, 300, 1),
]
# filters, width, words, characters
CONVOLUTIONS = [(128, 3, 150, 14), (100, 5, 900, 18)]
# pairs, tokens, width, tokens: SNLI's alignment, SQuAD's self-attention
ATTENTIONS = [(16, 15, 384, 9), (25, 90, 66, 90)]
# sentences, tokens, tags
CHAINS = [(16, 25, 17), (64, 30, 17), (128, 50, 17)]


def by_torch(layer: BiRnn, x: Tensor, lengths: Tensor) -> Tensor:
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer.rnn(packed)[0], batch_first=True, total_length=x.shape[1])[0]


def by_conv1d(cnn: CharacterCnn, spelling: Tensor, lengths: Tensor) -> Tensor:
    windows = cnn.convolution(cnn.embedding(spelling).transpose(1, 2))
    outside = torch.arange(windows.shape[2]) > (lengths - cnn.width).clamp(min=0)[:, None]
    return torch.relu(windows.masked_fill(outside[:, None], float("-inf")).amax(dim=2))


def attend(a: Tensor, b: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return multiply(torch.softmax(multiply(a, b.transpose(1, 2)) / 9, dim=2), b)


def ratio(ours: Callable[[], Tensor], theirs: Callable[[], Tensor]) -> tuple[float, float]:
    """CPU seconds forward and back, the smallest of some rounds: torch's and ours."""
    torch.testing.assert_close(ours(), theirs(), atol=1e-4, rtol=1e-4)
    rounds = [[timed(lambda work=work: work().sum().backward())[0] for work in (theirs, ours)] for _ in range(ROUNDS)]
    return min(first for first, _ in rounds), min(second for _, second in rounds)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print("forward and back, CPU ms: torch, ours, ratio")
    for cell, batch, tokens, width, hidden, layers in RECURRENCES:
        layer = BiRnn(width, hidden, layers, cell=cell)
        lengths = torch.randint(tokens // 3, tokens + 1, (batch,))
        lengths[0] = tokens
        x = torch.randn(batch, tokens, width, requires_grad=True)
        a, b = ratio(
            lambda layer=layer, x=x, n=lengths: layer(x, n), lambda la=layer, x=x, n=lengths: by_torch(la, x, n)
        )
        name = f"{cell.__name__} {width} -> {hidden} x {layers}, {batch} sentences of up to {tokens}"
        print(f"{name:52s} {1e3 * a:8.1f} {1e3 * b:8.1f} {a / b:6.2f}")
    for filters, width, words, characters in CONVOLUTIONS:
        cnn = CharacterCnn(CharactersConfig(16, filters, width))
        spelling, lengths = torch.randint(1, 250, (words, characters)), torch.randint(width, characters + 1, (words,))
        a, b = ratio(
            lambda c=cnn, s=spelling, n=lengths: c(s, n), lambda c=cnn, s=spelling, n=lengths: by_conv1d(c, s, n)
        )
        name = f"character CNN, {filters} filters of {width}, {words} words"
        print(f"{name:52s} {1e3 * a:8.1f} {1e3 * b:8.1f} {a / b:6.2f}")
    for batch, m, k, n in ATTENTIONS:
        a, b = (torch.randn(batch, rows, k, requires_grad=True) for rows in (m, n))
        x, y = ratio(lambda a=a, b=b: attend(a, b, product), lambda a=a, b=b: attend(a, b, torch.bmm))
        name = f"attention of {m} to {n} tokens of {k}, {batch} pairs"
        print(f"{name:52s} {1e3 * x:8.1f} {1e3 * y:8.1f} {x / y:6.2f}")
    for batch, tokens, n_tags in CHAINS:
        crf = ConstrainedCrf([str(tag) for tag in range(n_tags)], lambda first, second: True)
        emissions = torch.randn(batch, tokens, n_tags, requires_grad=True)
        tags = torch.randint(n_tags, (batch, tokens))
        mask = torch.arange(tokens) < torch.randint(tokens // 3, tokens + 1, (batch, 1))
        mask[0] = True
        a, b = ratio(
            lambda c=crf, e=emissions, t=tags, m=mask: c.log_likelihood(e, t, m).float(),
            lambda c=crf, e=emissions, t=tags, m=mask: CRF.forward(c, e, t, mask=m, reduction="none"),
        )
        name = f"CRF likelihood, {batch} sentences of up to {tokens}, {n_tags} tags"
        print(f"{name:52s} {1e3 * a:8.1f} {1e3 * b:8.1f} {a / b:6.2f}")
        a, b = decoding(crf, emissions.detach(), mask)
        name = f"CRF decoding, {batch} sentences of up to {tokens}"
        print(f"{name:52s} {1e3 * a:8.1f} {1e3 * b:8.1f} {a / b:6.2f}")


def decoding(crf: ConstrainedCrf, emissions: Tensor, mask: Tensor) -> tuple[float, float]:
    """CPU seconds of decoding, the smallest of some rounds: pytorch-crf's and ours."""
    paths = [lambda: CRF.decode(crf, emissions, mask), lambda: crf.decode(emissions, mask)]
    rounds = [[timed(work)[0] for work in paths] for _ in range(ROUNDS)]
    return min(first for first, _ in rounds), min(second for _, second in rounds)


if __name__ == "__main__":
    main()
