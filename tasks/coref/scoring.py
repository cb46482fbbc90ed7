"""Coreference scores: MUC, B-cubed, CEAF-e and their average, counted as the official CoNLL scorer counts them.

Each metric is the harmonic mean of a precision and a recall. Their numerators and denominators are summed over the
documents before they are divided, so `Scores.examples` has those of each document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from results.records.metric import Metric, Ratio
from tasks.metrics import Scores

Mention = tuple[int, int]  # start and end, exclusive, in tokens of the document
Chain = Sequence[Mention]  # the mentions of one entity
WITHOUT_SINGLETONS = "_without_singletons"


def _precision_and_recall(right: str, right_in_gold: str, units: str, suffix: str = "") -> tuple[Ratio, Ratio]:
    """Both in percent, from columns of `Scores.examples`."""
    precision = Ratio({right + suffix: 100}, {f"predicted_{units}{suffix}": 1})
    return precision, Ratio({right_in_gold + suffix: 100}, {f"gold_{units}{suffix}": 1})


def _metrics(suffix: str = "", title: str = "") -> dict[str, Metric]:
    """B-cubed, CEAF-e and the average with MUC, which never counts a singleton: a chain of one has no link."""
    muc = _precision_and_recall("links", "links", "links")
    b_cubed = _precision_and_recall("b_cubed_precision", "b_cubed_recall", "mentions", suffix)
    ceaf_e = _precision_and_recall("similarity", "similarity", "chains", suffix)
    return {
        f"average{suffix}": Metric([muc, b_cubed, ceaf_e], title=f"avg. F1{title}"),
        f"b_cubed{suffix}": Metric([b_cubed], title=f"B-cubed F1{title}"),
        f"ceaf_e{suffix}": Metric([ceaf_e], title=f"CEAF-e F1{title}"),
    }


# How the scores of this module follow from `Scores.examples`. MUC is the same with singletons and without.
COREF_METRICS = {
    **_metrics(),
    "muc": Metric([_precision_and_recall("links", "links", "links")], title="MUC F1"),
    **_metrics(WITHOUT_SINGLETONS, ", no singletons"),
}


def score_documents(gold: Sequence[Sequence[Chain]], predicted: Sequence[Sequence[Chain]]) -> Scores:
    """The scores of predicted chains; details have the precision and recall of each metric.

    Args:
        gold: the chains of each document; a mention is in one chain.
        predicted: the predicted chains of each document, in the same order.
    """
    examples = []
    for key, response in zip(gold, predicted, strict=True):
        counts = _links(key, response) | _mentions_and_chains(key, response)
        without = _mentions_and_chains(_no_singletons(key), _no_singletons(response))
        examples.append(counts | {name + WITHOUT_SINGLETONS: count for name, count in without.items()})
    sums = {name: sum(example[name] for example in examples) for m in COREF_METRICS.values() for name in m.columns}
    details: dict[str, object] = {}
    for name, metric in COREF_METRICS.items():
        if len(metric.terms) == 1:
            precision, recall = (float(Metric([[ratio]]).score(sums, len(examples))) for ratio in metric.terms[0])
            details[name] = {"precision": precision, "recall": recall}
    values = {name: float(metric.score(sums, len(examples))) for name, metric in COREF_METRICS.items()}
    return Scores(values, details, examples)


def most_similar(similarity: np.ndarray) -> float:
    """The largest sum of entries of which no two share a row or a column.

    Args:
        similarity: (rows, columns), not negative.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    return float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())


def _no_singletons(chains: Iterable[Chain]) -> list[Chain]:
    return [chain for chain in chains if len(chain) > 1]


def _overlaps(gold: Sequence[Chain], predicted: Sequence[Chain]) -> dict[tuple[int, int], int]:
    """How many mentions a gold and a predicted chain share, by their numbers; only pairs that share any."""
    gold_chain = {mention: number for number, chain in enumerate(gold) for mention in chain}
    return Counter(
        (gold_chain[mention], number)
        for number, chain in enumerate(predicted)
        for mention in chain
        if mention in gold_chain
    )


def _links(gold: Sequence[Chain], predicted: Sequence[Chain]) -> dict[str, float]:
    """MUC: a chain of n mentions has n - 1 links, and so have the mentions that two chains share."""
    return {
        "links": sum(shared - 1 for shared in _overlaps(gold, predicted).values()),
        "predicted_links": sum(len(chain) - 1 for chain in predicted),
        "gold_links": sum(len(chain) - 1 for chain in gold),
    }


def _mentions_and_chains(gold: Sequence[Chain], predicted: Sequence[Chain]) -> dict[str, float]:
    """B-cubed, which counts mentions, and CEAF-e, which counts chains.

    B-cubed gives each mention in both the share of its predicted chain (for recall: of its gold chain) that is in the
    other. CEAF-e pairs gold and predicted chains, each at most once, for the largest sum of similarities
    2 |G and P| / (|G| + |P|).
    """
    overlaps = _overlaps(gold, predicted)
    similarity = np.zeros((len(gold), len(predicted)))
    for (g, p), shared in overlaps.items():
        similarity[g, p] = 2 * shared / (len(gold[g]) + len(predicted[p]))
    return {
        "b_cubed_precision": sum(shared * shared / len(predicted[p]) for (_, p), shared in overlaps.items()),
        "b_cubed_recall": sum(shared * shared / len(gold[g]) for (g, _), shared in overlaps.items()),
        "predicted_mentions": sum(map(len, predicted)),
        "gold_mentions": sum(map(len, gold)),
        "similarity": most_similar(similarity),
        "predicted_chains": len(predicted),
        "gold_chains": len(gold),
    }
