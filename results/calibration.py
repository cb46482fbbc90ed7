"""Are runs as right as they are sure? `python -m results.calibration` reads the confidences that runs kept.

Runs made with `confidences=true` keep the probability of each predicted label, answer or span, of dev and test. The
expected calibration error is the mean distance, over BINS equal ranges of the probability, between the mean probability
and the share that is right, in points. A temperature, which divides the log odds of the prediction, is fitted on dev:
the other labels' probabilities are not kept. Coverage: the share of the predictions that are the surest.

Examples:
  python -m results.calibration                                your own runs, in results/runs
  python -m results.calibration --runs DIR --write results/published
"""

import math
import statistics
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo.common.errors import InputError, command_parser, exit_status
from results import stats
from results.figures import drawing
from results.names import metric_of
from results.records.example_scores import read_confidences
from results.records.identity import CONFIDENCES_NAME
from results.studies import Study, add_study_options, show_study
from results.tables.fill import fill_all
from results.tables.rows import Group, Row, Table, arm_titles, unit_numbers
from results.tables.run_options import add_choices, choose
from results.tables.sheet import EMPTY, Column, sheet_of, shown_interval

BINS = 15
CLOSEST = 0.0005  # to 0 and 1: confidences have three digits
COVERAGE = 0.8
FEWEST = 20  # predictions of all seeds in a range that is drawn

Judged = Sequence[Sequence[Sequence[float]]]  # for each example and part: the probability, and 1 if it is right


@dataclass(frozen=True)
class ArmConfidences:
    """The confidences of an arm's runs on dev and test, and the number of each test example's cluster, if known."""

    title: str
    dev: Sequence[Judged]
    test: Sequence[Judged]
    clusters: Sequence[float] | None = None


def cooled(shares: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities whose log odds are divided by the temperature."""
    clipped = np.clip(shares, CLOSEST, 1 - CLOSEST)
    cooled_shares: np.ndarray = 1 / (1 + np.exp(-np.log(clipped / (1 - clipped)) / temperature))
    return cooled_shares


def fitted_temperature(judged: Judged) -> float:
    """The temperature with the smallest log loss; 1 without both right and wrong predictions, which determine it."""
    from scipy.optimize import minimize_scalar  # takes longer to import than the rest of a table's command

    shares, right = _flat(judged)
    if not 0 < right.sum() < len(right):
        return 1.0

    def loss(log_temperature: float) -> float:
        likely = cooled(shares, math.exp(log_temperature))
        return -float(np.log(np.where(right == 1, likely, 1 - likely)).mean())

    return math.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)


def _flat(judged: Judged) -> tuple[np.ndarray, np.ndarray]:
    parts = np.array([part for example in judged for part in example], float).reshape(-1, 2)
    return parts[:, 0], parts[:, 1]


def binned(judged: Judged, temperature: float = 1.0) -> np.ndarray:
    """Per example and range of the probability the predictions, the sum of probabilities, and how many are right.

    Shape (examples, 3 * BINS): all counts, then all sums, then all right ones, so that any score of them can be
    computed from sums over examples.
    """
    counts = np.zeros((len(judged), 3, BINS))
    owners = np.repeat(np.arange(len(judged)), [len(example) for example in judged])
    shares, right = _flat(judged)
    if temperature != 1:
        shares = cooled(shares, temperature)
    bins = np.minimum((shares * BINS).astype(int), BINS - 1)
    for number, values in enumerate((np.ones_like(shares), shares, right)):
        np.add.at(counts, (owners, number, bins), values)
    return counts.reshape(len(judged), -1)


def calibration_error(sums: np.ndarray) -> np.ndarray:
    """The expected calibration error in points from sums of `binned`, (..., 3 * BINS) -> (...)."""
    count, share, right = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, BINS), -2, 0)
    errors: np.ndarray = 100 * np.abs(share - right).sum(axis=-1) / np.maximum(count.sum(axis=-1), 1)
    return errors


def at_coverage(judged: Judged, coverage: float = COVERAGE) -> float:
    """The share in percent that is right of the surest predictions; ties in the order of the examples."""
    shares, right = _flat(judged)
    surest = np.argsort(-shares, kind="stable")[: max(1, math.ceil(coverage * len(shares)))]
    return 100 * float(right[surest].mean())


def confidences_of(row: Row, group: Group, title: str, paths: Mapping[str, Path]) -> ArmConfidences | None:
    """The confidences of an arm; None if a run kept none."""
    runs = []
    for run in group.records:
        path = paths.get(run.fingerprint)
        kept = read_confidences(path.with_name(CONFIDENCES_NAME), run.fingerprint) if path else None
        runs.append({one.split: one.examples for one in kept or ()})
    if not all({"dev", "test"} <= run.keys() and any(map(len, run["test"])) for run in runs):
        return None
    examples = group.examples[0] or []
    metric = metric_of(group.records[0], examples[0]) if examples else None
    known = metric is not None and len(examples) == len(runs[0]["test"])
    clusters = unit_numbers(examples, metric.unit) if metric and known else None
    return ArmConfidences(title, [run["dev"] for run in runs], [run["test"] for run in runs], clusters)


def error_with_interval(arm: ArmConfidences, temperatures: Sequence[float]) -> tuple[float, stats.Interval | None]:
    """The mean calibration error over runs, and its interval over examples and seeds."""
    counts = np.stack([binned(judged, heat) for judged, heat in zip(arm.test, temperatures, strict=True)])
    intervals = stats.paired_intervals(np.zeros_like(counts), counts, calibration_error, arm.clusters)
    return float(calibration_error(counts.sum(axis=1)).mean()), intervals.gain if intervals else None


def study_of(table: Table, paths: Mapping[str, Path]) -> Study:
    """The table of all arms that kept confidences, and the figure of their reliability.

    Raises:
        InputError: There are none.
    """
    found = list[tuple[Row, str, ArmConfidences]]()
    for row in table.rows:
        titles = arm_titles(table.arms, row.groups)
        for group in row.groups:
            if arm := confidences_of(row, group, titles[group.features], paths):
                found.append((row, group.features, arm))
    if not found:
        raise InputError("expected runs made with confidences=true, found none")
    heats = [[fitted_temperature(judged) for judged in arm.dev] for _, _, arm in found]
    before = [error_with_interval(arm, [1.0] * len(arm.test)) for _, _, arm in found]
    after = [error_with_interval(arm, of) for (_, _, arm), of in zip(found, heats, strict=True)]

    def with_interval(errors: Sequence[tuple[float, stats.Interval | None]]) -> list[str]:
        return [", ".join(filter(None, [f"{error:.2f}", shown_interval(between, "")])) for error, between in errors]

    def mean(numbers: Sequence[float]) -> str:
        return f"{statistics.fmean(numbers):.2f}" + (f"±{statistics.stdev(numbers):.2f}" if len(numbers) > 1 else "")

    columns: list[Column] = [
        ("task", "l", [row.title for row, _, _ in found]),
        ("features", "l", [arm.title for _, _, arm in found]),
        ("seeds", "r", [str(len(arm.test)) for _, _, arm in found]),
        ("right, %", "l", [mean([at_coverage(one, 1) for one in arm.test]) for _, _, arm in found]),
        (f"right of the surest {COVERAGE:.0%}", "l", [mean(list(map(at_coverage, arm.test))) for _, _, arm in found]),
        ("calibration error, 95 % interval", "l", with_interval(before)),
        ("less than the first", "l", [_difference(found, number) for number in range(len(found))]),
        ("temperature", "l", list(map(mean, heats))),
        ("error after it, 95 % interval", "l", with_interval(after)),
    ]
    sheet = sheet_of("Is it calibrated?", columns)
    note = "Calibration error in points, after a temperature fitted on dev with the log odds of each prediction. "
    note += "NER: of predicted entities, so that the right ones are precision."
    return Study(sheet, note, reliability([(row.title, features, arm) for row, features, arm in found]))


def _difference(found: Sequence[tuple[Row, str, ArmConfidences]], number: int) -> str:
    """The error of the row's first arm minus that of this one, with its interval."""
    row, _, arm = found[number]
    first = next(one for of, _, one in found if of is row)
    if first is arm:
        return EMPTY
    counts = [np.stack(list(map(binned, one.test))) for one in (arm, first)]
    errors = [calibration_error(of.sum(axis=1)).mean() for of in counts]
    same = counts[0].shape[1] == counts[1].shape[1]
    intervals = stats.paired_intervals(counts[0], counts[1], calibration_error, arm.clusters) if same else None
    between = shown_interval(intervals.gain) if intervals else ""
    return ", ".join(filter(None, [f"{errors[1] - errors[0]:+.2f}", between]))


def reliability(found: Sequence[tuple[str, str, ArmConfidences]]) -> drawing.Figure:
    """The share that is right by probability, a panel for each task: means over all seeds; grey: as sure as right."""
    arms = drawing.arms_of({features: arm.title for _, features, arm in found})
    side, gap, marks, numbers = 130.0, 42.0, list[drawing.Mark](), list[str]()
    panels = list(dict.fromkeys(title for title, _, _ in found))
    for place, title in enumerate(panels):
        left, top = drawing.LEFT + 28 + place % 2 * (side + gap), 24 + place // 2 * (side + 56)
        across, up = drawing.Scale(0, 1, left, left + side), drawing.Scale(0, 1, top + side, top)
        marks.append(drawing.Label(left, top - 8, drawing.fitted(title, side + gap - 8), "ink", 11))
        marks.append(drawing.ChartLine([(left, top + side), (left + side, top)], "muted", 1, "2 3"))
        for tick in (0, 0.5, 1):
            marks.append(drawing.ChartLine([(left, up.at(tick)), (left + side, up.at(tick))], "grid", 1))
            marks.append(drawing.Label(left - 6, up.at(tick) + 4, f"{tick:g}", "muted", 11, "end"))
            marks.append(drawing.Label(across.at(tick), top + side + 16, f"{tick:g}", "muted", 11, "middle"))
        for _, features, arm in (one for one in found if one[0] == title):
            sums = sum(binned(judged).sum(axis=0) for judged in arm.test)
            points = [(s / n, r / n) for n, s, r in np.reshape(sums, (3, BINS)).T if n >= FEWEST]
            marks.append(arms[features].line([(across.at(x), up.at(y)) for x, y in points], 1.5, arm.title))
            marks += [arms[features].dot(across.at(x), up.at(y), 2.5, f"{x:.2f}: {y:.2f}") for x, y in points]
            numbers.append(f"{title}, {arm.title}: {', '.join(f'{x:.2f}: {y:.2f}' for x, y in points)}")
    caption = "The share that is right (up) of predictions by their probability (across); dotted: as sure as right."
    height, text = 24 + (len(panels) + 1) // 2 * (side + 56), "; ".join(numbers)
    title, legend = "Is it calibrated?", list(arms.values())
    return drawing.Figure("calibration", title, caption, height, marks, numbers=text, legend=legend)


def _show(options: Namespace) -> int:
    chosen = choose(options)
    table = fill_all(chosen.collection, chosen.selection)
    return show_study(study_of(table, {one.record.fingerprint: one.path for one in chosen.collection.files}), options)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; returns the exit status."""
    parser = command_parser("results.calibration", __doc__ or "")
    add_choices(parser)
    add_study_options(parser)
    options = parser.parse_args(argv)
    return exit_status("results.calibration", lambda: _show(options))


if __name__ == "__main__":
    sys.exit(main())
