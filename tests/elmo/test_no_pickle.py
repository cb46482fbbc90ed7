"""Test that nothing in elmo/ unpickles data."""

import ast

import pytest

UNPICKLERS = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "pandas"}

HARMLESS = {"UnpicklingError", "BUILD", "NEWOBJ", "REDUCE", "_Unpickler"}  # to catch it, instructions, a base


def only_as_a_restricted_base(source):
    """Whether pickle._Unpickler is used only by classes that look up names, storages and attributes themselves."""
    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    restricted = [node for node in classes if "_Unpickler" in map(ast.unparse, node.bases)]
    for node in restricted:
        methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        assigned = [ast.unparse(part) for part in node.body]
        if not methods >= {"find_class", "persistent_load", "load_build"}:
            return False
        if "dispatch[BUILD[0]] = load_build" not in assigned:
            return False
    inside = {name for node in restricted for name in ast.walk(node)}
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "_Unpickler"]
    text = ast.unparse(tree)
    return all(use in inside for use in uses) and not any(f"super().{name}" in text for name in ("find_class", "load"))


def unpickling(source):
    """Unsafe calls in a source: imports of pickle, torch.load without weights_only, numpy.load with allow_pickle."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in UNPICKLERS]
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in UNPICKLERS:
                allowed = HARMLESS if only_as_a_restricted_base(source) else HARMLESS - {"_Unpickler"}
                harmless = all(alias.name in allowed and alias.asname is None for alias in node.names)
                found += [] if harmless else [node.module]
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
        ("from pickle import _Unpickler\n_Unpickler(file).load()", ["pickle"]),
        ("from pickle import _Unpickler\nclass Reader(_Unpickler):\n    pass", ["pickle"]),
        ("from pickle import BUILD, _Unpickler as Base", ["pickle"]),
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
    unpickled = {path.name: unpickling(path.read_text(encoding="utf-8")) for path in files}
    # It reads files by an unpickler that imports and calls nothing; tests/elmo/sources/test_torch_files.py tries to.
    assert {name: what for name, what in unpickled.items() if what} == {"torch_files.py": ["pickle", "torch.load"]}
