"""Experiments as sweeps: the runs of those that ship, choosing among them, launchers, and a user's own."""

import shutil
from itertools import pairwise, product

import pytest
from hydra import initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import RunMode

from elmo.bilm.options import NETWORKS, OBJECTIVES
from elmo.common.errors import InputError
from results.experiments import experiment_names, load_experiment, values_of
from results.records.progress import read_manifests
from results.records.record import read_record
from tasks.command_line import group_options
from tasks.data.datasets import DataSource
from tasks.running.config import run_config, typed_config
from tasks.running.schema import compose_config
from tasks.sweeps import runs as sweep_runs
from tasks.sweeps import sweeper
from tests.tasks.making import SMALL

TASKS = ("ner", "sst5", "snli", "squad")
TINY = ["device=cpu", "limit=6", "trainer.epochs=1", "task.hidden=8", *SMALL]
TINY += ["features.elmo.untrained=true", "features.elmo.weights=tiny"]
OWN = """
title = "Two rows with data of their own"
seeds = [1, 2]
[arms]
words = ["features=glove"]
bilm = ["features=elmo", "features.elmo.places=[input]"]
[[rows]]
overrides = ["task=ner", "data=mini"]
[[rows]]
overrides = ["task=ner", "data=OWN/half.yaml", "train_fraction=0.5"]
"""
HALF = "task: ner\nshipped: true\nsplits: {train: [ner/dev.txt], dev: [ner/dev.txt], test: [ner/test.txt]}\n"


def composed(*overrides):
    """The config of a sweep, with Hydra's own part, and its runs."""
    sweeper.register()
    with initialize_config_module("conf", version_base="1.3"):
        config = GlobalHydra.instance().config_loader().load_configuration("config", list(overrides), RunMode.MULTIRUN)
        return config, [dict(setting.split("=", 1) for setting in run) for run in sweep_runs.runs_in(config)]


def runs_of(*overrides):
    return composed(*overrides)[1]


def chosen(experiment, *typed):
    """The runs of the cells that these words choose, without composing the config of a sweep."""
    parsed = OverridesParser.create().parse_overrides([experiment, *typed])
    cells = sweep_runs.experiment_cells(experiment.partition("=")[2], parsed)
    return [dict(setting.partition("=")[::2] for setting in cell.overrides) for cell in cells]


def named(runs):
    """The settings of runs, in one order, without the experiment's name."""
    return [{key: run[key] for key in sorted(run) if key != "experiment"} for run in runs]


def names(runs, *keys):
    return [tuple(run[key] for key in keys) for run in runs]


@pytest.fixture
def own(tmp_path):
    """The path of a user's experiment, outside the repository."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "half.yaml").write_text(HALF)
    path = tmp_path / "own" / "mine.toml"
    path.write_text(OWN.replace("OWN", str(tmp_path / "own")))
    return path


class TestShipped:
    def test_one_is_chosen_by_the_name_of_its_table(self):
        assert set(group_options("experiment")) < set(experiment_names()), "a table for each config"
        _, runs = composed("experiment=table6")
        assert len(runs) == len({cell.identity.title for cell in load_experiment("table6").cells})

    def test_mini_is_six_tasks_in_three_arms_with_three_seeds(self):
        config, runs = composed("experiment=mini")
        arms = ("glove", "elmo", "elmo_random")
        assert names(runs, "seed", "task", "features") == list(product("123", (*TASKS, "coref", "srl"), arms))
        assert {run["data"] for run in runs} == {"mini"}
        assert (config.hydra.launcher.n_jobs, config.hydra.launcher.batch_size) == (-1, "1")

    def test_runs_that_need_the_same_layers_are_far_apart(self):
        places = {}
        for place, run in enumerate(runs_of("experiment=mini")):
            places.setdefault((run["task"], run["features"]), []).append(place)
        assert all(later - place == 18 for group in places.values() for place, later in pairwise(group))

    def test_an_experiment_changes_no_setting_of_a_run(self):
        runs = runs_of("experiment=mini", "task=ner,squad", "seed=2", "features=elmo")
        assert len(runs) == 2
        for run in runs:
            typed = [f"{key}={value}" for key, value in run.items() if key != "experiment"]
            assert compose_config([*typed, "experiment=mini"]) == compose_config([*typed, "device=cpu"])

    def test_what_an_experiment_sets_beside_its_runs_is_a_default(self):
        assert compose_config(["experiment=mini"]).device == "cpu"
        assert compose_config(["experiment=mini", "device=cuda"]).device == "cuda"

    def test_table1_has_each_task_with_its_own_data(self):
        config, runs = composed("experiment=table1")
        seeds = {("ner", "paper"): 5, ("ner", "wnut17"): 5, ("sst5", "paper"): 5, ("snli", "snli100k"): 3}
        seeds |= {("srl", "ewt"): 3, ("squad", "paper"): 3, ("coref", "litbank"): 1}
        arms = ("glove", "elmo", "elmo_layer0", "elmo_isolated", "elmo_matched")
        expected = {
            (str(seed), row, arm)
            for row, count in seeds.items()
            for seed in range(1, count + 1)
            for arm in arms[: 3 if row[0] in ("squad", "coref") else 5]
        }
        assert {(run["seed"], (run["task"], run["data"]), run["features"]) for run in runs} == expected
        folds = [run["fold"] for run in runs if run["data"] == "litbank"]
        assert folds == [str(number) for number in range(10)] * 3
        assert len(runs) == len(expected) + 3 * 9
        assert {run["features"] for run in runs if run.get("confidences") == "true"} == set(arms[:3])
        assert not any("trainer.epochs" in run for run in runs), "the limits of the recipes"
        assert config.hydra.launcher._target_.endswith("BasicLauncher")

    def test_table1_has_larger_vectors_and_a_larger_bilm_than_mini(self):
        def arms(name):
            keys = ("features", "features.words.vectors", "features.elmo.weights")
            return {tuple(run.get(key) for key in keys) for run in runs_of(f"experiment={name}")}

        assert arms("table1") >= {("glove", "wink-100d", None), ("elmo", "wink-100d", "medium")}
        assert {own[1:] for own in arms("table1")} == {("wink-100d", None), ("wink-100d", "medium")}
        assert arms("mini") == {(features, None, None) for features in ("glove", "elmo", "elmo_random")}

    def test_tuning_compares_arms_that_differ_in_tuning_alone(self):
        runs = runs_of("experiment=tuning", "task=ner", "seed=1")
        arms = [{key: value for key, value in run.items() if key != "experiment"} for run in runs]
        glove, frozen, tuned, *whole = arms
        assert tuned == {**frozen, "features.elmo.tune": "true"}
        assert (glove["features"], glove["trainer.epochs"]) == ("glove", frozen["trainer.epochs"])
        assert not any("features.elmo.tune" in run or "trainer.epochs" in run for run in whole), "the whole recipe"

    def test_ulmfit_tunes_on_the_text_and_with_the_task(self):
        """Two arms have one of the stages, so that the table tells them apart."""
        cells = {cell.arm: cell.settings for cell in load_experiment("ulmfit").cells if cell.seed == 1}
        text = {"features.elmo.weights": "${oc.env:ELMO_BILMS}/small-sst5"}
        assert cells["tuned"] == {**cells["frozen"], "features.elmo.tune": "true"}
        assert cells["frozen_tuned_text"] == {**cells["frozen"], **text}
        assert cells["ulmfit"] == {**cells["tuned"], **text}

    def test_cells_are_chosen_by_a_setting_with_an_environment_variable(self, monkeypatch):
        """As the table prints it."""
        monkeypatch.setenv("ELMO_BILMS", "/bilms")
        weights = "features.elmo.weights=${oc.env:ELMO_BILMS}/masked"
        runs = runs_of("experiment=representations", "features=masked", weights, "task=ner", "data=paper", "seed=1")
        assert [run["features.elmo.weights"] for run in runs] == [weights.partition("=")[2]]

    def test_objectives_differ_in_the_weights_alone(self):
        cells = load_experiment("objectives").cells
        arms = {cell.arm: cell.value("features.elmo.weights") for cell in cells if cell.arm != "glove"}
        cells_of_grid = [f"{objective}-{network}" for objective, network in product(OBJECTIVES, NETWORKS)]
        folder = "${oc.env:ELMO_BILMS}"
        assert arms == {cell.replace("-", "_"): f"{folder}/{cell}" for cell in cells_of_grid}
        others = {tuple(cell.settings[key] for key in ("features", "features.words.vectors")) for cell in cells}
        assert others == {("lm", "wink-100d"), ("glove", "wink-100d")}
        assert len(cells) == 7 * 3 * 3

    def test_frozen_and_tuned_have_as_many_trials_with_the_epochs_of_the_study(self):
        trials = runs_of("experiment=tuning_trials")
        study = {tuple(run.items()) for run in named(runs_of("experiment=tuning", "seed=1"))}
        tuned = [run for run in trials if "features.elmo.tune" in run]
        assert len(tuned) * 2 == len(trials)
        defaults = {"features.elmo.dropout": "0.0", "features.elmo.tuning.lr": "0.001"}
        plain = [
            {key: value for key, value in run.items() if defaults.get(key) != value}
            for run in named(trials)
            if any(run.get(key) == value for key, value in defaults.items())
        ]
        assert len(plain) == 4
        assert {tuple(run.items()) for run in plain} <= study, "the default of each arm is a run of the study"

    def test_both_arms_of_table_1_have_the_same_trials_and_none_reads_a_test_set(self):
        runs = runs_of("experiment=trials")
        assert all(run["trial"] == "true" for run in runs)
        keys = ("seed", "task", "data", "features.dropout")
        glove, elmo = (names([run for run in runs if run["features"] == arm], *keys) for arm in ("glove", "elmo"))
        assert glove == elmo
        assert len(set(glove)) == 3 * (3 * 3 + 1), "three values: NER, WNUT-17 and SST-5 three seeds, SRL one"
        table1 = {(run["features"], run["features.words.vectors"]) for run in runs_of("experiment=table1")}
        assert table1 >= {(run["features"], run["features.words.vectors"]) for run in runs}

    def test_fewer_labels_start_from_150_sentences_of_mini_ner(self):
        runs = runs_of("experiment=fewer_labels")
        shares = ("1.0", "0.6667", "0.3333", "0.1667")
        expected = list(product("123", shares, TASKS, ("glove", "elmo")))
        assert names(runs, "seed", "train_fraction", "task", "features") == expected
        config = run_config(compose_config(["task=ner", "data=mini"]))
        sizes = set()
        for share in shares:
            source = DataSource(config.data, config.data_dir, train_fraction=float(share), seed=1)
            sizes.add(len(source.load(config.task, "train").examples))
        assert sizes == {150, 300, 600, 900}

    @pytest.mark.parametrize(
        ("name", "chosen", "title"),
        [
            ("table2", "task=snli data=snli100k features.elmo.l2=0.001", "snli100k snli elmo seed 1"),
            ("table3", "task=srl data=ewt features.elmo.places=[input]", "ewt srl elmo seed 1"),
            ("table3", "task=squad features.elmo.places=[input,output]", "paper squad elmo seed 1 trainer.epochs=12"),
            ("figure1", "task=srl features=elmo train_fraction=1.0", "ewt srl elmo seed 1"),
        ],
    )
    def test_a_task_s_own_value_is_the_plain_run(self, name, chosen, title):
        cells = load_experiment(name).narrowed({"seed": ["1"], **dict(map(values_of, chosen.split()))}).cells
        (overrides,) = {tuple(cell.overrides) for cell in cells}  # Table 2 shows it on dev and on test
        assert typed_config(overrides).identity.title == title


class TestChoosing:
    @pytest.mark.parametrize(
        ("typed", "expected"),
        [
            (["task=ner,sst5,squad"], (5 + 5 + 5) * 5 + 3 * 3),
            (["data=litbank"], 10 * 3),  # one seed
            (["task=snli", "data=snli100k"], 5 * 3),
            (["data=paper", "seed=1"], 5 + 5 + 3),
            (["task=coref", "data=litbank", "seed=1", "fold=0,9"], 2 * 3),
            (["task=ner", "seed=range(2,4)", "features=elmo"], 2 * 2),
            (["task=ner", "data=paper", "seed=1", "trainer.lr=0.1,0.2"], 5 * 2),
        ],
    )
    def test_keys_of_the_command_choose_cells(self, typed, expected):
        runs = chosen("experiment=table1", *typed, "limit=40", "+task.more=1")
        assert len({tuple(run.items()) for run in runs}) == len(runs) == expected
        assert {(run["experiment"], run["limit"], run["+task.more"]) for run in runs} == {("table1", "40", "1")}

    def test_a_deleted_key_stays_one(self):
        for run in chosen("experiment=mini", "~trainer.patience", "~logger.mode=online", "seed=1"):
            assert list(run.items())[-2:] == [("~trainer.patience", ""), ("~logger.mode", "online")]

    @pytest.mark.parametrize("typed", [["seed=11"], ["task=ner", "data=snli100k"], ["features=word2vec"]])
    def test_nothing_to_run(self, typed):
        with pytest.raises(InputError, match="no cell of experiment=table1 has"):
            chosen("experiment=table1", *typed)

    def test_nothing_to_run_is_an_error_of_the_command(self, command, tmp_path):
        code, _, err = command("-m", "experiment=table1", "seed=11", f"runs_dir={tmp_path}")
        assert code == 1
        assert "no cell of experiment=table1 has" in err
        assert "Traceback" not in err
        assert list(tmp_path.rglob("record.json")) == []

    @pytest.mark.parametrize("launcher", ["basic", "cores", "slurm", "submitit_local"])
    def test_the_runs_are_the_same_under_every_launcher(self, launcher):
        typed = ["experiment=table1", "task=ner", "seed=1,2"]
        config, runs = composed(*typed, f"hydra/launcher={launcher}")
        assert runs == runs_of(*typed)
        assert config.hydra.sweeper._target_ == sweeper.SWEEPER


def test_a_variable_that_is_not_set_refuses_its_run_alone(own, monkeypatch):
    monkeypatch.delenv("ELMO_NOWHERE", raising=False)
    own.write_text(own.read_text().replace("places=[input]", "weights=${oc.env:ELMO_NOWHERE}"))
    typed = "features.elmo.weights=${oc.env:ELMO_NOWHERE}"  # as printed for the line of such an arm
    with initialize_config_module("conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        for words, refused in ((["seed=1"], 2), ([typed, "seed=1"], 2)):
            config = loader.load_configuration("config", [f"experiment={own}", *words], RunMode.MULTIRUN)
            manifest = sweep_runs.manifest_of(config, sweep_runs.composed(config, sweep_runs.runs_in(config)))
            assert ["ELMO_NOWHERE, found none" in reason for reason in manifest.refused] == [True] * refused
            assert sweeper.next_command(config).startswith("The scores: ")
    assert manifest.runs == []
    assert manifest.command.endswith(f"'{typed}' seed=1")


class TestOwn:
    def test_one_file_outside_the_repository(self, own):
        runs = runs_of(f"experiment={own}", "seed=2")
        assert names(runs, "data", "features") == list(
            product(("mini", str(own.parent / "half.yaml")), ("glove", "elmo"))
        )

    def test_a_run_that_several_cells_show_is_made_once(self, own):
        arm = 'again = ["features.elmo.places=[input]", "features=elmo"]\n'
        row = '[[rows]]\nmetric = "recall"\noverrides = ["task=ner", "data=mini"]\n'
        text = own.read_text()
        own.write_text(text.replace("[[rows]]", f"{arm}[[rows]]", 1) + row)
        found = runs_of(f"experiment={own}")
        own.write_text(text)
        assert found == runs_of(f"experiment={own}")

    def test_a_file_with_a_mistake(self, own, command, tmp_path):
        own.write_text(OWN.replace("seeds", "seed"))
        code, _, err = command("-m", f"experiment={own}", f"runs_dir={tmp_path}")
        assert code == 1
        assert "mine.toml: seed: no such key" in err
        code, _, err = command("-m", "experiment=nowhere.toml", f"runs_dir={tmp_path}")
        assert code == 1
        assert "experiment=nowhere.toml: expected board, controls, fewer_labels" in err

    def test_without_m_it_is_refused(self, command, tmp_path, own):
        for name in ("mini", own):
            code, out, err = command(f"experiment={name}", f"runs_dir={tmp_path / 'runs'}")
            assert (code, out) == (1, "")
            assert f"tasks.run: experiment={name} runs_dir=" in err
            assert "expected -m, because an experiment has many runs. Use python -m tasks.run -m and the" in err
        assert not (tmp_path / "runs").exists()

    def test_no_module_that_it_names_is_imported(self, own, command, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "evilmod.py").write_text("raise SystemExit('imported')")
        (tmp_path / "evil.yaml").write_text("# @package _global_\ntask: {_target_: evilmod.Task}\n")
        up = "../" * 30
        for override in ("task._target_=evilmod.Task", f"task={up}{tmp_path.relative_to('/')}/evil"):
            own.write_text(OWN.replace('"features=glove"', f'"features=glove", "{override}"'))
            code, _, err = command("-m", f"experiment={own}", f"runs_dir={tmp_path}", "features=glove", "seed=1")
            assert code == 1
            assert "arms.words: expected settings that cannot bring in code" in err

    def test_a_name_that_is_not_there(self, command, tmp_path):
        code, _, err = command("-m", "experiment=tabel1", f"runs_dir={tmp_path}")
        assert code == 1
        assert "experiment=tabel1: no such choice. Did you mean experiment=table1?" in err

    def test_rows_of_published_records_are_left_out(self):
        """Table 2's are of data that the suite has no more."""
        assert "standin" in {cell.named["data"] for cell in load_experiment("table2").cells}
        assert {run["data"] for run in chosen("experiment=table2", "task=snli")} == {"snli100k"}
        with pytest.raises(InputError, match="expected runs, found published records only"):
            chosen("experiment=table2", "data=standin")

    def test_a_config_folder_may_name_it_and_choose_a_launcher(self, own, command, tmp_path):
        folder = tmp_path / "conf" / "experiment"
        folder.mkdir(parents=True)
        (folder / "ours.yaml").write_text(
            f"# @package _global_\nlimit: 4\nhydra: {{mode: MULTIRUN, sweeper: {{experiment: {own}}}}}\n"
        )
        settings = [f"runs_dir={tmp_path / 'runs'}", *TINY[2:], "seed=1", "features=glove", "data=mini"]
        code, _, err = command("--config-dir", tmp_path / "conf", "experiment=ours", *settings)
        assert code == 0, err
        (path,) = (tmp_path / "runs").rglob("record.json")
        assert read_record(path).limit == 4

    @pytest.mark.processes
    def test_it_runs_and_resumes_under_every_launcher(self, own, command, tmp_path):
        """One by one, side by side, and as submitit would hand the runs to SLURM."""
        tiny = [f"experiment={own}", *TINY, "features=glove"]
        code, _, err = command("-m", *tiny, f"runs_dir={tmp_path / 'basic'}", "data=mini", "seed=1")
        assert code == 0, err
        shutil.copytree(tmp_path / "basic", tmp_path / "cores")
        found = {}
        for launcher in ("basic", "cores"):
            runs = tmp_path / launcher
            settings = [*tiny, f"runs_dir={runs}", f"hydra/launcher={launcher}"]
            code, _, err = command("-m", *settings)
            assert code == 0, err
            assert "sweep  3 runs finished, 1 were done already" in err
            found[launcher] = scores(runs)
            assert len(found[launcher]) == 4, "two rows and two seeds"
            (manifest,), problems = read_manifests(runs)
            assert (manifest.name, len(manifest.runs), problems) == ("mine", 4, [])
        assert command("-m", *settings)[2].startswith("sweep  all 4 runs were done already. The scores: ")
        assert found["basic"] == found["cores"]
        runs = tmp_path / "submitit"
        settings = [f"experiment={own}", f"runs_dir={runs}", "hydra/launcher=submitit_local", *TINY]
        code, _, err = command("-m", *settings, "data=mini", "features=glove", "seed=1")
        assert code == 0, err
        assert len(scores(runs)) == 1
        assert scores(runs).items() <= found["basic"].items()


def scores(runs):
    """Fingerprint and scores of each record, by its path."""
    records = {path.relative_to(runs): read_record(path) for path in runs.rglob("record.json")}
    return {path: (record.fingerprint, record.scores) for path, record in records.items()}
