"""Runs that predict the words of another biLM, and the commands of the study that compares such biLMs."""

import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import hydra
import pytest

from elmo.common.errors import InputError
from elmo.pretrain.__main__ import settings_of
from elmo.pretrain.corpus.token_store import TokenStore
from elmo.pretrain.export import load_output, save_output, softmax_folder
from elmo.pretrain.run import pretrain
from tests.elmo.pretrain.run_files import card_of, summary_of
from tests.elmo.pretrain.training_text import QUIET, settings


def test_a_bilm_of_less_text_predicts_the_words_of_another(text, tmp_path):
    whole, less = tmp_path / "whole", tmp_path / "less"
    held = {"heldout_unit": "paragraph", "vocabulary": 100}
    pretrain(settings(text, whole, 1, **held), [], QUIET)
    given = whole / "export" / "tiny"
    other = settings(Path(f"{text}*0.2"), less, 1, seed=2, heldout_seed=1, vocabulary_of=str(given), **held)
    pretrain(other, [], QUIET)
    words, store = load_output(softmax_folder(given)).vocabulary, TokenStore.open(less / "store")
    assert (
        load_output(softmax_folder(less / "export" / "tiny")).vocabulary
        == words
        != store.words()[: store.vocabulary_size]
    )
    found = [summary_of(out)["perplexity"] for out in (whole, less)]
    assert found[1].keys() == {"trained", "exported"}
    for key in ("tokens", "unknown_rate", "vocabulary"):  # so that their perplexities compare
        assert found[1]["exported"][key] == found[0]["exported"][key]
    assert f"| `vocabulary_of` | {given} |" in card_of(less)
    changed = load_output(softmax_folder(given))
    changed.vocabulary[-1] += "s"
    save_output(changed, softmax_folder(given))
    with pytest.raises(InputError, match=r"made with other settings:\n  vocabulary_of\.sha256: '\w{64}' there"):
        pretrain(other, [], QUIET)
    with pytest.raises(InputError, match=r"vocabulary_of=.* tokenise=whitespace, this run has tokenise=ptb"):
        pretrain(replace(other, tokenise="ptb", out=str(tmp_path / "third")), [], QUIET)
    with pytest.raises(InputError, match="vocabulary_of=small: expected none with init=small"):
        settings(text, tmp_path / "third", 1, init="small", vocabulary_of="small")


def test_the_commands_of_the_scaling_study_train_its_bilms(repository):
    """Of the header of scaling.toml: its function, and a line for each biLM, those of the loop for both seeds."""
    text = (repository / "results" / "paper" / "scaling.toml").read_text(encoding="utf-8")
    header = [line.removeprefix("#").strip() for line in text.partition("\ntitle = ")[0].splitlines()]
    function, commands = "pretrain() {", [line for line in header if line.startswith("pretrain ")]
    shared = header[header.index(next(line for line in header if line.startswith(function))) :][1:3]
    trained = {}
    for seed in ("1", "2"):
        for command in commands:
            _, name, corpus, *keys = shlex.split(command.replace("$seed", seed))
            typed = [word for line in shared for word in line.split() if "=" in word and "$" not in word]
            with hydra.initialize_config_module("conf.pretrain", version_base="1.3"):
                trained[name] = settings_of(hydra.compose("config", [f"corpus=[{corpus}]", *typed, *keys]))
    arms = [arm for arm, typed in tomllib.loads(text)["arms"].items() if "ELMO_BILMS" in typed[-1]]
    assert trained.keys() == set(arms)
    assert {(own.heldout_seed, own.heldout_unit, own.vocabulary_of) for own in trained.values()} == {
        (1, "paragraph", "small")
    }
    small = {name: (own.seed, own.corpus) for name, own in trained.items() if name.startswith("small")}
    assert small == {
        f"small-{share}-{seed}": (seed, [f"five*0.{share // 10}"]) for share in (10, 30) for seed in (1, 2)
    }
