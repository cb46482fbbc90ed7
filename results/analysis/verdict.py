"""Comparison of our scores with the paper's.

Our score agrees if it is within two standard deviations of the paper's runs. The paper prints a standard deviation for
some +ELMo scores, which we also use for the baseline of the same row; where it prints none, we use that of our seeds.
Both sides are scored on the same test examples, so only seeds make them differ by chance. The gain and the error cut
get no verdict, because the paper gives no uncertainty for them.
"""

from dataclasses import dataclass

from results.analysis.paper_scores import PaperScore
from results.analysis.rows import BASELINE, WITH_ELMO, Group

DEVIATIONS = 2
LEGEND = (
    f"vs paper: our mean less the paper's; 'as paper' within {DEVIATIONS} standard deviations of the paper's seeds "
    "(of ours where it prints none)"
)


@dataclass(frozen=True)
class Verdict:
    """The difference from the paper's number, and whether it may be chance.

    Attributes:
        difference: Our mean minus the paper's number, in points.
        margin: The largest difference that counts as agreement; None if the standard deviation is unknown.
    """

    difference: float
    margin: float | None

    @property
    def kind(self) -> str:
        """One of "as paper", "short", "above", "unknown"."""
        if self.margin is None:
            return "unknown"
        if abs(self.difference) <= self.margin + 1e-9:
            return "as paper"
        return "short" if self.difference < 0 else "above"

    def __str__(self) -> str:
        if self.kind == "as paper":
            return "as paper"
        if self.kind == "unknown":
            return f"{self.difference:+.2f} (one run)"
        return f"{abs(self.difference):.2f} {self.kind}"


def verdict(group: Group | None, paper: PaperScore | None) -> Verdict | None:
    """The verdict on a group; None if the paper has no such number: other arms, other metrics, or limited data."""
    if group is None or paper is None:
        return None
    printed = {BASELINE: paper.baseline, WITH_ELMO: paper.elmo}.get(group.features)
    # "f1" of ours is "F1" or "average F1" of the paper's
    if printed is None or group.cut or group.metric.casefold() not in paper.metric.casefold():
        return None
    deviation = group.std if paper.elmo_std is None else paper.elmo_std
    return Verdict(group.mean - printed, None if deviation is None else DEVIATIONS * deviation)
