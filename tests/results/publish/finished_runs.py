"""Finished runs as runs leave them, for tests of publishing."""

from dataclasses import replace

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
