"""Whole pretraining runs on generated text: loss, resuming, budgets, cards."""

import math
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from elmo import load_bilm
from elmo.bilm.weight_files import save_bilm
from elmo.common.errors import InputError
from elmo.pretrain import run
from elmo.pretrain.batches import texts_of_store
from elmo.pretrain.corpus.token_store import TokenStore
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.run import Position, RunFolder, learning_rate, pretrain, train
from elmo.pretrain.settings import Budget, Model, Settings, Training
from tests.elmo.common.waiting import wait_for
from tests.elmo.pretrain.run_files import card_of, checkpoint_of, curve_of, summary_of
from tests.elmo.pretrain.training_text import QUIET, TINY, chinese, settings, write


def short(budget, **training):
    return Settings(budget=budget, training=Training(**training))


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    """A run of 40 steps."""
    out = tmp_path_factory.mktemp("run") / "out"
    pretrain(settings(text, out), ["out=DIR"], QUIET)
    return out


def test_the_loss_falls_and_held_out_perplexity_with_it(finished):
    rows = curve_of(finished)
    assert [int(row["step"]) for row in rows] == list(range(5, 41, 5))
    assert float(rows[-1]["loss"]) < 0.7 * float(rows[0]["loss"])
    measured = [row for row in rows if row["forward"]]
    assert [int(row["step"]) for row in measured] == [20, 40]
    for name in ("forward", "backward"):
        assert float(measured[1][name]) < float(measured[0][name])
    # The grammar has about eight equally likely sentences a name; a model that learnt nothing would be at 43.
    assert float(measured[1]["forward"]) < 12


def test_the_card_has_the_figures_of_the_run(finished):
    card = card_of(finished)
    summary = summary_of(finished)
    for expected in (
        summary["sources"][0]["sha256"],
        f"{summary['perplexity']['exported']['forward']:.2f}",
        f"{summary['position']['tokens']:,}",
        "python -m elmo.pretrain out=DIR",
        "CPU",
    ):
        assert expected in card


def test_a_finished_run_is_not_changed(text, finished):
    before = (finished / "checkpoint.pt").stat().st_mtime_ns
    pretrain(settings(text, finished), [], QUIET)
    assert (finished / "checkpoint.pt").stat().st_mtime_ns == before


def test_another_run_in_the_same_folder_is_refused_with_the_differences(text, finished):
    with pytest.raises(InputError, match=r"(?s)training.learning_rate: 0.02 there, 0.5 asked for"):
        pretrain(settings(text, finished, training={"learning_rate": 0.5}), [], QUIET)


def test_two_processes_cannot_train_in_the_same_folder(text, finished, tmp_path, monkeypatch):
    same = settings(text, tmp_path / "out", 1, store=str(finished / "store"))
    real = run.train

    def train_twice(*arguments):
        with pytest.raises(InputError, match=r"out: another process is training in this folder; .* another out=DIR"):
            pretrain(same, [], QUIET)
        return real(*arguments)

    monkeypatch.setattr(run, "train", train_twice)
    pretrain(same, [], QUIET)
    assert (tmp_path / "out" / "finished.json").exists()
    pretrain(same, [], QUIET)  # the first one is out again


def test_a_checkpoint_of_another_size_is_refused(finished, tmp_path):
    (tmp_path / "checkpoint.pt").write_bytes((finished / "checkpoint.pt").read_bytes())
    (tmp_path / "run.json").write_text("{}")
    folder = RunFolder(tmp_path, {})
    model = LanguageModel.random(Model(**(TINY | {"cell_dim": 20})).options("char", []), 43, 1)
    with pytest.raises(InputError, match=r"checkpoint\.pt: the tensor .*expected .*found .* Delete it .* out=DIR$"):
        folder.load(model, torch.optim.Adam(model.parameters()))


def test_damaged_checkpoints_are_reported(finished, tmp_path):
    sound = (finished / "checkpoint.pt").read_bytes()
    folder = RunFolder(tmp_path, {})
    store = TokenStore.open(finished / "store")
    model = LanguageModel.random(Model(**TINY).options("char", []), store.vocabulary_size, 1)
    cut = [sound[:length] for length in (0, 100, len(sound) // 2, len(sound) - 1)]
    noise = [random.Random(seed).randbytes(300) for seed in range(50)]
    places = range(0, len(sound) - 300, len(sound) // 20)
    overwritten = [sound[:at] + noise[0] + sound[at + 300 :] for at in places]
    for content in (b"PK\x03\x04 cut short", *cut, *noise, *overwritten):
        (tmp_path / "checkpoint.pt").write_bytes(content)
        with pytest.raises(
            InputError,
            match=r"^\S+/checkpoint\.pt: .*(damaged, or of another program|empty file)\. Delete it .* out=DIR$",
        ):
            folder.load(model, torch.optim.Adam(model.parameters()))
    (tmp_path / "checkpoint.pt").write_bytes(sound)
    assert folder.load(model, torch.optim.Adam(model.parameters())).step == 40


@pytest.mark.parametrize("content", [b"", b'{"seed": 1', b"[]", b"\xff\xfe"])
def test_damaged_files_of_a_run_are_reported(tmp_path, content):
    folder = RunFolder(tmp_path, {})
    assert folder.made_with() is None
    for name, read in {"finished": folder.made_with, "run": lambda: RunFolder(tmp_path, {})}.items():
        (tmp_path / f"{name}.json").write_bytes(content)
        with pytest.raises(InputError, match=rf"^\S+/{name}\.json: expected a JSON object, found: .* is made again$"):
            read()


COMMAND = """
import sys
from pathlib import Path
from tests.elmo.pretrain.training_text import QUIET, settings
from elmo.pretrain.run import pretrain

pretrain(settings(Path(sys.argv[1]), Path(sys.argv[2])), ["out=DIR"], QUIET)
"""


@pytest.mark.integration
def test_a_killed_and_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(text, finished, tmp_path, repository):
    out = tmp_path / "out"
    command = [sys.executable, "-c", COMMAND, str(text), str(out)]
    process = subprocess.Popen(command, cwd=repository)
    wait_for(lambda: (out / "checkpoint.pt").exists() or process.poll() is not None)
    assert process.poll() is None, "the run ended too soon"
    process.kill()
    assert process.wait() == -signal.SIGKILL
    step = checkpoint_of(out)["position"]["step"]
    assert 10 <= step < 40
    pretrain(settings(text, out), ["out=DIR"], QUIET)
    uninterrupted = checkpoint_of(finished)["model"]
    for name, tensor in checkpoint_of(out)["model"].items():
        assert torch.equal(tensor, uninterrupted[name]), name
    without_times = [
        [{name: row[name] for name in ("step", "tokens", "loss", "forward", "backward")} for row in curve_of(folder)]
        for folder in (out, finished)
    ]
    assert without_times[0] == without_times[1]
    layers = [load_bilm(folder / "export" / "tiny").layers([["Anna", "plays", "chess"]]) for folder in (out, finished)]
    assert torch.equal(*layers)


def test_a_nan_loss_stops_the_run_and_names_the_step(finished, tmp_path):
    store = TokenStore.open(finished / "store")
    train_text, _ = texts_of_store(store, 50)
    model = LanguageModel.random(Model(**TINY).options("char", []), store.vocabulary_size, 1)
    with torch.no_grad():
        model.output.bias[5] = math.nan
    folder = RunFolder(tmp_path / "out", {})
    with pytest.raises(InputError, match=r"the loss at step 0 is NaN or infinite: .*in another out=DIR"):
        train(model, train_text, None, short(Budget(steps=4), batch_tokens=128, log_every=2), folder, QUIET)
    assert not (tmp_path / "out" / "checkpoint.pt").exists()


def test_weights_with_an_infinite_perplexity_are_not_saved_or_exported(text, finished, tmp_path):
    out = tmp_path / "out"
    spoilt = settings(text, out, 1, training={"learning_rate": 1e30}, store=str(finished / "store"))
    with pytest.raises(InputError, match=r"the perplexity of held-out text at step 1 is NaN or inf.*another out=DIR"):
        pretrain(spoilt, [], QUIET)
    assert not {path.name for path in out.iterdir()} & {"checkpoint.pt", "finished.json", "export"}


def test_infinite_weights_are_not_saved(finished, tmp_path, monkeypatch):
    class Spoiler(torch.optim.SGD):
        def step(self):
            super().step()
            for item in self.param_groups[0]["params"]:
                torch.nn.init.constant_(item, math.inf)

    monkeypatch.setattr(torch.optim, "Adam", lambda parameters, **_: Spoiler(parameters))
    store = TokenStore.open(finished / "store")
    train_text, _ = texts_of_store(store, 50)
    model = LanguageModel.random(Model(**TINY).options("char", []), store.vocabulary_size, 1)
    folder = RunFolder(tmp_path / "out", {})
    with pytest.raises(InputError, match=r"after step 1 is NaN or infinite: .* not saved\. Try a lower"):
        train(model, train_text, None, short(Budget(steps=1), batch_tokens=128), folder, QUIET)
    assert not (tmp_path / "out" / "checkpoint.pt").exists()


@pytest.mark.parametrize("budget", [Budget(tokens=3000), Budget(minutes=0.01)])
def test_budgets_in_tokens_and_minutes_end_the_run(finished, tmp_path, budget):
    store = TokenStore.open(finished / "store")
    train_text, heldout = texts_of_store(store, 50)
    model = LanguageModel.random(Model(**TINY).options("char", []), store.vocabulary_size, 1)
    folder = RunFolder(tmp_path / "out", {})
    end = train(model, train_text, heldout, short(budget, batch_tokens=256), folder, QUIET)
    assert budget.progress(end.step, end.tokens, end.seconds) >= 1
    last = curve_of(tmp_path / "out")[-1]
    assert int(last["step"]) == end.step
    assert last["forward"]
    saved = folder.load(model, torch.optim.Adam(model.parameters()))
    assert saved == end != Position()


def test_the_rate_rises_then_falls_to_its_end():
    training = Training(learning_rate=1.0, warmup=0.1, final_rate=0.02)
    rates = [learning_rate(training, share / 100) for share in range(101)]
    assert max(rates) == rates[10] == 1.0
    assert rates[:11] == sorted(rates[:11])
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.02)


@pytest.mark.parametrize("kind", ["word", "both"])
def test_words_and_words_with_characters_train_and_load_again(kind, text, tmp_path):
    shape = {"cell_dim": 64, "projection_dim": 64, "word_dim": 200, "char_output_dim": 100}
    pretrain(settings(text, tmp_path / "out", 30, model=shape, input=kind), [], QUIET)
    rows = curve_of(tmp_path / "out")
    assert float(rows[-1]["loss"]) < 0.7 * float(rows[0]["loss"])
    bilm = load_bilm(tmp_path / "out" / "export" / "tiny")
    known, unknown, other = bilm.layers([["Anna", "plays"], ["Zoltan", "plays"], ["Xaver", "plays"]])[0, :, 0]
    assert not torch.equal(known, unknown)
    assert torch.equal(unknown, other) == (kind == "word")  # without characters all unknown words are one
    full = load_bilm(tmp_path / "out" / "export" / "bilm-tf")
    sentences = [["my", "old", "friend", "reads", "Name0"]]
    torch.testing.assert_close(bilm.layers(sentences), full.layers(sentences), atol=5e-3, rtol=0)


def test_training_on_segmented_chinese(tmp_path):
    text = write(tmp_path, chinese(60))
    pretrain(settings(text, tmp_path / "out", 100, vocabulary=60, heldout_unit="paragraph"), [], QUIET)
    rows = curve_of(tmp_path / "out")
    assert float(rows[-1]["loss"]) < 0.6 * float(rows[0]["loss"])
    store = TokenStore.open(tmp_path / "out" / "store")
    assert "包袱" in store.words()[: store.vocabulary_size]
    joke, bundle = ["相声", "的", "包袱"], ["蓝", "包袱"]
    layers = load_bilm(tmp_path / "out" / "export" / "tiny").layers([joke, bundle])
    torch.testing.assert_close(layers[0, 0, 2], layers[0, 1, 1])  # one word, one spelling
    assert not torch.allclose(layers[2, 0, 2], layers[2, 1, 1], atol=1e-2)  # in two contexts


def test_given_weights_continue_with_their_own_vocabulary(finished, tmp_path):
    text = write(tmp_path, "".join(f"Anna paints pictures of day {number} .\n" for number in range(150)))
    given = finished / "export" / "tiny"
    more = settings(text, tmp_path / "out", 30, init=str(given), model={"cell_dim": 99})
    pretrain(more, [], QUIET)
    summary = summary_of(tmp_path / "out")
    measured = summary["perplexity"]
    assert measured["exported"]["forward"] < 0.5 * measured["before"]["forward"]
    assert measured["exported"]["vocabulary"] == measured["before"]["vocabulary"] == 43
    assert load_bilm(tmp_path / "out" / "export" / "tiny").options == load_bilm(given).options
    card = card_of(tmp_path / "out")
    assert "given weights, before training" in card
    with pytest.raises(InputError, match="tokenise=whitespace, this run has tokenise=ptb"):
        pretrain(replace(more, tokenise="ptb", out=str(tmp_path / "other")), [], QUIET)


def test_a_run_is_not_resumed_from_other_weights_at_the_same_path(text, finished, tmp_path):
    shutil.copytree(finished / "export", tmp_path / "given")
    given, out = tmp_path / "given" / "tiny", tmp_path / "out"
    more = settings(text, out, 1, init=str(given), store=str(finished / "store"))
    pretrain(more, [], QUIET)
    bilm = load_bilm(given)
    with torch.no_grad():
        next(bilm.parameters()).view(-1)[0] += 1
    save_bilm(bilm, given / "weights.safetensors")
    with pytest.raises(InputError, match=r"made with other settings:\n  init\.sha256: '\w{64}' there, '\w{64}' asked"):
        pretrain(more, [], QUIET)
