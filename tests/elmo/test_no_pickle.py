"""Test that nothing in elmo/ unpickles data."""

import ast

import pytest

UNPICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "pandas"}


def unpickling(source):
    """Unsafe calls in a source: imports of pickle, torch.load without weights_only, numpy.load with allow_pickle."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in UNPICKLERS]
        elif isinstance(node, ast.ImportFrom):
            harmless = all(alias.name == "UnpicklingError" for alias in node.names)  # only to catch it
            found += [node.module] if (node.module or "").split(".")[0] in UNPICKLERS and not harmless else []
            found += ["torch.load"] if node.module == "torch" and any(a.name == "load" for a in node.names) else []
        elif isinstance(node, ast.Call):
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            if ast.unparse(node.func) == "torch.load":
                safe = keywords.get("weights_only")
                found += [] if isinstance(safe, ast.Constant) and safe.value is True else ["torch.load"]
            allowed = keywords.get("allow_pickle", ast.Constant(False))
            found += [] if isinstance(allowed, ast.Constant) and allowed.value is False else ["allow_pickle"]
    return found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pickle", ["pickle"]),
        ("from pickle import UnpicklingError", []),
        ("from pickle import UnpicklingError, loads", ["pickle"]),
        ("def f():\n    from dill.x import y", ["dill.x"]),
        ("from torch import load", ["torch.load"]),
        ("import torch\ntorch.load(path)", ["torch.load"]),
        ("torch.load(path, weights_only=False)", ["torch.load"]),
        ("torch.load(path, weights_only=flag)", ["torch.load"]),
        ("torch.load(path, weights_only=True)", []),
        ("numpy.load(path, allow_pickle=True)", ["allow_pickle"]),
        ("numpy.load(path, allow_pickle=False)", []),
        ("import torch", []),
    ],
)
def test_the_search_for_unpickling_finds_it(source, found):
    assert unpickling(source) == found


def test_nothing_is_unpickled(repository):
    files = sorted((repository / "elmo").rglob("*.py"))
    assert len(files) > 5
    found = {str(path): unpickling(path.read_text(encoding="utf-8")) for path in files}
    assert {path: what for path, what in found.items() if what} == {}
