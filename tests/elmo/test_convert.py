"""Tests of int8 weights: rounding errors, damaged files, and the command elmo.convert."""

import re

import h5py
import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

from elmo import BilmOptions, InputError, load_bilm, random_bilm, save_bilm
from elmo.convert import main
from tests.elmo import naive
from tests.elmo.bilm.layer_error import rounding_errors, sentences

GATES = "RNN_1/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
WORDS = BilmOptions(cell_dim=12, projection_dim=4, filters=(), char_dim=0, word_dim=6, words=("<UNK>", "we", "play"))


@pytest.fixture
def tensors():
    found = naive.make_tensors(naive.make_options(), seed=11)
    found[GATES][:, 5] = 0.0  # an output of zeros
    found[GATES][:, 6] *= 1e-30
    found[GATES][:, 7] *= 100
    return found


@pytest.fixture
def bilm(tmp_path, tensors):
    return load_bilm(naive.write_model(tmp_path / "exact", naive.make_options(), tensors))


@pytest.fixture
def path(tmp_path, bilm):
    save_bilm(bilm, tmp_path / "int8" / "weights.safetensors", torch.int8)
    return tmp_path / "int8" / "weights.safetensors"


def is_rounded(name):
    return name.startswith(("CNN_high_", "RNN_")) and "/W_" in name


def test_each_weight_is_within_half_a_step_of_its_output(path, tensors, tmp_path):
    """The step is the largest weight of an output over 127; computed from the tensors in float64, by numpy."""
    save_bilm(load_bilm(path), tmp_path / "back.hdf5")
    with h5py.File(tmp_path / "back.hdf5") as file:
        for name, tensor in tensors.items():
            exact, found = tensor.astype(np.float64), file[name][...].astype(np.float64)
            if not is_rounded(name):
                assert np.array_equal(found, tensor.astype(np.float16).astype(np.float64)), name
                continue
            step = np.abs(exact).max(axis=tuple(range(exact.ndim - 1)), keepdims=True) / 127  # (..., 1, outputs)
            assert (np.abs(found - exact) <= 0.5001 * step).all(), name
            steps = found / np.where(step > 0, step, 1)
            assert np.allclose(steps, steps.round(), atol=1e-4), name
            assert len(np.unique(found)) > 0.2 * min(found.size, 127), name
        assert (file[GATES][:, 5] == 0).all()
        assert (file[GATES][:, 6] != 0).any()


def test_the_file_holds_bilm_tfs_shapes_and_a_step_for_each_output(path, tensors):
    found = safetensors.torch.load_file(path)
    for name, tensor in tensors.items():
        kept = found.pop(name)
        assert tuple(kept.shape) == tensor.shape
        assert kept.dtype == (torch.int8 if is_rounded(name) else torch.float16)
        if is_rounded(name):
            scale = found.pop(f"{name}_scale")
            assert scale.dtype == torch.float32
            assert tuple(scale.shape) == (*[1] * (tensor.ndim - 1), tensor.shape[-1])
    assert found == {}


def test_rounding_again_changes_nothing(path, tmp_path):
    once = load_bilm(path)
    assert all(tensor.dtype == torch.float32 for tensor in once.state_dict().values())
    save_bilm(once, tmp_path / "twice.safetensors", torch.int8)
    assert load_bilm(tmp_path / "twice.safetensors").fingerprint() == once.fingerprint()
    save_bilm(once, tmp_path / "float32.hdf5")  # the fingerprint is that of the values, whatever the file
    assert load_bilm(tmp_path / "float32.hdf5").fingerprint() == once.fingerprint()


def test_word_vectors_have_a_step_for_each_word(tmp_path):
    exact = random_bilm(WORDS, seed=1)
    with torch.no_grad():
        exact.encoder.words.weight[1] *= 1000
    save_bilm(exact, tmp_path / "weights.safetensors", torch.int8)
    found, wanted = load_bilm(tmp_path).encoder.words.weight, exact.encoder.words.weight
    step = wanted.abs().amax(dim=1, keepdim=True) / 127  # (words, 1)
    assert ((found - wanted).abs() <= 0.5001 * step).all()


@pytest.mark.parametrize("kernel", ["1", "0"])
def test_layers_of_a_random_bilm_change_little(tmp_path, monkeypatch, kernel):
    """Errors of half a step at most, uniform: 0.6 % of a Gaussian weight, which two LSTMs do not amplify."""
    monkeypatch.setenv("ELMO_KERNEL", kernel)
    exact = random_bilm("tiny", seed=1)
    save_bilm(exact, tmp_path / "weights.safetensors", torch.int8)
    shares = rounding_errors(load_bilm(tmp_path), exact, sentences("dev"))
    assert len(shares) == 3
    assert all(1e-4 < share < 0.02 for share in shares)


def test_layers_are_those_of_a_plain_bilm_with_the_loaded_weights(path, tmp_path, monkeypatch):
    """Both the C kernel and torch, against numpy in float64 that reads the same weights from HDF5."""
    bilm = load_bilm(path)
    save_bilm(bilm, tmp_path / "back" / "weights.hdf5")
    with h5py.File(tmp_path / "back" / "weights.hdf5") as file:
        back = {name: file[name][...] for name in naive.make_tensors(naive.make_options())}
    sentence = ["We", "play", "unheard-of", "games", "."]
    expected, _ = naive.sentence_layers(back, naive.make_options(), sentence)
    for kernel in ("1", "0"):
        monkeypatch.setenv("ELMO_KERNEL", kernel)
        np.testing.assert_allclose(bilm.token_layers([sentence]).numpy(), expected, atol=2e-5)


def damaged(path, change):
    """Rewrites the tensors of a file, with its options."""
    with safetensors.safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    path.unlink()
    safetensors.torch.save_file(tensors, path, metadata=metadata)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_steps_that_are_not_finite_are_refused(path, value):
    damaged(path, lambda tensors: tensors[f"{GATES}_scale"][0, 3].fill_(value))
    message = f"{path}: tensor '{GATES}_scale' holds NaN or infinite values"
    with pytest.raises(InputError, match=re.escape(message)):
        load_bilm(path)


@pytest.mark.parametrize("value", [0.0, -0.25])
def test_steps_that_are_not_positive_are_refused(path, value):
    damaged(path, lambda tensors: tensors[f"{GATES}_scale"][0, 3].fill_(value))
    with pytest.raises(InputError, match=f"tensor '{GATES}_scale': expected positive steps, found {value:g}"):
        load_bilm(path)


@pytest.mark.parametrize("shape", [(0,), (80,), (1, 79), (12, 1), ()])
def test_misshaped_steps_are_refused(path, shape):
    damaged(path, lambda tensors: tensors.update({f"{GATES}_scale": torch.ones(shape)}))
    message = f"tensor '{GATES}_scale': expected shape (1, 80) by its options, found shape {shape}"
    with pytest.raises(InputError, match=re.escape(message)):
        load_bilm(path)


def test_integers_without_steps_and_steps_without_integers_are_refused(path):
    damaged(path, lambda tensors: tensors.pop(f"{GATES}_scale"))
    with pytest.raises(InputError, match=r"W_0_scale': expected shape \(1, 80\) by its options, found none"):
        load_bilm(path)
    damaged(path, lambda tensors: tensors.update({GATES: torch.ones(12, 80), f"{GATES}_scale": torch.ones(1, 80)}))
    with pytest.raises(InputError, match=r"W_0_scale': expected none by its options, found shape \(1, 80\)"):
        load_bilm(path)


@pytest.mark.parametrize(
    ("name", "dtype"), [("char_embed", torch.int8), ("CNN/W_cnn_1", torch.int8), (GATES, torch.int16)]
)
def test_other_tensors_and_other_integers_are_refused(path, name, dtype):
    def change(tensors):
        tensors.pop(f"{name}_scale", None)
        tensors[name] = tensors[name].to(dtype)

    damaged(path, change)
    with pytest.raises(InputError, match=rf"tensor '{name}': expected floating-point numbers, found {dtype}"):
        load_bilm(path)


def test_a_bilm_that_diverged_is_refused_when_it_is_read(bilm, tmp_path):
    with torch.no_grad():
        bilm.directions[0][1].projection[2, 3] = float("nan")
    save_bilm(bilm, tmp_path / "weights.safetensors", torch.int8)
    with pytest.raises(InputError, match=r"W_P_0_scale' holds NaN or infinite .* training that made it diverged"):
        load_bilm(tmp_path / "weights.safetensors")


def test_bilm_tfs_format_has_no_int8(bilm, tmp_path):
    with pytest.raises(InputError, match=r"expected a name ending in .safetensors for int8 weights, found '\.hdf5'"):
        save_bilm(bilm, tmp_path / "new" / "weights.hdf5", torch.int8)
    assert not (tmp_path / "new").exists()


# The command


def test_the_command_writes_int8_and_refuses_to_overwrite(path, tmp_path, capsys):
    out = tmp_path / "made" / "weights.safetensors"
    typed = [str(tmp_path / "exact"), str(out), "--precision", "int8"]
    assert main(typed) == 0
    assert load_bilm(tmp_path / "made").fingerprint() == load_bilm(path).fingerprint()
    assert f"{out} in int8: 0.0 MB" in capsys.readouterr().out
    assert main(typed) == 1
    assert capsys.readouterr().err == f"elmo.convert: {out}: this file exists; name a new one, or delete it first\n"


def test_the_command_keeps_the_options_of_another_bilm(bilm, tmp_path, capsys):
    other = tmp_path / "other"
    save_bilm(random_bilm("tiny", 1), other / "weights.hdf5")
    before = load_bilm(other).fingerprint()
    assert main([str(tmp_path / "exact"), str(other / "weights.safetensors")]) == 1
    assert "other/options.json: the options of another biLM, which would be lost; name" in capsys.readouterr().err
    assert load_bilm(other).fingerprint() == before
    assert main([str(other), str(other / "weights.safetensors")]) == 0


def test_the_command_changes_the_format_without_loss_by_default(bilm, tmp_path):
    assert main([str(tmp_path / "exact"), str(tmp_path / "made" / "weights.safetensors")]) == 0
    assert main([str(tmp_path / "made"), str(tmp_path / "again" / "weights.hdf5")]) == 0
    assert load_bilm(tmp_path / "again").fingerprint() == bilm.fingerprint()
