"""The alternating highway LSTM against its formulas, step by step in float64."""

import pytest
import torch

from tasks.modules.layers import AlternatingHighwayLstm
from tasks.modules.seeding import initialise

LENGTHS = ([4, 1, 7, 7, 2], [1], [3, 3], [5, 9])


def by_formulas(lstm, x, lengths, masks):
    """Each sentence alone, token by token; `masks` are those of each layer, a row for each sentence of the batch."""
    hidden = lstm.output_dim
    states = x.new_zeros(*x.shape[:2], hidden)
    for sentence, length in enumerate(lengths.tolist()):
        below = list(x[sentence, :length])
        for layer, (of_input, of_state) in enumerate(zip(lstm.of_input, lstm.of_state, strict=True)):
            w_p, w_r, w_o, w_i, w_f, w_g = of_input.weight.split(hidden)
            u_r, u_o, u_i, u_f, u_g = of_state.weight.split(hidden)
            b_r, b_o, b_i, b_f, b_g = of_state.bias.split(hidden)
            h = c = x.new_zeros(hidden)
            above = [h] * length
            for token in reversed(range(length)) if layer % 2 else range(length):
                v = below[token]
                r = torch.sigmoid(w_r @ v + u_r @ h + b_r)
                o = torch.sigmoid(w_o @ v + u_o @ h + b_o)
                i = torch.sigmoid(w_i @ v + u_i @ h + b_i)
                f = torch.sigmoid(w_f @ v + u_f @ h + b_f)
                g = torch.tanh(w_g @ v + u_g @ h + b_g)
                c = f * c + i * g
                h = masks[layer][sentence] * (r * (o * torch.tanh(c)) + (1 - r) * (w_p @ v))
                above[token] = h
            below = above
        states[sentence, :length] = torch.stack(below)
    return states


def ones(lstm, x):
    return x.new_ones(len(lstm.of_input), len(x), lstm.output_dim)


def values_and_gradients(forward, lstm, x, upstream):
    lstm.zero_grad()
    leaf = x.clone().requires_grad_()
    states = forward(lstm, leaf)
    (states * upstream).sum().backward()
    return [states.detach(), leaf.grad, *(parameter.grad.clone() for parameter in lstm.parameters())]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_states_and_gradients_are_those_of_the_formulas(layers, lengths):
    torch.manual_seed(1)
    lstm, lengths = AlternatingHighwayLstm(5, 4, layers).double(), torch.tensor(lengths)
    for of_state in lstm.of_state:
        torch.nn.init.normal_(of_state.bias)
    x = torch.randn(len(lengths), int(lengths.max()) + 1, 5, dtype=torch.float64)  # padded further than need be
    upstream = torch.randn(*x.shape[:2], 4, dtype=torch.float64)
    ours = values_and_gradients(lambda lstm, x: lstm(x, lengths), lstm, x, upstream)
    right = values_and_gradients(lambda lstm, x: by_formulas(lstm, x, lengths, ones(lstm, x)), lstm, x, upstream)
    for found, expected in zip(ours, right, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-10)


def test_gradients_with_dropout_pass_gradcheck():
    lstm = AlternatingHighwayLstm(3, 2, 2, recurrent_dropout=0.3).double()
    lengths = torch.tensor([2, 3])
    names, values = zip(*lstm.named_parameters(), strict=True)

    def states(x, *parameters):
        torch.manual_seed(1)  # the same masks in every call
        return torch.func.functional_call(lstm, dict(zip(names, parameters, strict=True)), (x, lengths))

    x = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(states, (x, *(value.detach().requires_grad_() for value in values)))


def test_padding_is_ignored_and_comes_out_as_zeros():
    torch.manual_seed(1)
    lstm = AlternatingHighwayLstm(3, 8, 3, recurrent_dropout=0.2)
    x, lengths = torch.randn(3, 6, 3), torch.tensor([2, 6, 3])
    found = []
    for padding in (0, 5):
        padded = torch.nn.functional.pad(x, (0, 0, 0, padding), value=float("nan"))
        padded[0, 2:] = padded[2, 3:] = float("nan")
        torch.manual_seed(2)  # the same masks
        found.append(lstm(padded, lengths))
    assert torch.equal(found[1][:, :6], found[0])
    assert not found[1][:, 6:].any()
    assert not found[0][0, 2:].any()
    assert found[0][0, :2].any()


class TestRecurrentDropout:
    LENGTHS = torch.tensor([3, 7, 5])

    def masks_of(self, lstm, batch):
        """The masks that a layer applies after this seed, by a layer that is nothing but its projection."""
        hidden = lstm.output_dim
        plain = AlternatingHighwayLstm(hidden, hidden, 1, lstm.recurrent_dropout).double()
        with torch.no_grad():
            plain.of_input[0].weight.zero_()
            plain.of_input[0].weight[:hidden] = torch.eye(hidden)
            plain.of_state[0].bias[:hidden] = -1e4  # r = 0
        torch.manual_seed(3)
        lengths = self.LENGTHS.repeat(batch // 3)
        return plain(torch.ones(batch, 7, hidden, dtype=torch.float64), lengths), lengths

    def test_one_mask_for_all_tokens_of_a_sentence(self):
        masked, lengths = self.masks_of(AlternatingHighwayLstm(5, 20, 1, recurrent_dropout=0.25), 300)
        for states, length in zip(masked, lengths, strict=True):
            assert torch.equal(states[:length], states[:1].expand(length, -1))
        first = masked[:, 0]
        assert first.unique().tolist() == pytest.approx([0.0, 1 / 0.75])
        assert first.mean().item() == pytest.approx(1.0, abs=0.03)  # six standard deviations
        assert len(first.unique(dim=0)) > 290  # each sentence has its own

    def test_the_masked_state_enters_the_next_step(self):
        torch.manual_seed(1)
        lstm = AlternatingHighwayLstm(5, 4, 1, recurrent_dropout=0.5).double()
        x = torch.randn(3, 7, 5, dtype=torch.float64)
        masks = self.masks_of(lstm, 3)[0][None, :, 0]
        assert 0 < (masks == 0).sum() < masks.numel()
        torch.manual_seed(3)
        found = lstm(x, self.LENGTHS)
        torch.testing.assert_close(found, by_formulas(lstm, x, self.LENGTHS, masks))

    def test_only_in_training(self):
        lstm = AlternatingHighwayLstm(5, 4, 2, recurrent_dropout=0.5)
        x = torch.randn(3, 7, 5)
        assert not torch.equal(lstm(x, self.LENGTHS), lstm(x, self.LENGTHS))
        lstm.eval()
        torch.testing.assert_close(lstm(x, self.LENGTHS), by_formulas(lstm, x, self.LENGTHS, ones(lstm, x)))


class TestStart:
    def started(self, input_dim):
        lstm = AlternatingHighwayLstm(input_dim, 6, 2)
        initialise(lstm, 1, "head")
        return dict(lstm.named_parameters())

    @pytest.mark.parametrize("input_dim", [4, 10])
    def test_blocks_are_orthogonal_and_cells_do_not_forget(self, input_dim):
        for name, parameter in self.started(input_dim).items():
            if name.endswith("bias"):  # r, o, i, f, g
                assert parameter.tolist() == [0.0] * 18 + [1.0] * 6 + [0.0] * 6
                continue
            blocks = parameter.split(6)
            assert len(blocks) == (6 if name.startswith("of_input") else 5)
            for block in blocks:
                narrow = block if len(block) <= block.shape[1] else block.T
                torch.testing.assert_close(narrow @ narrow.T, torch.eye(len(narrow)))

    def test_a_wider_input_changes_only_the_weights_that_read_it(self):
        narrow, wide = self.started(4), self.started(10)
        assert {name for name in narrow if not torch.equal(narrow[name], wide[name])} == {"of_input.0.weight"}

    def test_blocks_and_layers_are_drawn_independently(self):
        parameters = self.started(6)
        weights = [block for name in parameters if name.endswith("weight") for block in parameters[name].split(6)]
        assert len({tuple(block.flatten().tolist()) for block in weights}) == len(weights) == 22
