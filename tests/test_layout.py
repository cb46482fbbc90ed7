"""The layout: small folders, few of them next to the tasks, and tests in folders that mirror the packages."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from tests import line_counts

HOUSES = ("elmo", "tasks", "results", "tests")
MOST_MODULES = 12  # a folder's own, without __init__.py
MOST_OTHER_FOLDERS = 9  # in tasks/, next to the tasks themselves
ONLY_TESTS = {"benchmarks", "cluster", "fuzz"}  # folders of tests/ that mirror nothing
OPTIONAL = {Path("elmo/kernels"), Path("tasks/kernels")}  # may be deleted


def folders_of(repository, house):
    return sorted({path.parent for path in (repository / house).rglob("*.py")})


def test_no_folder_holds_more_than_a_reader_can_take_in(repository):
    counts = {
        folder.relative_to(repository).as_posix(): len([p for p in folder.glob("*.py") if p.name != "__init__.py"])
        for house in HOUSES
        for folder in folders_of(repository, house)
    }
    assert {"elmo", "elmo/pretrain/training", "tasks", "tasks/ner", "results/records", "tests"} <= set(counts)
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_every_folder_of_code_is_a_package(repository):
    folders = [folder for house in HOUSES for folder in folders_of(repository, house)]
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_tasks_shows_the_tasks(repository):
    folders = {path.name for path in (repository / "tasks").iterdir() if path.is_dir()} - {"__pycache__"}
    targets = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["task"]["_target_"]
        for path in (repository / "conf" / "task").glob("*.yaml")
    }
    tasks = {"probes" if task.endswith("_probe") else task for task in targets}
    assert {target.split(".")[1] for target in targets.values()} == tasks <= folders
    assert len(folders - tasks) <= MOST_OTHER_FOLDERS, sorted(folders - tasks)


def test_tests_mirror_the_packages(repository):
    tests = repository / "tests"
    folders = [folder.relative_to(tests) for folder in folders_of(repository, "tests")]
    mirrored = [folder for folder in folders if folder.parts and folder.parts[0] not in ONLY_TESTS]
    assert mirrored
    present = {*OPTIONAL, *(folder for folder in mirrored if (repository / folder).is_dir())}
    assert [folder.as_posix() for folder in mirrored if folder not in present] == []


def test_class_names_are_unique(repository):
    found = defaultdict(list)
    for house in ("elmo", "tasks", "results"):
        for path in sorted((repository / house).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(path.relative_to(repository).as_posix())
    assert len(found) > 100
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", 0),
        ('"""A module."""\n\n# why\nx = 1  # one\n', 1),
        ('def f():\n    """Says\n    much."""\n    return """a\n\nb"""\n', 4),
        ("class A:\n    x: int = 1\n\n    def f(self): return (\n        1\n    )\n", 5),
    ],
)
def test_lines_of_code_leave_out_docstrings_comments_and_blank_lines(source, expected):
    assert line_counts.code_lines(source) == expected
