"""Blocks of the report: a task on a data set with its charts, in the order of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from results.analysis.panels import Efficiency, Panel, efficiencies, panels_of, split_panels
from results.analysis.rows import MINI, Group, Summary
from results.breakdown.gains import FEWEST, Breakdown, break_down
from results.figures.curves import convergence, learning_curves, sample_efficiency, seed_scatter
from results.figures.errors_removed import errors_removed
from results.figures.marks import Arms, Figure, arms_of, titled
from results.figures.parts import (
    class_differences,
    confusion_difference,
    confusion_matrix,
    kind_gains,
    layer_map,
    layer_weights,
    per_class,
)
from results.records.collect import FoundRecord


@dataclass(frozen=True)
class KindOfChart:
    """A kind of chart: its heading, and how to read it."""

    title: str
    text: str


CHARTS: Mapping[str, KindOfChart] = {
    "seeds": KindOfChart("Seeds", "One mark is one run, the bar is their mean: how much do scores vary between seeds?"),
    "curves": KindOfChart(
        "Learning curves",
        "Scores on the dev set, on which each run chose its epoch; the test set was read once, afterwards. Line and "
        "band: the mean and the range of the runs, up to the last epoch that all of them reached. Marks: each run's "
        "best epoch.",
    ),
    "classes": KindOfChart(
        "Classes",
        f"The gain in each class that has at least {FEWEST} test examples, with their number. Line: 95 % interval over "
        "seeds, dashed if it includes zero.",
    ),
    "confusion": KindOfChart(
        "Confusions",
        "How much more often a gold class is taken for another, in points: the second arm minus the first. Blue is "
        "better: more on the diagonal, less elsewhere.",
    ),
    "layers": KindOfChart(
        "Layers",
        "How a task weights the biLM's layers, at each place where it uses them (the paper's Figure 2). Bar: mean of "
        "the runs; thin line: their range; dashed: all layers alike.",
    ),
    "efficiency": KindOfChart(
        "Fewer labels", "What a smaller training set costs each arm (the paper's Figure 1). Dots: seeds."
    ),
    "kinds": KindOfChart(
        "Kinds of examples",
        "The gain on kinds of test examples, with their number; python -m results.breakdown prints both scores. Of "
        "twenty intervals without a true gain, one is expected to exclude zero: one line is a hint, not a finding.",
    ),
}


@dataclass(frozen=True)
class Chart:
    """A figure of one kind, a key of CHARTS."""

    kind: str
    figure: Figure


@dataclass(frozen=True)
class TaskBlock:
    """A task on a data set.

    Attributes:
        panel: Its runs.
        charts: Those shown directly.
        more: Those of other settings, shown on demand.
        notes: What is missing, and how to get it.
    """

    panel: Panel
    charts: Sequence[Chart]
    more: Sequence[Chart] = ()
    notes: Sequence[str] = ()


def blocks_of(
    summary: Summary, known_sizes: Sequence[Efficiency] = (), found: Sequence[FoundRecord] = ()
) -> list[TaskBlock]:
    """All blocks, in the order of the table.

    Args:
        summary: The runs.
        known_sizes: Scores by training set size of some rows, in place of what the settings of these rows give.
        found: The records that the summary was made from, for breakdowns; without them there are none.
    """
    arms = arms_of(summary.titles)
    blocks = []
    for row in summary.rows:
        first, others = panels_of(row)
        sizes = [own for own in known_sizes if own.row.key == row.key] or efficiencies(row)
        of_row = [Chart("efficiency", sample_efficiency(own, arms)) for own in sizes]
        more = [chart for panel in others for chart in _charts(panel, titled(arms, panel.groups))]
        for panel in first:
            own_arms = titled(arms, panel.groups)
            breakdown = break_down([panel], found) if found else Breakdown([], [])
            kinds = [Chart("kinds", kind_gains(own, kinds, own_arms)) for own, kinds in breakdown.panels]
            charts = [*_charts(panel, own_arms), *of_row, *kinds]
            old = "; ".join(own_arms[group.features].title for group in panel.groups if group.old_recipe)
            notes = [*breakdown.notes, *([f"Of an older recipe of the task: {old}."] if old else [])]
            blocks.append(TaskBlock(panel, charts, more, notes))
            of_row, more = [], []  # those of the row are in its first block
    return blocks


def main_figures(summary: Summary) -> list[Figure]:
    """The share of errors removed, of the full data sets and of the mini data."""
    return [own for panels in _by_size(summary) if (own := errors_removed(panels, summary.compared, summary.main_arms))]


def convergence_of(summary: Summary) -> Figure | None:
    """The epochs until the baseline's best dev score, of the full data sets or, without them, of the mini data."""
    return next((own for panels in _by_size(summary) if (own := convergence(panels, summary.compared))), None)


def _by_size(summary: Summary) -> list[list[Panel]]:
    """The panels that are shown first, of the full data sets and of the mini data."""
    first = split_panels(summary.rows)[0]
    return [[panel for panel in first if (panel.row.data == MINI) is mini] for mini in (False, True)]


def layers_of_all(summary: Summary, known: Sequence[tuple[str, Group]]) -> Figure | None:
    """The layers' weights of all tasks; None if fewer than two have them, since a single task has a chart of its own.

    Args:
        summary: The runs.
        known: Runs with titles, in place of the summary's on the same data: those of the paper's figure, also at other
            places than a task's own.
    """
    covered = {group.records[0].identity.row for _, group in known}
    weighted = [
        (panel.title, group)
        for panel in split_panels(summary.rows)[0]
        for group in panel.groups
        if group.features == summary.compared[1] and panel.row.key not in covered
    ]
    return layer_map([*known, *weighted]) if len(known) + len(weighted) > 1 else None


def _charts(panel: Panel, arms: Arms) -> list[Chart]:
    """The charts of one panel's runs."""
    confusions = [confusion_difference(panel, arms)]
    if confusions == [None]:
        own = [group for group in panel.groups if group.features in panel.row.compared]
        confusions = [confusion_matrix(panel, group, arms) for group in own]
    found: dict[str, list[Figure | None]] = {
        "seeds": [seed_scatter(panel, arms)],
        "curves": [learning_curves(panel, arms)],
        "classes": [class_differences(panel, arms) or per_class(panel, arms)],
        "confusion": confusions,
        "layers": [layer_weights(panel, arms)],
    }
    return [Chart(kind, figure) for kind, figures in found.items() for figure in figures if figure]
