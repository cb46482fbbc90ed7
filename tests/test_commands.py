"""Every command that the documents name can be run: `python -m MODULE --help`, and the console scripts."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("*.md", "Makefile", "conf/**/*.yaml", "results/**/*.md", "elmo/**/*.md", "tasks/**/*.md")
HOUSES = ("elmo", "tasks", "results", "tests")
# What people have in their scripts: a document that stops naming one does not make it superfluous.
PROMISED = {
    "elmo.convert",
    "elmo.download",
    "elmo.embed",
    "elmo.neighbours",
    "elmo.pretrain",
    "elmo.pretrain.perplexity",
    "elmo.store",
    "results.audit",
    "results.breakdown",
    "results.publish",
    "results.report",
    "results.status",
    "results.table",
    "tasks.groups",
    "tasks.predict",
    "tasks.run",
    "tasks.text",
    "tasks.word2vec",
}
# Runs each module as python -m would, with --help, and prints {module: [exit status, what it printed]}.
ASK = """
import contextlib, io, json, runpy, sys
said = {}
for module in sys.argv[1:]:
    sys.argv = [module, "--help"]
    printed, status = io.StringIO(), 0
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code
    said[module] = [status, printed.getvalue()]
print(json.dumps(said))
"""


def documented():
    """The modules after -m; a line break may stand between the two."""
    texts = [path.read_text(encoding="utf-8") for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))]
    pattern = rf"-m\s+((?:{'|'.join(HOUSES)})(?:\.[a-z_]\w*)+)"
    return {name for text in texts for name in re.findall(pattern, text)}


def scripts():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]


def test_the_documents_name_them():
    assert documented() >= PROMISED
    assert "tests.benchmarks" in documented()


@pytest.mark.integration
def test_every_documented_module_has_help():
    """One process for all of them: starting torch for each would take a minute."""
    modules = sorted(documented() | PROMISED)
    command = [sys.executable, "-c", ASK, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert sorted(said) == modules
    assert {module: status for module, (status, _) in said.items() if status not in (0, None)} == {}
    no_help = [module for module, (_, text) in said.items() if f"-m {module}" not in " ".join(text.split())]
    assert no_help == [], "expected the command in its help; a module without options runs instead"


@pytest.mark.integration
def test_help_of_every_command_loads_nothing_slow():
    """Torch takes two seconds, and the others up to half of one."""
    modules = sorted({target.partition(":")[0].removesuffix(".__main__") for target in scripts().values()})
    slow = {"torch", "numpy", "datasets", "hydra", "scipy", "requests", "pyarrow", "gensim"}
    code = ASK + f"print(*{slow} & set(sys.modules))"
    command = [sys.executable, "-c", code, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=True)
    said, loaded = done.stdout.splitlines()
    assert all(f"-m {module}" in " ".join(text.split()) for module, (_, text) in json.loads(said).items())
    assert loaded == ""


def test_every_command_has_a_console_script():
    """A command is a module that `python -m` runs: with a block for __main__, or a package's __main__.py."""
    files = [path for house in ("elmo", "tasks", "results") for path in (ROOT / house).rglob("*.py")]
    texts = {".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8") for path in files}
    commands = {name for name, text in texts.items() if '\nif __name__ == "__main__":' in text}
    silent = {name for name in commands if not texts[name].endswith('__main__":\n    sys.exit(main())\n')}
    assert silent == {"elmo.pretrain.__main__", "tasks.run"}, "expected the exit status of main; Hydra exits itself"
    assert {command.removesuffix(".__main__") for command in commands} >= PROMISED
    assert sorted(target.partition(":")[0] for target in scripts().values()) == sorted(commands)


@pytest.mark.parametrize("script", sorted(scripts()))
def test_a_console_script_names_a_function(script):
    module, _, name = scripts()[script].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize(
    ("command", "given", "expected"),
    [
        ("elmo.embed.__main__", "no.txt --layers last out.hdf5", "no.txt: No such file or directory. Check the path"),
        ("elmo.embed.__main__", "no.txt --out shards other.txt", "no.txt"),
        ("results.table", "seed=1 --experiment no.toml task=ner", "no.toml"),
        ("tasks.predict", "no --input data test.txt", "no: expected the folder of a run"),
        ("tasks.squad.overlap", "no.json a.txt --groups runs b.txt", "no.json"),
        ("tasks.word2vec", "no.txt --dim 5 other.txt", "no.txt"),
    ],
)
def test_options_may_stand_between_paths(tmp_path, monkeypatch, capsys, command, given, expected):
    """The command gets as far as its first missing file; argparse alone would not know the last argument."""
    monkeypatch.chdir(tmp_path)
    assert importlib.import_module(command).main(given.split()) > 0
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "loads"),
    [("elmo.embed", "tempfile"), ("elmo.pretrain", "hydra"), ("results.table", "statistics"), ("tasks.run", "hydra")],
)
def test_an_interrupt_while_a_command_loads_is_one_line(tmp_path, command, loads):
    """Ctrl-C comes while a module that the command needs is imported."""
    # A process that a shell starts in the background, such as a CI's, inherits that Ctrl-C is ignored.
    interrupt = (
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nsignal.raise_signal(signal.SIGINT)\n"
    )
    (tmp_path / f"{loads}.py").write_text(interrupt, encoding="utf-8")
    paths = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", command],
        cwd=tmp_path,
        env=os.environ | paths,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "interrupted\n"), "a shell shows 130"


@pytest.mark.parametrize("command", ["tasks.run", "elmo.embed in.txt out.hdf5"])
def test_a_python_without_the_packages_is_one_line(command):
    """As where .venv is not made, or not used; -S leaves out what is installed."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", *command.split()], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"No module named '\w+': .* lacks packages of the suite\. In its folder, run `make setup` .*\n", done.stderr
    )


def test_a_program_that_imports_the_packages_keeps_its_tracebacks():
    program = "import sys, elmo, results, tasks; sys.exit(sys.excepthook is not sys.__excepthook__)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=300).returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux only")
def test_help_on_a_full_disk_has_no_traceback():
    command = [sys.executable, "-m", "results.status", "--help"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr == "python -m results.status: [Errno 28] No space left on device\n"
