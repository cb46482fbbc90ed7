"""ELMo in other programs: in a PyTorch model, pickled, saved to a folder, and as an encoder of texts."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import elmo
from elmo.bilm.options import SIZES

TEXTS = ["The play closed. They play chess.", "", "A short one."]


@pytest.fixture
def layer():
    torch.manual_seed(1)
    layer = elmo.Elmo(elmo.random_bilm(SIZES["tiny"], 0), places=["input", "output"], layer_norm=True, l2=0.5).eval()
    with torch.no_grad():
        for value in layer.mixes.parameters():
            value.copy_(torch.randn(value.shape))
    return layer


class Model(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.elmo = layer
        self.out = nn.Linear(layer.dim, 2)

    def forward(self, sentences):
        return self.out(self.elmo(sentences).places["input"].mean(dim=1))


def test_a_plain_model_trains_the_mixes_and_is_pickled(layer):
    model, sentences = Model(layer), elmo.tokenise(TEXTS[0])
    model(sentences).sum().backward()
    assert layer.mixes["input"].gamma.grad is not None
    assert all(value.grad is None for value in layer.source.parameters())
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 (our own)
    assert torch.equal(again(sentences), model(sentences))


@pytest.mark.parametrize("int8", [False, True])
def test_a_layer_in_a_folder_is_the_same_layer(layer, tmp_path, int8):
    if int8:
        layer.source.use_int8()
    elmo.save_layer(layer, tmp_path / "mine")
    again = elmo.load_layer(tmp_path / "mine").eval()
    sentences = elmo.tokenise(TEXTS[0])
    for place, vectors in layer(sentences).places.items():
        assert torch.equal(again(sentences).places[place], vectors)
    assert again.penalty() == layer.penalty()
    assert "sha256" in (tmp_path / "mine" / "card.md").read_text()


def test_a_layer_on_something_else_is_not_saved(tmp_path):
    class Source:
        widths = (2,)

    with pytest.raises(elmo.InputError, match="expected a layer on a Bilm, found one on a Source"):
        elmo.save_layer(elmo.Elmo(Source()), tmp_path)


def test_a_text_is_the_mean_of_its_words(layer):
    encoder = elmo.TextEncoder(layer)
    vectors = encoder.encode(TEXTS, batch_size=2, show_progress_bar=False)
    assert isinstance(vectors, np.ndarray)
    words = [["The", "play", "closed", ".", "They", "play", "chess", "."]]
    expected = layer(words).places["input"][0].mean(dim=0).detach().numpy()
    # layer_norm makes vectors depend on the batch, so that the text is computed alone
    assert np.allclose(encoder.encode(TEXTS[:1])[0], expected, atol=1e-6)
    assert not vectors[1].any()
    assert vectors.shape == (3, layer.dim)


def test_the_protocols_of_sentence_transformers_and_mteb(layer):
    encoder = elmo.TextEncoder(layer, "output")
    array = encoder.encode(TEXTS, batch_size=8, convert_to_numpy=True, prompt_name=None)
    tensor = encoder.encode(TEXTS, batch_size=8, convert_to_tensor=True)
    assert np.array_equal(tensor.numpy(), array)
    assert np.array_equal(encoder.encode(TEXTS[0], batch_size=1), encoder.encode(TEXTS[:1], batch_size=1)[0])
    batches = [{"text": TEXTS}]  # what MTEB 2 passes, with the task as keywords
    assert np.array_equal(encoder.encode(batches, task_metadata=None, hf_split="test", hf_subset="en"), array)
    lengths = np.linalg.norm(encoder.encode(TEXTS, normalize_embeddings=True), axis=1)
    assert np.allclose(lengths, [1, 0, 1])


def test_it_is_a_module_of_sentence_transformers(layer):
    encoder = elmo.TextEncoder(layer)
    output = encoder(encoder.preprocess(TEXTS))
    assert np.array_equal(output["sentence_embedding"].numpy(), encoder.encode(TEXTS))


@pytest.mark.integration
def test_the_real_packages_take_it(layer):
    """Not installed with the suite: pip install sentence-transformers."""
    package = pytest.importorskip("sentence_transformers")
    encoder = elmo.TextEncoder(layer)
    model = package.SentenceTransformer(modules=[encoder], device="cpu")
    assert np.allclose(model.encode(TEXTS, batch_size=1), encoder.encode(TEXTS, batch_size=1), atol=1e-6)
    assert model.similarity(model.encode(TEXTS[:1]), model.encode(TEXTS[:1])).item() == pytest.approx(1)
