"""Blocks of the report: a task on a data set with its charts, in the order of the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from results.analysis.panels import Efficiency, efficiencies
from results.analysis.rows import MINI, Group, Row, Table
from results.breakdown import FEWEST, break_down
from results.figures.curves import convergence, learning_curves, sample_efficiency, seed_scatter
from results.figures.errors_removed import errors_removed
from results.figures.marks import Arms, Figure, arms_of, titled
from results.figures.parts import class_differences, confusions, kind_gains, layer_map
from results.records.collect import FoundRecord


class KindOfChart(NamedTuple):
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
        "How a task weights the biLM's layers, at each place where it uses them (the paper's Figure 2). Mean of the "
        "runs; bold: above an even share.",
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


class Chart(NamedTuple):
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

    panel: Row
    charts: Sequence[Chart]
    more: Sequence[Chart] = ()
    notes: Sequence[str] = ()


def blocks_of(
    summary: Table, known_sizes: Sequence[Efficiency] = (), records: Sequence[FoundRecord] = ()
) -> list[TaskBlock]:
    """All blocks, in the order of the table.

    Args:
        summary: The runs.
        known_sizes: Scores by training set size of some rows, in place of what the settings of these rows give.
        records: Those that the summary was made from, for breakdowns; without them there are none.
    """
    arms = arms_of(summary.titles)
    blocks = []
    for first, others in summary.by_task():
        sizes = [known for known in known_sizes if known.row.key == first[0].key] or efficiencies([*first, *others])
        of_row = [Chart("efficiency", sample_efficiency(size, arms)) for size in sizes]
        more = [chart for panel in others for chart in _charts(panel, titled(arms, panel.groups))]
        for panel in first:
            with_titles = titled(arms, panel.groups)
            of_panel, missing = break_down([panel] if records else [], records)
            charts = [*_charts(panel, with_titles), *of_row]
            charts += [Chart("kinds", kind_gains(own, kinds, with_titles)) for own, kinds in of_panel]
            old = "; ".join(with_titles[group.features].title for group in panel.groups if group.old_recipe)
            notes = [*missing, *([f"Of an older recipe of the task: {old}."] if old else [])]
            blocks.append(TaskBlock(panel, charts, more, notes))
            of_row, more = [], []  # those of the row are in its first block
    return blocks


def _charts(panel: Row, arms: Arms) -> list[Chart]:
    """The charts of one panel's runs."""
    layers = [(arms[group.features].title, group) for group in panel.groups]
    figures = {
        "seeds": seed_scatter(panel, arms),
        "curves": learning_curves(panel, arms),
        "classes": class_differences(panel, arms),
        "confusion": confusions(panel, arms),
        "layers": layer_map(layers, f"layers-{panel.stem}", panel.title),
    }
    return [Chart(kind, figure) for kind, figure in figures.items() if figure]


def main_figures(summary: Table) -> list[Figure]:
    """The share of errors removed, of the full data sets and of the mini data."""
    figures = [errors_removed(panels, summary.compared, summary.main_arms) for panels in _by_size(summary)]
    return [figure for figure in figures if figure]


def convergence_of(summary: Table) -> Figure | None:
    """The epochs until the baseline's best dev score, of the full data sets or, without them, of the mini data."""
    full_size, mini = _by_size(summary)
    return convergence(full_size, summary.compared) or convergence(mini, summary.compared)


def _by_size(summary: Table) -> list[list[Row]]:
    """The panels that are shown first, of the full data sets and of the mini data."""
    first = summary.rows
    return [[panel for panel in first if (panel.data == MINI) is mini] for mini in (False, True)]


def layers_of_all(summary: Table, known: Sequence[tuple[str, Group]]) -> Figure | None:
    """The layers' weights of all tasks; None if fewer than two have them, since a single task has a chart of its own.

    Args:
        summary: The runs.
        known: Runs with titles, in place of the summary's on the same data: those of the paper's figure, also at other
            places than a task's own.
    """
    covered = {group.records[0].identity.row for _, group in known}
    weighted = [
        (panel.title, group)
        for panel in summary.rows
        for group in panel.groups
        if group.features == summary.compared[1] and panel.key not in covered
    ]
    return layer_map([*known, *weighted]) if len(known) + len(weighted) > 1 else None
