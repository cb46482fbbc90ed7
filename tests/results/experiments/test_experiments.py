"""Experiment files: the cells of a table, choosing among them, which runs are theirs, and what is refused."""

import re
from itertools import product

import pytest

from elmo.common.errors import InputError
from results.experiments import experiment_names, load_experiment, values_of
from results.records.identity import Identity, same_value

TWO_ROWS = """
title = "Two tasks, each with its own data"
seeds = [1, 2]
compare = ["a", "b"]
[arms]
a = ["features=glove"]
b = ["features=elmo", "features.elmo.places=[input,output]"]
[[rows]]
overrides = ["task=ner", "data=paper,wnut17"]
[[rows]]
overrides = ["task=snli", "data=standin", "trainer.lr=1e-4"]
"""


@pytest.fixture
def experiment(tmp_path):
    def load(content=TWO_ROWS):
        path = tmp_path / "mine.toml"
        path.write_text(content, encoding="utf-8")
        return load_experiment(str(path))

    return load


def values(cells, *keys):
    return [tuple(cell.value(key) for key in keys) for cell in cells]


class TestCells:
    def test_seeds_vary_slowest_then_rows_then_arms(self, experiment):
        rows = [("ner", "paper"), ("ner", "wnut17"), ("snli", "standin")]
        expected = [(str(s), *row, arm) for s, row, arm in product((1, 2), rows, ("glove", "elmo"))]
        assert values(experiment().cells, "seed", "task", "data", "features") == expected

    def test_a_row_may_have_seeds_of_its_own(self, experiment):
        cells = experiment(TWO_ROWS.replace('"trainer.lr=1e-4"]', '"trainer.lr=1e-4"]\nseeds = [2, 3]')).cells
        assert list(dict.fromkeys(values(cells, "seed", "task"))) == [
            ("1", "ner"), ("2", "ner"), ("2", "snli"), ("3", "snli"),
        ]  # fmt: skip

    def test_what_a_run_sets(self, experiment):
        assert experiment().cells[-1].overrides == [
            *("seed=2", "task=snli", "data=standin", "trainer.lr=1e-4"),
            *("features=elmo", "features.elmo.places=[input,output]"),
        ]

    def test_the_arm_wins_where_the_row_sets_the_same_key(self, experiment):
        cells = experiment(TWO_ROWS.replace('"features=glove"', '"features=glove", "trainer.lr=1"')).cells
        assert {(cell.arm, cell.value("trainer.lr")) for cell in cells if cell.value("task") == "snli"} == {
            ("a", "1"),
            ("b", "1e-4"),
        }

    @pytest.mark.parametrize(
        ("override", "expected"),
        [
            ("task=ner,sst5", ["ner", "sst5"]),
            ("a.places=[input,output]", ["[input,output]"]),
            ("a.places=[input],[input,output]", ["[input]", "[input,output]"]),
            ("data='a,b.yaml',c", ["'a,b.yaml'", "c"]),
            ("a=", [""]),
        ],
    )
    def test_commas_separate_values(self, override, expected):
        assert values_of(override)[1] == expected

    def test_the_suite_s_own_can_all_be_read(self):
        assert {"fewer_labels", "mini", "table1"} <= set(experiment_names())
        for name in experiment_names():
            found = load_experiment(name)
            shown = {(*cell.overrides, cell.row.metric, cell.row.split) for cell in found.cells}
            assert len(shown) == len(found.cells)

    def test_the_example_of_the_documents(self, experiment, repository):
        text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
        (example,) = (block for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL) if "[arms]" in block)
        found = experiment(example)
        assert (found.title, tuple(found.seeds), len(found.cells)) == ("mine", (1, 2, 3), 3 * 3 * 2)


class TestNarrowing:
    def test_names_choose_cells(self, experiment):
        cells = experiment().narrowed({"task": ["ner"], "seed": ["2"]}).cells
        assert values(cells, "data", "features") == list(product(("paper", "wnut17"), ("glove", "elmo")))
        assert {cell.seed for cell in cells} == {2}

    def test_several_values_keep_the_order_of_the_table(self, experiment):
        cells = experiment().narrowed({"data": ["standin", "paper"], "features": ["glove"], "seed": ["1"]}).cells
        assert values(cells, "data") == [("paper",), ("standin",)]

    def test_any_key_of_a_row_or_an_arm_does(self, experiment):
        assert {cell.arm for cell in experiment().narrowed({"features.elmo.places": ["[input,output]"]}).cells} == {"b"}
        assert values(experiment().narrowed({"trainer.lr": ["0.0001"], "seed": ["1"]}).cells, "task") == [("snli",)] * 2

    def test_null_does_not_choose_cells_without_the_key(self, experiment):
        cells = (
            experiment(TWO_ROWS.replace("trainer.lr=1e-4", "trainer.patience=null"))
            .narrowed({"trainer.patience": ["null"]})
            .cells
        )
        assert set(values(cells, "task", "trainer.patience")) == {("snli", "null")}

    def test_other_keys_are_set_in_all_cells(self, experiment):
        chosen = experiment().narrowed({"limit": ["40"], "seed": ["1"], "task": ["snli"]})
        assert [cell.overrides[-1] for cell in chosen.cells] == ["limit=40"] * 2
        swept = experiment().narrowed({"limit": ["40", "80"], "threads": ["1", "2"], "seed": ["1"], "task": ["snli"]})
        assert [cell.extra for cell in swept.cells[:4]] == [
            {"limit": limit, "threads": threads} for limit, threads in product(("40", "80"), "12")
        ]
        assert len(swept.cells) == 2 * 4

    def test_a_value_that_no_cell_has(self, experiment):
        with pytest.raises(InputError, match=r"^task=srl: no cell .* only .*ner, snli.* experiment=PATH\.toml$"):
            experiment().narrowed({"task": ["ner", "srl"]})
        with pytest.raises(InputError, match=r"^seed=7: no cell .* only .*1, 2"):
            experiment().narrowed({"seed": ["7"]})

    def test_values_that_no_cell_has_together(self, experiment):
        with pytest.raises(InputError, match=r"^task=ner data=standin limit=3: no cell .* has all of these"):
            experiment().narrowed({"task": ["ner"], "data": ["standin"], "limit": ["3"]})


class TestRuns:
    def cell(self, experiment, **given):
        (cell,) = experiment().narrowed({key: [value] for key, value in given.items()}).cells
        return cell

    def test_a_run_with_the_settings_of_the_cell(self, experiment):
        cell = self.cell(experiment, task="snli", features="elmo", seed="1")
        variant = {"trainer.lr": 0.0001}
        config = {"features": {"elmo": {"places": ["input", "output"]}}, "trainer": {"lr": 0.0001}}
        run = Identity("standin", "snli", "elmo", 1, variant)
        assert cell.is_run(run, config)  # the places are the default, so the name does not have them
        assert not cell.is_run(run, {"features": {"elmo": {"places": ["input"]}}})
        assert not cell.is_run(Identity("standin", "snli", "elmo", 1), {**config, "trainer": {"lr": 0.001}})
        for other in (("paper", "snli", "elmo", 1), ("standin", "ner", "elmo", 1), ("standin", "snli", "glove", 1)):
            assert not cell.is_run(Identity(*other, variant), config)
        assert not cell.is_run(Identity("standin", "snli", "elmo", 2, variant), config)

    def test_a_run_with_a_further_setting_is_another(self, experiment):
        cell = self.cell(experiment, data="paper", features="glove", seed="1")
        assert cell.is_run(Identity("paper", "ner", "glove", 1), {})
        assert not cell.is_run(Identity("paper", "ner", "glove", 1, {"limit": 40}), {"limit": 40})
        assert not cell.is_run(Identity("paper", "ner", "glove", 1, fold=1), {})
        limited = self.cell(experiment, data="paper", features="glove", seed="1", limit="40")
        assert limited.is_run(Identity("paper", "ner", "glove", 1, {"limit": 40}), {"limit": 40})

    def test_datasets_of_the_task_and_files(self, experiment):
        reader = TWO_ROWS.replace("trainer.lr=1e-4", "+datasets.standin.reader.comments=true")
        (cell,) = experiment(reader).narrowed({"task": ["snli"], "features": ["glove"], "seed": ["1"]}).cells
        assert cell.is_run(Identity("standin", "snli", "glove", 1, {"data.reader.comments": True}), {})
        assert not cell.is_run(Identity("standin", "snli", "glove", 1, {"data.reader.comments": False}), {})
        for path, name in (("my/own.yaml", "own"), ("'my/été.yaml'", "été")):  # Hydra needs quotes for é
            (cell,) = (
                experiment(TWO_ROWS.replace("wnut17", path))
                .narrowed({"data": [path], "features": ["glove"], "seed": ["1"]})
                .cells
            )
            assert cell.is_run(Identity(name, "ner", "glove", 1), {})
            assert f"data={path}" in cell.overrides

    @pytest.mark.parametrize(
        ("typed", "value", "same"),
        [
            ("1e-4", 0.0001, True),
            ("1", 1.0, True),
            ("true", True, True),
            ("1", True, False),
            ("1", 1, True),
            ("False", False, True),
            ("0", False, False),
            ("null", None, True),
            ("[input, output]", ["input", "output"], True),
            ("[input,output]", "[input,output]", True),
            ("['input',\"output\"]", ["input", "output"], True),
            ("[1e-1,true]", [0.1, True], True),
            ("[input]", ["input", "output"], False),
            ("'it is'", "it is", True),
            ("runs/export/small", "./small", True),
            ("runs/export/small", "small", False),
            ("./small", "small", False),
            ("small", "./small", False),
            ("runs/export/mine", "mine", True),
            ("${oc.env:BILMS}/original", "./original", True),
            ("${oc.env:BILMS}/original", "allennlp/original", False),
            ("allennlp/original", "allennlp/original", True),
            ("allennlp/original", "allennlp/small", False),
            ("allennlp/original", "./original", False),
            ("glove/840B.300d", "840B.300d", False),
            ("0.5", 0.25, False),
            ("small", None, False),
        ],
    )
    def test_values_as_typed_and_as_recorded(self, typed, value, same):
        assert same_value("features.elmo.weights", typed, value) is same

    @pytest.mark.parametrize(
        ("key", "typed", "value", "same"),
        [
            ("features.transformer.model", "owner/bert", "owner/bert", True),
            ("features.transformer.model", "owner/bert", "bert", False),
            ("features.transformer.model", "owner/bert", "./bert", False),
            ("features.transformer.model", "a/folder/bert", "./bert", True),
            ("features.transformer.model", "a/folder/bert", "bert", False),
            ("features.transformer.model", "/here/bert", "./bert", True),
            ("features.words.vectors", "here/glove-6b-50d", "glove-6b-50d", False),
            ("features.words.vectors", "here/glove-6b-50d", "./glove-6b-50d", True),
            ("features.frozen.own.source.model", "/here/own.pt", "own.pt", True),
            ("features.frozen.own.source.model", "${oc.env:HERE}/own.pt", "own.pt", True),
            ("features.frozen.own.source.model", "here/own.pt", "own.pt", False),  # relative ones are recorded whole
            ("data.documents", "here/{id}.xml", "{id}.xml", False),
        ],
    )
    def test_paths_end_alike_only_where_records_have_their_end(self, key, typed, value, same):
        assert same_value(key, typed, value) is same

    def test_a_folder_of_a_transformer_is_no_name(self, tmp_path, monkeypatch):
        (tmp_path / "owner" / "bert").mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        assert same_value("features.transformer.model", "owner/bert", "./bert")
        assert not same_value("features.transformer.model", "owner/bert", "bert")


class TestRefused:
    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ("seeds = [1, 2]", "seeds = []", "expected at least one of each: seeds, arms, rows"),
            ("seeds = [1, 2]", "seeds = [1, 1]", "seeds: expected each once, found 1 twice"),
            ("seeds = [1, 2]", "seeds = [1, -1]", r"seeds\[1\]: .*greater than or equal to 0"),
            ("seeds = [1, 2]", 'seeds = ["a"]', r"seeds\[0\]: expected a valid integer"),
            ("seeds = [1, 2]", "seeds = [1, 2]\nseed = 3", "seed: no such key"),
            ('["a", "b"]', '["a", "c"]', "compare: expected names of arms, a, b, found c"),
            ('"features=glove"', '"features glove"', r"arms\.a: expected KEY=VALUE.* found 'features glove'"),
            (
                '"features=glove"',
                '"features=glove", "seed=3"',
                r"arms\.a: expected settings of a run, .*found 'seed=3'",
            ),
            ('"task=ner"', '"task=ner", "hydra/launcher=ray"', r"rows\[0\]\.overrides: expected settings"),
            ('"features=glove"', "", r"rows\[0\] with arms\.a: .* found none of features"),
            (
                'overrides = ["task=snli"',
                'paper = {c = 1.0}\noverrides = ["task=snli"',
                r"rows\[1\]\.paper: .* found c",
            ),
            ('overrides = ["task=snli"', 'split = "x"\noverrides = ["task=snli"', r"rows\[1\]\.split: .* found 'x'"),
            (
                '"trainer.lr=1e-4"',
                '"trainer.epochs=range(1,1000000)"',
                "several values between commas, found",
            ),
            ('"trainer.lr=1e-4"', '"trial=true"', r"rows\[1\]\.split: .* a trial has no test score"),
            ('overrides = ["task=snli"', 'number = 3\noverrides = ["task=snli"', r"rows\[1\]\.number: no such key"),
            ('"trainer.lr=1e-4"]', '"trainer.lr=1e-4"]\nseeds = [3, 3]', "seeds: expected each once, found 3 twice"),
            (
                "[[rows]]",
                "[costs]\nb = {parameters = 1, milliseconds = 0.0}\n[[rows]]",
                r"costs\.b\.milliseconds: .* 0",
            ),
            ("[arms]", "[arms", "line 5"),
        ],
    )
    def test_a_file_with_a_mistake(self, experiment, old, new, reason):
        assert old in TWO_ROWS
        with pytest.raises(InputError, match=rf"mine\.toml: .*{reason}"):
            experiment(TWO_ROWS.replace(old, new, 1))

    @pytest.mark.parametrize(
        "override",
        [
            "task._target_=evil.Task",
            "+features.frozen.a.source={_target_: evil.Source}",
            "task=../../evil",
            "task='/evil/task.yaml'",
            "data=../evil",
            "+a/../../evil=task",
            "logger=[none,../evil]",
            "features.frozen=${oc.decode:'{a: {source: {_tar${b}: evil.Source}}}'}",
            "features.frozen=${${a}:${b}}",
        ],
    )
    @pytest.mark.parametrize("place", ["features=glove", "task=ner"])
    def test_what_may_import_code(self, experiment, place, override):
        with pytest.raises(InputError, match=r"(arms\.a|rows\[0\]\.overrides): expected settings that cannot bring in"):
            experiment(TWO_ROWS.replace(f'"{place}"', f'"{place}", "{override}"'))

    @pytest.mark.parametrize("override", ["+task@hydra.callbacks=ner", "--config-dir=evil", "-m=1"])
    def test_options_and_packages_are_no_settings(self, experiment, override):
        with pytest.raises(InputError, match=r"arms\.a: expected KEY=VALUE"):
            experiment(TWO_ROWS.replace('"features=glove"', f'"features=glove", "{override}"'))

    @pytest.mark.parametrize(
        "override",
        [
            "features.elmo.weights=${oc.env:BILMS,../mine}/a",
            "trainer.epochs=${seed}",
            "data='../my own.yaml'",
            "data_dir=/a/b",
            "~logger",
        ],
    )
    def test_paths_and_other_settings_are_accepted(self, experiment, override):
        assert experiment(TWO_ROWS.replace('"features=glove"', f'"features=glove", "{override}"'))

    def test_long_lists_are_shortened(self, experiment):
        many = experiment(TWO_ROWS.replace("[1, 2]", f"{list(range(5000))}"))
        with pytest.raises(InputError) as error:
            many.narrowed({"seed": ["x"]})
        assert len(str(error.value)) < 500
        with pytest.raises(InputError) as error:
            experiment(TWO_ROWS.replace('"features=glove"', f'"{"a" * 5000} b"'))
        assert len(str(error.value)) < 500

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("a = " + "[" * 10_000, "Correct the file"),
            ('title = "é"', "utf-8.*Correct the file"),
            ("9" * 5000 + " = 1", "arms: missing"),
        ],
    )
    def test_a_file_that_is_no_experiment(self, tmp_path, content, reason):
        (tmp_path / "mine.toml").write_bytes(content.encode("latin1"))
        with pytest.raises(InputError, match=reason):
            load_experiment(str(tmp_path / "mine.toml"))

    def test_an_experiment_that_does_not_exist(self):
        for name in ("nowhere", "scores", "nowhere.toml"):
            with pytest.raises(InputError, match=rf"experiment={name}: expected .*mini.* found none\. .*tables\.md"):
                load_experiment(name)


@pytest.mark.parametrize("name", experiment_names())
def test_what_the_suite_does_not_ship_or_download_is_named_as_needed(name):
    """Folders that a variable names, and two kinds of vectors that a command makes."""
    experiment = load_experiment(name)
    runs = [cell for cell in experiment.cells if not cell.row.published_only]
    typed = " ".join(override for cell in runs for override in cell.overrides)
    made = set(re.findall(r"oc\.env:(\w+)", typed))
    made |= {
        word for word in ("wink-100d", "word2vec") if word in re.sub(r"\b(elmo_)?static(_elmo)?\b", "word2vec", typed)
    }
    assert not [word for word in made if word not in " ".join(experiment.needs)]
