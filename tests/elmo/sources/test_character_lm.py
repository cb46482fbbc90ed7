"""Contextual string embeddings against a plain walk in float64, and the files of flair."""

import os
import re
import sys
import types

import numpy as np
import pytest
import torch

from elmo import FrozenSource, InputError
from elmo.sources.character_lm import ROWS_ON_CPU, Flair
from elmo.sources.torch_files import read_torch_file
from elmo.store.cached_layers import CachedLayers
from tests.elmo.sources.character_lms import CHARACTERS, Dictionary, save_lms, tensors_of

SENTENCES = [("cab", "é", "zebra."), ("a",), (), ("dead", "beef", "dead"), ("face",)]


@pytest.fixture
def flair_classes(monkeypatch):
    """Classes of the names that flair's have; the reader never sees them."""
    data, models = types.ModuleType("flair.data"), types.ModuleType("flair.models.language_model")
    for module, name in ((data, "Dictionary"), (models, "CharacterTokenizer")):
        setattr(module, name, type(name, (), {"__module__": module.__name__}))
    for module in (types.ModuleType("flair"), types.ModuleType("flair.models"), data, models):
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def dictionary():
        made = data.Dictionary()
        made.idx2item = [character.encode() for character in CHARACTERS]
        made.item2idx = {character.encode(): number for number, character in enumerate(CHARACTERS)}
        return made

    def tokenizer():
        made = models.CharacterTokenizer()
        made.dictionary = dictionary()
        return made

    return {"dictionary": dictionary, "tokenizer": tokenizer}


def save_flair(path, tensors, forward, holder, **settings):
    """A file as flair's LanguageModel.save writes it."""
    content = {"state_dict": tensors, "is_forward_lm": forward, "hidden_size": 5, "nlayers": 1, "embedding_size": 3}
    content |= {"nout": None, "document_delimiter": "\n", "dropout": 0.1, **holder}
    torch.save(content, path, **settings)


@pytest.fixture
def folder(tmp_path):
    return save_lms(tmp_path / "lms")


def states(text, tensors):
    """The top state after each character of a text, in float64, one character at a time."""
    weights = {name: tensor.double().numpy() for name, tensor in tensors.items()}
    layers = sum(name.startswith("rnn.weight_hh") for name in weights)
    hidden, cell = np.zeros((layers, 5)), np.zeros((layers, 5))
    found = []
    for letter in text:
        seen = weights["encoder.weight"][CHARACTERS.index(letter) if letter in CHARACTERS else 0]
        for j in range(layers):
            gates = weights[f"rnn.weight_ih_l{j}"] @ seen + weights[f"rnn.bias_ih_l{j}"]
            gates += weights[f"rnn.weight_hh_l{j}"] @ hidden[j] + weights[f"rnn.bias_hh_l{j}"]
            i, f, g, o = np.split(gates, 4)
            cell[j] = cell[j] / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
            seen = hidden[j] = np.tanh(cell[j]) / (1 + np.exp(-o))
        found.append(seen.copy())
    return found


def expected(sentence, layers, delimiter="\n"):
    """Each word's two states: after the text up to the space behind it, and after the reversed rest with its space."""
    rows = []
    for k in range(len(sentence)):
        left = states(delimiter + " ".join(sentence[: k + 1]) + " ", tensors_of(0, layers=layers))[-1]
        right = states(delimiter + " ".join(sentence[k:])[::-1] + " ", tensors_of(1, layers=layers))[-1]
        rows.append(np.concatenate([left, right]))
    return rows


@pytest.mark.parametrize("layers", [1, 2])
def test_words_have_the_states_of_a_plain_walk(tmp_path, layers):
    source = Flair(str(save_lms(tmp_path / "lms", layers)))
    assert isinstance(source, FrozenSource)
    assert source.widths == (10,)
    found = source.token_layers(SENTENCES)
    rows = [row for sentence in SENTENCES for row in expected(sentence, layers)]
    assert found.shape == (1, len(rows), 10)
    np.testing.assert_allclose(found[0].numpy(), np.stack(rows), rtol=1e-5, atol=1e-6)


def test_a_sentence_has_its_vectors_in_every_batch(folder):
    source = Flair(str(folder))
    many = [("abc" * (k % 5 + 1), "de") for k in range(ROWS_ON_CPU + 5)]  # some are the second one of their row
    alone = torch.cat([source.token_layers([sentence]) for sentence in many[:5]], dim=1)
    together = source.token_layers(many)
    for start in range(0, len(many) - 4, 5):
        torch.testing.assert_close(together[:, 2 * start : 2 * start + 10], alone, rtol=1e-6, atol=1e-7)
    assert source.token_layers([]).shape == (1, 0, 10)
    cached = CachedLayers(source).token_layers([("a", "cab")])
    assert torch.equal(cached, source.token_layers([("a", "cab")]))


@pytest.mark.parametrize("holder", ["dictionary", "tokenizer"])
@pytest.mark.parametrize("settings", [{"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}])
def test_the_files_of_flair(tmp_path, folder, flair_classes, holder, settings):
    theirs = tmp_path / "flair"
    theirs.mkdir()
    for seed, (way, forward) in enumerate([("z-forward", True), ("a-backward", False)]):
        held = {holder: flair_classes[holder]()}
        save_flair(theirs / f"{way}.pt", tensors_of(seed), forward, held, **settings)
    source, other = Flair(str(theirs)), Flair(str(folder))
    assert source.fingerprint() == other.fingerprint(), "the same LMs in another format"
    assert torch.equal(source.token_layers(SENTENCES), other.token_layers(SENTENCES))


def test_a_delimiter_of_two_characters(tmp_path, flair_classes):
    for seed, forward in enumerate((True, False)):
        held = {"dictionary": flair_classes["dictionary"](), "document_delimiter": ".\n"}
        save_flair(tmp_path / f"{seed}.pt", tensors_of(seed), forward, held)
    found = Flair(str(tmp_path)).token_layers([("cab", "face")])
    rows = np.stack(expected(("cab", "face"), 1, ".\n"))
    np.testing.assert_allclose(found[0].numpy(), rows, rtol=1e-5, atol=1e-6)


def changed(file, **changes):
    """Saves a file of flair again with other content."""
    content = read_torch_file(file)
    dictionary = Dictionary()
    vars(dictionary).update(content["dictionary"].attributes)
    torch.save(content | {"dictionary": dictionary} | changes, file)


def test_a_change_of_weights_or_characters_is_another_source(folder):
    before = Flair(str(folder)).fingerprint()
    dictionary = Dictionary()
    dictionary.idx2item[-2:] = [b".", "é".encode()]
    changed(folder / "forward.pt", dictionary=dictionary)
    assert Flair(str(folder)).fingerprint() != before


def test_weights_that_are_not_finite_are_refused(folder):
    tensors = tensors_of(1)
    tensors["encoder.weight"][2, 1] = torch.inf
    changed(folder / "backward.pt", state_dict=tensors)
    with pytest.raises(InputError, match=r"backward\.pt: tensor 'encoder\.weight' holds NaN .*Get the file again"):
        Flair(str(folder))


@pytest.mark.parametrize(
    ("tensor", "value", "said"),
    [
        ("rnn.weight_hh_l0", torch.zeros(20), "expected the matrices encoder.weight and rnn.weight_hh_l0, found {"),
        ("rnn.weight_hh_l0", torch.zeros(0, 0), "expected the matrices encoder.weight and rnn.weight_hh_l0, found {"),
        ("encoder.weight", torch.zeros(()), "expected the matrices encoder.weight and rnn.weight_hh_l0, found {"),
        ("rnn.other", torch.zeros(2), "the tensor rnn.other: expected none, found"),
    ],
)
def test_tensors_that_are_no_character_lm(folder, tensor, value, said):
    changed(folder / "forward.pt", state_dict={**tensors_of(0), tensor: value})
    with pytest.raises(InputError, match=rf"forward\.pt: {re.escape(said)}.*\. Get the file again"):
        Flair(str(folder))


def test_errors_name_the_file_and_what_is_wrong(folder, flair_classes):
    with pytest.raises(InputError, match=r"weights of flair: expected a path, .* flair/news, flair/news-fast"):
        Flair("flair/new")
    (folder / "backward.pt").unlink()
    with pytest.raises(InputError, match=r"expected one forward and one backward .* found forward\.pt"):
        Flair(str(folder))
    (folder / "forward.pt").unlink()
    held = {"dictionary": flair_classes["dictionary"]()}
    save_flair(folder / "lm.pt", tensors_of(0), True, {**held, "recurrent_type": "GRU"})
    with pytest.raises(
        InputError, match=r"lm\.pt: expected an LSTM without a projection, found recurrent_type=gru.*\. Get "
    ):
        Flair(str(folder))
    save_flair(folder / "lm.pt", tensors_of(0), True, {})
    with pytest.raises(InputError, match=r"lm\.pt: expected the characters of the model, found None\. Get the"):
        Flair(str(folder))
    torch.save([1], folder / "lm.pt")
    with pytest.raises(InputError, match=r"lm\.pt: expected a language model of flair, with a state_dict, found \[1\]"):
        Flair(str(folder))


@pytest.mark.parametrize("name", ["forward.pt", "other.pt"])
def test_a_device_in_the_folder_is_not_read(folder, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(os.devnull)  # in place of a pipe, since reading it never blocks
    with pytest.raises(InputError, match=r"a folder, a pipe or a device"):
        Flair(str(folder))
