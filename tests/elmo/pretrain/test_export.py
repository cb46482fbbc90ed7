"""Exports: both formats give the layers of the trained model, the output layer fits its size limit, names are found."""

import json

import h5py
import pytest
import torch

from elmo import load_bilm, published
from elmo.bilm import weight_files
from elmo.common.errors import InputError
from elmo.pretrain.batches import JoinedBatches, text_of_words
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.export import Output, export, load_model, load_output, save_output, softmax_folder
from elmo.pretrain.language_model import LanguageModel, OutputLayer, word_vectors
from elmo.pretrain.settings import Model
from tests.elmo.pretrain.training_text import TINY

VOCABULARY = [*SPECIALS, "we", "play", "包袱"]
SENTENCES = [["we", "play", "unheard-of", "games"], ["包袱"]]


@pytest.fixture
def model():
    return LanguageModel.random(Model(**TINY).options("char", []), len(VOCABULARY), seed=4)


def layers_of(model, sentences):
    """The training model's own layers, (layers, tokens, dim) for each sentence."""
    text = text_of_words(sentences, VOCABULARY, 50)
    batches = JoinedBatches(text, 4096, seed=None)
    assert len(batches) == 1
    batch, (_, chosen) = batches(0), batches.sentences(0)
    with torch.no_grad():
        spelled = torch.from_numpy(text.spelling.ids[batch.types])
        vectors = word_vectors(model.core, torch.from_numpy(batch.types), spelled, batch.groups, torch.float32)
        layers = model.core.lstm_layers(vectors, torch.from_numpy(batch.inputs))
    found = {}
    for row, number in enumerate(chosen.tolist()):
        n = len(sentences[number])
        found[number] = torch.stack(
            [torch.cat([layer[0, 1 : n + 1, row], layer[1, 1 : n + 1, row].flip(0)], dim=1) for layer in layers]
        )
    return [found[number] for number in range(len(sentences))]


def test_both_formats_give_the_layers_of_the_model_in_training(model, tmp_path):
    folder = export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")
    assert folder == tmp_path / "export" / "tiny"
    for name, bound in (("bilm-tf", 1e-5), ("tiny", 2e-3)):  # single and half precision
        bilm = load_bilm(tmp_path / "export" / name)
        for found, wanted in zip(bilm.layers(SENTENCES).unbind(1), layers_of(model, SENTENCES), strict=True):
            torch.testing.assert_close(found[1:, : wanted.shape[1]], wanted, atol=bound, rtol=0)


def test_int8_rounds_the_file_for_load_bilm_only(model, tmp_path):
    export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "float16", "tiny")
    export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "int8", "tiny", weights="int8")
    exact = model.core.state_dict()
    with h5py.File(tmp_path / "int8" / "bilm-tf" / "weights.hdf5") as file:
        assert file["char_embed"].dtype == file["CNN/W_cnn_0"].dtype == "float32"
    for name, tensor in load_bilm(tmp_path / "int8" / "bilm-tf").state_dict().items():
        assert torch.equal(tensor, exact[name]), name
    name = "directions.0.1.weight"
    error = (load_bilm(tmp_path / "int8" / "tiny").state_dict()[name] - exact[name]).abs()
    step = exact[name].abs().amax(dim=1, keepdim=True) / 127
    assert (error <= 0.5001 * step).all()
    assert error.max() > 0.4 * step.min()
    before, after = ((tmp_path / kind / "tiny" / "weights.safetensors").stat().st_size for kind in ("float16", "int8"))
    assert after < before


def test_the_options_keep_both_clip_keys_for_other_readers(model, tmp_path):
    export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")
    for name in ("tiny", "bilm-tf"):
        options = json.loads((tmp_path / "export" / name / "options.json").read_text())
        assert options["lstm"]["cell_clip"] is None
        assert options["lstm"]["proj_clip"] is None
        assert options["lstm"]["use_skip_connections"] is True
        assert options["char_cnn"]["n_characters"] == 262


def test_the_hdf5_file_is_laid_out_as_bilm_tf_writes_it(model, tmp_path):
    export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")
    with h5py.File(tmp_path / "export" / "bilm-tf" / "weights.hdf5") as file:
        assert file["char_embed"].shape == (261, TINY["char_dim"])
        cell = file["RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"]
        assert {name: cell[name].shape for name in cell} == {"W_0": (16, 64), "B": (64,), "W_P_0": (16, 8)}


def test_an_export_replaces_an_earlier_one(model, tmp_path):
    (tmp_path / "export" / "left-over").mkdir(parents=True)
    export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["export"]
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == ["bilm-tf", "tiny", "tiny-softmax"]


def test_a_saved_output_layer_loads_with_small_rounding_errors(tmp_path):
    torch.manual_seed(0)
    layer = OutputLayer(50, 16)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    words = [*SPECIALS, *(f"w{i}" for i in range(46)), "包袱"]
    save_output(Output(layer, words, "whitespace"), tmp_path)
    found = load_output(tmp_path)
    assert (found.vocabulary, found.tokenise) == (words, "whitespace")
    step = layer.weight.detach().abs().amax(dim=1, keepdim=True) / 127
    assert ((found.layer.weight - layer.weight).abs() <= 0.51 * step).all()
    torch.testing.assert_close(found.layer.bias, layer.bias, atol=2e-3, rtol=0)


@pytest.mark.parametrize("weights", [".", "weights.safetensors", "inner/.."])
def test_the_output_layer_of_a_model_in_the_current_folder_is_found(model, tmp_path, monkeypatch, weights):
    folder = export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")
    (folder / "inner").mkdir()
    monkeypatch.chdir(folder)
    assert load_model(weights)[1].vocabulary == VOCABULARY


def test_damaged_and_missing_output_layers_are_reported(model, tmp_path):
    folder = export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")
    softmax = softmax_folder(folder)
    assert softmax == softmax_folder(folder / "weights.safetensors") == tmp_path / "export" / "tiny-softmax"
    (softmax / "output.hdf5").write_bytes(b"cut")
    with pytest.raises(InputError, match="damaged"):
        load_model(folder)
    (softmax / "output.hdf5").unlink()
    with pytest.raises(InputError, match=r"expected the output layer .* vocabulary\.txt\.gz and output\.hdf5;"):
        load_model(folder)


def test_a_shipped_biLM_is_found_by_its_name_unless_a_path_has_it(model, tmp_path, monkeypatch):  # noqa: N802
    for module in (published, weight_files):
        monkeypatch.setattr(module, "SHIPPED", tmp_path / "export")
    export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")
    assert load_bilm("tiny").fingerprint() == load_bilm(tmp_path / "export" / "tiny").fingerprint()
    assert published.shipped_names() == ["bilm-tf", "tiny"]
    assert load_model("tiny")[1].vocabulary == VOCABULARY
    with pytest.raises(InputError, match=r"huge: no such weights.*shipped: bilm-tf, tiny"):
        load_bilm("huge")
    with pytest.raises(InputError, match=r"bilm-tf-softmax: .*other weights\. Shipped with an output layer: tiny$"):
        load_model("bilm-tf")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    with pytest.raises(InputError, match="expected exactly one"):
        load_bilm("tiny")
