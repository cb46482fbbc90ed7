"""The recurrence that heads use on a CPU, against torch's own."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tasks.modules.layers import BiRnn

LENGTHS = ([4, 1, 7, 7, 2], [1], [3, 3], [1, 1, 1], [5, 9])


def by_torch(layer: BiRnn, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(layer.rnn(packed)[0], batch_first=True, total_length=x.shape[1])[0]


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_states_and_gradients_are_those_of_torch(cell, layers, lengths):
    torch.manual_seed(1)
    layer = BiRnn(5, 4, layers, 0.0, cell).double()
    lengths = torch.tensor(lengths)
    x = torch.randn(len(lengths), int(lengths.max()) + 1, 5, dtype=torch.float64)  # padded further than need be
    upstream = torch.randn(*x.shape[:2], 8, dtype=torch.float64)
    found = []
    for forward in (by_torch, BiRnn.forward):
        layer.zero_grad()
        leaf = x.clone().requires_grad_()
        states = forward(layer, leaf, lengths)
        (states * upstream).sum().backward()
        found.append([states.detach(), leaf.grad, *(item.grad.clone() for item in layer.parameters())])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-10)


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_padding_is_ignored_and_comes_out_as_zeros(cell):
    torch.manual_seed(1)
    layer = BiRnn(3, 2, cell=cell)
    x = torch.randn(2, 6, 3)
    lengths = torch.tensor([6, 2])
    states = layer(x, lengths)
    x[1, 2:] = float("nan")
    torch.testing.assert_close(layer(x, lengths), states)
    assert not states[1, 2:].any()


def test_dropout_between_layers_only_in_training():
    torch.manual_seed(1)
    layer = BiRnn(3, 2, 2, 0.5)
    x, lengths = torch.randn(4, 6, 3), torch.tensor([6, 2, 4, 6])
    assert not torch.equal(layer(x, lengths), layer(x, lengths))
    layer.eval()
    torch.testing.assert_close(layer(x, lengths), by_torch(layer, x, lengths))


def test_batches_read_together_give_the_states_of_each_alone():
    torch.manual_seed(1)
    layer = BiRnn(3, 2)
    texts = [(torch.randn(2, 6, 3), torch.tensor([6, 2])), (torch.randn(3, 4, 3), torch.tensor([1, 4, 3]))]
    for (x, lengths), states in zip(texts, layer.together(texts), strict=True):
        torch.testing.assert_close(states, layer(x, lengths))
