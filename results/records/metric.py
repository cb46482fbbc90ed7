"""Metrics as declarations: how a score follows from the counts of single test examples, and kinds of examples.

A task declares its metrics, the record carries the declaration, and tables and intervals compute from it alone. A task
also says which kinds of test examples there are; breakdowns score each kind by the same metric.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any


@dataclass(frozen=True)
class Ratio:
    """A sum over test examples divided by another one.

    Attributes:
        sum: Column of the examples -> its factor in the numerator. The factors make the score a percentage.
        over: The same for the denominator; if empty, the number of examples.
    """

    sum: Mapping[str, float]
    over: Mapping[str, float] = field(default_factory=dict)

    def parts(self, sums: Mapping[str, Any], count: Any) -> tuple[Any, Any]:  # noqa: ANN401 - as for `Metric.score`
        """Numerator and denominator, from sums over so many examples."""
        return _weighted(self.sum, sums), _weighted(self.over, sums) if self.over else count


@dataclass(frozen=True)
class Metric:
    """A score in percent, computed from sums over test examples.

    Attributes:
        terms: The score is the mean of the terms. A term is one ratio, or two, such as precision and recall, of which
            it is the harmonic mean.
        unit: The column that numbers what intervals leave out at a time, such as documents; if empty, single examples.
        title: The displayed name; if empty, the metric's key.
    """

    terms: Sequence[Sequence[Ratio]]
    unit: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        if not self.terms or not all(len(term) in (1, 2) for term in self.terms):
            raise ValueError(f"terms: expected at least one, each of one ratio or two, found {self.terms!r:.80}")

    @property
    def columns(self) -> list[str]:
        """The columns that the score depends on, without the unit."""
        ratios = [ratio for term in self.terms for ratio in term]
        return list(dict.fromkeys(name for ratio in ratios for name in (*ratio.sum, *ratio.over)))

    def score(self, sums: Mapping[str, Any], count: Any) -> Any:  # noqa: ANN401 - numbers, or arrays of any shape
        """The score of the summed columns; 0 where a denominator is 0.

        Args:
            sums: Column -> its sum over the examples.
            count: The number of examples.
        """
        scores = []
        for term in self.terms:
            ratios = [_divided(*ratio.parts(sums, count)) for ratio in term]
            scores.append(ratios[0] if len(ratios) == 1 else _divided(2 * ratios[0] * ratios[1], ratios[0] + ratios[1]))
        return sum(scores) / len(scores)

    def is_right(self, example: Mapping[str, float]) -> bool:
        """Whether nothing can be added to the score of one example; also where there is nothing to find and none found.

        Raises:
            KeyError: It lacks a column.
        """
        sums = [ratio.parts(example, 1) for term in self.terms for ratio in term]
        return all(math.isclose(part, 100 * whole, rel_tol=1e-9, abs_tol=1e-9) for part, whole in sums)

    def of_examples(self, examples: Sequence[Mapping[str, float]]) -> float | None:
        """The score of these examples; None if there are none, or one lacks a column."""
        try:
            sums = {name: sum(map(itemgetter(name), examples)) for name in self.columns}
        except KeyError:
            return None
        return float(self.score(sums, len(examples))) if examples else None


@dataclass(frozen=True)
class Grouping:
    """Kinds of test examples, such as short and long ones.

    Attributes:
        labels: The displayed kinds, in the order of tables.
        of: For each test example the number of its label; None for one that belongs to no kind.
        from_train: Whether they depend on the training examples, too.
    """

    labels: Sequence[str]
    of: Sequence[int | None]
    from_train: bool = False


def mean_of(column: str, factor: float = 1, *, unit: str = "", title: str = "") -> Metric:
    """The mean of a column over the test examples, times a factor: 100 where the column holds 0 and 1."""
    return Metric([[Ratio({column: factor})]], unit, title)


def _weighted(factors: Mapping[str, float], sums: Mapping[str, Any]) -> Any:  # noqa: ANN401
    return sum(factor * sums[name] for name, factor in factors.items())


def _divided(part: Any, whole: Any) -> Any:  # noqa: ANN401
    """The quotient; 0 where the whole is 0, because then the part is, too."""
    return part / (whole + (whole == 0))
