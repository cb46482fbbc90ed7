"""Comparison of our scores with the paper's.

Both sides are scored on the same test examples, so only seeds make them differ by chance: the difference of the means
gets a Welch interval. Where the paper prints no deviation, its runs have ours; where it does not say how many they are,
its number counts as one run. Two scores are equivalent if two one-sided tests at 5 % reject a difference as large as
the margin. The gain and the errors removed get no verdict, because the paper gives no uncertainty for them.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from results.analysis.names import default_pair
from results.analysis.paper_scores import PaperScore
from results.analysis.rows import Group, Row
from results.analysis.student import Part, combined, quantile


@dataclass(frozen=True)
class Verdict:
    """The difference from the paper's number, and what it shows.

    Attributes:
        kind: "equivalent", "short", "above", "open" or "one run".
        difference: Our mean minus the paper's number, in points.
        low: The lower end of the 95 % interval; None if no deviation is known.
        high: Its upper end.
        margin: The smallest difference that matters, in points.
    """

    kind: str
    difference: float
    low: float | None
    high: float | None
    margin: float

    def __str__(self) -> str:
        between = "" if self.low is None else f" ({self.low:+.2f} to {self.high:+.2f})"
        return f"{round(self.difference, 2) + 0.0:+.2f} {self.kind}{between}"


def verdict(group: Group | None, paper: PaperScore | None) -> Verdict | None:
    """The verdict on a group; None if the paper has no such number: other arms, other metrics, or limited data."""
    if group is None or paper is None or not paper.compared:
        return None
    printed = paper.scores.get(group.features)
    if printed is None or group.partial or group.metric != paper.metric:
        return None
    difference, margin = group.mean - printed, paper.margin
    parts = _variances(group.scores, paper.std.get(group.features), paper.runs or 1)
    variance, df = combined(parts)
    if not variance:  # also of several runs with equal scores, which tell nothing about others
        return Verdict("one run" if len(group.scores) == 1 else "open", difference, None, None, margin)
    error = variance**0.5
    half = quantile(0.975, df) * error
    if abs(difference) + quantile(0.95, df) * error < margin:
        kind = "equivalent"
    elif abs(difference) > half:
        kind = "short" if difference < 0 else "above"
    else:
        kind = "open"
    return Verdict(kind, difference, difference - half, difference + half, margin)


def verdicts(row: Row) -> list[Verdict | None]:
    """The verdicts on the two arms of a row, if they are the ones that the paper compares."""
    return [verdict(row.group(arm), row.paper) if row.compared == default_pair() else None for arm in row.compared]


def _variances(scores: Sequence[float], deviation: float | None, runs: int) -> list[Part]:
    """The variances of the mean of our scores and of the paper's, the mean of `runs`; none if no deviation is known."""
    ours = statistics.variance(scores) if len(scores) > 1 else None
    if deviation is None or runs < 2:
        return [] if ours is None else [Part(ours * (1 / len(scores) + 1 / runs), len(scores) - 1)]
    if ours is None:
        return [Part(deviation**2 * (1 + 1 / runs), runs - 1)]
    return [Part(ours / len(scores), len(scores) - 1), Part(deviation**2 / runs, runs - 1)]
