"""Coverage of the 95 % intervals in simulated experiments whose true gain is known."""

from statistics import NormalDist

import numpy as np
import pytest

from results.analysis.interval import paired_intervals

EXAMPLES, CLUSTERS = 800, 40
CLUSTER = np.arange(EXAMPLES) // (EXAMPLES // CLUSTERS)
REPEATS = 2000  # the standard error of a coverage of 95 % is 0.5
MEANS = (0.3, 0.6)  # of the latent ability of either arm
# Deviations of the latent ability: of an example for both arms, of an example for one arm, of one run on one example.
SHARED, OWN, RUN = 0.8, 0.4, 0.6
# Of a cluster, for both arms and for one arm.
SHARED_CLUSTER, OWN_CLUSTER = 0.4, 0.3
STEADIER = 0.5  # the second arm's deviation between seeds, as a share of the first's


def accuracy(sums):
    return 100 * sums[..., 0] / sums.sum(axis=-1)


def f1(sums):
    """Of (right, wrong), where half of the wrong answers are also false positives."""
    return 200 * sums[..., 0] / (2 * sums[..., 0] + 1.5 * sums[..., 1])


def drawn_counts(generator, seeds, deviations, clustered):
    """For either arm (seeds, examples, 2): right and wrong answers. One is right if its latent ability is positive."""

    def noise(example, cluster):
        found = example * generator.standard_normal(EXAMPLES)
        return found + cluster * generator.standard_normal(CLUSTERS)[CLUSTER] if clustered else found

    shared = noise(SHARED, SHARED_CLUSTER)
    for mean, deviation in zip(MEANS, deviations, strict=True):
        latent = mean + shared + noise(OWN, OWN_CLUSTER) + deviation * generator.standard_normal((seeds, 1))
        right = latent + RUN * generator.standard_normal((seeds, EXAMPLES)) > 0
        yield np.stack([right, ~right], axis=2).astype(float)


def true_scores(deviations, clustered, score):
    """The expected score of a run on endless examples: an average over a fine grid of seeds' abilities."""
    normal = NormalDist()
    rest = SHARED**2 + OWN**2 + RUN**2 + (SHARED_CLUSTER**2 + OWN_CLUSTER**2) * clustered
    grid = [normal.inv_cdf((i + 0.5) / 2000) for i in range(2000)]
    for mean, deviation in zip(MEANS, deviations, strict=True):
        right = np.array([normal.cdf((mean + deviation * z) / rest**0.5) for z in grid])
        yield score(np.stack([right, 1 - right], axis=1)).mean()


# The standard error from examples is about 2 points; a latent deviation of 0.1 is about 3 points between seeds.
@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.03, 0.1, 0.3])
@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize(("score", "clustered"), [(accuracy, False), (accuracy, True), (f1, False)])
def test_intervals_contain_the_true_value_in_95_percent_of_experiments(seeds, deviation, score, clustered):
    deviations = deviation, STEADIER * deviation
    first, second = true_scores(deviations, clustered, score)
    gain, cut = second - first, 100 * (second - first) / (100 - first)
    generator = np.random.default_rng([seeds, int(100 * deviation), clustered, score is f1])
    contained = np.zeros(2)
    for _ in range(REPEATS):
        arms = drawn_counts(generator, seeds, deviations, clustered)
        found = paired_intervals(*arms, score, CLUSTER if clustered else None)
        contained += found.gain.low <= gain <= found.gain.high, found.cut.low <= cut <= found.cut.high
    shares = 100 * contained / REPEATS
    print(f"{seeds} seeds, deviation {deviation}, {score.__name__}, {clustered=}: {shares}")
    assert ((shares >= 93) & (shares <= 97)).all()
