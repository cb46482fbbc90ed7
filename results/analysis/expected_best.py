"""Expected best dev score of n seeds (Dodge et al. 2019, "Show Your Work", section 3)."""

from collections.abc import Sequence


def expected_best(scores: Sequence[float], n: int) -> float:
    """The mean, over all ways to draw n of the scores with replacement, of the highest drawn.

    The i-th lowest of k scores is the highest of n draws with probability (i/k)^n - ((i-1)/k)^n.

    Args:
        scores: One per seed, at least one.
        n: How many are drawn, at least one.
    """
    k = len(scores)
    chances = [(i / k) ** n - ((i - 1) / k) ** n for i in range(1, k + 1)]
    return sum(chance * score for chance, score in zip(chances, sorted(scores), strict=True))
