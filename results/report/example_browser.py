"""The browser of test examples in the report: gold and both arms side by side, filtered without a script.

Only for data that come with the suite: other text may not be published, and pages are often passed on.
"""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import zip_longest

from elmo.common.errors import InputError
from results import examples
from results.analysis.rows import Group, Table
from results.records.collect import FoundRecord
from results.records.identity import PREDICTIONS_NAME
from results.report.parts import PagePart

MOST = 60  # examples of a task
TAGS = {"wrong": "mark", "missing": "del"}
CHOICES = {"all": "All", **{outcome.replace(" ", "-"): outcome.capitalize() for outcome in examples.OUTCOMES.values()}}


def example_parts(summary: Table, records: Sequence[FoundRecord]) -> list[PagePart]:
    """A browser for each task whose runs kept their predictions, and whose data come with the suite.

    Args:
        summary: The runs.
        records: Those that it was made from.
    """
    runs = {item.record.fingerprint: item for item in records}
    parts: list[PagePart] = []
    for panels, _ in summary.by_task():
        for panel in panels:
            chosen = _first_seed(panel.pair, runs) if panel.pair else None
            if chosen is None:
                continue
            try:
                html = browser(examples.compare_runs(*chosen), f"examples-{len(parts)}", chosen[0].record.identity.seed)
            except InputError as error:
                html = f'<p class="notes">{escape(str(error))}</p>'
            alone = len(panels) == 1
            title = "Test examples: fixed and broken" + ("" if alone else f", {panel.title}")
            parts.append(PagePart(f"examples-{len(parts)}", title, html, panel.task, panel.data if alone else ""))
    return parts


def _first_seed(pair: tuple[Group, Group], runs: Mapping[str, FoundRecord]) -> tuple[FoundRecord, FoundRecord] | None:
    """The runs of both groups with the lowest seed of which both kept predictions that may be shown."""
    sides = []
    for group in pair:
        of_group = [runs[record.fingerprint] for record in group.records if record.fingerprint in runs]
        kept = [run for run in of_group if run.record.shipped_data and run.path.with_name(PREDICTIONS_NAME).exists()]
        sides.append({run.record.identity.seed: run for run in kept})
    seeds = sorted(sides[0].keys() & sides[1].keys())
    return (sides[0][seeds[0]], sides[1][seeds[0]]) if seeds else None


def browser(comparison: examples.Comparison, key: str, seed: int) -> str:
    """The HTML: a sentence with the counts, and on demand the examples with buttons that choose among them.

    Args:
        comparison: Both runs.
        key: Starts the ids of the buttons.
        seed: That of both runs.
    """
    chosen = choose_examples(comparison)
    counts, total = comparison.counts, len(comparison.examples)
    first, second = map(escape, comparison.runs)
    fixed, broken, both_wrong, _ = counts.values()
    higher, lower = comparison.moved
    text = (
        f"Of {total:,} test examples, {second} fixes {fixed:,} that {first} has wrong, and breaks {broken:,} that it "
        f"has right (seed {seed}). Both have {both_wrong:,} wrong"
    )
    text += f"; of these, {second} scores higher on {higher:,} and lower on {lower:,}." if higher or lower else "."
    buttons = "".join(
        f'<input type="radio" name="{key}" id="{key}-{name}" class="{name}"{" checked" if name == "all" else ""}>'
        f'<label for="{key}-{name}">{title} <small>{_shown(name, chosen, counts, total)}</small></label>'
        for name, title in CHOICES.items()
        if name == "all" or any(_class(one) == name for one in chosen)
    )
    items = "".join(_item(one, comparison) for one in chosen)
    left_out = total - len(chosen)
    shown = f"{len(chosen):,} of the {total:,} examples" if left_out else f"All {total:,} examples"
    rest = f"<p>{left_out:,} are left out here; python -m results.examples prints them.</p>" if left_out else ""
    legend = f"An example is right if its {escape(comparison.metric)} is 100."
    signs = "<mark>Wrong</mark>: not in gold. <del>Missing</del>: only in gold."
    return (
        f'<p>{text}</p><details class="more"><summary>{shown}</summary>'
        f'<div class="examples" role="group" aria-label="Test examples">{buttons}<p>{legend} {signs}</p>'
        f'<ol tabindex="0" aria-label="Examples">{items}</ol>{rest}</div></details>'
    )


def choose_examples(comparison: examples.Comparison) -> list[examples.ComparedExample]:
    """At most MOST examples: as many fixed as broken and both wrong ones, while there are any; then the others."""
    kinds = [[one for one in comparison.examples if one.outcome == outcome] for outcome in examples.OUTCOMES.values()]
    *differing, right = kinds
    in_turn = [one for together in zip_longest(*differing) for one in together if one]
    chosen = {id(one) for one in [*in_turn, *right][:MOST]}
    return [one for one in comparison.examples if id(one) in chosen]


def _shown(name: str, chosen: Sequence[examples.ComparedExample], counts: Mapping[str, int], total: int) -> str:
    """How many examples there are, and how many of them are here."""
    here = sum(name in ("all", _class(one)) for one in chosen)
    whole = total if name == "all" else counts[name.replace("-", " ")]
    return f"{here:,}" if here == whole else f"{here:,} of {whole:,}"


def _class(one: examples.ComparedExample) -> str:
    return one.outcome.replace(" ", "-")


def _item(one: examples.ComparedExample, comparison: examples.Comparison) -> str:
    before, after = one.scores
    scores = "" if one.outcome == examples.BOTH_RIGHT else f", {escape(comparison.metric)} {before:.0f} → {after:.0f}"
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in examples.example_texts(one.example)
    )
    rows += _output("gold", one, one.gold, True)
    for name, output, right in zip(comparison.runs, one.predicted, one.right, strict=True):
        rows += _output(name, one, output, right)
    head = f"<b>{one.outcome.capitalize()}</b> <small>{escape(one.id)}{scores}</small>"
    return f'<li class="{_class(one)}">{head}<dl>{rows}</dl></li>'


def _output(name: str, one: examples.ComparedExample, output: examples.Fields, right: bool) -> str:
    lines = examples.output_lines(one.example, output, one.gold, right)
    return f"<dt>{escape(name)}</dt><dd>{'<br>'.join(map(_line, lines))}</dd>"


def _line(pieces: Sequence[examples.OutputPiece]) -> str:
    shown = []
    for piece in pieces:
        tag = TAGS.get(piece.mark)
        shown.append(f"<{tag}>{escape(piece.text)}</{tag}>" if tag else escape(piece.text))
    return " · ".join(shown)
