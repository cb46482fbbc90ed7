"""Coverage of the 95 % intervals in simulated experiments whose true gain is known."""

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
import pytest

from results.stats import measured, paired_intervals

EXAMPLES, CLUSTERS, FOLDS = 800, 40, 10
REPEATS = 300  # the standard error of a coverage of 95 % is 1.3
SLOW_REPEATS = 2000  # 0.5
MEANS = (0.3, 0.6)  # of the latent ability of either arm
# Deviations of the latent ability: of an example for both arms, of an example for one arm, of one run on one example.
SHARED, OWN, RUN = 0.8, 0.4, 0.6
# Of a cluster or fold, for both arms and for one arm.
SHARED_CLUSTER, OWN_CLUSTER = 0.4, 0.3
STEADIER = 0.5  # the second arm's deviation between seeds, as a share of the first's


@dataclass(frozen=True)
class Case:
    """An experiment: the seeds of both arms, the clusters of its examples, if any, and how it is scored.

    `lenders`: how many arms with five seeds a single run borrows the largest deviation of; they deviate like the first
    arm, which is the noisier one.
    """

    seeds: tuple[int, int]
    clusters: int = 0
    folds: bool = False
    f1: bool = False
    lenders: int = 0

    def __str__(self):
        parts = [" and ".join(map(str, self.seeds)), f"{self.clusters} {'folds' if self.folds else 'clusters'}"]
        return ", ".join([*parts[: 1 + bool(self.clusters)], *["F1"] * self.f1])

    def score(self, sums):
        """Accuracy of (right, wrong), or F1, where half of the wrong answers are also false positives."""
        right, wrong = sums[..., 0], sums[..., 1]
        return 200 * right / (2 * right + 1.5 * wrong) if self.f1 else 100 * right / (right + wrong)

    @property
    def cluster(self):
        """The cluster of each example."""
        return np.arange(EXAMPLES) * self.clusters // EXAMPLES if self.clusters else None

    def noise(self, generator, example, cluster):
        found = example * generator.standard_normal(EXAMPLES)
        return found + cluster * generator.standard_normal(self.clusters)[self.cluster] if self.clusters else found

    def arms(self, generator, arms):
        """(seeds, examples, 2) for each arm (mean, deviation, seeds): right and wrong answers.

        An answer is right if its latent ability is positive. Each fold has trainings of its own.
        """
        shared = self.noise(generator, SHARED, SHARED_CLUSTER)
        for mean, deviation, seeds in arms:
            of_run = deviation * generator.standard_normal((seeds, self.clusters if self.folds else 1))
            latent = mean + shared + self.noise(generator, OWN, OWN_CLUSTER)
            latent = latent + (of_run[:, self.cluster] if self.folds else of_run)
            right = latent + RUN * generator.standard_normal((seeds, EXAMPLES)) > 0
            yield np.stack([right, ~right], axis=2).astype(float)

    def true_scores(self, deviations):
        """The expected score of a run on endless examples: an average over a fine grid of seeds' abilities."""
        normal = NormalDist()
        rest = SHARED**2 + OWN**2 + RUN**2 + (SHARED_CLUSTER**2 + OWN_CLUSTER**2) * bool(self.clusters)
        grid = [normal.inv_cdf((i + 0.5) / 2000) for i in range(2000)]
        for mean, deviation in zip(MEANS, deviations, strict=True):
            right = np.array([normal.cdf((mean + deviation * z) / rest**0.5) for z in grid])
            sums = np.stack([right, 1 - right], axis=1)
            yield self.score(sums).mean()

    def coverage(self, deviation, repeats):
        """The share of experiments, in percent, whose intervals of gain and errors removed contain the true ones."""
        deviations = deviation, STEADIER * deviation
        first, second = self.true_scores(deviations)
        gain, cut = second - first, 100 * (second - first) / (100 - first)
        generator = np.random.default_rng([*self.seeds, int(100 * deviation), self.clusters, self.f1, self.lenders])
        pair = list(zip(MEANS, deviations, self.seeds, strict=True))
        contained = np.zeros(2)
        for _ in range(repeats):
            *arms, others = self.arms(generator, [*pair, (MEANS[1], deviation, 5 * self.lenders)])
            lent = [measured(others[i :: self.lenders], self.score, self.cluster) for i in range(self.lenders)]
            lender = replace(max(lent, key=lambda arm: arm.variance), df=4 * self.lenders) if lent else None
            unit = "fold" if self.folds else ""
            both = [measured(counts, self.score, self.cluster) for counts in arms]
            found = paired_intervals(*both, self.cluster, unit, lender)
            contained[0] += found.gain.low <= gain <= found.gain.high
            contained[1] += found.cut is None or found.cut.low <= cut <= found.cut.high  # None: no share is too large
        return 100 * contained / repeats


# The standard error from examples is about 2 points; a latent deviation of 0.1 is about 3 points between seeds.
DEVIATIONS = (0.03, 0.1, 0.3)
PLAIN = [Case((seeds, seeds), clusters, f1=f1) for seeds in (3, 5, 10) for clusters, f1 in ((0, 0), (40, 0), (0, 1))]
OF_FOLDS = [Case((seeds, seeds), FOLDS, folds=True) for seeds in (1, 3)]
SINGLE = [Case((1, seeds), clusters, lenders=3) for seeds in (3, 5) for clusters in (0, 40)]
FAST = [(PLAIN[1], 0.1), (PLAIN[2], 0.3), (OF_FOLDS[0], 0.1), (OF_FOLDS[1], 0.3), (SINGLE[0], 0.1), (SINGLE[3], 0.3)]


@pytest.mark.parametrize(("case", "deviation"), FAST, ids=str)
def test_intervals_contain_the_true_value_in_95_percent_of_experiments(case, deviation):
    shares = case.coverage(deviation, REPEATS)
    assert ((shares >= 91) & (shares <= (100 if case.lenders else 99))).all(), shares


@pytest.mark.slow
@pytest.mark.parametrize("case", [*PLAIN, *OF_FOLDS, *SINGLE], ids=str)
def test_more_experiments_tell_the_coverage_more_closely(case):
    found = [case.coverage(deviation, SLOW_REPEATS) for deviation in DEVIATIONS]
    print(f"{case}: {found}")
    assert all(((shares >= 93) & (shares <= (100 if case.lenders else 97))).all() for shares in found)
