"""Weight files of masked LMs: what is written is read back, rounded, and told from a biLM."""

import json

import pytest
import torch

from elmo import Bilm, InputError, load_bilm, random_bilm, save_bilm
from elmo.sources.grid import GridOptions, load_lm, random_lm, save_lm
from tests.elmo.sources.naive_masked import OPTIONS

SENTENCES = [["we", "play"], ["包袱"]]


@pytest.fixture(scope="module")
def model():
    return random_lm(OPTIONS, seed=5)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 0.0), (torch.float16, 5e-3), (torch.int8, 0.1)])
def test_what_is_written_is_read_back(model, tmp_path, dtype, bound):
    save_lm(model, tmp_path / "weights.safetensors", dtype)
    found = load_lm(tmp_path)
    assert found.options == model.options
    error = (found.token_layers(SENTENCES) - model.token_layers(SENTENCES)).abs().max()
    assert error <= bound
    assert (found.fingerprint() == model.fingerprint()) == (dtype == torch.float32)
    if dtype == torch.int8:
        for name in ("blocks.1.feed_in.weight", "encoder.highways.0.carry.weight"):
            exact = model.state_dict()[name]
            step = exact.abs().amax(dim=1, keepdim=True) / 127
            assert ((found.state_dict()[name] - exact).abs() <= 0.5001 * step).all()
            assert not torch.equal(found.state_dict()[name], exact)
        assert torch.equal(found.state_dict()["mask"], model.state_dict()["mask"].half().float())


def test_the_options_tell_a_masked_lm_from_a_bilm(model, tmp_path):
    save_lm(model, tmp_path / "masked" / "weights.safetensors")
    save_bilm(random_bilm("tiny", 1), tmp_path / "bilm" / "weights.safetensors")
    assert load_lm(tmp_path / "masked").fingerprint() == model.fingerprint()
    assert isinstance(load_lm(tmp_path / "bilm"), Bilm)
    with pytest.raises(InputError, match=r"expected a biLM, found a .* network=transformer, which elmo\.load_lm reads"):
        load_bilm(tmp_path / "masked")
    with pytest.raises(InputError, match="expected a language model of the grid, found a biLM; load_bilm reads biLMs"):
        GridOptions.from_json(random_bilm("tiny", 1).options.to_json())


def test_a_file_that_does_not_match_its_options_is_refused(model, tmp_path):
    path = tmp_path / "weights.hdf5"
    save_lm(model, path)
    options = json.loads((tmp_path / "options.json").read_text())
    for part, key, value, tensor in (
        ("transformer", "feedforward_dim", 24, r"blocks\..*feed_in\.weight"),
        ("transformer", "n_layers", 2, r"blocks\.2\.attention_in"),
        ("char_cnn", "n_highway", 0, r"encoder\.highways\.0\.carry\.bias': expected none by its options"),
    ):
        (tmp_path / "options.json").write_text(json.dumps({**options, part: {**options[part], key: value}}))
        with pytest.raises(InputError, match=rf"weights\.hdf5: tensor '{tensor}.*Check that options"):
            load_lm(tmp_path)
