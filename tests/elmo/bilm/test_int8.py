"""The biLM in int8, compiled and in torch: errors of the shipped ones, equal bits in any batch, refusals."""

import copy
import shutil

import pytest
import torch
from safetensors.torch import load_file

from elmo import Bilm, BilmOptions, InputError, load_bilm, random_bilm
from elmo.bilm import fast
from elmo.bilm.weight_files import find_weights
from elmo.common.device import torch_threads
from elmo.common.int8 import in_steps
from tests.elmo.bilm.layer_error import rounding_errors, sentences

# Shares of the layers' lengths, as in the cards: those of `small` are mostly the rounding of its weights.
EXPECTED = {"small": (0.0149, 0.0198, 0.0245), "medium": (0.0044, 0.0076, 0.0082)}
RAGGED = BilmOptions(cell_dim=36, projection_dim=12, filters=((1, 8), (3, 20)), char_dim=4, n_highway=2)


@pytest.fixture(params=["compiled", "torch"])
def _way(request, monkeypatch):
    if request.param == "compiled":
        pytest.importorskip("elmo.kernels.in_c", reason="elmo/kernels is not there")
        if not any(map(shutil.which, ("cc", "gcc", "clang"))):
            pytest.skip("needs a C compiler")
    monkeypatch.setenv("ELMO_KERNEL", "0" if request.param == "torch" else "1")
    assert (fast.compiled() is None) == (request.param == "torch")


@pytest.mark.parametrize(
    ("name", "_way"), [("small", "compiled"), ("medium", "compiled"), ("small", "torch")], indirect=["_way"]
)
@pytest.mark.usefixtures("_way")
def test_errors_of_the_shipped_bilms_are_as_stated(name):
    found = rounding_errors(load_bilm(name, precision="int8"), load_bilm(name), sentences("dev")[:12])
    for error, stated in zip(found, EXPECTED[name], strict=True):
        assert stated / 2 < error < 1.3 * stated


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_sentence_has_the_same_bits_in_any_batch_and_with_any_threads(activation):
    bilm = random_bilm(BilmOptions(**(vars(RAGGED) | {"activation": activation})), seed=1).use_int8()
    text = sentences()
    with torch_threads(1):
        together = bilm.token_layers(text).split([len(sentence) for sentence in text], dim=1)
    for threads, number in ((1, 0), (2, 3), (2, len(text) - 1)):
        with torch_threads(threads):
            assert torch.equal(bilm.token_layers([text[number]]), together[number])
    with torch_threads(2):
        assert torch.equal(bilm.token_layers(text), torch.cat(together, dim=1))


@pytest.mark.usefixtures("_way")
def test_nan_in_a_weight_reaches_the_layers():
    bilm = random_bilm(RAGGED, seed=1).use_int8()
    bilm.directions[0][0].projection[3, 5] = float("nan")
    layers = bilm.token_layers([["some", "words"]])
    assert layers[1, :, : RAGGED.projection_dim].isnan().any(dim=1).all()
    assert not layers[1, :, RAGGED.projection_dim :].isnan().any()


def test_an_int8_file_keeps_its_integers():
    stored, bilm = load_file(find_weights("medium")), load_bilm("medium")
    for name, weight in (
        ("CNN_high_0/W_carry", bilm.encoder.highways[0].carry.weight),
        ("RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0", bilm.directions[1][1].projection),
    ):
        assert torch.equal(in_steps(weight)[0].t(), stored[name])


def test_words_and_weights_from_before_are_not_used():
    bilm, text = random_bilm("tiny", seed=1), [["some", "words"]]
    right = copy.deepcopy(bilm).use_int8().token_layers(text)
    bilm.remember_words()
    before = bilm.token_layers(text)
    assert not torch.equal(before, right)
    assert torch.equal(bilm.use_int8().token_layers(text), right)


def test_int8_is_part_of_the_fingerprint_and_float32_is_not():
    exact, rounded = (load_bilm("small", precision=precision) for precision in ("float32", "int8"))
    assert load_bilm("small").fingerprint() == exact.fingerprint() != rounded.fingerprint()
    assert all(torch.equal(value, rounded.state_dict()[name]) for name, value in exact.state_dict().items())


def test_refusals():
    with pytest.raises(InputError, match="precision: expected float32 or int8, found 'float16'"):
        load_bilm("small", precision="float16")
    elsewhere = random_bilm("tiny", seed=1).use_int8().to("meta")
    assert isinstance(elsewhere, Bilm)
    with pytest.raises(InputError, match="precision int8: expected a CPU, found meta"):
        elsewhere.token_layers([["some", "words"]])
