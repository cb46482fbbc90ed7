"""The text that a tiny biLM is trained on."""

import pytest

from tests.elmo.pretrain.training_text import english, write


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write(tmp_path_factory.mktemp("text"), english(600))
