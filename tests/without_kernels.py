"""Runs tests in a copy of the checkout that has no kernels: python -m tests.without_kernels [TESTS].

Without arguments it runs the fast tests of the modules that kernels accelerate and of what uses these: features, heads,
trainer, store, pretraining. CI has a minute for it, not for all tests twice; the others start commands, or reach no
kernel. `python -m tests.without_kernels tests` runs all fast tests.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = "elmo/kernels"
FAST = "not integration and not processes and not slow and not gpu and not cluster"
TESTS = (
    "tests/elmo/kernels",  # skipped, each with its reason
    *(f"tests/elmo/bilm/test_{name}.py" for name in ("fast", "encoder", "int8", "lstm", "lstm_on_gpu", "model")),
    *("tests/elmo/store/test_cached_layers.py", "tests/elmo/store/test_store.py"),
    "tests/elmo/pretrain/test_language_model.py",
    *("tests/tasks/modules", "tests/tasks/features/test_token_features.py", "tests/tasks/training/test_trainer.py"),
    *(f"tests/tasks/{task}/test_head.py" for task in ("coref", "ner", "snli", "squad", "srl", "sst5")),
    "tests/test_layout.py",
)
# Python runs it at the start of every process: the finder of an editable install would find the original kernels.
NO_FINDER = """\
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in getattr(finder, "__module__", "")]
"""
ABSENT = """\
from importlib.util import find_spec
assert find_spec("elmo.kernels") is None, "the kernels are still found"
"""


def main() -> int:
    """The exit status of pytest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", metavar="TESTS", nargs="*", default=TESTS, help="files or folders; default: see above")
    tests = parser.parse_args().tests
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "checkout"
        left_out = (".git", ".venv*", ".*_cache", "__pycache__", "*.egg-info", "build", "runs")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*left_out))
        shutil.rmtree(copy / KERNELS)
        (copy / "sitecustomize.py").write_text(NO_FINDER, encoding="utf-8")
        environment = os.environ | {"PYTHONPATH": str(copy)}
        for command in (["-c", ABSENT], ["-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", FAST, *tests]):
            done = subprocess.run([sys.executable, *command], cwd=copy, env=environment, check=False)
            if done.returncode:
                return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
