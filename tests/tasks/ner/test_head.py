"""The BiLSTM-CRF: its loss against pytorch-crf, its dropout by the inputs of each part."""

from dataclasses import replace

import pytest
import torch
from torchcrf import CRF

from tasks.ner import BiLstmCrf, NerSettings
from tasks.task import Batch, FeatureBatch

LENGTHS = torch.tensor([4, 2])
MASK = torch.arange(4) < LENGTHS[:, None]
ONES = FeatureBatch(torch.ones(2, 4, 400), torch.ones(2, 4, 0), torch.ones(2, 4, 3), MASK, LENGTHS)


@pytest.fixture
def head():
    torch.manual_seed(0)
    return BiLstmCrf(NerSettings(hidden=5, layers=1, dropout=0.5), ["O", "S-P"], 400, 3)


def test_the_loss_is_the_sum_over_sentences(head):
    head.eval()
    tags = torch.tensor([[0, 1, 0, 0], [1, 0, 0, 0]])
    expected = -CRF.forward(head.crf, head._emissions(ONES), tags, mask=MASK, reduction="sum")
    assert head.loss([ONES], Batch([], (), {"tags": tags})).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_dropout_of_input_and_states_but_not_of_what_joins_the_output(share):
    head = BiLstmCrf(NerSettings(hidden=50, layers=1, dropout=0.5, input_dropout=share), ["O", "S-P"], 400, 3)
    read = {}
    head.encoder.register_forward_pre_hook(lambda _, given: read.update(encoder=given[0]))
    head.projection.register_forward_pre_hook(lambda _, given: read.update(projection=given[0]))
    head.train()._emissions(ONES)
    assert (read["encoder"] == 0).float().mean().item() == pytest.approx(share, abs=0.05)
    states, joined = read["projection"][..., :100], read["projection"][..., 100:]
    assert (states[MASK] == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert (joined == 1).all()


def test_what_joins_the_hidden_states_is_read_by_the_second_layer_alone():
    """A change at `hidden` leaves the first layer's states and changes the emissions; no width, no parameters."""
    torch.manual_seed(0)
    settings = NerSettings(hidden=5, layers=2, dropout=0.0)
    head = BiLstmCrf(settings, ["O", "S-P"], 400, 3, hidden_dim=6)
    assert {name for name, _ in head.named_parameters()} - {
        name for name, _ in BiLstmCrf(settings, ["O", "S-P"], 400, 3).named_parameters()
    } == {"encoder.joining.0.weight", "encoder.joining.1.weight"}
    emissions = [head._emissions(replace(ONES, hidden=torch.full((2, 4, 6), value))) for value in (0.0, 1.0)]
    assert not torch.equal(*emissions)
    with torch.no_grad():
        for more in head.encoder.joining:
            more.weight.zero_()
    emissions = [head._emissions(replace(ONES, hidden=torch.full((2, 4, 6), value))) for value in (0.0, 1.0)]
    torch.testing.assert_close(*emissions)
