"""The six objectives and networks: none sees what it predicts, all are as large, and each is trained to a source."""

from collections import Counter
from itertools import product

import hydra
import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

from elmo import Bilm, load_lm
from elmo.bilm.options import NETWORKS
from elmo.pretrain.batches import IGNORED, MaskedBatches, text_of_words
from elmo.pretrain.command import settings_of
from elmo.pretrain.corpus.token_store import SPECIALS
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.objective import OBJECTIVES, objective_of
from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import TransformerShape, parameters_of
from tasks.features.token_features import TokenFeatures, features_fingerprint
from tests.elmo.pretrain.run_files import card_of, curve_of, summary_of
from tests.elmo.pretrain.training_text import QUIET, settings
from tests.tasks.making import run_of

CELLS = list(product(OBJECTIVES, NETWORKS))
VOCABULARY = [*SPECIALS, *(f"w{i}" for i in range(60))]
SHAPE = TransformerShape(n_layers=4, n_heads=2)


def composed(objective, network, size):
    with hydra.initialize_config_module("conf.pretrain", version_base="1.3"):
        typed = [f"size={size}", f"objective={objective}", f"network={network}"]
        return settings_of(hydra.compose("config", typed))


def predictions(model, sentences, seed):
    """What the output layer reads for each word, by (step, batch, sentence, word, direction), and whether that is read.

    Batches are those of training with a seed, and those that measure without one.
    """
    text = text_of_words(sentences, VOCABULARY, 50)
    batches, spelled = objective_of(model).batches(text, 40, seed, 0.4), torch.from_numpy(text.spelling.ids)
    found = {}
    for step in range(len(batches)):
        numbers = batches.sentences(step)[1].tolist()
        for index, batch in enumerate([batches(step)] if seed else batches.measured(step)):
            with torch.no_grad():
                hidden, targets = model.hidden(batch, spelled, torch.float32)
            read = np.append(batch.types, [-1, -2])[batch.inputs]
            masked = isinstance(batches, MaskedBatches)
            places = batch.places if masked else np.arange(read.size)
            for place, vector, target in zip(places, hidden, targets.tolist(), strict=True):
                at = np.unravel_index(place, read.shape)
                way, row, word = (0, at[0], at[1] - 1) if masked else (at[0], at[2], at[1])
                number = numbers[row]
                word = len(sentences[number]) - 1 - word if way else word
                if target != IGNORED and 0 <= word < len(sentences[number]):  # else the end of a sentence
                    assert VOCABULARY[target] == sentences[number][word]
                    found[step, index, number, int(word), int(way)] = vector, masked and read[at] == target
    return found


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
@pytest.mark.parametrize("seed", [1, None], ids=["trained", "measured"])
def test_no_cell_sees_the_word_that_it_predicts_and_each_sees_those_next_to_it(cell, seed, tmp_path):
    """The same word of all sentences is changed. As in BERT, some words that a masked LM predicts in training stay."""
    objective, network = cell
    run = settings("text", tmp_path, objective=objective, network=network, transformer=SHAPE)
    model = LanguageModel.random(run.options(VOCABULARY), len(VOCABULARY), seed=3)
    draw, masked = np.random.default_rng(0), objective == "masked"
    sentences = [[f"w{i}" for i in draw.permutation(59)[:n]] for n in (4, 7, 7, 5, 9, 4, 12)]  # w59 is in none
    before, seen = predictions(model, sentences, seed), Counter()
    if not (masked and seed):
        directions = 2 if objective == "joined" else 1
        assert len(before) == directions * sum(map(len, sentences))  # each word is predicted once in each direction
    for changed in range(4):
        after = predictions_of(sentences, changed, model, seed)
        for (*where, word, way), (vector, kept) in before.items():
            moved = float((after[*where, word, way][0] - vector).abs().max())
            if word == changed:
                seen["kept" if kept else "hidden"] += 1
                assert moved > 1e-4 if kept else moved < 1e-6
            elif not masked:  # all words before it in the direction of reading, and no other
                assert (moved > 1e-6) == (changed > word if way else changed < word)
                seen[changed - word] += 1
            elif abs(word - changed) == 1 and before.get((*where, changed, way), (None, True))[1]:  # it is read
                assert moved > 1e-5
                seen[changed - word] += 1
    assert seen["hidden"] >= 8
    assert (seen["kept"] > 0) == (masked and seed is not None)
    assert min(seen[-1], seen[1]) >= 3


def predictions_of(sentences, changed, model, seed):
    """With another word at this place of every sentence; what is predicted there changes, too, but not what is read."""
    return predictions(model, [[*s[:changed], "w59", *s[changed + 1 :]] for s in sentences], seed)


@pytest.mark.parametrize("size", ["tiny", "small", "medium", "original"])
def test_the_cells_of_a_size_have_equal_parameters_layers_and_words(size):
    options = [composed(*cell, size).options(VOCABULARY) for cell in CELLS]
    counts = dict(zip(CELLS, map(parameters_of, options), strict=True))
    bilm = counts["joined", "lstm"]
    assert all(count == pytest.approx(bilm, rel=0.02) for count in counts.values())
    if size == "small":
        assert bilm == 13_593_296
        assert max(counts.values()) / min(counts.values()) < 1.01
        assert options[CELLS.index(("masked", "transformer"))].feedforward_dim == 960  # as published
    for one in options:
        encoder = getattr(one, "encoder", one)
        assert one.output_dim == options[0].output_dim
        assert (encoder.filters, encoder.char_dim, encoder.n_highway) == (
            options[0].encoder.filters,
            options[0].encoder.char_dim,
            options[0].encoder.n_highway,
        )


@pytest.fixture(scope="module")
def store(text, tmp_path_factory):
    """The folder of the token store that all cells share."""
    return str(tmp_path_factory.mktemp("store") / "store")


@pytest.fixture(scope="module", params=CELLS, ids="-".join)
def trained(request, text, store, tmp_path_factory):
    """A cell, and the folder of its run of 16 steps."""
    objective, network = request.param
    out = tmp_path_factory.mktemp("run") / "out"
    shape = {"objective": objective, "network": network, "transformer": SHAPE}
    training = {"log_every": 4, "evaluate_every": 0, "evaluate_sentences": 10}
    pretrain(settings(text, out, 16, training=training, store=store, **shape), ["out=DIR"], QUIET)
    return request.param, out


def test_a_cell_learns_and_says_what_it_is(trained):
    (objective, network), out = trained
    rows, summary, card = curve_of(out), summary_of(out), card_of(out)
    assert float(rows[-1]["loss"]) < 0.97 * float(rows[0]["loss"])
    kind = "masked loss" if objective == "masked" else "perplexity"
    assert [word for word in ("masked_loss", "perplexity") if word in summary] == [kind.replace(" ", "_")]
    assert f"## Held-out {kind}\n" in card
    assert ModelCard(card).data.tags == ["elmo", objective, network]
    assert ModelCard(card).data.license == "unknown"
    assert ("perplexity" in card) == (objective != "masked")
    columns = {"forward": ["forward"], "joined": ["forward", "backward"], "masked": ["masked_loss"]}[objective]
    assert list(rows[0])[6:] == columns
    n_parameters = sum(item.numel() for item in load_lm(out / "export" / "tiny").parameters())
    for name, value in {
        "parameters without the output layer": f"{n_parameters:,}",
        "tokens seen, </S> counted": f"{summary['position']['tokens']:,}",
        "minutes": f"{summary['position']['seconds'] / 60:.1f}",
        "`objective`": objective,
        "`network`": network,
    }.items():
        assert f"| {name} | {value} |" in card
    inner = f"| {network}, cell_dim |" if (objective, network) != ("joined", "lstm") else "| lstm, dim | 16 |"
    assert (inner if network == "lstm" else "| transformer, feedforward_dim |") in card


def test_every_exported_cell_is_a_source_of_the_same_features(trained):
    cell, out = trained
    model = load_lm(out / "export" / "tiny")
    assert (model.options.objective, model.options.network) == cell
    assert isinstance(model, Bilm) == (cell == ("joined", "lstm"))
    typed = ["features=lm", f"features.elmo.weights={out / 'export' / 'tiny'}", "features.words=null"]
    config = run_of("task=ner", "data=mini", "features.characters=null", *typed).features
    assert features_fingerprint(config)["weights"] == model.fingerprint()
    sentences = [("Anna", "plays", "chess"), ("Ben",)]
    features = TokenFeatures(config, [], 1).eval()
    assert features.widths["input"] == 16
    found, layers = features(sentences).input, model.token_layers(sentences)
    assert len(layers) == len(model.widths) == 3
    torch.testing.assert_close(torch.cat([found[0], found[1, :1]]), layers.mean(dim=0), rtol=0, atol=2e-3)
