"""The command lines of tasks.run, tasks.text and tasks.groups: options in any place, folders of configs."""

import pytest
from hydra._internal.utils import get_args

from tasks.run import _settings_first


@pytest.mark.parametrize(
    "words",
    [
        ["seed=1,2", "--config-dir", "mine", "limit=4", "-m"],
        ["seed=1,2", "-m", "limit=4", "--config-dir=mine"],
        ["-m", "--config-dir", "mine", "seed=1,2", "limit=4"],
    ],
)
def test_options_may_stand_anywhere(words):
    parsed = get_args(_settings_first(words))
    assert (parsed.multirun, parsed.config_dir, parsed.overrides) == (True, "mine", ["seed=1,2", "limit=4"])
