"""Sections of the report and their figures, in the order of the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from results.analysis.panels import Efficiency, Panel, efficiencies, split_panels
from results.analysis.rows import MINI, Summary
from results.breakdown.gains import break_down
from results.records.collect import FoundRecord
from results.report.charts import (
    Arms,
    confusion_matrix,
    group_gains,
    layer_map,
    layer_weights,
    learning_curves,
    per_class,
    sample_efficiency,
    seed_scatter,
)
from results.report.errors_removed import errors_removed
from results.report.figures import Figure, arms_of

KINDS = (
    "The gain on kinds of test examples; python -m results.breakdown prints both scores. Of twenty intervals without "
    "any true gain, one is expected to exclude zero: a single line is a hint, no finding."
)


@dataclass(frozen=True)
class Section:
    """A group of figures about one question.

    Attributes:
        key: Its anchor in the page.
        title: Its heading.
        text: What to look for.
        figures: Those shown directly.
        more: Those of other settings, shown on demand.
        notes: What is missing, and how to get it.
    """

    key: str
    title: str
    text: str
    figures: Sequence[Figure]
    more: Sequence[Figure] = field(default_factory=list)
    notes: Sequence[str] = ()


def sections_of(
    summary: Summary, known_sizes: Sequence[Efficiency] = (), found: Sequence[FoundRecord] = ()
) -> list[Section]:
    """All sections that have figures; the first has the gains.

    Args:
        summary: The runs.
        known_sizes: Scores by training set size of some rows, in place of what these rows' settings say.
        found: The records that the summary was made from, for breakdowns; without them there are none.
    """
    arms = arms_of(summary.titles)
    first, others = split_panels(summary.rows)

    def drawn(draw: Callable[[Panel, Arms], Figure | None]) -> tuple[list[Figure], list[Figure]]:
        seen, more = ([draw(panel, arms) for panel in panels] for panels in (first, others))
        return [figure for figure in seen if figure], [figure for figure in more if figure]

    sets = [[panel for panel in first if (panel.row.data == MINI) is mini] for mini in (False, True)]
    removed = [figure for panels in sets if (figure := errors_removed(panels, summary.compared))]
    covered = {(own.row.data, own.row.task) for own in known_sizes}
    other_sizes = [own for row in summary.rows if (row.data, row.task) not in covered for own in efficiencies(row)]
    sizes = [sample_efficiency(own, arms) for own in (*known_sizes, *other_sizes)]
    matrices = [
        figure
        for panel in first
        for group in panel.groups
        if group.features in summary.compared and (figure := confusion_matrix(panel, group))
    ]
    weighted = [
        (panel.title, group) for panel in first for group in panel.groups if group.features == summary.compared[1]
    ]
    of_all = layer_map(weighted) if len(weighted) > 1 else None  # one task has its bars alone
    bars, more_bars = drawn(layer_weights)
    classes = drawn(per_class)
    seeds = "One mark is one run: how much do scores vary between seeds?"
    labels = "What a smaller training set costs each arm (the paper's Figure 1)."
    curves = "Scores on the dev set, on which each run chose its epoch. The test set was read once, afterwards."
    layers = "How a task weights the biLM's layers, at each place where it uses them (the paper's Figure 2)."
    broken = break_down(first, found) if found else None
    kinds = [group_gains(panel, own, summary.compared) for panel, own in broken.panels] if broken else []
    sections = [
        Section("gain", "The gain", "", removed),
        Section("seeds", "Seeds", seeds, *drawn(seed_scatter)),
        Section("efficiency", "Fewer labels", labels, sizes),
        Section("curves", "Learning curves", curves, *drawn(learning_curves)),
        Section("layers", "Layers", layers, [*([of_all] if of_all else []), *bars], more_bars),
        Section("classes", "Classes", "Where does the gain come from?", [*classes[0], *matrices], classes[1]),
        Section("breakdowns", "Kinds of examples", KINDS, kinds, notes=broken.notes if broken else ()),
    ]
    return _with_unique_names([section for section in sections if section.figures or section.more or section.notes])


def _with_unique_names(sections: Sequence[Section]) -> list[Section]:
    """Renames figures so that no two have the same file name."""
    taken: set[str] = set()

    def named(figure: Figure) -> Figure:
        name, number = figure.name, 1
        while name.casefold() in taken:
            number += 1
            name = f"{figure.name}-{number}"
        taken.add(name.casefold())
        return replace(figure, name=name)

    return [
        replace(section, figures=[named(f) for f in section.figures], more=[named(f) for f in section.more])
        for section in sections
    ]
