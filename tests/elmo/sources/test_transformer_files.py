"""Folders of transformers that are damaged, incomplete or of another model, each with its message."""

import json
import sys
from pathlib import Path

import pytest
import torch

from elmo.common.errors import InputError
from elmo.sources.transformer import Transformer
from tests.elmo.sources import tiny_transformers

transformers = pytest.importorskip("transformers", reason="needs the extra `transformer`")

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # DeBERTa's code uses it


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_transformers.save(tmp_path_factory.mktemp("bert"), "bert")


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(InputError, match=r"expected a name on the Hugging Face hub, .*Without a network"):
        Transformer(str(tmp_path))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("num_hidden_layers", 3, r"tokeniser of one model, found no weights for encoder\.layer\.2"),
        ("intermediate_size", 30, r"found weights of other shapes: .*intermediate\.dense\.bias.*\(?24.*\(?30"),
    ],
)
def test_weights_of_another_model(tmp_path, setting, value, message):
    bert = tiny_transformers.save(tmp_path / "bert", "bert")
    config = transformers.BertConfig.from_pretrained(bert)
    setattr(config, setting, value)
    config.save_pretrained(bert)
    with pytest.raises(InputError, match=message):
        Transformer(bert)


def test_weights_that_end_too_early(tmp_path):
    bert = tiny_transformers.save(tmp_path / "bert", "bert")
    weights = tmp_path / "bert" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"found: .*incomplete"):
        Transformer(bert)


def test_weights_that_are_not_finite(tmp_path):
    bert = tiny_transformers.save(tmp_path / "bert", "bert")
    model = transformers.AutoModel.from_pretrained(bert)
    with torch.no_grad():
        model.pooler.dense.bias[0] = torch.nan  # not used
        model.save_pretrained(bert)
        assert torch.isfinite(Transformer(bert).token_layers([["the", "cat"]])).all()
        model.encoder.layer[1].output.dense.weight[3, 2] = torch.inf
        model.save_pretrained(bert)
    with pytest.raises(InputError, match=r"bert: tensor 'encoder\.layer\.1\.output.* holds NaN .*another model"):
        Transformer(bert)


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="found: "):
        Transformer(str(tmp_path / "missing"))


def test_a_folder_without_a_tokeniser(tmp_path):
    """transformers would make one that knows no word."""
    bert = tiny_transformers.save(tmp_path / "bert", "bert")
    for file in (tmp_path / "bert").glob("tokenizer*"):
        file.unlink()
    with pytest.raises(InputError, match=r"found a tokeniser of 0 words for .* own files"):
        Transformer(bert)


def test_words_that_are_spelled_like_a_mark_of_sentencepiece(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    deberta = tiny_transformers.save(tmp_path / "deberta", "deberta")
    file = tiny_transformers.save_sentence_pieces(tmp_path / "deberta")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(file))
    words = ["playing", "chess", "[SEP]", "the[CLS]cat", "[PAD]", "[UNK]", "[MASK]"]
    assert Transformer(deberta).subwords(words) == theirs.encode(words)


def test_a_tokeniser_of_another_model(tmp_path):
    bert = tiny_transformers.save(tmp_path / "bert", "bert", vocab_size=20)
    with pytest.raises(InputError, match=r"found a tokeniser of .* words for 20 sub-words"):
        Transformer(bert)


def test_code_in_a_folder_is_not_run_and_nothing_is_asked(tmp_path, monkeypatch):
    bert = tiny_transformers.save(tmp_path / "bert", "bert")
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModel": "own.Model"}}
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config))
    (tmp_path / "bert" / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr("builtins.input", lambda question="": "y")
    with pytest.raises(InputError, match=r"found: .*custom code"):
        Transformer(bert)
    assert not (tmp_path / "ran").exists()


def test_a_file_instead_of_a_folder(bert):
    with pytest.raises(InputError, match=r"config\.json: expected a name .*, found: "):
        Transformer(f"{bert}/config.json")


def test_a_setting_of_a_wrong_type(tmp_path):
    bert = tiny_transformers.save(tmp_path / "bert", "bert")
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config | {"hidden_size": "x"}))
    with pytest.raises(InputError, match=r"found: .*hidden_size"):
        Transformer(bert)


def test_damaged_or_foreign_pickled_weights(tmp_path):
    bert = tiny_transformers.save(tmp_path / "bert", "bert")
    weights = transformers.AutoModel.from_pretrained(bert).state_dict()
    (tmp_path / "bert" / "model.safetensors").unlink()
    file = tmp_path / "bert" / "pytorch_model.bin"
    torch.save(weights | {"path": Path("x")}, file)
    with pytest.raises(InputError, match="found: damaged weights"):
        Transformer(bert)
    torch.save(weights, file)
    assert Transformer(bert).widths == (16,) * 3
    whole = file.read_bytes()
    for size in (len(whole) // 2, len(whole) - 100):
        file.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"found: "):
            Transformer(bert)


def test_without_the_package_the_extra_is_named(bert, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"pip install -e '\.\[transformer\]'"):
        Transformer(bert)
