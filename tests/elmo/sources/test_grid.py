"""The language models of the grid as sources of layers, compared with their definitions in double precision."""

import copy

import pytest
import torch

from elmo import SIZES, InputError, check_source, load_lm
from elmo.pretrain.batches import text_of_words
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.language_model import LanguageModel, TrainingLoss
from elmo.pretrain.objective import OBJECTIVES
from elmo.pretrain.settings import TransformerShape, shaped
from elmo.sources.bilm import in_int8
from elmo.sources.grid import GridOptions, random_lm, save_lm
from tests.elmo.sources.naive_masked import naive_layers, naive_lstm_layers

CELLS = [("forward", "lstm"), ("forward", "transformer"), ("joined", "transformer"), ("masked", "lstm")]
SENTENCES = [
    sentence.split()
    for sentence in ("we play chess", "a 包袱", "one", "we rest", "a b c d e f g h i j k l", "x y z", "we play a b c")
]
WORDS = [*SPECIALS, "we", "play", "chess"]


def options_of(objective, network):
    return shaped(SIZES["tiny"], objective, network, 10, TransformerShape(n_layers=4, n_heads=2))


@pytest.fixture(scope="module", params=CELLS, ids="-".join)
def model(request):
    return random_lm(options_of(*request.param), seed=1)


def by_definition(model, sentence):
    """All layers of one sentence, (layers, words, dim), in double precision."""
    exact = copy.deepcopy(model).double()
    vectors = exact.encoder.encode_words(["<S>", *sentence, "</S>"])
    if model.options.network == "lstm":
        return torch.stack(naive_lstm_layers(exact, vectors))[:, 1:-1]
    blocks, n_layers = list(exact.blocks), model.options.n_layers
    found = torch.stack(naive_layers(exact, vectors, blocks[:n_layers], causal=True))
    if model.options.objective == "joined":
        backward = torch.stack(naive_layers(exact, vectors.flip(0), blocks[n_layers:], causal=True))
        found = torch.cat([found, backward.flip(1)], dim=2)
    return found[:, 1:-1]


def test_the_exported_layers_equal_the_definition(model):
    found = model.token_layers([[], *SENTENCES[:4]])
    wanted = torch.cat([by_definition(model, sentence) for sentence in SENTENCES[:4]], dim=1)[model.options.layers]
    if model.options.objective == "joined":
        assert wanted.shape[2] == 2 * model.widths[0]  # the vector of a word, twice, is stored once
    assert found.shape == wanted.shape == (3, 8, max(model.widths))
    torch.testing.assert_close(found.double(), wanted, atol=2e-5, rtol=0)


def test_a_source_passes_the_check_of_sources_and_reads_windows(model):
    assert "3 layers" in check_source(model)
    alone, (long,) = model.token_layers([SENTENCES[4][:10]]), (SENTENCES[4],)
    assert torch.equal(model.token_layers([long])[:, :6], alone[:, :6])  # far from the cut
    for sentence, layers in zip(
        SENTENCES, model.token_layers(SENTENCES).split(list(map(len, SENTENCES)), 1), strict=True
    ):
        assert torch.equal(model.token_layers([sentence]), layers)


@pytest.mark.parametrize("cell", CELLS[:3], ids="-".join)
def test_causal_models_in_training_read_as_the_exported_layers(cell):
    """The top of padded batches: the state after a word predicts the word after it, in the direction of reading."""
    sentences = [sentence for sentence in SENTENCES if len(sentence) <= 10]  # longer ones are read in windows
    trained, text = LanguageModel.random(options_of(*cell), len(WORDS), seed=1), text_of_words(sentences, WORDS, 50)
    batches, spelled = OBJECTIVES[cell[0]].batches(text, 40, seed=1), torch.from_numpy(text.spelling.ids)
    for step in range(len(batches)):
        batch, (_, numbers) = batches(step), batches.sentences(step)
        with torch.no_grad():
            hidden = trained.hidden(batch, spelled, torch.float32)[0].view(*batch.targets.shape, -1)
        for column, number in enumerate(numbers.tolist()):
            n, top = len(sentences[number]), trained.core.token_layers([sentences[number]])[-1]
            read = [way[1 : n + 1, column] for way in hidden]
            for way, wanted in enumerate(trained.core.head(half) for half in top.chunk(len(read), dim=1)):
                torch.testing.assert_close(read[way].flip(0) if way else read[way], wanted, atol=1e-5, rtol=0)


def test_masked_lstms_read_padded_sentences_as_the_exported_layers():
    model = random_lm(options_of("masked", "lstm"), seed=2)
    sentences = [SENTENCES[0], SENTENCES[3]]
    words = ["<S>", "</S>", *sorted({word for sentence in sentences for word in sentence})]
    rows = [[words.index(word) for word in ("<S>", *sentence, "</S>")] for sentence in sentences]
    inputs = torch.tensor([row + [len(words) + 1] * (7 - len(row)) for row in rows])
    with torch.no_grad():
        vectors = model.encoder.encode_words(words)
        hidden = model.hidden(vectors, inputs, torch.arange(inputs.numel()), 0.0).view(*inputs.shape, -1)
    for row, sentence in enumerate(sentences):
        wanted = model.head(model.token_layers([sentence])[-1])
        torch.testing.assert_close(hidden[row, 1 : len(sentence) + 1], wanted, atol=1e-5, rtol=0)


def test_what_is_written_is_read_back(model, tmp_path):
    save_lm(model, tmp_path / "weights.safetensors")
    found = load_lm(tmp_path)
    assert found.options == model.options
    assert found.fingerprint() == model.fingerprint()
    content = model.options.to_json()
    assert content[model.options.network].get("objective") == model.options.objective
    wrong = {**content[model.options.network], "objective": "next"}
    with pytest.raises(InputError, match=r"here: .*objective: expected forward or joined or masked, found 'next'"):
        GridOptions.from_json({**content, model.options.network: wrong}, "here")


@pytest.mark.gpu
def test_layers_and_losses_on_a_gpu_are_those_of_the_cpu(model):
    text = text_of_words(SENTENCES, WORDS, 50)
    batch = OBJECTIVES[model.options.objective].batches(text, 40, 1, 0.5)(0)
    layers, losses = [], []
    for device, dtype in (("cpu", torch.float32), ("cuda", torch.float32), ("cuda", torch.bfloat16)):
        trained = LanguageModel.random(model.options, len(WORDS), seed=1).to(device)
        loss = TrainingLoss(trained, text.spelling, len(WORDS), 0.0, dtype)(batch, 0.5)
        loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in trained.parameters())
        layers.append(trained.core.token_layers(SENTENCES).cpu())
        losses.append(float(loss.detach()))
    torch.testing.assert_close(layers[1], layers[0], atol=1e-3, rtol=0)
    assert losses[1:] == pytest.approx(losses[:1] * 2, rel=2e-2)


def test_int8_is_for_bilms_alone():
    with pytest.raises(InputError, match=r"precision int8: expected a biLM, found .*GridLm. Use float16 or float32"):
        in_int8(random_lm(options_of("masked", "lstm"), seed=2))
