"""python -m tests.tasks.pinned_defaults: pins the defaults of all shipped runs in pinned_defaults.json.

A fingerprint does not cover defaults, so a default that changes needs a higher recipe number. The pins show that one
has changed; the command does not pin such a change before a recipe is raised.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from results.records.identity import BY_NAME_OR_PATH, flattened
from tasks.command_line import group_options
from tasks.features.token_features import features_recipes
from tasks.running.config import FOR_PEOPLE, Run, typed_config

PINS = Path(__file__).with_suffix(".json")
COMMAND = "python -m tests.tasks.pinned_defaults"
ROOTS = ("task", "features", "trainer")
NAMES = ("task._target_", "features.name", *(f"features.{part}.{key}" for part, key in BY_NAME_OR_PATH))
ON_ALL_DATA = ("glove", "elmo")
NOT_EVERYWHERE = {"taglm": "ner"}  # with a task that has their place, between two layers of its head

Pins = dict[str, dict[str, dict[str, Any]]]


def shipped_runs() -> dict[tuple[str, str, str], Run]:
    """Runs that the shipped files describe, by (task, data, features); the first fold of data with folds.

    Every task with every dataset, and with a sixth of the features on the first of these, so that all features are read
    by a task: composing all combinations would take minutes.
    """
    found = {}
    for shift, task in enumerate(group_options("task")):
        for number, data in enumerate(data_of(task)):
            fold = ["fold=0"] if "folds" in _yaml("data", data) else []
            sixth = {name for name in group_options("features")[shift % 6 :: 6] if name not in NOT_EVERYWHERE}
            only = {name for name, own in NOT_EVERYWHERE.items() if own == task}
            for features in sorted({*ON_ALL_DATA, *sixth, *only}) if number == 0 else ON_ALL_DATA:
                typed = [f"task={task}", f"features={features}", f"data='{data}'", *fold]
                found[task, data, features] = typed_config(typed)
    return found


def data_of(task: str) -> list[str]:
    """The datasets that a task can use: its own, and those made for it."""
    own = _yaml("task", task)["datasets"]
    return [data for data in group_options("data") if data in own or _yaml("data", data).get("task") == task]


def _yaml(group: str, name: str) -> dict[str, Any]:
    text = files("conf").joinpath(group, f"{name}.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def current(runs: Mapping[tuple[str, str, str], Run]) -> Pins:
    """Recipes and settings of runs, by "task data features"."""
    found: Pins = {}
    for names, config in runs.items():
        parts = {root: config.resolved[root] for root in ROOTS}
        settings = flattened({**parts, "reader": config.resolved["data"]["reader"]})
        found[" ".join(names)] = {
            "recipes": {"task": config.task.recipe, **features_recipes(config.features)},
            "settings": {
                key: value for key, value in settings.items() if not (key in NAMES or FOR_PEOPLE.fullmatch(key))
            },
        }
    return found


def changed_without_a_recipe(pinned: Pins, now: Pins) -> list[str]:
    """A line for each default that changed or went while all recipes of its runs stayed as they were."""
    lines = []
    for name in pinned.keys() & now.keys():
        there, here = pinned[name], now[name]
        if _raised(there["recipes"], here["recipes"]):
            continue
        for key, value in there["settings"].items():
            if here["settings"].get(key, "absent") != value:
                lines.append(f"{name}: {key} is {here['settings'].get(key, 'absent')!r}, pinned as {value!r}")
    return sorted(lines)


def _raised(there: Mapping[str, int], here: Mapping[str, int]) -> bool:
    return any(here.get(part, 0) > recipe for part, recipe in there.items())


def read_pins() -> Pins:
    """What is pinned."""
    pins: Pins = json.loads(PINS.read_text(encoding="utf-8"))
    return pins


def main() -> None:
    """Writes the pins, or ends with the lines that need a recipe first."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    now = current(shipped_runs())
    if PINS.exists() and (lines := changed_without_a_recipe(read_pins(), now)):
        sys.exit("\n".join([*lines, "These change scores under equal fingerprints: raise a recipe, or put them back."]))
    rows = [f"{json.dumps(name)}: {json.dumps(now[name], sort_keys=True)}" for name in sorted(now)]
    PINS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    print(f"{len(rows)} runs pinned in {PINS.name}")


if __name__ == "__main__":
    main()
