"""Whole runs with objective=masked on generated text, what is masked, and the masked loss by its definition."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from elmo import load_lm
from elmo.common.errors import InputError
from elmo.pretrain import objective as objective_module
from elmo.pretrain import perplexity as command
from elmo.pretrain import run as train_module
from elmo.pretrain.batches import MaskedBatches, text_of_words
from elmo.pretrain.corpus.token_store import END, SPECIALS, START
from elmo.pretrain.export import Output, export, load_model
from elmo.pretrain.language_model import LanguageModel, TrainingLoss
from elmo.pretrain.objective import OBJECTIVES
from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import Settings, Training, TransformerShape
from tests.elmo.pretrain.run_files import card_of, checkpoint_of, curve_of, summary_of
from tests.elmo.pretrain.training_text import QUIET, settings
from tests.elmo.sources.naive_masked import OPTIONS, naive_layers

VOCABULARY = [*SPECIALS, *(f"w{i}" for i in range(40))]
MASKED = OBJECTIVES["masked"]
SHAPE = TransformerShape(n_layers=2, n_heads=2, feedforward_dim=32)


def masked_settings(text, out, steps=40, **more):
    more = {"objective": "masked", "network": "transformer", "transformer": SHAPE} | more
    return settings(text, out, steps, training=more.pop("training", None), **more)


def batches_of(sentences, seed):
    return MaskedBatches(text_of_words(sentences, VOCABULARY, 50), 512, seed)


def drawn_words(count, draw):
    return [f"w{number}" for number in draw.integers(0, 45, count)]  # some are outside the vocabulary


def test_masked_shares_by_enumeration():
    draw = np.random.default_rng(0)
    batcher = batches_of([drawn_words(int(n), draw) for n in draw.integers(1, 40, 300)], seed=5)
    counts = {"words": 0, "chosen": 0, "masked": 0, "replaced": 0, "kept": 0}
    sentences = batcher.text.sentences
    for step in range(2 * len(batcher)):  # two epochs
        batch, (_, numbers) = batcher(step), batcher.sentences(step)
        n_types, width = len(batch.types), batch.inputs.shape[1]
        chosen = list(zip(batch.places.tolist(), batch.targets.tolist(), strict=True))
        assert len({place for place, _ in chosen}) == len(chosen) == batch.predictions
        read = np.append(batch.types, [-1, -2])[batch.inputs]
        for row, own in enumerate(sentences[number].astype(int) for number in numbers):
            length = len(own)
            counts["words"] += length
            assert (read[row, 0], read[row, length + 1]) == (START, END)
            assert (batch.inputs[row, length + 2 :] == n_types + 1).all()
            mine = {place % width - 1: target for place, target in chosen if place // width == row}
            for at, word in enumerate(own):
                seen = read[row, at + 1]
                if at not in mine:
                    assert seen == word
                    continue
                assert mine[at] == (word if word < len(VOCABULARY) else SPECIALS.index("<UNK>"))
                kind = "masked" if seen == -1 else "kept" if seen == word else "replaced"
                assert kind != "replaced" or len(SPECIALS) <= seen < len(VOCABULARY)
                counts["chosen"] += 1
                counts[kind] += 1
    assert counts["words"] == 2 * len(sentences.tokens)
    for kind, share, of in (("chosen", 0.15, "words"), ("masked", 0.8, "chosen"), ("replaced", 0.1, "chosen")):
        assert counts[kind] / counts[of] == pytest.approx(share, abs=0.01), kind


def test_the_choice_is_drawn_by_seed_and_step():
    sentences = [drawn_words(20, np.random.default_rng(n)) for n in range(20)]
    first, again, other = (batches_of(sentences, seed=seed) for seed in (1, 1, 2))
    assert (first(0).inputs == again(0).inputs).all()
    assert (first(0).targets == again(0).targets).all()
    assert (first(0).places != other(0).places).any()
    assert (first(0).places != first(len(first)).places).any()  # the next epoch


@torch.no_grad()
def test_the_masked_loss_equals_its_definition_word_by_word(monkeypatch):
    model = LanguageModel.random(OPTIONS, len(VOCABULARY), seed=3)
    draw = np.random.default_rng(1)
    sentences = [drawn_words(n, draw) for n in (9, 1, 3, 16, 9)]
    total = 0.0
    for sentence in sentences:
        for first in range(7):
            vectors = model.core.encoder.encode_words(["<S>", *sentence, "</S>"])
            masked = range(first, len(sentence), 7)
            vectors[[at + 1 for at in masked]] = model.core.mask
            hidden = model.core.head(naive_layers(model.core, vectors)[-1])
            for at in masked:
                number = VOCABULARY.index(sentence[at] if sentence[at] in VOCABULARY else "<UNK>")
                total -= float(torch.log_softmax(model.output.weight @ hidden[at + 1] + model.output.bias, 0)[number])
    text = text_of_words(sentences, VOCABULARY, 50)
    for at_once in (16_384, 12):
        monkeypatch.setattr(objective_module, "TOKENS_AT_ONCE", at_once)
        found = MASKED.measure(model, text)
        assert found["tokens"] == 38
        assert found["masked_loss"] == pytest.approx(total / 38, rel=1e-5)


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    """A run of 40 steps."""
    out = tmp_path_factory.mktemp("run") / "out"
    pretrain(masked_settings(text, out), ["out=DIR"], QUIET)
    return out


def test_a_small_text_can_be_learned():
    """Each sentence is decided by any of its words, so that nothing is left to guess."""
    sentences = [sentence.split() for sentence in ("Anna plays chess .", "Ben reads novels !", "we eat bread ?")]
    words = [*SPECIALS, *sorted({word for sentence in sentences for word in sentence})]
    text = text_of_words(sentences * 16, words, 50)
    batches = MaskedBatches(text, 8 * len(text.sentences), 1, chosen=0.25)
    model = LanguageModel.random(replace(OPTIONS, output_dim=12), len(words), seed=1)
    loss_of = TrainingLoss(model, text.spelling, len(words), 0.0, torch.float32)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(120):
        optimiser.zero_grad()
        loss_of(batches(step), 0.5).backward()
        optimiser.step()
    assert MASKED.measure(model, text)["masked_loss"] < 0.1


def test_a_run_reports_masked_loss_and_never_perplexity(finished, capsys):
    rows = curve_of(finished)
    assert float(rows[-1]["loss"]) < 0.9 * float(rows[0]["loss"])
    assert [row["step"] for row in rows if row["masked_loss"]] == ["20", "40"]
    assert "forward" not in rows[0]
    assert float(rows[0]["tokens_per_second"]) > 0
    summary = summary_of(finished)
    card = card_of(finished)
    assert "\n# masked LM tiny\n" in card
    assert "| transformer, feedforward_dim | 32 |" in card
    assert f"| these files | {summary['masked_loss']['exported']['masked_loss']:.3f} |" in card
    assert "perplexity" not in card
    assert "perplexity" not in summary
    exported = finished / "export" / "tiny"
    assert command.main([str(finished / "store"), "--weights", str(exported), "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"masked loss nats a word {summary['masked_loss']['exported']['masked_loss']:.3f}, exp")


def test_a_stopped_and_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(text, finished, tmp_path, monkeypatch):
    same = masked_settings(text, tmp_path / "out", store=str(finished / "store"))
    real, steps = train_module.TrainingLoss.__call__, []

    def stop_at_25(loss_of, batch, offset):
        steps.append(batch)
        if len(steps) == 25:
            raise KeyboardInterrupt
        return real(loss_of, batch, offset)

    with monkeypatch.context() as patch:
        patch.setattr(train_module.TrainingLoss, "__call__", stop_at_25)
        with pytest.raises(KeyboardInterrupt):
            pretrain(same, [], QUIET)
    assert checkpoint_of(tmp_path / "out")["position"]["step"] == 20
    pretrain(same, [], QUIET)
    uninterrupted = checkpoint_of(finished)["model"]
    for name, tensor in checkpoint_of(tmp_path / "out")["model"].items():
        assert torch.equal(tensor, uninterrupted[name]), name


def test_the_exported_files_give_the_layers_of_the_trained_model(finished, tmp_path):
    trained = load_lm(finished / "export" / "tiny")
    model = LanguageModel(trained, load_model(finished / "export" / "tiny")[1].layer)
    model.load_state_dict(checkpoint_of(finished)["model"])
    sentences = [["Anna", "plays", "Name3"], ["chess"]]
    wanted = model.core.token_layers(sentences)
    for precision, bound in (("float32", 0.0), ("float16", 1e-2), ("int8", 0.2)):
        words = load_model(finished / "export" / "tiny")[1].vocabulary
        output = Output(model.output, words, "whitespace")
        folder = export(model.core, output, tmp_path / precision, "again", weights=precision)
        assert sorted(path.name for path in (tmp_path / precision).iterdir()) == ["again", "again-softmax"]
        assert (load_lm(folder).token_layers(sentences) - wanted).abs().max() <= bound


def test_given_weights_continue_and_those_of_the_other_objective_are_refused(finished, text, tmp_path):
    init = str(finished / "export" / "tiny")
    pretrain(masked_settings(text, tmp_path / "more", 5, init=init, store=str(finished / "store")), [], QUIET)
    measured = summary_of(tmp_path / "more")["masked_loss"]
    first = summary_of(finished)["masked_loss"]
    assert measured["before"]["masked_loss"] == pytest.approx(first["exported"]["masked_loss"], rel=1e-4)
    options = settings(text, tmp_path).options(VOCABULARY)
    bilm = LanguageModel.random(options, len(VOCABULARY), seed=1)
    softmax = Output(bilm.output, VOCABULARY, "whitespace")
    other = str(export(bilm.core, softmax, tmp_path / "bilm", "tiny"))
    masked = "objective=masked network=transformer"
    bilm = "objective=joined network=lstm"
    for (expected, found), given in (((bilm, masked), init), ((masked, bilm), other)):
        of_run = dict(part.split("=") for part in expected.split())
        wrong = settings(text, tmp_path / "wrong", 5, init=given, **of_run)
        with pytest.raises(InputError, match=f"init=.*expected a model of this run, {expected}, found {found}; name"):
            pretrain(wrong, [], QUIET)


@pytest.mark.parametrize("kind", ["word", "both"])
def test_words_and_words_with_characters_train_and_load_again(kind, text, finished, tmp_path):
    shape = {"word_dim": 20, "char_output_dim": 10}
    store = str(finished / "store")
    pretrain(masked_settings(text, tmp_path / "out", 3, model=shape, input=kind, store=store), [], QUIET)
    model = load_lm(tmp_path / "out" / "export" / "tiny")
    unknown, other = (model.token_layers([[word]])[0, 0] for word in ("Zoltan", "Xaver"))
    assert torch.equal(unknown, other) == (kind == "word")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Settings(training=Training(chosen=0.0)), "training.chosen: expected above 0 and below 1, found 0.0"),
        (lambda: Settings(objective="masked", max_tokens=1), "max_tokens: expected at least 2, found 1"),
        (lambda: Settings(objective="next"), "objective: expected forward or joined or masked, found 'next'"),
        (
            lambda: Settings(transformer=TransformerShape(n_heads=0)),
            "transformer.n_heads: expected at least 1, found 0",
        ),
        (
            lambda: Settings(transformer=TransformerShape(n_layers=101)),
            "transformer.n_layers: expected at most 100, found 101",
        ),
        (
            lambda: Settings(transformer=TransformerShape(exported=1)),
            "transformer.exported: expected at least 2, found 1",
        ),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()
