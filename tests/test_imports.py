"""Arrows go one way: tasks -> results -> elmo; conf holds no code; Hydra stays where configurations are read."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

HOUSES = ("elmo", "tasks", "results")
HYDRA = {"hydra", "omegaconf"}
ROOM_FOR_HYDRA = ("tasks/run.py", "tasks/running/", "tasks/sweeps/", "elmo/pretrain/", "elmo/common/config_errors.py")
TASKS = {f"tasks.{name}" for name in ("classify", "coref", "ner", "probes", "snli", "squad", "srl", "sst5")}
FORBIDDEN = {
    "elmo": {"tasks", "results", "tests"},
    "results": {"tasks", "tests", "torch", "datasets", "wandb"},
    "tasks": {"tests"},
    "conf": {"elmo", "results", "tasks", "tests"},
}


# Keys of features, names of arms and commands, which only tasks/ may name, in code and docstrings.
OF_TASKS = re.compile(r"\btasks\.(?!conf\b)\w+|(?<!{)\b(features|task)[.=]\w|\bdata_dir\b")


@dataclass(frozen=True)
class Import:
    """Something that a file imports."""

    file: str  # relative to the repository
    line: int
    name: str  # dotted, with the imported name: "results.records.record.RunRecord"

    def __str__(self):
        return f"{self.file}:{self.line} imports {self.name}"


@cache
def imports_of(path, root):
    """Every import of a file: at its top, in functions, under TYPE_CHECKING, and import_module("literal")."""
    file = path.relative_to(root).as_posix()
    package = path.relative_to(root).parent.parts
    imports = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            names = [str(argument.value) for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        imports += [Import(file, node.lineno, name) for name in names]
    return imports


def fault(item):
    """Why an import goes against the arrows, or None."""
    house, package = item.file.split("/")[0], item.name.split(".")[0]
    if package in FORBIDDEN[house]:
        return f"{house} does not import {package}"
    if package in HYDRA and not item.file.startswith(ROOM_FOR_HYDRA):
        return f"Hydra stops at {', '.join(ROOM_FOR_HYDRA)}"
    importer, imported = (".".join(name.split(".")[:2]) for name in (item.file[:-3].replace("/", "."), item.name))
    if {importer, imported} <= TASKS and importer != imported:
        return "no task imports another; what they share goes to the folders next to them"
    return None


def faults(root):
    files = [path for house in FORBIDDEN for path in sorted((root / house).rglob("*.py"))]
    items = [item for path in files for item in imports_of(path, root)]
    return files, [f"{item}: {fault(item)}" for item in items if fault(item)]


def test_arrows_go_one_way(repository):
    files, wrong = faults(repository)
    assert {path.relative_to(repository).parts[0] for path in files} == set(FORBIDDEN)
    assert wrong == []


def test_results_load_without_torch():
    # A table prints within a second; torch alone takes three to load.
    modules = "results.table, results.status, results.report.__main__, results.publish"
    code = f"import sys, {modules}; print(sorted({{'torch', 'hydra', 'datasets'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"


def test_the_tests_of_results_do_without_torch_too(repository):
    files = sorted((repository / "tests" / "results").rglob("*.py"))
    names = [item for path in files for item in imports_of(path, repository)]
    heavy = (*sorted(FORBIDDEN["results"] - {"tests"}), "tests.tasks", "tests.elmo")
    assert [str(item) for item in names if f"{item.name}.".startswith(tuple(f"{name}." for name in heavy))] == []


def modules_of(root):
    """The modules that each module imports, by dotted names."""
    files = {path: path.relative_to(root) for house in HOUSES for path in sorted((root / house).rglob("*.py"))}
    modules = {".".join(file.with_suffix("").parts).removesuffix(".__init__"): path for path, file in files.items()}
    graph = defaultdict(set)
    for module, path in modules.items():
        for item in imports_of(path, root):
            imported = item.name
            while imported and imported not in modules:
                imported = imported.rpartition(".")[0]
            if imported not in ("", module, *HOUSES):  # `import elmo` loads no module
                graph[module].add(imported)
    return graph


def folders_of(modules):
    """The same of folders two levels deep, such as tasks.features, and of the files next to them."""
    graph = defaultdict(set)
    for module, imported in modules.items():
        folder, others = folder_of(module), {folder_of(other) for other in imported}
        graph[folder] |= others - {folder}
    return graph


def folder_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def circle(graph: Mapping[str, Iterable[str]]):
    """The names of a circle, or an empty list."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_circle_of_files(repository):
    assert circle(modules_of(repository)) == []


def test_no_circle_of_folders(repository):
    assert circle(folders_of(modules_of(repository))) == []


@pytest.mark.parametrize(
    "back", ["import elmo.store.b", "from ..store.b import x", "def f():\n    import elmo.store.b"]
)
def test_a_circle_is_found(tmp_path, back):
    sources = {
        "elmo/store/a.py": "from elmo.bilm.a import x",
        "elmo/store/b.py": "",
        "elmo/store/__init__.py": "",
        "elmo/bilm/a.py": back,
    }
    for file, source in sources.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    modules = modules_of(tmp_path)
    assert circle(modules) == []
    assert set(circle(folders_of(modules))) == {"elmo.store", "elmo.bilm"}


def test_contributing_shows_the_imports_that_there_are(repository):
    section = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Architecture")[1].split("\n## ")[0]
    rows = [row.strip("| ").split(" | ") for row in section.splitlines() if row.startswith("| `")]
    shown = {row[0].strip("`/"): set(re.findall("`(\\w+)`", row[-1])) for row in rows}
    found = {house: set() for house in FORBIDDEN}
    for house in FORBIDDEN:
        for path in (repository / house).rglob("*.py"):
            names = {item.name.split(".")[0] for item in imports_of(path, repository)}
            found[house] |= names & FORBIDDEN.keys() - {house}
    assert shown == found
    assert [place for place in ROOM_FOR_HYDRA if f"`{place}`" not in section] == []


def test_elmo_names_no_key_or_command_of_tasks(repository):
    lines = [
        f"{path.relative_to(repository)}:{number}: {found[0]}"
        for path in sorted((repository / "elmo").rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (found := OF_TASKS.search(line))
    ]
    assert lines == []


@pytest.mark.parametrize(
    ("file", "source", "reason"),
    [
        ("elmo/a.py", "import tasks", "elmo does not import tasks"),
        ("elmo/a.py", "def f():\n    from results.records.record import RunRecord", "elmo does not import results"),
        ("elmo/pretrain/a.py", "from ...results import record", "elmo does not import results"),
        ("elmo/a.py", "import importlib\nimportlib.import_module('tasks.ner')", "elmo does not import tasks"),
        ("elmo/a.py", "import hydra", "Hydra stops at"),
        ("elmo/pretrain/__main__.py", "import hydra", None),
        ("elmo/a.py", "import torch, h5py\nfrom elmo.bilm.model import Bilm\nfrom . import mix", None),
        ("tasks/training/trainer.py", "if True:\n    import hydra.utils", "Hydra stops at"),
        ("tasks/run.py", "import hydra\nfrom results.records.record import RunRecord", None),
        ("tasks/coref/task.py", "from tasks.squad.task import read_squad", "no task imports another"),
        ("tasks/coref.py", "from tasks.squad.task import read_squad", "no task imports another"),
        ("tasks/coref/task.py", "from tasks.coref.data import x\nfrom tasks.data.column_file import y", None),
        ("results/a.py", "import json, numpy, scipy, pydantic\nfrom elmo.common.files import replacing", None),
        ("results/a.py", "def f():\n    import torch", "results does not import torch"),
        ("results/a.py", "from tasks.run import main", "results does not import tasks"),
        ("conf/__init__.py", "import tasks", "conf does not import tasks"),
        ("tasks/a.py", "from tests.conftest import shared", "tasks does not import tests"),
    ],
)
def test_the_walker_sees_it(tmp_path: Path, file, source, reason):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    _, wrong = faults(tmp_path)
    assert [line.startswith(f"{file}:") and reason in line for line in wrong] == ([] if reason is None else [True])


def test_two_public_names_of_elmo_need_no_torch_and_others_are_named_as_its_own():
    code = "import sys, elmo; elmo.InputError, elmo.tokenise('A b.'); print('torch' in sys.modules); elmo.nonsense"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False\n"
    assert done.stderr.endswith("AttributeError: module 'elmo' has no attribute 'nonsense'\n")
