"""Layers shared by heads, against plain torch on each sentence alone."""

import pytest
import torch
from torch import nn

from tasks.modules.layers import (
    BiRnn,
    OrthogonalLstm,
    VariationalDropout,
    XavierLinear,
    masked_max,
    masked_mean,
    masked_softmax,
    product,
)
from tasks.modules.seeding import initialise


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_birnn_equals_each_sentence_alone_and_pads_with_zeros(cell):
    torch.manual_seed(0)
    rnn = BiRnn(5, 4, layers=2, cell=cell).eval()
    x = torch.randn(3, 6, 5)
    lengths = torch.tensor([2, 5, 1])
    states = rnn(x, lengths)
    assert states.shape == (3, 6, 8)
    for i, n in enumerate(lengths.tolist()):
        torch.testing.assert_close(states[i, :n], rnn.rnn(x[i : i + 1, :n])[0][0])
        assert not states[i, n:].any()


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_vectors_that_join_between_layers_are_a_wider_input_of_the_next_layer(cell):
    """Against torch's own layers, one by one, the upper ones with weights for [states; joined vectors]."""
    torch.manual_seed(0)
    rnn = BiRnn(5, 4, layers=3, cell=cell, hidden_dim=2).double().eval()
    x, joined = torch.randn(1, 6, 5, dtype=torch.float64), torch.randn(1, 6, 2, dtype=torch.float64)
    states = x
    for layer in range(3):
        plain = cell(5 if layer == 0 else 8 + 2, 4, batch_first=True, bidirectional=True).double()
        with torch.no_grad():
            for name, parameter in plain.named_parameters():
                own = getattr(rnn.rnn, name.replace("_l0", f"_l{layer}"))
                if layer and name.startswith("weight_ih"):
                    own = torch.cat([own, rnn.joining[2 * (layer - 1) + name.endswith("_reverse")].weight], dim=1)
                parameter.copy_(own)
        states = plain(states if layer == 0 else torch.cat([states, joined], dim=-1))[0]
    torch.testing.assert_close(rnn(x, torch.tensor([6]), joined), states)


def test_joined_vectors_of_no_width_change_nothing():
    plain, empty = (BiRnn(5, 4, layers=2, dropout=0.5, **more) for more in ({}, {"hidden_dim": 0}))
    empty.load_state_dict(plain.state_dict())
    x, lengths = torch.randn(3, 6, 5), torch.tensor([2, 6, 1])
    torch.manual_seed(1)
    expected = plain(x, lengths)
    torch.manual_seed(1)
    assert torch.equal(empty(x, lengths, torch.zeros(3, 6, 0)), expected)


def test_variational_dropout_drops_a_dimension_for_the_whole_sentence():
    torch.manual_seed(0)
    dropout = VariationalDropout(0.5)
    dropped = dropout(torch.ones(200, 7, 20))
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.05)
    assert torch.equal(dropout.eval()(torch.ones(2, 3, 4)), torch.ones(2, 3, 4))


def test_product_and_its_gradients_are_those_of_plain_multiplication():
    torch.manual_seed(0)
    a, b = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(3, 6, 5, dtype=torch.float64)
    a.requires_grad_()
    b.requires_grad_()
    transposed = b.transpose(1, 2)
    ours, plain = product(a, transposed), a @ transposed
    torch.testing.assert_close(ours, plain)
    weights = torch.randn(3, 4, 6, dtype=torch.float64)
    for mine, theirs in zip(
        torch.autograd.grad((ours * weights).sum(), (a, b)),
        torch.autograd.grad((plain * weights).sum(), (a, b)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


def test_masked_softmax_is_the_softmax_of_what_is_left():
    scores = torch.randn(2, 5)
    mask = torch.tensor([[True, False, True, True, False], [False] * 5])
    weights = masked_softmax(scores, mask)
    torch.testing.assert_close(weights[0, mask[0]], torch.softmax(scores[0, mask[0]], dim=0))
    assert not weights[~mask].any()


def test_pooling_uses_only_the_tokens_of_each_sentence():
    x = torch.randn(3, 4, 5)
    mask = torch.arange(4) < torch.tensor([1, 4, 2])[:, None]
    x[~mask] = 1e6
    for i, n in enumerate([1, 4, 2]):
        torch.testing.assert_close(masked_max(x, mask)[i], x[i, :n].max(dim=0).values)
        torch.testing.assert_close(masked_mean(x, mask)[i], x[i, :n].mean(dim=0))


class TestStarts:
    def started(self, input_dim):
        model = nn.ModuleDict({"rnn": BiRnn(input_dim, 6, cell=OrthogonalLstm), "linear": XavierLinear(12, 4)})
        initialise(model, 1, "head")
        return dict(model.named_parameters())

    def test_xavier_orthogonal_and_gates_that_do_not_forget(self):
        for name, parameter in self.started(10).items():
            if "weight_hh" in name:
                torch.testing.assert_close(parameter.T @ parameter, torch.eye(6))
            elif "weight_ih" in name or name == "linear.weight":
                bound = (6 / sum(parameter.shape)) ** 0.5
                assert 0.8 * bound < parameter.abs().max() <= bound
            elif "bias_hh" in name:
                assert parameter.tolist() == [0.0] * 6 + [1.0] * 6 + [0.0] * 12
            else:
                assert not parameter.any()

    def test_a_wider_input_changes_only_the_weights_that_read_it(self):
        narrow, wide = self.started(10), self.started(15)
        unequal = {name for name in narrow if not torch.equal(narrow[name], wide[name])}
        assert unequal == {"rnn.rnn.weight_ih_l0", "rnn.rnn.weight_ih_l0_reverse"}

    def test_without_a_seed_they_start_equal(self):
        lstm = OrthogonalLstm(3, 4)
        torch.testing.assert_close(lstm.weight_hh_l0.T @ lstm.weight_hh_l0, torch.eye(4))
        assert lstm.bias_hh_l0.sum() == 4
