"""The paper's scores, from `paper/scores.toml`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from results.records.typed_json import PAPER, read_toml

SCORES = PAPER / "scores.toml"


@dataclass(frozen=True)
class PaperScore:
    """Scores of some arms as printed, in percent by arm, with their table and row.

    A difference below `margin`, in points, does not matter to us.
    """

    task: str
    metric: str
    split: str
    scores: Mapping[str, float]
    source: str
    compared: bool
    margin: float
    std: Mapping[str, float] = field(default_factory=dict)
    runs: int | None = None

    def error_cut(self, compared: tuple[str, str]) -> float | None:
        """How much of the first arm's error the second removes, in percent; None if the paper does not print both."""
        first, second = (self.scores.get(arm) for arm in compared)
        return None if first is None or second is None else relative_error_cut(first, second)


@dataclass(frozen=True)
class Band:
    """The range that others reached with the task's head on the paper's data, in percent by arm: low and high."""

    task: str
    scores: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Anchor:
    """What others reached with a task on data that the paper does not have, or that no such score is known."""

    task: str
    data: str
    text: str


@dataclass(frozen=True)
class Paper:
    """All scores in the order of the paper's Table 1, bands with the data sets that they apply to, and anchors."""

    comparable_data: Sequence[str]
    score: Sequence[PaperScore]
    band: Sequence[Band]
    anchor: Sequence[Anchor]

    def compared(self, data: str, task: str) -> PaperScore | None:
        """The score to print next to ours, or None if it was measured on other examples."""
        if data not in self.comparable_data:
            return None
        return next((score for score in self.score if score.task == task and score.compared), None)

    def expected(self, data: str, task: str) -> Band | None:
        """The band for a task, or None if there is none for this data set."""
        bands = (band for band in self.band if band.task == task and data in self.comparable_data)
        return next(bands, None)

    def anchor_text(self, data: str, task: str) -> str:
        """What others reached on these data; empty if the file has nothing on them."""
        return next((anchor.text for anchor in self.anchor if (anchor.task, anchor.data) == (task, data)), "")

    @property
    def tasks(self) -> list[str]:
        """The tasks in the order of Table 1."""
        return list(dict.fromkeys(score.task for score in self.score))


@cache
def load_paper() -> Paper:
    """The paper's numbers, read once."""
    return read_toml(Paper, SCORES)


def distance(score: float, band: Sequence[float]) -> float:
    """How far a score is outside a band: negative below it, 0 inside."""
    low, high = band
    return min(score - low, 0.0) + max(score - high, 0.0)


def relative_error_cut(first: float, second: float) -> float | None:
    """How much of the first score's error the second removes, in percent, as in Table 1; None if there is no error."""
    return 100 * (second - first) / (100 - first) if first < 100 else None
