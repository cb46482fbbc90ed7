"""The layout: every folder of code is a package, and the folders of tests mirror the packages."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests import line_counts

HOUSES = ("elmo", "tasks", "results", "tests")
ONLY_TESTS = {"benchmarks", "cluster", "fuzz"}  # folders of tests/ that mirror nothing
OPTIONAL = {Path("elmo/kernels")}  # may be deleted


def folders_of(repository, house):
    return sorted({path.parent for path in (repository / house).rglob("*.py")})


def test_every_folder_of_code_is_a_package(repository):
    folders = [folder for house in HOUSES for folder in folders_of(repository, house)]
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_tests_mirror_the_packages(repository):
    tests = repository / "tests"
    folders = [folder.relative_to(tests) for folder in folders_of(repository, "tests")]
    mirrored = [folder for folder in folders if folder.parts and folder.parts[0] not in ONLY_TESTS]
    assert mirrored
    homes = {folder: (repository / folder, (repository / folder).with_suffix(".py")) for folder in mirrored}
    lost = [folder for folder, home in homes.items() if folder not in OPTIONAL and not any(p.exists() for p in home)]
    assert lost == []


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
