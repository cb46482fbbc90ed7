"""A transformer as an arm: its settings, its name in records, its store, and saved models with it."""

import re
import shutil
from pathlib import Path

import pytest
import torch

from elmo import InputError
from elmo.common.checks import check_tree
from elmo.sources.transformer import Transformer
from results.records.identity import WEIGHTS_NAME, Identity
from results.records.record import read_record
from tasks.features.token_features import TokenFeatures, TransformerConfig
from tasks.ner import Ner
from tasks.running.predict import load_weights
from tests.elmo.sources import tiny_transformers
from tests.tasks.making import SMALL, run_of

ARM = ["features=transformer", *SMALL]
LIMITED = ["task=ner", "data=mini", "device=cpu", "task.hidden=8", "limit=6", "trainer.epochs=1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("transformers", reason="needs the extra `transformer`")
    return tiny_transformers.save(tmp_path_factory.mktemp("models") / "tiny", "bert")


class TestSettings:
    def test_it_enters_as_elmo_does(self):
        elmo, arm = (run_of("task=snli", f"features={name}").features for name in ("elmo", "transformer"))
        assert elmo.elmo.places == ["input", "output"]
        assert arm.elmo is None
        for key in ("places", "l2", "dropout", "layers", "layer_norm", "precision"):
            assert getattr(arm.transformer, key) == getattr(elmo.elmo, key)
        assert (arm.words, arm.characters, arm.dropout) == (elmo.words, elmo.characters, elmo.dropout)

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"pooling": "last"}, "transformer.pooling: expected first or mean, found 'last'"),
            ({"window": 128}, "transformer.window: expected more than the overlap, 128, found 128"),
            ({"overlap": -1}, "transformer.overlap: expected at least 0, found -1"),
        ],
    )
    def test_a_value_out_of_range(self, settings, said):
        with pytest.raises(InputError, match=re.escape(said)):
            check_tree("transformer", TransformerConfig(**settings))

    def test_a_name_is_recorded_as_it_is_and_a_path_by_its_last_part(self, tmp_path, monkeypatch):
        def name(given):
            return run_of("features=transformer", f"features.transformer.model={given}").variant

        key = "features.transformer.model"
        assert name("bert-base-cased") == {}
        assert name("microsoft/deberta-v3-base") == {key: "microsoft/deberta-v3-base"}
        assert name(tmp_path / "bert-base-cased") == {key: "./bert-base-cased"}
        monkeypatch.chdir(tmp_path)
        Path("bert-base-cased").mkdir()
        assert name("bert-base-cased") == {key: "./bert-base-cased"}, "a folder comes first"

    def test_a_warning_is_in_the_config_and_in_no_name(self):
        def warning(*typed):
            run = run_of("features=transformer", *(f"features.transformer.{key}" for key in typed))
            assert "features.transformer.warning" not in run.variant
            return run.resolved["features"]["transformer"]["warning"]

        assert warning() == ""
        assert "SNLI" in warning("model=sentence-transformers/all-mpnet-base-v2")
        assert warning("model=/models/all-mpnet-base-v2", "warning=read this") == "read this"


def test_vectors_follow_those_of_the_words(model):
    sentences = [("the", "cat", "plays"), ("chess",)]
    typed = [*ARM, f"features.transformer.model={model}", "task=ner", "features.transformer.precision=float32"]
    config = run_of(*typed).features
    features = TokenFeatures(config, sentences, 1).eval()
    plain = TokenFeatures(run_of("features=glove", *SMALL, "task=ner").features, sentences, 1).eval()
    assert features.widths["input"] == plain.widths["input"] + 16
    batch = features(sentences)
    width = plain.widths["input"]
    assert torch.equal(batch.input[..., :width], plain(sentences).input)
    layers = config.transformer.open().requires_grad_(False).token_layers(sentences)
    torch.testing.assert_close(batch.input[batch.mask][:, width:], layers.mean(dim=0), rtol=0, atol=1e-6)
    assert [name for name, _ in features.named_parameters() if "mixes" in name] == [
        "transformer.mixes.input.gamma",
        "transformer.mixes.input.scalars",
    ]
    assert not any(parameter.requires_grad for parameter in features.transformer.source.parameters())


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1e6, "values that reach 1e.06. Use precision float32, or check the weights$"),
        (torch.nan, "values that reach nan. Use precision float32, or check the weights$"),
    ],
)
def test_values_that_float16_cannot_hold(model, monkeypatch, value, said):
    config = run_of(*ARM, f"features.transformer.model={model}", "task=ner").features
    features = TokenFeatures(config, [("chess",)], 1)
    monkeypatch.setattr(Transformer, "token_layers", lambda *_: torch.full((3, 1, 16), value))
    with pytest.raises(InputError, match=f"Transformer: expected numbers up to 65504, .*{said}"):
        features([("chess",)])


def test_a_run_is_stored_recorded_saved_and_loaded(model, command, tmp_path):
    typed = [*LIMITED, *ARM, f"features.transformer.model={model}", f"runs_dir={tmp_path / 'runs'}"]
    typed += [f"store.path={tmp_path / 'store'}", "keep_weights=true", "features.transformer.warning=read this"]
    code, _, said = command(*typed)
    assert code == 0, said
    assert re.search(r"[1-9]\d* of \d+ sentences to embed", said)
    code, _, said = command(*typed, "seed=2")
    assert code == 0
    assert not re.search(r"[1-9]\d* of \d+ sentences to embed", said), "the store has them"

    run = run_of(*typed)
    path = run.runs_dir / Identity("mini", "ner", "transformer", 1, run.variant).path
    record = read_record(path)
    assert record.fingerprinted["transformer"] == run.features.transformer.fingerprint()
    assert record.fingerprinted["recipes"] == {"task": Ner.recipe, "words": 1, "characters": 1, "transformer": 1}
    assert list(record.mixes) == ["transformer.input"]
    assert record.warnings == ["read this"]
    assert record.identity.variant["features.transformer.model"] == "./tiny"

    config, loaded = load_weights(path.with_name(WEIGHTS_NAME), "ner")
    assert config.features.transformer.model == model
    assert loaded.features.transformer.weights()["input"]["layers"] == record.mixes["transformer.input"].weights


def test_a_changed_model_has_another_fingerprint(model, tmp_path):
    folder = tmp_path / "tiny"
    shutil.copytree(model, folder)
    config = run_of("features=transformer", f"features.transformer.model={folder}").features.transformer
    before = config.fingerprint()
    assert config.fingerprint() == before
    tiny_transformers.save(folder, "bert", seed=1)
    assert config.fingerprint() != before
