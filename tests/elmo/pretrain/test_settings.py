"""Settings of a pretraining run: invalid ones are refused before any text is read."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import hydra
import pytest
import torch
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from elmo.common.errors import InputError
from elmo.pretrain.__main__ import main
from elmo.pretrain.command import settings_of
from elmo.pretrain.run import pretrain
from elmo.pretrain.settings import Budget, Model, Settings, Training
from tests.elmo.pretrain.training_text import QUIET, settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"out": ""}, "out=DIR"),
        ({"corpus": []}, "corpus="),
        ({"budget": Budget()}, "no budget"),
        ({"device": "cuda"}, "no usable GPU"),
        ({"input": "word", "model": Model(cell_dim=0)}, "lstm.dim: expected at least 1, found 0"),
        ({"model": Model(cell_clip=-1.0)}, "lstm.cell_clip must be above 0, or null for no clipping, found -1.0"),
        ({"init": "nowhere"}, "no biLM has that name; shipped: medium, small"),
    ],
)
def test_invalid_runs_are_refused_before_the_text_is_read(text, tmp_path, change, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=message):
        pretrain(replace(settings(text, tmp_path / "out"), **change), [], QUIET)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Settings(budget=Budget(steps=1, tokens=1)), "one of steps, tokens, minutes"),
        (lambda: Settings(budget=Budget(minutes=0.0)), "budget.minutes: expected a positive number, found 0"),
        (lambda: Settings(budget=Budget(minutes=math.inf)), "budget.minutes: expected a finite number, found inf"),
        (
            lambda: Settings(training=Training(learning_rate=math.inf)),
            "training.learning_rate: expected a finite number, found inf",
        ),
        (
            lambda: Settings(training=Training(batch_tokens=10**20)),
            "training.batch_tokens: expected at most 16,777,216",
        ),
        (lambda: Model(filters=[[1]]).options("char", []), "model.filters: expected pairs"),
        (lambda: Settings(out="~nobodyhere/x"), "out=~nobodyhere/x: expected a home folder"),
        (lambda: Settings(corpus=["~nobodyhere/x"]), "corpus=~nobodyhere/x: expected a home folder"),
        (lambda: Settings(training=Training(dropout=1.0)), "dropout"),
        (lambda: Settings(training=Training(beta2=2.0)), "training.beta2: expected at least 0 and below 1, found 2"),
        (
            lambda: Settings(training=Training(learning_rate=-1.0)),
            "training.learning_rate: expected a positive number, found -1",
        ),
        (lambda: Settings(training=Training(final_rate=-3.0)), "training.final_rate: expected at least 0, found -3"),
        (
            lambda: Settings(training=Training(precision="half")),
            "training.precision: expected auto or bfloat16 or float32",
        ),
        (lambda: Settings(input="bytes"), "input: expected char or word or both, found 'bytes'"),
        (lambda: Settings(seed=-1), "seed"),
        (lambda: Settings(name="bilm-tf"), "name='bilm-tf': expected a plain file name"),
        (lambda: Settings(name=""), "name=''"),
        (lambda: Settings(name="../../x"), "plain file name"),
        (lambda: Settings(name="x-softmax"), "nor ending in -softmax"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ("small", (1024, 128, 1, "char")),
        ("medium", (2048, 256, 1, "char")),
        ("original", (4096, 512, 2, "char")),
        ("classroom", (64, 64, 1, "both")),
        ("tiny", (64, 16, 1, "char")),
    ],
)
def test_every_size_composes_to_checked_settings(size, shape):
    with hydra.initialize_config_module("conf.pretrain", version_base="1.3"):
        composed = settings_of(hydra.compose("config", [f"size={size}", "training.dropout=0.2"]))
    model = composed.model
    assert (model.cell_dim, model.projection_dim, model.n_highway, composed.input) == shape
    assert (composed.name, composed.training.dropout, model.cell_clip) == (size, 0.2, None)


def test_weights_and_the_other_settings_of_the_text_are_typed_without_quotes():
    typed = ["corpus=[a.txt.xz,news/b.txt.xz*4,c.txt*0.5]", "exclude=[taken.txt]", "training.recase=0.05"]
    typed += ["heldout_seed=7"]
    with hydra.initialize_config_module("conf.pretrain", version_base="1.3"):
        composed = settings_of(hydra.compose("config", [*typed, "export.weights=int8"]))
        before = settings_of(hydra.compose("config", []))
    assert composed.corpus == ["a.txt.xz", "news/b.txt.xz*4", "c.txt*0.5"]
    assert (composed.exclude, composed.training.recase) == (["taken.txt"], 0.05)
    assert (composed.export.weights, before.export.weights) == ("int8", "float16")
    assert composed.identity() == before.identity()  # the store identifies the text: runs from before continue


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("budget.stps=1", "unknown key budget.stps. Did you mean budget.steps? Known there: minutes, steps, tokens."),
        (
            "size=smal",
            "size=smal: no such choice. Did you mean size=small? There are: classroom, medium, original, ",
        ),
        ("sise=tiny", "unknown key sise. Did you mean size? Known there: budget, corpus,"),
        ("budget.tokens=5", "budget: expected one of steps, tokens, minutes, found steps and tokens; drop all but one"),
        ("seed=one", "seed: Value 'one' of type 'str' could not be converted to Integer"),
        ("training.beta2=2", "training.beta2: expected at least 0 and below 1, found 2.0"),
        ("training.recase=1", "training.recase: expected at least 0 and below 1, found 1.0"),
        ("export.weights=int4", "export.weights: expected float32 or float16 or int8, found 'int4'"),
        ("init=nosuch", "nosuch: no such weights file or folder"),
        ("corpus=", "corpus: expected text files or folders, found none; add corpus=FILE"),
        ("corpus=/no/it's café (1)=[x].txt", "/no/it's café (1)=[x].txt: no such file or folder"),
        ("corpus='/no/café.txt'", "/no/café.txt: no such file or folder"),
        ("corpus=/no/a.txt,/no/b.txt", "/no/a.txt: no such file or folder"),
        ("corpus=${oc.env:HOME}/nosuch.txt", f"{Path.home()}/nosuch.txt: no such file or folder"),
        ("corpus=[a(1).txt]", "corpus=[a(1).txt]: Hydra cannot read this value as it is. Quote its items twice: "),
        ("out=a=b's", "out=a=b's: Hydra cannot read this value as it is. Quote it twice: \"out='a=b\\'s'\""),
        ("out=a=$b", "out=a=$b: Hydra cannot read this value as it is. Quote it twice: 'out='\"'\"'a=$b'\"'\"''"),
        ("out=/dev/null/x", "[Errno 20] Not a directory: '/dev/null/x'. If that place is full or not writable"),
    ],
)
def test_wrong_settings_are_explained_in_one_line(text, tmp_path, monkeypatch, capsys, argument, message):
    typed = [f"corpus=[{text}]", f"out={tmp_path / 'out'}", "budget.steps=1", "size=tiny", "device=cpu", argument]
    monkeypatch.setattr(sys, "argv", ["elmo.pretrain", *typed])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # the command sets it; monkeypatch restores it
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (1, "")
    assert err.startswith(f"elmo.pretrain: {message}")
    assert err.count("\n") == 1  # no output of Hydra


@pytest.mark.integration
def test_the_command_runs_and_leaves_nothing_next_to_its_folder(text, tmp_path, monkeypatch, capsys):
    arguments = [f"corpus={text}", f"out={tmp_path / 'out'}", "size=tiny", "tokenise=whitespace", "vocabulary=40"]
    arguments += ["budget.steps=3", "workers=1", "heldout_fraction=0.1", "device=cpu"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["elmo.pretrain", *arguments])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")  # the command sets it; monkeypatch restores it
    main()
    assert "perplexity forward" in capsys.readouterr().err
    assert (tmp_path / "out" / "export" / "tiny" / "card.md").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("out=${nope}", "out: Interpolation key 'nope' not found"),
        ("seed=${seed}", "seed: Recursive interpolation detected"),
        ("size=null", "size=null: Config group override must be a string or a list. Got NoneType"),
        ("objective=null", "objective=null: Config group override must be"),
        ("-m --cfg job", "-m --cfg job: Only one of --run, --multirun,"),
    ],
)
def test_plain_errors_of_hydra_are_explained_in_one_line(setting, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["elmo.pretrain", *setting.split()])
    with pytest.raises(SystemExit) as caught:
        main()
    err = capsys.readouterr().err or f"{caught.value.code}\n"  # as Python prints a status that is text
    assert err.startswith(f"elmo.pretrain: {message}")
    assert err.count("\n") == 1


def test_an_interrupt_while_hydra_composes_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pretrain", "out=out"])
    with (
        patch.object(ConfigLoaderImpl, "load_configuration", side_effect=KeyboardInterrupt),
        pytest.raises(SystemExit) as end,
    ):
        main()
    assert end.value.code == 130
    assert (
        capsys.readouterr().err == "elmo.pretrain: interrupted; the same command continues from the last checkpoint\n"
    )
