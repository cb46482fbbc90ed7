import numpy as np
import pytest
import torch

from elmo.bilm.fast import in_blocks
from elmo.bilm.lstm import ProjectedLstm, ReadingOrder
from elmo.common.device import torch_threads
from tests.elmo import naive

INPUT, CELL, PROJECTION = 5, 11, 4


def file_tensors(seed, gain=1.5):
    """W_0, B and W_P_0 as bilm-tf stores them: (in + projection, 4 * cell), gates i, g, f, o."""
    draw = np.random.default_rng(seed)
    weight = gain * draw.normal(size=(INPUT + PROJECTION, 4 * CELL))
    return weight, draw.normal(size=4 * CELL), gain * draw.normal(size=(CELL, PROJECTION))


def module_of(weight, bias, projection, cell_clip, projection_clip):
    """The same weights in the module's order: i, f, g, o, outputs first."""
    blocks = np.split(np.arange(4 * CELL), 4)
    order = np.concatenate([blocks[0], blocks[2], blocks[1], blocks[3]])
    lstm = ProjectedLstm(INPUT, CELL, PROJECTION, (cell_clip, projection_clip)).double()
    with torch.no_grad():
        lstm.weight.copy_(torch.from_numpy(weight[:, order].T.copy()))
        lstm.bias.copy_(torch.from_numpy(bias[order]))
        lstm.projection.copy_(torch.from_numpy(projection.T.copy()))
    return lstm


def sentences_of(lengths, seed=1):
    draw = np.random.default_rng(seed)
    return [draw.normal(size=(n, INPUT)) for n in lengths]


@pytest.mark.parametrize("lengths", [[1], [4], [3, 3], [2, 7, 1, 7, 4], [1, 1, 1], list(range(1, 9))])
def test_reading_order_has_every_token_once_step_by_step(lengths):
    packing = ReadingOrder.of(lengths)
    starts = np.cumsum([0, *lengths[:-1]])
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])  # sorted() is stable
    forward, backward, sizes = [], [], []
    for step in range(max(lengths)):
        running = [i for i in order if lengths[i] > step]
        sizes.append(len(running))
        forward += [starts[i] + step for i in running]
        backward += [starts[i] + lengths[i] - 1 - step for i in running]
    assert packing.order.tolist() == order
    assert packing.step_sizes == sizes
    assert packing.positions.tolist() == [forward, backward]
    assert [np.argsort(rows).tolist() for rows in packing.rows] == [forward, backward]


@pytest.mark.parametrize(("cell_clip", "projection_clip"), [(3.0, 3.0), (0.5, None), (None, 0.5), (None, None)])
@pytest.mark.parametrize("reverse", [False, True])
def test_equals_the_step_loop(cell_clip, projection_clip, reverse):
    tensors = file_tensors(seed=2)
    lengths = [2, 9, 1, 6, 9]
    inputs = sentences_of(lengths)
    draw = np.random.default_rng(3)
    states, cells = draw.normal(size=(5, PROJECTION)), draw.normal(size=(5, CELL))
    packing = ReadingOrder.of(lengths)
    positions = packing.positions[int(reverse)]
    state, cell = torch.from_numpy(states)[packing.order], torch.from_numpy(cells)[packing.order]
    lstm = module_of(*tensors, cell_clip, projection_clip)

    packed = lstm(torch.from_numpy(np.concatenate(inputs))[positions], packing.step_sizes, state, cell)

    found = torch.empty_like(packed)
    found[positions] = packed
    expected, last_states, last_cells = [], [], []
    for x, start_state, start_cell in zip(inputs, states, cells, strict=True):
        outputs, last_state, last_cell = naive.lstm_steps(
            *tensors, x[::-1] if reverse else x, start_state, start_cell, cell_clip, projection_clip
        )
        expected += outputs[::-1] if reverse else outputs
        last_states.append(last_state)
        last_cells.append(last_cell)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-10)
    np.testing.assert_allclose(state.numpy(), np.array(last_states)[packing.order], atol=1e-10)
    np.testing.assert_allclose(cell.numpy(), np.array(last_cells)[packing.order], atol=1e-10)


def outputs_with(tensors, lengths, cell_clip, projection_clip):
    packing = ReadingOrder.of(lengths)
    lstm = module_of(*tensors, cell_clip, projection_clip)
    x = torch.from_numpy(np.concatenate(sentences_of(lengths)))[packing.positions[0]]
    zeros = (torch.zeros(len(lengths), n, dtype=torch.float64) for n in (PROJECTION, CELL))
    return lstm(x, packing.step_sizes, *zeros)


def test_both_clips_bind_in_these_tests():
    tensors, lengths = file_tensors(seed=2), [2, 9, 1, 6, 9]
    plain = outputs_with(tensors, lengths, None, None)
    assert (outputs_with(tensors, lengths, 0.5, None) - plain).abs().max() > 0.1
    bounded = outputs_with(tensors, lengths, None, 0.5)
    assert (bounded - plain).abs().max() > 0.1
    assert bounded.abs().max() == 0.5


def test_without_clipping_it_equals_the_projected_lstm_of_torch():
    ours = module_of(*file_tensors(seed=5, gain=0.5), None, None)
    theirs = torch.nn.LSTM(INPUT, CELL, proj_size=PROJECTION, batch_first=True).double()
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(ours.weight[:, :INPUT])
        theirs.weight_hh_l0.copy_(ours.weight[:, INPUT:])
        theirs.weight_hr_l0.copy_(ours.projection)
        theirs.bias_ih_l0.copy_(ours.bias)
        theirs.bias_hh_l0.zero_()
        theirs.bias_hh_l0[CELL : 2 * CELL] = 1.0
    lengths = [3, 8, 1, 8, 5]
    x = [torch.from_numpy(sentence) for sentence in sentences_of(lengths)]
    packed = torch.nn.utils.rnn.pack_sequence(x, enforce_sorted=False)
    packing = ReadingOrder.of(lengths)
    state, cell = (torch.zeros(5, n, dtype=torch.float64) for n in (PROJECTION, CELL))
    with torch.no_grad():
        expected, (last_state, last_cell) = theirs(packed)
        found = ours(torch.cat(x)[packing.positions[0]], packing.step_sizes, state, cell)
    torch.testing.assert_close(found, expected.data)
    torch.testing.assert_close(state, last_state[0][packing.order])
    torch.testing.assert_close(cell, last_cell[0][packing.order])


def test_the_bias_parameter_is_not_changed():
    lstm = module_of(*file_tensors(seed=6), 3.0, 3.0)
    before = lstm.bias.clone()
    lstm(torch.randn(2, INPUT, dtype=torch.float64), [1, 1], *(torch.zeros(1, n).double() for n in (PROJECTION, CELL)))
    torch.testing.assert_close(lstm.bias, before, rtol=0, atol=0)


@pytest.mark.parametrize(("inputs", "outputs"), [(1024, 512), (2048, 2048), (4096, 512), (64, 16)])
def test_a_row_has_the_same_bits_among_any_others(inputs, outputs):
    torch.manual_seed(1)
    product = torch.nn.Linear(inputs, outputs).requires_grad_(False)
    rows = torch.randn(300, inputs)
    expected = in_blocks(product, rows)
    torch.testing.assert_close(expected.double(), product.double()(rows.double()), rtol=0, atol=1e-4)
    product.float()
    for threads in (1, 2):
        with torch_threads(threads):
            for first, last in [(0, 1), (7, 12), (0, 17), (50, 250), (0, 300)]:
                assert torch.equal(in_blocks(product, rows[first:last]), expected[first:last])
            assert torch.get_num_threads() == threads


def test_no_rows_stay_no_rows():
    assert in_blocks(torch.nn.Linear(3, 2), torch.zeros(0, 3)).shape == (0, 2)
