"""How a number of ours stands to the paper's: the one definition, for the table and for the report.

Ours agrees if it lies within two standard deviations of the paper's runs, as the paper prints them. It prints one for
+ELMo, which also serves the baseline of its row; where it prints none, that of our seeds takes its place. The two sides
are scored on the same test examples, so that nothing but the seeds makes them differ by chance. The gain and the error
cut get no verdict: the paper does not say how sure it is of them.
"""

from dataclasses import dataclass

from results.analysis.aggregate import BASELINE, WITH_ELMO, Group
from results.analysis.paper_scores import PaperScore

DEVIATIONS = 2
LEGEND = (
    f"vs paper: our mean less the paper's; 'as paper' within {DEVIATIONS} standard deviations of the paper's seeds "
    "(of ours where it prints none)"
)


@dataclass(frozen=True)
class Verdict:
    """What to think of the distance to the paper's number.

    Attributes:
        difference: Our mean less the paper's number, in points.
        margin: How far apart the two may lie by chance; None where nobody knows the spread.
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
    """The verdict on a group; None where the paper has no such number: other arms, metrics, or cut data."""
    if group is None or paper is None:
        return None
    printed = {BASELINE: paper.baseline, WITH_ELMO: paper.elmo}.get(group.features)
    # "f1" of ours is "F1" or "average F1" of the paper's
    if printed is None or group.cut or group.metric.casefold() not in paper.metric.casefold():
        return None
    deviation = group.std if paper.elmo_std is None else paper.elmo_std
    return Verdict(group.mean - printed, None if deviation is None else DEVIATIONS * deviation)
