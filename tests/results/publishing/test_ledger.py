"""The ledger: runs that are left, their commands and minutes."""

import shlex
import tomllib
from dataclasses import replace

import pytest

from results.experiments.experiment import values_of
from results.experiments.experiment_file import load_experiment
from results.publishing import ledger
from results.records.collect import collect
from tasks.running.config import run_config
from tasks.running.schema import compose_config
from tests.results.making import CLEAN, make_record, save

ON_GPU = replace(CLEAN, device=ledger.GPU)
ALL = ["data_dir=DIR", "device=cuda"]


@pytest.fixture
def page(tmp_path, monkeypatch):
    """The page made from these steps and records."""

    def make(steps, *records):
        path = tmp_path / "ledger.toml"
        path.write_text(steps, encoding="utf-8")
        monkeypatch.setattr(ledger, "LEDGER", path)
        for record in records:
            save(tmp_path / "published", record)
        return ledger.ledger_page(collect([tmp_path / "published"]))

    return make


def lines_of(page):
    """The cells of the table's lines, and all commands, as words."""
    table = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")][2:]
    return table, [shlex.split(line)[4:] for line in page.splitlines() if line.startswith("python -m tasks.run -m ")]


def on_gpu(seconds, **options):
    return replace(make_record(environment=ON_GPU, **options), seconds=seconds)


STEPS = """
[[step]]
fills = "second arm"
issue = 7
sweeps = ["task=ner data=paper features=elmo trainer.epochs=3,9 seed=1,2,3"]

[[step]]
fills = "words"
issue = 8
sweeps = ["task=ner data=paper features=glove seed=1,2"]
"""


def test_published_runs_are_counted_off_and_their_commands_are_gone(page):
    nine = {"trainer.epochs": 9}
    done = [on_gpu(60, features="elmo", seed=seed, variant=nine) for seed in (1, 2, 3)]
    done += [on_gpu(60, features="elmo", seed=1, variant={"trainer.epochs": 3})]
    table, commands = lines_of(page(STEPS, *done))
    assert [line[:4] for line in table] == [["1", "second arm", "7", "2 of 6"], ["2", "words", "8", "2 of 2"]]
    settings = ["task=ner", "data=paper", "features=elmo", "trainer.epochs=3", "seed=2,3"]
    assert commands == [[*settings, *ALL], ["task=ner", "data=paper", "features=glove", "seed=1,2", *ALL]]


def test_runs_of_an_older_recipe_are_left_to_do(page):
    """They still say how long a run takes."""
    old = [on_gpu(60 * 16, task="sst5", seed=seed, recipe=1) for seed in (1, 2)]
    done = on_gpu(60 * 16, task="sst5", seed=3)
    steps = '[[step]]\nfills = "words"\nissue = 8\nsweeps = ["task=sst5 data=paper features=glove seed=1,2,3"]\n'
    table, commands = lines_of(page(steps, *old, done))
    assert table[0][1:5] == ["words", "8", "2 of 3", "16"]
    assert commands == [["task=sst5", "data=paper", "features=glove", "seed=1,2", *ALL]]


def test_a_step_without_runs_left_is_not_listed(page):
    text = page(STEPS, *(on_gpu(60, seed=seed) for seed in (1, 2)))
    assert [line[1] for line in lines_of(text)[0]] == ["second arm"]


def test_minutes_are_those_of_the_most_similar_runs_side_by_side(page):
    """Elmo: 32 runs of 8 minutes in 16 places, after 5 minutes. Glove: 2 runs at once take as long as one, 4."""
    seeds = ",".join(map(str, range(1, 33)))
    steps = f"""
[[step]]
fills = "elmo"
issue = 1
sweeps = ["task=ner data=paper features=elmo trainer.lr=0.1 seed={seeds}"]
first = [{{command = "make a biLM", minutes = 5}}]

[[step]]
fills = "glove"
issue = 1
sweeps = ["task=ner data=paper features=glove seed=8,9"]

[[step]]
fills = "never run"
issue = 1
sweeps = ["task=snli data=paper features=glove seed=1"]

[[step]]
fills = "guessed"
issue = 1
sweeps = ["task=snli data=paper features=glove seed=1"]
minutes = 7
"""
    known = [on_gpu(480, features="elmo"), on_gpu(240, features="glove")]
    known += [on_gpu(1000, features="elmo", variant={"trainer.epochs": 40})]
    known += [replace(make_record(features="elmo", seed=2), seconds=9999.0)]  # on a CPU
    text = page(steps, *known)
    table, _ = lines_of(text)
    assert [line[4:] for line in table] == [["21", "21"], ["4", "25"], ["?", "25"], ["7", "32"]]
    assert text.index("\nmake a biLM\n") < text.index("python -m tasks.run -m task=ner data=paper features=elmo")


def test_a_run_that_lacks_a_setting_of_null_is_less_similar_than_one_with_it(page):
    sweep = "task=ner data=paper features=glove trainer.patience=null seed=2"
    steps = f'[[step]]\nfills = "all epochs"\nissue = 1\nsweeps = ["{sweep}"]\n'
    known = [on_gpu(60), on_gpu(600, variant={"trainer.patience": None})]
    assert lines_of(page(steps, *known))[0][0][4] == "10"


def test_cells_of_an_experiment_and_folds_have_the_commands_that_choose_them(page):
    steps = """
[[step]]
fills = "Table 2"
issue = 1
sweeps = ["experiment=table2 task=srl seed=1", "task=coref data=litbank features=elmo seed=2 fold=3,4,5"]
"""
    done = [on_gpu(60, data="ewt", task="srl", features="elmo", variant={"features.elmo.l2": 1})]
    done += [on_gpu(60, data="litbank", task="coref", features="elmo", seed=2, fold=4, folds=10)]
    table, commands = lines_of(page(steps, *done))
    assert table[0][3] == "5 of 7"  # four arms, on dev and on test the same runs; three folds
    assert ["fold=3,5" in words for words in commands] == [False] * (len(commands) - 1) + [True]
    srl = commands[:-1]
    assert all(words[0] == "experiment=table2" and "seed=1" in words for words in srl)
    assert not [words for words in srl if "features.elmo.l2=1" in words]


def test_what_cannot_be_run_is_listed_apart_with_its_reason(page):
    steps = STEPS.replace("issue = 8", 'issue = 8\nblocked = "No licence"')
    table, commands = lines_of(text := page(steps))
    assert [line[1] for line in table] == ["second arm"]
    assert text.split("## Cannot be run here")[1].split("```")[0].split("\n\n")[1:3] == ["### words", "No licence."]
    assert commands[-1] == ["task=ner", "data=paper", "features=glove", "seed=1,2", *ALL]


def test_the_steps_of_table_1_are_its_rows():
    """The rows of its file say which seeds are planned; no step names seeds, and every row is in a step."""
    steps = tomllib.loads(ledger.LEDGER.read_text(encoding="utf-8"))["step"]
    sweeps = [
        sweep.split()[1:] for step in steps for sweep in step["sweeps"] if sweep.split()[0] == "experiment=table1"
    ]
    assert sweeps
    assert not [word for words in sweeps for word in words if word.startswith("seed=")]
    table = load_experiment("table1")
    steps_of = [cell for words in sweeps for cell in table.narrowed(dict(map(values_of, words))).cells]
    assert len(steps_of) == len(table.cells)
    assert {tuple(cell.overrides) for cell in steps_of} == {tuple(cell.overrides) for cell in table.cells}


@pytest.mark.slow
def test_the_steps_of_the_suite_name_settings_that_exist():
    """The last run of a sweep, one of all that set the same keys; experiments have tests of their own."""
    steps = tomllib.loads(ledger.LEDGER.read_text(encoding="utf-8"))["step"]
    typed = [sweep.split() for step in steps for sweep in step["sweeps"] if not sweep.startswith("experiment=")]
    by_keys = {tuple(word.split("=")[0] for word in words): words for words in typed}
    assert by_keys
    for words in by_keys.values():
        last = {key: values[-1] for key, values in map(values_of, words)}
        assert run_config(compose_config([f"{key}={value}" for key, value in last.items()])).seed == int(last["seed"])
