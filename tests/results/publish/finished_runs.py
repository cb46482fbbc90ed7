"""Finished runs as runs leave them, for tests of publishing."""

from dataclasses import replace

from results.experiments import TABLE1, load_experiment, main_runs
from results.records.collect import collect
from results.tables.fill import Selection, fill_all
from results.tables.sheet import gains_sheet
from results.tables.writers import markdown_table
from tests.results.making import CLEAN, first_right, make_record, save

GLOVE = {"features": {"name": "glove", "words": {"vectors": "glove-6b-50d"}}}  # a config
README = (
    "# Top\n\n<!-- table1 -->\nold\n<!-- /table1 -->\n\n<!-- figure -->\nold\n<!-- /figure -->\n\n"
    "prose\n\n<!-- representations -->\n<!-- /representations -->\n\n<!-- demo -->\n<!-- /demo -->\n\nend\n"
)


def save_run(runs, right, *, of=100, environment=CLEAN, config=None, **options):
    """A finished run that has so many of its test examples right, as a run leaves it."""
    record = make_record(100 * right / of, metric="accuracy", environment=environment, dev=50.0, **options)
    record = replace(record, config={**record.config, **(config or {})})
    path = save(runs, record, first_right(right, of))
    (path.parent / "log.txt").write_text("The film was a bore.\n")
    (path.parent / "weights.pt").write_bytes(b"weights")
    return path


def other_settings(folder):
    """The lines of other settings that the table and the report of published records show, as Markdown."""
    table = fill_all(main_runs(collect([folder])), Selection(headline=load_experiment(TABLE1)))
    arms = [arm for arm in table.arms if arm in table.compared or any(row.group(arm) for row in table.others)]
    return markdown_table(gains_sheet(table, table.others, "", arms, wide=True)) if table.others else ""
