"""Fingerprints of the published records, and what may change around them without changing them."""

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from results.names import load_names, old_recipe
from results.records.identity import RECORD_NAME
from results.records.record import read_record
from tasks.command_line import group_options
from tasks.ner import Ner
from tests.tasks import pinned_defaults
from tests.tasks.running import published_fingerprints

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "results" / "published"


@cache
def one_record_of_each_kind():
    """Records that together have every dataset and arm of each task, every changed setting, and a fold.

    A config takes half a second to compose, so records with many changed settings come first, and a record with
    nothing new is left out. Runs of an older recipe, or on data that the suite lacks now, are not here: the code
    gives them no fingerprint.
    """
    records = {path: read_record(path) for path in sorted(PUBLISHED.rglob(RECORD_NAME))}
    kept, seen = [], set()
    for path, record in sorted(records.items(), key=lambda item: -len(item[1].identity.variant)):
        name = record.identity
        kinds = {(name.task, name.data), (name.task, "arm", name.features), ("fold", name.fold is not None)}
        kinds |= set(name.variant)
        if not (kinds <= seen or old_recipe(record) or name.data not in group_options("data")):
            kept.append(path)
            seen |= kinds
    return kept


def move_the_tasks_module(root):
    (root / "tasks" / "ner.py").rename(root / "tasks" / "elsewhere.py")
    for path in [*root.rglob("*.py"), *root.rglob("*.yaml")]:
        text = path.read_text(encoding="utf-8")
        if "tasks.ner" in text:
            path.write_text(text.replace("tasks.ner", "tasks.elsewhere"), encoding="utf-8")


def edited(root, name, before, after):
    path = root / name
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")


def add_a_default_key(root):
    path = next(path for path in root.rglob("*.py") if "\nclass TrainerConfig" in path.read_text(encoding="utf-8"))
    edited(root, path.relative_to(root), "    epochs: ", "    added_by_a_test: float = 0.5\n    epochs: ")


def add_an_expected_count(root):
    edited(root, "conf/task/ner.yaml", "tokens: 203621}", "tokens: 203621, entities: 23499}")


@pytest.mark.processes
def test_published_fingerprints_survive_growth(tmp_path):
    """With a copy of the code that has grown."""
    for name in ("conf", "elmo", "tasks", "results"):
        left_out = shutil.ignore_patterns("published", "runs", "__pycache__", "mini", "*.safetensors", "vocabulary*")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=left_out)
    for change in (add_a_default_key, move_the_tasks_module, add_an_expected_count):
        change(tmp_path)
    records = one_record_of_each_kind()
    assert len(records) > 20
    # -P, and the path: the copy, not the code under test, has to be imported.
    command = [sys.executable, "-P", published_fingerprints.__file__, *map(str, records)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{len(records)} records\n"


def test_a_higher_recipe_changes_the_fingerprints_of_its_task_alone(monkeypatch):
    one_each = {path.relative_to(PUBLISHED).parts[1]: path for path in one_record_of_each_kind()}
    assert len(one_each) >= 8
    monkeypatch.setattr(Ner, "recipe", Ner.recipe + 1)
    (line,) = published_fingerprints.differences(one_each.values())
    assert line.startswith(f"{one_each['ner']} differs")


@pytest.fixture(scope="module")
def runs():
    return pinned_defaults.shipped_runs()


@pytest.fixture(scope="module")
def now(runs):
    return pinned_defaults.current(runs)


def test_results_know_the_newest_recipes(runs):
    found = {task: config.task.recipe for (task, _, _), config in runs.items()}
    assert len(found) >= 8
    known = {task: load_names().tasks[task].recipe for task in found}
    assert found == known, "set `recipe` of the task in results/paper/names.toml"


def test_arms_differ_only_under_features(runs):
    """One recipe a task: the arms are compared under equal conditions. Runs are named as the files are."""
    recipes = defaultdict(list)
    for (task, data, features), config in runs.items():
        assert (config.task.name, config.data.name, config.features.name) == (task, data, features)
        assert config.resolved["features"]["name"] == features
        assert config.variant == {}
        assert set(config.data.splits) == {"train", "dev", "test"}
        recipes[task, data].append({key: value for key, value in config.resolved.items() if key != "features"})
    assert len(recipes) >= 20
    for name, (first, *others) in recipes.items():
        assert first.keys() >= {"task", "trainer", "data", "seed"}
        assert others
        assert all(other == first for other in others), name
    arms = {task: {features for name, _, features in runs if name == task} for task, _, _ in runs}
    assert min(map(len, arms.values())) >= 4
    assert set.union(*arms.values()) == set(group_options("features"))


def test_probes_read_one_thing_alone(runs):
    """Frozen layers or word vectors, which are frozen as well; without characters."""
    probes = {
        names: config.features
        for names, config in runs.items()
        if names[0].endswith("_probe") and names[2] != "bag_of_words"
    }
    assert len(probes) >= 10
    for names, features in probes.items():
        assert (features.words is None) == bool(features.all_frozen()), names
        assert features.characters is None
        assert features.words is None or not features.words.trainable


class TestPinnedDefaults:
    def test_a_changed_default_needs_a_recipe(self, now):
        lines = pinned_defaults.changed_without_a_recipe(pinned_defaults.read_pins(), now)
        assert not lines, (
            "Defaults changed under equal fingerprints. If scores may change, raise `recipe` of the task's class or of "
            f"the features' part, then run {pinned_defaults.COMMAND}; else put them back:\n" + "\n".join(lines)
        )

    def test_the_pins_are_complete(self, now):
        assert now == pinned_defaults.read_pins(), f"settings were added: run {pinned_defaults.COMMAND}"

    @pytest.mark.parametrize("part", ["task", "elmo"])
    def test_a_change_is_found_unless_a_recipe_is_raised(self, now, part):
        changed = json.loads(json.dumps(now))
        run = changed["ner mini elmo"]
        run["settings"]["trainer.lr"] = 0.5
        run["settings"]["added"] = 1
        (line,) = pinned_defaults.changed_without_a_recipe(now, changed)
        assert line == "ner mini elmo: trainer.lr is 0.5, pinned as 0.003"
        run["recipes"][part] += 1
        assert pinned_defaults.changed_without_a_recipe(now, changed) == []
