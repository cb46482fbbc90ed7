"""Arrows go one way: conf <- tasks.run -> tasks.* -> elmo, and tasks.run -> results.records.record <- results.table.

Tasks declare their metrics with a class of results/records, because tables and intervals compute from the declaration.
"""

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HYDRA = {"hydra", "omegaconf"}
ROOM_FOR_HYDRA = {
    *(
        "tasks/run.py",
        "tasks/running/config.py",
        "tasks/running/config_errors.py",
        "tasks/running/dataset_file.py",
        "tasks/running/schema.py",
        "tasks/sweeps/callback.py",
        "tasks/sweeps/experiment_sweeper.py",
        "tasks/sweeps/sweep_runs.py",
        "elmo/common/config_errors.py",
        "elmo/pretrain/__main__.py",
    ),
}
# Who makes records, and of results/ all that making one needs.
MAKERS = {
    "tasks/groups.py",
    "tasks/run.py",
    "tasks/running/experiment.py",
    "tasks/running/plan.py",
    "tasks/running/saved_model.py",
    "tasks/squad/overlap.py",
    "tasks/sweeps/callback.py",
    "tasks/sweeps/experiment_sweeper.py",
    "tasks/sweeps/sweep_plan.py",
    "tasks/sweeps/sweep_runs.py",
}
FOR_MAKERS = (
    "results.breakdown.group_files.",
    "results.experiments.",
    *(
        f"results.records.{name}."
        for name in (
            "environment",
            "example_scores",
            "identity",
            "record",
            "run_lock",
            "settings",
            "sweep_manifest",
        )
    ),
)
FOR_TASKS = "results.records.metric."  # how they declare their metrics
TASKS = {f"tasks.{name}" for name in ("classify", "coref", "ner", "probes", "snli", "squad", "srl", "sst5")}
DOORS = {"elmo.kernels": "elmo/bilm/fast.py", "tasks.kernels": "tasks/modules/fast.py"}  # to folders that may be absent
# results/ may import these modules of elmo. They, and the packages on the way, load only the standard library.
PLAIN = (
    *("elmo.bilm.options", "elmo.common.checks", "elmo.common.durations", "elmo.common.errors", "elmo.common.files"),
    *("elmo.download.published", "elmo.names"),
)
PACKAGES = ("elmo", "elmo/bilm", "elmo/common", "elmo/download")
PLAIN_FILES = {f"{name}/__init__.py" for name in PACKAGES} | {f"{name.replace('.', '/')}.py" for name in PLAIN}
# results/ imports these where it uses them, so that a table prints on a machine that has nothing but Python.
WHERE_USED = {"rich", "matplotlib", "jinja2", "numpy", "scipy"}


@dataclass(frozen=True)
class Import:
    """Something that a file imports."""

    file: str  # relative to the repository
    line: int
    name: str  # dotted, with the imported name: "results.records.record.RunRecord"
    on_load: bool  # whether importing the file imports this too

    @property
    def package(self):
        return self.name.split(".")[0]

    def __str__(self):
        return f"{self.file}:{self.line} imports {self.name}"


def imports_of(path, root):
    """Every import of a file: at its top, in functions, under TYPE_CHECKING, and import_module("literal")."""
    file = path.relative_to(root).as_posix()
    package = path.relative_to(root).parent.parts
    found = []

    def visit(node, on_load):
        if isinstance(node, ast.Import):
            found.extend(Import(file, node.lineno, alias.name, on_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            found.extend(Import(file, node.lineno, f"{module}.{alias.name}", on_load) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            names = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
            found.extend(Import(file, node.lineno, str(name), on_load) for name in names)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            on_load = False
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            on_load = False
        for child in ast.iter_child_nodes(node):
            visit(child, on_load)

    visit(ast.parse(path.read_text(encoding="utf-8")), True)
    return found


def fault(item):
    """Why an import goes against the arrows, or None."""
    house = item.file.split("/")[0]
    if item.package == "tests":
        return "only tests import tests"
    if item.package in HYDRA and item.file not in ROOM_FOR_HYDRA:
        return f"Hydra stops at {', '.join(sorted(ROOM_FOR_HYDRA))}"
    if house == "elmo" and item.package in ("tasks", "results"):
        return "elmo stands alone"
    for folder, door in DOORS.items():
        inside = item.file.startswith(f"{folder.replace('.', '/')}/")
        if item.name.startswith(folder) and not inside and item.file != door:
            return f"only {door} imports {folder}"
    plain = item.package in sys.stdlib_module_names or any(f"{item.name}.".startswith(f"{name}.") for name in PLAIN)
    if item.file in PLAIN_FILES and item.on_load and not plain:
        return "results import this file, so it loads the standard library only"
    if house == "tasks" and item.package == "results":
        if item.name.startswith(FOR_TASKS):
            return None
        if item.file in MAKERS and (item.name + ".").startswith(FOR_MAKERS):
            return None
        return f"of results, {', '.join(sorted(MAKERS))} know {', '.join(FOR_MAKERS)}, others {FOR_TASKS} only"
    own, other = (".".join(parts[:2]) for parts in (item.file.split("/"), item.name.split(".")))
    if {own, other} <= TASKS and own != other:
        return "no task imports another; what they share goes to tasks/data, tasks/modules or tasks/metrics.py"
    if house == "results" and not plain and item.package != "results":
        if item.package not in WHERE_USED:
            return f"results need the standard library, {', '.join(PLAIN)}; for display {', '.join(sorted(WHERE_USED))}"
        return "imported where it is used, not on load" if item.on_load else None
    if house == "conf" and item.package not in sys.stdlib_module_names:
        return "conf holds configuration, not code"
    return None


def faults(root):
    files = [path for house in ("elmo", "tasks", "results", "conf") for path in sorted((root / house).rglob("*.py"))]
    items = [item for path in files for item in imports_of(path, root)]
    return files, [f"{item}: {fault(item)}" for item in items if fault(item)]


def test_arrows_go_one_way(repository):
    files, found = faults(repository)
    assert {path.relative_to(repository).parts[0] for path in files} == {"elmo", "tasks", "results", "conf"}
    assert found == []


@pytest.mark.parametrize(
    ("file", "source", "reason"),
    [
        ("elmo/a.py", "import tasks", "elmo stands alone"),
        ("elmo/a.py", "def f():\n    from results.records.record import RunRecord", "elmo stands alone"),
        ("elmo/pretrain/a.py", "from ...results import record", "elmo stands alone"),
        ("elmo/a.py", "import importlib\nimportlib.import_module('tasks.ner')", "elmo stands alone"),
        ("elmo/a.py", "import hydra", "Hydra stops at"),
        ("elmo/pretrain/training/train.py", "from omegaconf import DictConfig", "Hydra stops at"),
        ("elmo/pretrain/__main__.py", "import hydra", None),
        ("elmo/a.py", "import torch, h5py\nfrom elmo.bilm.model import Bilm\nfrom . import mix", None),
        ("elmo/bilm/lstm.py", "def f():\n    from elmo.kernels.cpu import panels", "only elmo/bilm/fast.py imports"),
        ("tasks/modules/crf.py", "import tasks.kernels.crf_in_triton", "only tasks/modules/fast.py imports"),
        ("tasks/kernels/a.py", "from tasks.kernels import crf_in_triton", None),
        ("tasks/training/trainer.py", "if True:\n    import hydra.utils", "Hydra stops at"),
        ("tasks/ner/run.py", "import hydra", "Hydra stops at"),
        (
            "tasks/run.py",
            "import hydra\nfrom results.records.record import RunRecord\nfrom results.records import record",
            None,
        ),
        ("tasks/run.py", "import results.records.record", None),
        ("tasks/run.py", "from results.table import main", "of results"),
        ("tasks/run.py", "import results.records", "of results"),
        ("tasks/run.py", "import results", "of results"),
        (
            "tasks/sweeps/callback.py",
            "from results.records.run_lock import take\nfrom results.records.sweep_manifest import Manifest",
            None,
        ),
        ("tasks/sweeps/callback.py", "from results.status import main", "of results"),
        ("tasks/training/trainer.py", "from results.records.record import RunRecord", "of results"),
        ("tasks/ner/task.py", "from results.records.metric import Metric", None),
        ("tasks/ner/task.py", "import torch, elmo\nfrom tasks.interface import Task", None),
        ("tasks/coref/gap.py", "from tasks.squad.data import read_squad", "no task imports another"),
        ("tasks/coref/gap.py", "from tasks.coref.data import x\nfrom tasks.data.offset_tokens import y", None),
        ("results/a.py", "import json\nfrom results.records.record import x\nfrom . import record", None),
        ("results/a.py", "import rich", "where it is used"),
        ("results/a.py", "try:\n    import numpy as np\nexcept ImportError:\n    pass", "where it is used"),
        ("results/a.py", "class A:\n    import rich", "where it is used"),
        ("results/a.py", "def f():\n    from rich.table import Table\n    import matplotlib.pyplot", None),
        ("results/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import rich", None),
        ("results/a.py", "def f():\n    import torch", "results need the standard library"),
        ("results/a.py", "def f():\n    import yaml", "results need the standard library"),
        ("results/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import elmo", "results need"),
        ("results/a.py", "from elmo.common.files import replacing\nimport elmo.common.errors", None),
        ("results/a.py", "from elmo.common import errors", None),
        ("results/a.py", "from elmo.common.progress import Reporter", "results need"),
        ("results/a.py", "import elmo.common", "results need"),
        ("elmo/common/files.py", "import json\nfrom elmo.common.errors import InputError", None),
        ("elmo/common/files.py", "import numpy", "loads the standard library only"),
        ("elmo/__init__.py", "from elmo.mix import ScalarMix", "loads the standard library only"),
        ("elmo/__init__.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from elmo.mix import Mix", None),
        ("conf/__init__.py", "import tasks", "conf holds"),
        ("tasks/a.py", "from tests.conftest import shared", "only tests import tests"),
    ],
)
def test_the_walker_sees_it(tmp_path: Path, file, source, reason):
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(source, encoding="utf-8")
    _, found = faults(tmp_path)
    if reason is None:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].startswith(f"{file}:")
        assert reason in found[0]
