"""What tests of elmo.embed share: a small biLM, also as plain tensors, and the command in this process."""

import pytest

from elmo.embed.__main__ import main
from tests.elmo import naive

OPTIONS = naive.make_options()
TENSORS = naive.make_tensors(OPTIONS, seed=5)


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    return naive.write_model(tmp_path_factory.mktemp("model"), OPTIONS, TENSORS)


def run(source, target, weights, *options):
    """The exit status of python -m elmo.embed on a CPU."""
    return main([str(source), str(target), "--weights", str(weights), "--device", "cpu", *options])
