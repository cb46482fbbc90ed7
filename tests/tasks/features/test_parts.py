"""Several parts at once, frozen layers of a user's own class, and the controls as the config builds them."""

import hashlib
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch

from elmo import InputError, random_bilm, save_bilm
from elmo.common.checks import check_tree
from elmo.common.progress import Reporter
from elmo.sources.grid import random_lm, save_lm
from tasks.data.datasets import DataSource
from tasks.features.token_features import (
    ElmoConfig,
    SourceConfig,
    StoreConfig,
    TokenFeatures,
    features_fingerprint,
    features_recipes,
)
from tasks.ner import Ner
from tasks.running.config import recorded_config
from tasks.running.experiment import run
from tests.elmo.sources.character_lms import save_lms
from tests.elmo.sources.naive_masked import OPTIONS
from tests.tasks.making import ELMO, WORDS, features_config, model_of, run_of

SENTENCES = [("Ada", "plays", "chess"), ("They", "play")]


class Lengths:
    """Layer j of a word is its length plus j."""

    def __init__(self, dim=3, layers=2):
        self.widths = (dim,) * layers

    def fingerprint(self):
        return hashlib.sha256(f"lengths {self.widths}".encode()).hexdigest()

    def token_layers(self, sentences):
        lengths = torch.tensor([float(len(word)) for sentence in sentences for word in sentence])
        return torch.stack([(lengths + j)[:, None].expand(-1, self.widths[0]) for j in range(len(self.widths))])


class Unhashed(Lengths):
    """Its fingerprint is a path out of the store."""

    def fingerprint(self):
        return "../../elsewhere/lengths"


class Unseeded(Lengths):
    """Every object draws other weights."""

    drawn = count()

    def __init__(self):
        super().__init__()
        self.weights = next(self.drawn)

    def fingerprint(self):
        return f"{self.weights:064x}"


class OneWidth(Lengths):
    """Its width is a number, and not one for each layer."""

    def __init__(self):
        self.widths = 8


class Nothing:
    """No source."""


def source(name="Lengths", **settings):
    return {"_target_": f"{__name__}.{name}", **settings}


def with_lengths(places=("input",), elmo=("input",), **settings):
    own = SourceConfig(source=source(), places=list(places), dropout=0.0, precision="float32")
    return features_config(elmo, frozen={"lengths": own}, **settings)


class TestTwoSources:
    def test_widths_add_up_and_vectors_follow_each_other(self):
        features = TokenFeatures(with_lengths(["input", "output"]), SENTENCES, 1).eval()
        before = TokenFeatures(features_config(), SENTENCES, 1).eval()
        assert features.widths == {"input": before.widths["input"] + 3, "hidden": 0, "output": 3}
        batch, earlier = features(SENTENCES), before(SENTENCES)
        assert torch.equal(batch.input[..., :-3], earlier.input)
        mixed = torch.tensor([[3, 5, 5], [4, 4, -0.5]]) + 0.5  # the mean of layers 0 and 1, zero at padding
        for vectors in (batch.input[..., -3:], batch.output):
            torch.testing.assert_close(vectors, mixed[..., None].expand(-1, -1, 3))

    def test_both_mixes_learn_and_are_penalised(self):
        features = TokenFeatures(with_lengths(), SENTENCES, 1)
        (features(SENTENCES).input.square().sum() + features.penalty()).backward()
        for part in (features.elmo, features.frozen["lengths"]):
            mix = part.mixes["input"]
            assert mix.scalars.grad.abs().sum() > 0
            assert mix.gamma.grad.abs() > 0
        with torch.no_grad():
            features.elmo.mixes["input"].scalars.fill_(1.0)
            features.frozen["lengths"].mixes["input"].scalars.fill_(2.0)
        assert features.penalty().item() == pytest.approx(0.001 * (3 * 1 + 2 * 4))
        assert list(features.mix_weights()) == ["input", "lengths.input"]

    def test_without_elmo_words_or_characters(self):
        features = TokenFeatures(with_lengths(elmo=None, words=None, characters=None), SENTENCES, 1)
        assert features.widths == {"input": 3, "hidden": 0, "output": 0}
        assert features(SENTENCES).input.shape == (2, 3, 3)

    def test_the_record_names_hash_and_recipe(self):
        config = with_lengths(words=None)
        bilm = random_bilm("tiny", 0).fingerprint()
        code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        lengths = hashlib.sha256(f"{Lengths().fingerprint()} {code}".encode()).hexdigest()
        expected = {"vectors": None, "weights": bilm, "frozen": {"lengths": lengths}}
        assert features_fingerprint(config) == expected
        assert features_recipes(config) == {"characters": 1, "elmo": 1, "frozen.lengths": 1}


def test_at_every_place_of_ner_all_that_trains_gets_a_gradient():
    config = run_of("task=ner", "data=mini", *ELMO, "features.elmo.places=[input,hidden,output]", "task.layers=2")
    examples = DataSource(config.data, config.data_dir).load(config.task, "train").examples[:4]
    model = model_of(config, examples).train()
    model.loss(config.task.collate(examples)).backward()
    trained = model.trained()
    assert sum("joining" in name for name in trained) == 2
    assert sum("mixes" in name for name in trained) == 3 * 2
    assert [name for name, value in trained.items() if value.grad is None or not value.grad.any()] == []


class TestBySentence:
    """The source reads sentences; the head and the other parts see the whole text."""

    split = ((("It", "rained", "."), ("He", "left", "!"), ("Why", "?")), (("No", "end"),), (("He", "left", "!"),))
    texts = tuple(sum(sentences, ()) for sentences in split)

    def config(self, by_sentence):
        elmo = ElmoConfig(weights="tiny", untrained=True, dropout=0.0, precision="float32", by_sentence=by_sentence)
        return features_config(elmo=elmo)

    @pytest.mark.parametrize("met", [True, False])
    @pytest.mark.parametrize("stored", [True, False])
    def test_layers_are_those_of_each_sentence_alone(self, met, stored, tmp_path):
        store = StoreConfig(str(tmp_path)) if stored else None
        features = TokenFeatures(self.config(True), self.texts, 1, store).eval()
        whole = TokenFeatures(self.config(False), self.texts, 1).eval()
        if met:
            assert features.meet(self.texts) == 0
        batch, plain = features(self.texts), whole(self.texts)
        assert torch.equal(batch.mask, plain.mask)
        assert torch.equal(batch.input[..., :14], plain.input[..., :14]), "words and characters"
        bilm = random_bilm("tiny", 0)
        for row, sentences in zip(batch.input[..., 14:], self.split, strict=True):
            alone = torch.cat([bilm.layers([sentence]).mean(dim=0)[0] for sentence in sentences])
            torch.testing.assert_close(row[: len(alone)], alone, rtol=0, atol=1e-6)
            assert not row[len(alone) :].any()
        assert not torch.allclose(batch.input[0, :, 14:], plain.input[0, :, 14:], atol=1e-3)
        if stored and met:
            assert set(features.elmo.source._stored) == {sentence for text in self.split for sentence in text}

    def test_a_passage_of_squad(self):
        """Its head gets a loss over the whole passage, and gradients through all mixes."""
        config = run_of("task=squad", "data=mini", *ELMO, "features.elmo.by_sentence=true", "task.hidden=8")
        assert config.variant["features.elmo.by_sentence"] is True
        examples = DataSource(config.data, config.data_dir).load(config.task, "train").examples[:4]
        model = model_of(config, examples).train()
        model.loss(config.task.collate(examples)).backward()
        assert all(mix.scalars.grad.any() for mix in model.features.elmo.mixes.values())


class TestErrors:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"_target_": "no_such_file.Source"}, r"\'no_such_file\.Source\' cannot be imported.*PYTHONPATH"),
            (source("Missing"), r"expected a class that the module .*test_parts has, found Missing\."),
            (
                source(wide=3),
                "accepts these settings, found .*Lengths: got an unexpected keyword argument 'wide'",
            ),
            (source(layers=0), r"widths of .*Lengths: expected a positive integer for each layer, found \(\)"),
            (source(dim=0), r"widths of .*: expected a positive integer for each layer, found \(0, 0\)"),
            (source(dim=3.0), r"widths of .*: expected a positive integer for each layer, found \(3\.0, 3\.0\)"),
            (
                source("Nothing"),
                r"expected .*Nothing to have widths .* found no widths and no token",
            ),
            (
                source("OneWidth"),
                r"widths of .*OneWidth: expected a positive integer for each layer, found 8\. For two",
            ),
        ],
    )
    def test_a_source_that_cannot_be_used(self, given, message):
        with pytest.raises(InputError, match=message):
            SourceConfig(source=given).open()

    def test_a_fingerprint_that_is_no_hash(self):
        with pytest.raises(InputError, match=r"Unhashed: expected a hash of 16 .* found '\.\./\.\./elsewhere/lengths'"):
            SourceConfig(source=source("Unhashed")).fingerprint()

    def test_layers_of_other_weights_than_those_in_the_record(self):
        same = with_lengths(words=None)
        TokenFeatures(same, SENTENCES, 1).check_fingerprint(features_fingerprint(same))
        config = features_config(words=None, frozen={"drawn": SourceConfig(source=source("Unseeded"))})
        hashes = features_fingerprint(config)
        with pytest.raises(
            InputError, match=r"features: expected one content in a run, found another of frozen .*seed"
        ):
            TokenFeatures(config, SENTENCES, 1).check_fingerprint(hashes)
        with pytest.raises(InputError, match=r"found another of weights, frozen than was hashed .*files must not"):
            TokenFeatures(config, SENTENCES, 1).check_fingerprint({**hashes, "weights": "0" * 64})

    def test_a_run_of_other_weights_than_its_record_says_ends_before_training(self, tmp_path, monkeypatch):
        monkeypatch.setattr("tasks.features.token_features.features_fingerprint", lambda _: {"weights": "0" * 64})
        typed = ["task=ner", "data=mini", *ELMO, "limit=4", "device=cpu", f"runs_dir={tmp_path}"]
        with pytest.raises(InputError, match=r"features: expected one content in a run, found another of .*weights"):
            run(run_of(*typed))

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"places": ["input", "input"]}, "places: expected some of input, hidden, output, each once"),
            ({"layers": "01"}, "layers: expected mix, last or the number of a layer, found '01'"),
            ({"context": "window0"}, "context: expected whole, isolated, permuted or windowK, .* found 'window0'"),
            ({"context": "isolated", "tune": True}, "context: expected whole with tune=true, found isolated"),
        ],
    )
    def test_two_names_for_one_setting(self, settings, message):
        config = features_config(frozen={"lengths": SourceConfig(source=source(), **settings)})
        with pytest.raises(InputError, match=rf"features\.frozen\.lengths\.{message}"):
            check_tree("features", config)

    def test_a_layer_that_the_source_does_not_have(self):
        config = features_config(frozen={"lengths": SourceConfig(source=source(), layers="2")})
        with pytest.raises(InputError, match=r"layers must be .*, found 2"):
            TokenFeatures(config, SENTENCES, 1)

    @pytest.mark.parametrize("target", [None, "Lengths", 3])
    def test_no_class(self, target):
        config = features_config(frozen={"mine": SourceConfig(source={"_target_": target})})
        with pytest.raises(InputError, match=r"features\.frozen\.mine\.source\._target_: expected the class"):
            check_tree("features", config)

    @pytest.mark.parametrize("name", ["my-own", "keys", "a b"])
    def test_names(self, name):
        with pytest.raises(InputError, match=rf"features\.frozen\.{name}: expected another name"):
            check_tree("features", features_config(frozen={name: SourceConfig(source=source())}))

    def test_a_place_that_the_head_does_not_offer(self):
        with pytest.raises(InputError, match=r"features\.frozen\.lengths\.places: found hidden.*task=sst5"):
            run_of("task=sst5").task.check_places(with_lengths(["input", "hidden"]).places())


@pytest.fixture
def weights(tmp_path):
    save_bilm(random_bilm("tiny", 5), tmp_path / "weights.safetensors")
    return f"features.elmo.weights={tmp_path}"


class TestControls:
    def elmo_of(self, *overrides):
        return run_of(*overrides).features.elmo

    def test_each_is_a_source_of_its_own_and_a_draw_is_another(self, weights):
        arms = ("elmo", "elmo_random", "elmo_shuffled", "elmo_matched")
        configs = {arm: self.elmo_of(f"features={arm}", weights) for arm in arms}
        found = {arm: config.fingerprint() for arm, config in configs.items()}
        assert len(set(found.values())) == 4
        assert self.elmo_of("features=elmo_layer0", weights).fingerprint() == found["elmo"], "the same stored layers"
        for arm in ("elmo_shuffled", "elmo_matched"):
            drawn = [replace(configs[arm], draw=n).fingerprint() for n in (2, 3)]
            assert len({found[arm], *drawn}) == 3

    def test_a_draw_is_part_of_the_run_s_name(self):
        assert run_of("features=elmo_shuffled", "features.elmo.draw=2").variant == {"features.elmo.draw": 2}
        assert run_of("features=elmo_shuffled", "features.elmo.draw=0").variant == {}

    def test_a_draw_by_the_seed_is_no_setting(self, weights):
        """Settings and name are equal over seeds, so that a table averages them; the layers are other ones."""
        runs = [run_of("features=elmo_matched", weights, f"seed={seed}") for seed in (1, 2)]
        assert [run.features.elmo.draw for run in runs] == [1, 2]
        first, second = ({**run.resolved, "seed": None} for run in runs)
        assert first == second
        assert [run.variant for run in runs] == [
            {"features.elmo.weights": runs[0].variant["features.elmo.weights"]}
        ] * 2
        drawn = [run.features.elmo.open() for run in runs]
        assert not torch.equal(*(source.token_layers([["a", "bank"]]) for source in drawn))
        assert [run.features.elmo.fingerprint() for run in runs] == [source.fingerprint() for source in drawn]
        assert recorded_config(runs[1].resolved, Ner).features.elmo.draw == 2, "kept weights read their own layers"

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"draw": 1}, r"features\.elmo: expected a draw with a control alone"),
            ({"control": "matched", "draw": -1}, r"features\.elmo\.draw: expected at least 0, found -1"),
            ({"control": "centred"}, r"features\.elmo\.control: expected shuffled or matched"),
            ({"control": "matched", "untrained": True}, "no control of untrained weights"),
        ],
    )
    def test_bad_settings(self, settings, message):
        with pytest.raises(InputError, match=message):
            check_tree("features.elmo", ElmoConfig(**settings))

    def test_all_are_as_wide_as_elmo(self, weights):
        arms = ("elmo", "elmo_random", "elmo_layer0", "elmo_shuffled", "elmo_matched")
        parts = [f"features={arm}" for arm in arms]
        config = [run_of("task=snli", part, weights, "features.words.vectors=null").features for part in parts]
        assert len({tuple(TokenFeatures(one, SENTENCES, 1).widths.values()) for one in config}) == 1

    def test_layer0_of_a_word_does_not_depend_on_its_sentence(self, weights):
        def vectors(arm):
            config = run_of(f"features={arm}", weights, "features.words=null", "features.characters=null").features
            batch = TokenFeatures(config, [], 1).eval()([("They", "play", "chess"), ("A", "play", "closed", "early")])
            return batch.input[:, 1]

        assert torch.equal(*vectors("elmo_layer0"))
        assert not torch.equal(*vectors("elmo"))


class TestMasked:
    def test_its_layers_are_mixed_and_stored_like_those_of_elmo(self, tmp_path, monkeypatch):
        model = random_lm(OPTIONS, seed=3)
        save_lm(model, tmp_path / "weights.safetensors")
        alone = ["features.words=null", "features.characters=null", f"features.elmo.weights={tmp_path}"]
        config = run_of("task=squad", "data=mini", "features=masked", *alone).features
        assert features_fingerprint(config)["weights"] == model.fingerprint()
        store = StoreConfig(path=str(tmp_path / "store"))
        wanted = model.token_layers(SENTENCES).mean(dim=0)  # a mix starts with equal shares
        said = []
        monkeypatch.setattr(Reporter, "say", lambda _, line: said.append(line.partition(" to embed")[0]))
        for _ in range(2):
            features = TokenFeatures(config, [], 1, store).eval()
            assert features.widths == {"input": 12, "hidden": 0, "output": 12}
            assert features.meet(SENTENCES) == 0
            found = features(SENTENCES)
            for place in (found.input, found.output):
                torch.testing.assert_close(torch.cat([place[0], place[1, :2]]), wanted, rtol=0, atol=2e-3)
        assert said == ["2 of 2 sentences", "0 of 2 sentences"]

    def test_the_weights_of_a_bilm_are_refused_under_its_title(self, weights, tmp_path):
        with pytest.raises(InputError, match="the weights of a masked LM, found objective=joined network=lstm"):
            run(run_of("task=ner", "data=mini", "features=masked", weights))
        run_of("task=ner", "data=mini", "features=elmo", weights).features.check_weights()
        save_lm(random_lm(OPTIONS, seed=3), tmp_path / "masked" / "weights.safetensors")
        right = f"features.elmo.weights={tmp_path / 'masked'}"
        run_of("task=ner", "data=mini", "features=masked", right).features.check_weights()


class TestTagLm:
    def test_the_top_layer_joins_between_the_two_layers_and_nowhere_else(self, weights):
        config = run_of("task=ner", "data=paper", "features=taglm", weights, "features.words.vectors=null")
        features = TokenFeatures(config.features, SENTENCES, 1).eval()
        assert features.widths == {"input": 50 + 128, "hidden": 16, "output": 0}, "words and characters, the biLM"
        joined = features(SENTENCES).hidden
        top = config.features.elmo.open().token_layers(SENTENCES)[-1]  # gamma starts at 1
        torch.testing.assert_close(torch.cat([joined[0], joined[1, :2]]), top, rtol=1e-3, atol=1e-3)

    def test_where_there_is_no_such_place(self):
        with pytest.raises(InputError, match=r"features\.elmo\.places: .* found task\.layers=1\. Set task\.layers=2"):
            run_of("task=ner", "data=mini", "features=taglm")
        with pytest.raises(InputError, match=r"found hidden, a place that the head of task=sst5 does not offer"):
            run_of("task=sst5", "data=mini", "features=taglm")


def test_static_elmo_is_word2vec_and_elmo_with_the_settings_of_the_task():
    static, elmo = (run_of("task=sst5", "data=paper", f"features={arm}").features for arm in ("static_elmo", "elmo"))
    assert static.words.vectors == "word2vec"
    assert replace(static, name="elmo", title="", words=elmo.words) == elmo


class TestFlair:
    @pytest.mark.parametrize(("arm", "width"), [("flair", 10), ("flair_elmo", 16 + 10)])
    def test_states_join_the_baseline(self, tmp_path, monkeypatch, weights, arm, width):
        monkeypatch.setenv("ELMO_FLAIR", str(save_lms(tmp_path / "lms")))
        typed = [weights] if arm == "flair_elmo" else []
        config = run_of("task=ner", f"features={arm}", "features.words.vectors=null", *typed)
        assert "features.frozen.flair.source.weights" not in config.variant, "set for all runs of this machine"
        assert config.resolved["features"]["frozen"]["flair"]["source"]["weights"] == "lms"
        features = TokenFeatures(config.features, SENTENCES, 1).eval()
        assert features.widths == {"input": 50 + 128 + width, "hidden": 0, "output": 0}
        states = config.features.frozen["flair"].open().token_layers(SENTENCES)[0]
        joined = features(SENTENCES).input
        torch.testing.assert_close(torch.cat([joined[0], joined[1, :2]])[:, -10:], states, rtol=1e-3, atol=1e-3)
        assert all(parameter.requires_grad for parameter in features.frozen["flair"].mixes.parameters())

    def test_its_parts_are_named_when_a_run_starts(self, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("ELMO_FLAIR", str(save_lms(tmp_path / "lms")))
        arm = [*WORDS, "features=flair", "features.words.trainable=false"]
        small = ["data=mini", "device=cpu", "task.hidden=4", "limit=2", "trainer.epochs=1", f"runs_dir={tmp_path}"]
        run(run_of("task=ner", *arm, *small))
        assert "; words, characters, frozen.flair; " in capsys.readouterr().err
