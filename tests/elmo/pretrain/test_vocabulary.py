"""Runs that predict the words of another biLM, and the commands of the study that compares such biLMs."""

from dataclasses import replace
from pathlib import Path

import pytest

from elmo.common.errors import InputError
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
