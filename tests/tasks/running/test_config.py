"""Run configuration: errors that name the key, the shipped YAML files, and the identity of a run."""

import dataclasses
import re
from functools import partial
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

import conf
from elmo.common.checks import check_ranges, check_tree
from elmo.common.errors import InputError
from results.records.identity import fingerprint, shown
from tasks.features.token_features import ElmoConfig, FeaturesConfig
from tasks.features.words import CharactersConfig, WordsConfig
from tasks.modules.biattentive import BcnSettings
from tasks.ner import NerSettings
from tasks.running.config import own_settings, run_config, typed_config
from tasks.running.schema import compose_config
from tasks.squad.task import SquadSettings
from tasks.training.trainer import TrainerConfig
from tests.tasks.making import run_of
from tests.tasks.pinned_defaults import data_of

CONF = Path(conf.__file__).parent


def names(group):
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


TASKS, FEATURES, DATA = names("task"), names("features"), names("data")


def flat(values, prefix=""):
    if not isinstance(values, dict):
        return {prefix: values}
    return {key: value for name in values for key, value in flat(values[name], f"{prefix}.{name}".lstrip(".")).items()}


class TestUnknownAndWrong:
    @pytest.mark.parametrize(
        ("override", "expected"),
        [
            ("trainer.epoch=3", "unknown key trainer.epoch. Did you mean trainer.epochs? Known there: batch_size,"),
            ("sed=3", "unknown key sed. Did you mean seed? Known there: also, confidences, data,"),
            ("experimnt=mini", "unknown key experimnt. Did you mean experiment? Known there: also, confidences, data,"),
            ("+sed=3", "unknown key sed. Did you mean seed?"),
            ("+trainer.foo=3", "unknown key trainer.foo. Known there: batch_size,"),
            ("task.hiden=3", "unknown key task.hiden. Did you mean task.hidden? Known there: dropout, hidden,"),
            ("features.words.vecs=x", "Did you mean features.words.vectors? Known there: casing, dim,"),
            ("datasets.mini.reader.comments=true", "To add it, type +datasets.mini.reader.comments=VALUE."),
            ("+datasets.mini.reader.comment=true", "key data.reader.comment. Did you mean data.reader.comments?"),
            ("trainer.epochs=many", "trainer.epochs: Value 'many' of type 'str' could not be converted to Integer"),
            ("trainer.epochs=2.5", "trainer.epochs: Value '2.5' of type 'float' could not be converted to Integer"),
            ("limit=all", "limit: Value 'all'"),
            ("features.words.vectors=${oc.env:NO_SUCH_VARIABLE}", "expected the environment variable NO_SUCH_VARIABLE"),
            ("task.hidden=big", "task.hidden: Value 'big' of type 'str' could not be converted to Integer"),
            ("features.words.lowercase=perhaps", "features.words.lowercase: Value 'perhaps' is not a valid bool"),
            ("limit=0", "limit: expected at least 1, found 0"),
            ("train_fraction=0", "train_fraction: expected more than 0 and at most 1, found 0"),
            ("train_fraction=20", "train_fraction: expected more than 0 and at most 1, found 20"),
            ("threads=0", "threads: expected at least 1, found 0"),
            ("trainer.optimizer=adma", "trainer.optimizer: expected adam or adadelta, found 'adma'"),
            ("task.dropout=2", "task.dropout: expected at least 0 and below 1, found 2"),
            ("+data.reader.comments=true", "set datasets.mini.reader instead"),
        ],
    )
    def test_the_error_names_the_key_and_what_is_known(self, command, override, expected, tmp_path):
        code, _, err = command(override, f"runs_dir={tmp_path}")
        assert code == 1
        assert expected in err
        assert "Traceback" not in err
        assert not list(tmp_path.rglob("*.json")), "nothing has been run"

    @pytest.mark.parametrize("tasks", ["srl", "srl,coref"])
    def test_the_known_keys_are_those_of_the_chosen_task(self, command, tasks, tmp_path):
        expected = (
            "unknown key task.layres. Did you mean task.layers? Known there: flag_dim, hidden, layers, recurrent_dro"
        )
        code, _, err = command(
            *(["-m"] if "," in tasks else []), f"task={tasks}", "task.layres=2", f"runs_dir={tmp_path}"
        )
        assert code == 1
        assert expected in err
        with pytest.raises(InputError, match=re.escape(expected)):
            typed_config([f"task={tasks.partition(',')[0]}", "task.layres=2"])

    @pytest.mark.parametrize(
        ("overrides", "expected"),
        [
            ("trainer.weight_decay=-1", "trainer.weight_decay: expected at least 0, found -1"),
            ("features.words.dim=0", "features.words.dim: expected at least 1, found 0"),
            ("features.characters.filters=0", "features.characters.filters: expected at least 1, found 0"),
            ("features=elmo features.elmo.l2=-0.1", "features.elmo.l2: expected at least 0, found -0.1"),
            (
                "task=snli features=elmo features.elmo.places=[hidden]",
                "features.elmo.places: found hidden, a place that the head of task=snli does not offer; it offers "
                "input, output. Set features.elmo.places=[input]",
            ),
            (
                "features=elmo features.elmo.places=[hidden] task.layers=1",
                "features.elmo.places: hidden is between the layers of the head's encoder, found task.layers=1. Set "
                "task.layers=2",
            ),
            ("task=snli task.hidden=-8", "task.hidden: expected at least 1, found -8"),
        ],
    )
    def test_a_value_out_of_range_is_refused_when_the_run_is_composed(self, overrides, expected):
        """Before anything is read or embedded; no failed record is left."""
        with pytest.raises(InputError, match=re.escape(expected)):
            run_of(*overrides.split())

    @pytest.mark.parametrize(
        ("check", "expected"),
        [
            (
                partial(check_ranges, "trainer", TrainerConfig(batches="sorted")),
                "trainer.batches: expected length or random, found 'sorted'",
            ),
            (
                partial(check_ranges, "trainer", TrainerConfig(plateau_factor=2)),
                "trainer.plateau_factor: expected above 0 and below 1, found 2",
            ),
            (
                partial(check_ranges, "trainer", TrainerConfig(plateau_patience=-1)),
                "trainer.plateau_patience: expected at least 0, found -1",
            ),
            (
                partial(check_tree, "features.words", WordsConfig(dropout=1)),
                "features.words.dropout: expected at least 0 and below 1, found 1",
            ),
            (
                partial(check_ranges, "features.characters", CharactersConfig(dropout=-1)),
                "features.characters.dropout: expected at least 0 and below 1",
            ),
            (
                partial(check_ranges, "features.characters", CharactersConfig(width=60)),
                "features.characters.width: expected at most 50, found 60",
            ),
            (
                partial(check_tree, "features", FeaturesConfig(dropout=-0.5)),
                "features.dropout: expected at least 0 and below 1, found -0.5",
            ),
            (partial(check_tree, "elmo", ElmoConfig(layers="top")), "elmo.layers: expected mix, last or the number of"),
            (partial(check_tree, "elmo", ElmoConfig(dropout=1)), "elmo.dropout: expected at least 0 and below 1"),
            (
                partial(check_ranges, "task", NerSettings(input_dropout=1)),
                "task.input_dropout: expected at least 0 and below 1, found 1",
            ),
            (partial(check_ranges, "task", NerSettings(layers=0)), "task.layers: expected at least 1, found 0"),
            (partial(check_ranges, "task", SquadSettings(longest=0)), "task.longest: expected at least 1, found 0"),
            (partial(check_ranges, "task", BcnSettings(pool=0)), "task.pool: expected at least 1, found 0"),
            (
                partial(check_ranges, "task", BcnSettings(maxout_dropout=[0.2, 1.3])),
                "task.maxout_dropout: expected at least 0 and below 1",
            ),
        ],
    )
    def test_ranges(self, check, expected):
        with pytest.raises(InputError, match=re.escape(expected)):
            check()

    @pytest.mark.parametrize(
        ("override", "options", "own"),
        [
            ("features=bert", FEATURES, "For DIR/features/NAME.yaml of your own, add --config-dir DIR."),
            ("task=chess", TASKS, "For DIR/task/NAME.yaml of your own, add --config-dir DIR."),
            ("data=imdb", DATA, "A file of your own is data=PATH.yaml."),
            ("data=mine/reviews.yml", DATA, "A file of your own is data=PATH.yaml."),
        ],
    )
    def test_an_unknown_option_of_a_group_lists_the_options(self, command, override, options, own):
        code, _, err = command(override)
        assert code == 1
        assert err.startswith(f"tasks.run: {override}: no such choice. There are: ")
        assert set(options) <= set(err.partition("There are: ")[2].partition(".")[0].split(", "))
        assert err.endswith(f". {own}\n")

    def test_a_misspelt_option_of_a_group_is_guessed(self, command):
        assert "Did you mean features=elmo_random?" in command("features=elmo_randm")[2]

    @pytest.mark.parametrize("sweep", [(), ("-m",)])
    def test_a_setting_below_a_part_that_is_null(self, command, sweep):
        code, _, err = command(*sweep, "task=sst5", "features.characters.dim=3", "seed=2")
        assert code == 1
        assert err.startswith("tasks.run: ")
        assert "task=sst5 features.characters.dim=3 seed=2: " in err
        assert "what is below a part that is null cannot be set" in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("features", "key"),
        [
            ("glove", "features.elmo.weights"),
            ("glove", "features.transformer.model"),
            ("elmo", "features.transformer.model"),
            ("transformer", "features.elmo.weights"),
        ],
    )
    def test_one_sweep_may_set_a_frozen_part_for_all_arms(self, features, key):
        """An arm without the part is the same run with the setting."""
        plain, named = (run_config(compose_config([f"features={features}", *more])) for more in ([], [f"{key}=other"]))
        assert (named.variant, named.resolved) == (plain.variant, plain.resolved)

    @pytest.mark.parametrize(
        ("weights", "vectors"),
        [  # as given and as recorded
            (("/some/where/mine", "mine"), ("glove/6B.50d", "glove/6B.50d")),
            (("/out/export/small", "./small"), ("/vectors/glove-6b-50d", "./glove-6b-50d")),  # where elmo.pretrain
            (("export/small/", "./small"), ("sgns/word2vec", "./word2vec")),  # leaves weights by default
            (("./small", "./small"), ("word2vec", "word2vec")),
            (("mirror/allennlp/small", "./small"), ("/there/glove/6B.50d", "6B.50d")),
            (("/out/medium", "./medium"), ("glove/6B.50d", "glove/6B.50d")),
            (("allennlp/small", "allennlp/small"), ("glove/6B.50d", "glove/6B.50d")),
        ],
    )
    def test_the_last_part_of_a_path_is_recorded_and_never_like_a_name(self, weights, vectors):
        given = {"features.elmo.weights": weights[0], "features.words.vectors": vectors[0]}
        recorded = {"features.elmo.weights": weights[1], "features.words.vectors": vectors[1]}
        config = run_of("features=elmo", *(f"{key}={value}" for key, value in given.items()))
        assert config.variant == recorded
        assert flat(config.resolved).items() >= recorded.items()
        assert config.features.elmo.weights == weights[0]

    @pytest.mark.parametrize("name", ["small", "allennlp/small"])
    def test_a_folder_that_has_the_name_of_weights_is_recorded_as_a_path(self, tmp_path, monkeypatch, name):
        (tmp_path / name).mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        config = run_of("features=elmo", f"features.elmo.weights={name}")
        assert config.variant == {"features.elmo.weights": "./small"}


def test_titles_are_recorded_and_change_no_fingerprint():
    """Names for people, for example in a user's YAML of features called mine."""
    plain = run_of("features=glove")
    titled = run_of("features=glove", "features.title=My vectors", "+task.title=My task")
    assert titled.variant == plain.variant == {}
    assert (titled.resolved["task"]["title"], titled.resolved["features"]["title"]) == ("My task", "My vectors")
    renamed = [{**run.resolved, "features": {**run.resolved["features"], "name": "mine"}} for run in (plain, titled)]
    before, after = (own_settings(resolved, type(plain.task)) for resolved in renamed)
    assert before == after != {}


class TestShippedFiles:
    def test_every_dataset_belongs_to_a_task(self):
        assert {data for task in TASKS for data in data_of(task)} == set(DATA)

    def test_the_control_differs_from_elmo_in_the_weights_alone(self):
        elmo, control = (flat(run_of(f"features={name}").resolved) for name in ("elmo", "elmo_random"))
        differing = {key for key in elmo | control if elmo.get(key) != control.get(key)}
        assert differing == {"features.name", "features.elmo.untrained"}

    @pytest.mark.parametrize("path", sorted((CONF / "tuned").glob("*.yaml")), ids=lambda path: path.stem)
    def test_tuned_files_set_only_features(self, path):
        task, _, features = path.stem.rpartition("_")
        assert task in TASKS
        assert features in FEATURES
        assert "@package" not in path.read_text(), "conf/config.yaml puts all of it under features"
        names = [f"task={task}", f"features={features}"]
        with_it, without = (
            flat(OmegaConf.to_container(compose_config([*names, *more]))) for more in ([], ["~tuned@features"])
        )
        differing = {key for key in with_it | without if with_it.get(key) != without.get(key)}
        assert differing
        assert all(key.startswith("features.") for key in differing)

    @pytest.mark.parametrize("task", TASKS)
    def test_features_based_on_elmo_are_tuned_like_elmo(self, command, tmp_path, task):
        """Except for what their own file sets."""
        own = "name: mine\nelmo: {weights: mybilm, places: [output]}\n"
        (tmp_path / "features").mkdir()
        (tmp_path / "features" / "mine.yaml").write_text(f"defaults: [elmo, _self_]\n{own}")
        printed = {
            name: command("--config-dir", tmp_path, "--cfg", "job", f"task={task}", f"features={name}")[1]
            for name in ("elmo", "mine")
        }
        elmo, mine = (flat(yaml.safe_load(printed[name])["features"]) for name in ("elmo", "mine"))
        assert elmo | flat(yaml.safe_load(own)) == mine

    def test_a_features_file_overrides_the_task(self, command, tmp_path):
        (tmp_path / "features").mkdir()
        (tmp_path / "features" / "mine.yaml").write_text("defaults: [glove, _self_]\nname: mine\ncharacters: null\n")
        out = command("--config-dir", tmp_path, "--cfg", "job", "task=ner", "features=mine")[1]
        assert yaml.safe_load(out)["features"]["characters"] is None

    def test_features_have_no_settings_of_training_or_heads(self):
        """No optimiser, schedule, epochs or head. A new key needs a reason."""

        def fields(kind):
            return {field.name for field in dataclasses.fields(kind)}

        parts = {"words", "characters", "elmo", "transformer", "frozen"}
        assert fields(FeaturesConfig) == {"name", "title", "dropout", *parts}
        assert fields(WordsConfig) == {
            "vectors",
            "dim",
            "lowercase",
            "trainable",
            "unknown",
            "casing",
            "dropout",
            "enabled",
        }
        assert fields(CharactersConfig) == {"dim", "filters", "width", "dropout"}
        elmo = {"enabled", "weights", "untrained", "untrained_seed", "places", "layers", "l2", "layer_norm", "dropout"}
        elmo |= {"control", "draw", "by_sentence", "context"}
        assert fields(ElmoConfig) == elmo | {"precision", "warning", "tune", "tuning"}

    def test_ner_has_the_settings_of_the_paper(self):
        """Facts B.1: AllenNLP's presets ner.jsonnet and ner_elmo.jsonnet."""
        config = run_of("task=ner", "features=elmo", "data=paper")
        assert vars(config.task.settings) == {"hidden": 200, "layers": 2, "dropout": 0.5, "input_dropout": 0.0}
        assert vars(config.features.characters) == {"dim": 16, "filters": 128, "width": 3, "dropout": 0.0}
        assert (config.features.words.vectors, config.features.words.trainable) == ("glove-6b-50d", True)
        elmo = config.features.elmo
        assert (elmo.places, elmo.l2, elmo.dropout, elmo.layer_norm) == (["input"], 0.1, 0.0, False)
        trainer = config.trainer
        assert (trainer.optimizer, trainer.lr, trainer.grad_norm, trainer.batch_size) == ("adam", 0.001, 5.0, 64)
        assert trainer.patience == 25


class TestIdentity:
    def test_variant_names_what_differs_from_the_plain_run(self):
        config = run_of("features=elmo", "trainer.epochs=2", "features.elmo.places=[input,output]", "limit=5", "seed=7")
        assert config.variant == {"trainer.epochs": 2, "features.elmo.places": "[input,output]", "limit": 5}

    def test_order_and_repeated_defaults_do_not_change_a_run(self):
        first = run_of("trainer.epochs=2", "limit=5", "features=elmo")
        second = run_of(
            "features=elmo", "limit=5", "trainer.grad_norm=5.0", "trainer.epochs=2", "features.elmo.weights=small"
        )
        assert first.variant == second.variant
        assert list(map(str, sorted(first.variant))) == list(map(str, sorted(second.variant)))
        assert fingerprint(first.resolved) == fingerprint(second.resolved)

    @pytest.mark.parametrize("part", ["features.elmo", "features.words", "features.characters", "trainer.patience"])
    def test_a_part_set_to_null_is_another_variant(self, part):
        assert run_of("features=elmo", f"{part}=null").variant == {part: None}

    @pytest.mark.parametrize(
        ("overrides", "variant"),
        [
            (["~task.dropout"], {"~task.dropout": 0.5}),
            (["~task.dropout=0.5", "task.hidden=8"], {"task.hidden": 8, "~task.dropout": 0.5}),
            (["task=sst5", "~task.maxout"], {"~task.maxout": "[64,32]"}),
            (["data=uner_ewt", "~data.reader.comments"], {"~data.reader.comments": True}),
        ],
    )
    def test_a_deleted_key_is_another_variant_and_typing_it_gives_the_same_run(self, overrides, variant):
        config = run_of(*overrides)
        assert config.variant == variant
        names = [f"task={config.task.name}", f"data={config.data.name}"]
        again = run_of(*names, *(f"{key}={shown(value)}" for key, value in variant.items()))
        assert (again.variant, again.resolved) == (config.variant, config.resolved)

    def test_a_deleted_part_gets_its_default_settings(self):
        assert (run_of("~seed").variant, run_of("~seed").resolved) == ({}, run_of().resolved)
        config = run_of("~trainer", "task=squad", "data=paper")
        assert config.resolved["trainer"] == vars(TrainerConfig())
        assert config.variant["trainer.optimizer"] == "adam"

    def test_seeds_share_a_variant_but_not_a_fingerprint(self):
        first, second = run_of("seed=1"), run_of("seed=2")
        assert first.variant == second.variant == {}
        assert fingerprint(first.resolved) != fingerprint(second.resolved)

    def test_machine_and_paths_are_not_in_the_identity(self, monkeypatch):
        plain = run_of()
        moved = run_of("device=cpu", "threads=3", "runs_dir=/elsewhere", "data_dir=/there")
        monkeypatch.setenv("ELMO_DATA", "/another")
        from_environment = run_of()
        assert from_environment.data_dir == Path("/another")
        assert moved.data_dir == Path("/there")
        for config in (moved, from_environment):
            assert config.variant == plain.variant == {}
            assert config.resolved == plain.resolved

    def test_resolved_has_only_the_chosen_dataset(self):
        resolved = run_of("data=paper").resolved
        assert resolved["data"]["expected"]["train"]["sentences"] == 14041
        assert "datasets" not in resolved
        assert "14041" not in str(run_of("data=mini").resolved)


def test_a_name_that_differs_from_the_file_name(tmp_path):
    tree = compose_config([])
    tree.features.name = "glov"
    with pytest.raises(InputError, match="features/glov: no such config"):
        run_config(tree)


class TestChoiceOfData:
    def test_a_dataset_for_another_task_is_refused(self):
        tree = compose_config(["task=ner", "data=wnut17"])
        OmegaConf.update(tree, "data.task", "squad")
        with pytest.raises(InputError, match="data=wnut17 is for task=squad, found task=ner"):
            run_config(tree)

    def test_a_dataset_that_the_task_does_not_have(self):
        tree = compose_config(["task=ner", "data=mini"])
        OmegaConf.update(tree, "data.name", "huge")
        with pytest.raises(InputError, match="data=huge: this task has no such dataset, only mini, paper"):
            run_config(tree)
