"""The numbers that README shows are those of the records that come with the suite."""

import re
from pathlib import Path

import pytest

from results.bootstrap import paired_interval
from results.collect import collect
from results.examples import read_examples, score_of
from results.record import EXAMPLES_NAME
from results.table import main as table
from tests.tasks.chance import chance

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "results" / "published"


def examples_of(data, task, features):
    """For each seed the scores of its test examples, and the metric; of plain runs."""
    found = []
    for item in collect([PUBLISHED]).found:
        name = item.record.identity
        if (name.data, name.task, name.features, dict(name.variant)) == (data, task, features, {}):
            found.append(read_examples(item.path.with_name(EXAMPLES_NAME), item.record.fingerprint))
            metric = item.record.metric
    return found, metric


def test_readme_shows_the_table_of_the_mini_suite_as_it_is_printed(capsys):
    blocks = re.findall(r"^```\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (shown,) = [block for block in blocks if block.startswith("Test scores in percent")]
    assert table(["--published", "--data", "mini"]) == 0
    assert capsys.readouterr().out.strip() == shown.strip()


@pytest.mark.parametrize("task", ["ner", "sst5", "snli", "squad"])
def test_the_baseline_of_the_mini_suite_is_clearly_above_chance(task):
    """95 % of what other test examples and seeds might give is above what knows almost nothing."""
    glove, metric = examples_of("mini", task, "glove")
    least = chance(task)
    assert len(glove) >= 3
    assert score_of(least.examples, metric) == pytest.approx(least.score)
    assert paired_interval([least.examples] * len(glove), glove, metric).low > 0
