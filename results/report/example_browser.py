"""Test examples in the report: gold and both arms side by side, by outcome.

Only for data that come with the suite: other text may not be published, and pages are often passed on.
"""

from collections.abc import Mapping, Sequence
from html import escape

from elmo.common.errors import InputError
from results import examples
from results.analysis.rows import Group, Table
from results.records.collect import FoundRecord
from results.records.identity import PREDICTIONS_NAME

MOST = 20  # examples of an outcome
TAGS = {"wrong": "mark", "missing": "del"}


def example_part(summary: Table, records: Sequence[FoundRecord]) -> str:
    """The HTML for each task whose runs kept their predictions, and whose data come with the suite.

    Args:
        summary: The runs.
        records: Those that it was made from.
    """
    runs = {item.record.fingerprint: item for item in records}
    html = ""
    for row in summary.rows:
        if row.pair and (chosen := _first_seed(row.pair, runs)):
            html += f"<h3>{escape(row.title)}</h3>"
            try:
                html += browser(examples.compare_runs(*chosen), chosen[0].record.identity.seed)
            except InputError as error:
                html += f'<p class="notes">{escape(str(error))}</p>'
    return html


def _first_seed(pair: tuple[Group, Group], runs: Mapping[str, FoundRecord]) -> tuple[FoundRecord, FoundRecord] | None:
    """The runs of both groups with the lowest seed of which both kept predictions that may be shown."""
    sides = []
    for group in pair:
        of_group = [runs[record.fingerprint] for record in group.records if record.fingerprint in runs]
        kept = [run for run in of_group if run.record.shipped_data and run.path.with_name(PREDICTIONS_NAME).exists()]
        sides.append({run.record.identity.seed: run for run in kept})
    seeds = sorted(sides[0].keys() & sides[1].keys())
    return (sides[0][seeds[0]], sides[1][seeds[0]]) if seeds else None


def browser(comparison: examples.Comparison, seed: int) -> str:
    """The HTML: a sentence with the counts, and on demand examples of each outcome; `seed` is that of both runs."""
    total = len(comparison.examples)
    first, second = map(escape, comparison.runs)
    fixed, broken, both_wrong, _ = comparison.counts.values()
    text = (
        f"Of {total:,} test examples, {second} fixes {fixed:,} that {first} has wrong, and breaks {broken:,} that it "
        f"has right (seed {seed}). Both have {both_wrong:,} wrong."
    )
    text += (
        f" An example is right if its {escape(comparison.metric)} is 100. <mark>Wrong</mark>: not in gold. "
        "<del>Missing</del>: only in gold. python -m results.examples prints all of them."
    )
    lists = ""
    for outcome, count in comparison.counts.items():
        shown = [one for one in comparison.examples if one.outcome == outcome][:MOST]
        number = f"{count:,}" if len(shown) == count else f"{len(shown)} of {count:,}"
        items = "".join(_item(one, comparison) for one in shown)
        lists += f'<details class="more"><summary>{outcome.capitalize()} ({number})</summary><ol>{items}</ol></details>'
    return f'<div class="examples"><p>{text}</p>{lists}</div>'


def _item(one: examples.ComparedExample, comparison: examples.Comparison) -> str:
    before, after = one.scores
    scores = "" if one.outcome == examples.BOTH_RIGHT else f", {escape(comparison.metric)} {before:.0f} → {after:.0f}"
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in examples.example_texts(one.example)
    )
    outputs = zip(("gold", *comparison.runs), (one.gold, *one.predicted), (True, *one.right), strict=True)
    for name, output, right in outputs:
        lines = examples.output_lines(one.example, output, one.gold, right)
        rows += f"<dt>{escape(name)}</dt><dd>{'<br>'.join(map(_line, lines))}</dd>"
    return f"<li><small>{escape(one.id)}{scores}</small><dl>{rows}</dl></li>"


def _line(pieces: Sequence[examples.OutputPiece]) -> str:
    shown = []
    for piece in pieces:
        tag = TAGS.get(piece.mark)
        shown.append(f"<{tag}>{escape(piece.text)}</{tag}>" if tag else escape(piece.text))
    return " · ".join(shown)
