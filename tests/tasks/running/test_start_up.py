"""What a run does not import, since importing is most of a short run's time."""

import subprocess
import sys

import pytest

RUN = """
import sys
from tasks.run import main
sys.argv[1:] = ["task=ner", "data=mini", "features=glove", "limit=4", "trainer.epochs=1", "device=cpu", "runs_dir=runs"]
main()
print(*(name for name in ("torch._dynamo", "sklearn", "pandas", "datasets", "wandb", "transformers", "scipy.stats")
        if name in sys.modules))
import sklearn.metrics
print(sklearn.metrics.f1_score([1, 1], [1, 0]))
"""


@pytest.mark.integration
def test_a_run_imports_only_what_it_needs_and_leaves_packages_whole(tmp_path):
    done = subprocess.run([sys.executable, "-c", RUN], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    unneeded, score = done.stdout.splitlines()
    assert unneeded == ""
    assert float(score) == pytest.approx(2 / 3)
