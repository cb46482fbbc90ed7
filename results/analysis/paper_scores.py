"""The paper's numbers as data: what `paper/scores.toml` holds, typed."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from results.records.typed_json import decode

SCORES = Path(__file__).parents[1] / "paper" / "scores.toml"


@dataclass(frozen=True)
class PaperScore:
    """One baseline and +ELMo pair as printed, in percent, with the table and row it stands in."""

    task: str
    metric: str
    split: str
    baseline: float
    elmo: float
    source: str
    compared: bool
    elmo_std: float | None = None
    runs: int | None = None


@dataclass(frozen=True)
class Band:
    """Where others landed with the task's head on the paper's data, in percent: lowest and highest to expect."""

    task: str
    baseline: Sequence[float]
    elmo: Sequence[float]


@dataclass(frozen=True)
class Paper:
    """All scores, in the order of the paper's Table 1, the bands, and the data names they may stand beside."""

    comparable_data: Sequence[str]
    score: Sequence[PaperScore]
    band: Sequence[Band]

    def compared(self, data: str, task: str) -> PaperScore | None:
        """The score to print beside ours, or None where that would compare different examples."""
        if data not in self.comparable_data:
            return None
        return next((score for score in self.score if score.task == task and score.compared), None)

    def expected(self, data: str, task: str) -> Band | None:
        """The band to hold ours against, or None where there is none, or where the data are other ones."""
        bands = (band for band in self.band if band.task == task and data in self.comparable_data)
        return next(bands, None)

    @property
    def tasks(self) -> list[str]:
        """The tasks in the order of Table 1."""
        return list(dict.fromkeys(score.task for score in self.score))


@cache
def load_paper() -> Paper:
    """The paper's numbers, read once."""
    paper: Paper = decode(Paper, tomllib.loads(SCORES.read_text(encoding="utf-8")))
    return paper


def distance(score: float, band: Sequence[float]) -> float:
    """How far a score lies outside of a band, negative below it; 0 within."""
    low, high = band
    return min(score - low, 0.0) + max(score - high, 0.0)


def relative_error_cut(baseline: float, elmo: float) -> float | None:
    """How much of the baseline's error is gone, in percent, as in Table 1; None where there was none to cut."""
    return 100 * (elmo - baseline) / (100 - baseline) if baseline < 100 else None
