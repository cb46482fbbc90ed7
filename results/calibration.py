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
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from elmo.common.errors import InputError
from results.figures import drawing
from results.records.collect import RecordFile
from results.records.example_scores import read_confidences
from results.records.identity import CONFIDENCES_NAME
from results.stats import Array
from results.studies import Study, estimate, study_command, texts_of
from results.tables.rows import Table, arm_titles, unit_numbers
from results.tables.sheet import shown_score

BINS = 15
CLOSEST = 0.0005  # to 0 and 1: confidences have three digits
COVERAGE = 0.8
FEWEST = 20  # predictions of all seeds in a range that is drawn
SIDE, GAP = 130.0, 42.0  # of a panel

Judged = Sequence[Sequence[Sequence[float]]]  # for each example and part: the probability, and 1 if it is right


def flat(judged: Judged) -> tuple[Array, Array]:
    """The probability of each prediction, and 1 or 0."""
    import numpy as np  # imported here, as below: no command needs it for --help

    parts = np.array([part for example in judged for part in example], float).reshape(-1, 2)
    return parts[:, 0], parts[:, 1]


def cooled(shares: Array, temperature: float) -> Array:
    """Probabilities whose log odds are divided by the temperature."""
    return 1 / (1 + (1 / shares.clip(CLOSEST, 1 - CLOSEST) - 1) ** (1 / temperature))


def fitted_temperature(judged: Judged) -> float:
    """The temperature with the smallest log loss; 1 without both right and wrong predictions, which determine it."""
    import numpy as np
    from scipy.optimize import minimize_scalar

    shares, right = flat(judged)

    def loss(log_temperature: float) -> float:
        return -float(np.log(abs(1 - right - cooled(shares, math.exp(log_temperature)))).sum())

    return math.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x) if 0 < right.sum() < len(right) else 1.0


def binned(judged: Judged, temperature: float | None = None) -> Array:
    """How many predictions of each example each range has, the sum of their probabilities, and how many are right.

    Shape (examples, 3 * BINS), so that the calibration error can be computed from sums over examples.
    """
    import numpy as np

    shares, right = flat(judged)
    shares = shares if temperature is None else cooled(shares, temperature)
    bins, counts = np.minimum((shares * BINS).astype(int), BINS - 1), np.zeros((len(judged), 3, BINS))
    owners = np.repeat(np.arange(len(judged)), [len(example) for example in judged])
    np.add.at(counts.transpose(0, 2, 1), (owners, bins), np.stack([np.ones_like(shares), shares, right], axis=1))
    return counts.reshape(len(judged), -1)


def calibration_error(sums: Array) -> Array:
    """The expected calibration error in points from sums of `binned`, (..., 3 * BINS) -> (...)."""
    count, share, right = (sums[..., part * BINS : (part + 1) * BINS] for part in range(3))
    return 100 * abs(share - right).sum(axis=-1) / count.sum(axis=-1).clip(min=1)


def right_of_surest(judged: Judged, coverage: float) -> float:
    """The share in percent that is right of the surest predictions; ties in the order of the examples."""
    shares, right = flat(judged)
    surest = (-shares).argsort(kind="stable")[: math.ceil(coverage * len(shares))]
    return 100 * float(right[surest].mean()) if len(surest) else 0.0


def study_of(table: Table, records: Sequence[RecordFile]) -> Study:
    """All arms that kept confidences.

    Raises:
        InputError: There are none.
    """
    import numpy as np

    paths = {one.record.fingerprint: one.path.with_name(CONFIDENCES_NAME) for one in records}
    lines, panels, bases = [], dict[str, dict[str, Array]](), dict[str, Array]()
    for row, group in ((of, group) for of in table.rows for group in of.groups):
        kept = [(name, run.fingerprint) for run in group.records if (name := paths.get(run.fingerprint))]
        runs = [{one.split: one.examples for one in read_confidences(*of) or ()} for of in kept]
        if not runs or len(runs) < len(group.records) or not all({"dev", "test"} <= run.keys() for run in runs):
            continue
        tests, heats = [run["test"] for run in runs], [fitted_temperature(run["dev"]) for run in runs]
        declared, examples = group.records[0].metrics.get(group.metric), group.examples[0]
        clusters = unit_numbers(examples, declared.unit) if declared and examples else None
        before, after = np.stack([*map(binned, tests)]), np.stack([*map(binned, tests, heats)])
        base, error = bases.setdefault(row.title, before), partial(estimate, calibration_error, clusters)
        right, surest = ([right_of_surest(test, share) for test in tests] for share in (1, COVERAGE))
        line = {"task": row.title, "features": arm_titles([group.features], [group])[group.features]}
        line |= {"right, %": shown_score(group, right), f"of the surest {COVERAGE:.0%}": shown_score(group, surest)}
        line |= {"calibration error, 95 %": error(before).shown("")}
        line |= {"over the first": "-" if base is before else error(before, base).shown()}
        line |= {"temperature": shown_score(group, heats), "error after it, 95 %": error(after).shown("")}
        lines.append(line)
        panels.setdefault(row.title, {})[group.features] = before.sum(axis=(0, 1)).reshape(3, BINS)
    if not lines:
        raise InputError("expected runs made with confidences=true, found none")
    return lines, reliability(panels, drawing.arms_of(table.titles))


def reliability(panels: Mapping[str, Mapping[str, Array]], arms: drawing.Arms) -> drawing.Figure:
    """The share that is right by probability, for each task and features, of predictions of all seeds."""
    marks, numbers, top = list[drawing.Mark](), list[str](), 0.0
    for place, (title, of_arms) in enumerate(panels.items()):
        left, top = drawing.LEFT + 28 + place % 2 * (SIDE + GAP), 24 + place // 2 * (SIDE + 56)
        across, up = drawing.Scale(0, 1, left, left + SIDE), drawing.Scale(0, 1, top + SIDE, top)
        marks.append(drawing.Label(left, top - 8, drawing.fitted(title, SIDE + GAP - 8), "ink", 11))
        marks.append(drawing.ChartLine([(left, top + SIDE), (left + SIDE, top)], "muted", 1, "2 3"))
        marks += drawing.vertical_ticks(across, top, top + SIDE)
        marks += [drawing.Label(left - 6, up.at(tick) + 4, f"{tick:g}", "muted", 11, "end") for tick in (0, 0.5, 1)]
        for features, sums in of_arms.items():
            points = [(share / count, right / count) for count, share, right in sums.T if count >= FEWEST]
            marks.append(arms[features].line([(across.at(x), up.at(y)) for x, y in points], 1.5, arms[features].title))
            numbers.append(f"{title}, {arms[features].title}: {', '.join(f'{x:.2f}: {y:.2f}' for x, y in points)}")
    shown = [arms[features] for features in dict.fromkeys(name for of_arms in panels.values() for name in of_arms)]
    title, caption = (texts_of("calibration")[key] for key in ("title", "caption"))
    text = f"{'; '.join(numbers)}."
    return drawing.Figure("calibration", title, caption, top + SIDE + 24, marks, numbers=text, legend=shown)


def main(given: Sequence[str] | None = None) -> int:
    """Prints the table; returns the exit status."""
    return study_command("results.calibration", __doc__ or "", given, study_of)


if __name__ == "__main__":
    sys.exit(main())
