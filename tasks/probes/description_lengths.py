"""Minimum description length probes: the work of `python -m tasks.probes.mdl`, which explains them."""

import argparse
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from elmo.common.checks import at_least
from elmo.common.errors import say_on_terminal
from elmo.common.files import require_writable
from results.figures.drawing import Arm, LaneDot
from results.studies import lanes, show_study
from tasks.features.token_features import TokenFeatures
from tasks.modules.seeding import named_seed
from tasks.running.config import typed_config
from tasks.task import Sentence

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
STRENGTHS = (10.0, 1.0, 0.1, 0.01)  # of the prior on weights of vectors with mean 0 and variance 1 / width
LBFGS = {"max_iter": 50, "history_size": 10, "tolerance_grad": 0, "line_search_fn": "strong_wolfe"}
NEAR = 10  # mentions before one, of which one is drawn that is no antecedent
LINKS = "coref"
SOURCES: Mapping[str, Arm] = {
    "glove": Arm("GloVe", "grey", "circle"),
    "0": Arm("layer 0", "violet", "plus"),
    "1": Arm("layer 1", "green", "triangle"),
    "2": Arm("layer 2", "blue", "diamond"),
}

Labelled = tuple[list[tuple[int, int]], str]  # one or two places in the words of a text, and their label


class ProbeItem(NamedTuple):
    """Something with a label: the number of its text, whose items stay together, its places there, and its words."""

    text: int
    places: Sequence[tuple[int, int]]
    words: tuple[str, ...]
    label: str


def nats(weights: Tensor, vectors: Tensor, labels: Tensor) -> Tensor:
    """The cost of the labels by a linear softmax; the last row of (width + 1, labels) is the bias."""
    return cross_entropy(torch.addmm(weights[-1], vectors, weights[:-1]), labels, reduction="sum")


def fitted(vectors: Tensor, labels: Tensor, strength: float, start: Tensor) -> Tensor:
    """The weights with the largest posterior; the bias has no prior."""
    weights = start.clone().requires_grad_()
    optimizer: Any = torch.optim.LBFGS([weights], tolerance_change=1e-5 * len(labels), **LBFGS)  # type: ignore[arg-type]

    def objective() -> Tensor:
        optimizer.zero_grad()
        loss = nats(weights, vectors, labels) + strength / 2 * weights[:-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(objective)
    return weights.detach()


def uniform_bits(labels: Sequence[str]) -> float:
    """The length of a code that gives each kind of label equal bits."""
    return len(labels) * math.log2(len(set(labels)))


def online_bits(vectors: Tensor, labels: Sequence[str]) -> float:
    """The length of the shortest of the online codes of `STRENGTHS`, with the bits that name the strength.

    In float64: the fit ends early, and in float32 the rounding of another machine would change the second digit.
    """
    kinds = {label: number for number, label in enumerate(sorted(set(labels)))}
    numbers = torch.tensor([kinds[label] for label in labels])
    ends = [max(1, round(share * len(labels))) for share in SHARES]
    vectors = vectors.double()
    scaled = (vectors - vectors.mean(0)) / vectors.std(0).clamp(min=1e-6) / vectors.shape[1] ** 0.5
    totals = []
    for strength in STRENGTHS:
        weights, bits = scaled.new_zeros(vectors.shape[1] + 1, len(kinds)), uniform_bits(labels) * ends[0] / len(labels)
        for known, end in pairwise(ends):
            weights = fitted(scaled[:known], numbers[:known], strength, weights)
            bits += float(nats(weights, scaled[known:end], numbers[known:end])) / math.log(2)
        totals.append(bits)
    return min(totals) + math.log2(len(STRENGTHS))


def control_labels(items: Sequence[ProbeItem]) -> list[str]:
    """A label for each item that depends on its words alone, drawn from the labels of all items."""
    return [items[named_seed(0, "control", *item.words) % len(items)].label for item in items]


def _spans(example: Any) -> Iterator[Labelled]:  # noqa: ANN401 (examples of several tasks)
    """Entities, or the arguments of a predicate, each next to it."""
    at = getattr(example, "predicate", None)
    return (([(s, e), *([(at, at + 1)] if at is not None else [])], of) for of, s, e in example.spans if of != "V")


def _senses(example: Any) -> Iterator[Labelled]:  # noqa: ANN401
    """Senses by the number of their file in WordNet, such as 1:06 of artifacts."""
    return (([(one.start, one.end)], one.senses[0].split("%")[1][:4]) for one in example.instances if one.senses)


def _links(example: Any) -> Iterator[Labelled]:  # noqa: ANN401
    """Each mention with its antecedent, and with a near mention before it of another chain."""
    drawn = random.Random(example.id)
    mentions = sorted((mention, number) for number, one in enumerate(example.chains) for mention in one)
    for at, (mention, number) in enumerate(mentions):
        before = [(other, of) for other, of in mentions[:at] if other[1] <= mention[0]]
        same, others = ([other for other, of in before if (of == number) is it] for it in (True, False))
        if same and others:
            yield from [([same[-1], mention], "linked"), ([drawn.choice(others[-NEAR:]), mention], "not linked")]


# the title, the run whose training texts have the labels, and what has a label in an example
PROPERTIES: Mapping[str, tuple[str, str, Callable[[Any], Iterable[Labelled]]]] = {
    "pos": ("POS tags, EWT", "task=pos_probe data=ewt", lambda it: (([(i, i + 1)], t) for i, t in enumerate(it.tags))),
    "ner": ("NER types, CoNLL-2003", "task=ner data=paper", _spans),
    "srl": ("SRL roles, EWT", "task=srl data=ewt", _spans),
    LINKS: ("coreference links, LitBank", "task=coref data=litbank fold=0", _links),
    "wsd": ("word senses, SemCor", "task=wsd_probe data=semcor", _senses),
}


def items_of(name: str, data: Sequence[str], most: int) -> tuple[list[ProbeItem], list[tuple[Sentence, ...]]]:
    """The items of as many random training texts as have `most`, and the sentences of these texts."""
    _, settings, find = PROPERTIES[name]
    run = typed_config([*settings.split(), "features=glove", *data])
    examples = run.source.load(run.task, "train").examples
    items, texts = list[ProbeItem](), list[tuple[Sentence, ...]]()
    for example in random.Random(0).sample(examples, len(examples)):
        said = list(chain.from_iterable(run.task.texts(example)))
        for places, label in find(example):
            words = tuple(chain.from_iterable(said[start:end] for start, end in places))
            items.append(ProbeItem(len(texts), places, words, label))
        texts.append(run.task.texts(example))
        if len(items) >= most:
            break
    return items[:most], texts


def vectors_of(
    items: Sequence[ProbeItem], texts: Sequence[Sequence[Sentence]], features: Sequence[str], compare: bool
) -> Tensor:
    """The vector of each item: the mean of its words; of two places both means, joined.

    Args:
        items: what has vectors; items of a text follow each other.
        texts: the sentences of each text.
        features: the settings of the arm, as for the POS probe.
        compare: whether to join the product of both means, too, without which a linear softmax cannot compare them.
    """
    run, sentences = typed_config(["task=pos_probe", *features]), list(chain.from_iterable(texts))
    frozen, rows = TokenFeatures(run.features, sentences, run.seed, run.store), list[Tensor]()
    frozen.meet(sentences)
    with torch.no_grad():
        tokens = [batch.input[batch.mask] for batch in map(frozen, texts)]
    for item in items:
        means = [tokens[item.text][start:end].mean(0) for start, end in item.places]
        rows.append(torch.cat([*means, *([means[0] * means[1]] if compare else [])]))
    return torch.stack(rows)


def probe(name: str, options: argparse.Namespace) -> Iterator[tuple[dict[str, str], list[LaneDot]]]:
    """A line of the table and the dots of a lane for each source, with the title of the property first."""
    items, texts = items_of(name, [f"data_dir={options.data_dir}"] if options.data_dir else [], options.items)
    both = [item.label for item in items], control_labels(items)
    title = f"{PROPERTIES[name][0]} ({len(items):,} of {len(set(both[0]))} kinds)"
    for source, arm in SOURCES.items():
        settings = f"features=elmo features.elmo.weights={options.weights} features.elmo.layers={source}"
        settings = f"features=glove features.words.vectors={options.vectors}" if source == "glove" else settings
        vectors, bits = vectors_of(items, texts, settings.split(), name == LINKS), []
        for order in range(1, options.orders + 1):
            say_on_terminal(f"{title}, {arm.title}, order {order}")
            rank = random.Random(order).sample(range(len(texts)), len(texts))
            turn = [at for _, at in sorted((rank[item.text], at) for at, item in enumerate(items))]
            bits.append([online_bits(vectors[turn], [labels[at] for at in turn]) for labels in both])
        real, control = np.array(bits).T
        short = [uniform_bits(labels) / of for labels, of in zip(both, (real, control), strict=True)]
        cells = {"bits a label": real / len(items), "compression": short[0]}
        cells |= {"control, bits a label": control / len(items), "control, compression": short[1]}
        cells["selectivity, bits a label"] = (control - real) / len(items)
        line = {name: f"{of.mean():.2f}" + f"±{_std(of):.2f}" * (len(of) > 1) for name, of in cells.items()}
        ends = [(of.mean() - _std(of), of.mean() + _std(of)) for of in short]
        dots = [LaneDot(arm, float(of.mean()), ends[n], n == 1) for n, of in enumerate(short)]  # hollow: the control
        yield {"labels": title, "vectors": arm.title} | line, dots


def _std(numbers: np.ndarray) -> float:
    return float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0


def show(options: argparse.Namespace) -> None:
    """Prints the table of these properties."""
    at_least(2, "--items", options.items)  # of one, a softmax learns nothing
    at_least(1, "--orders", options.orders)
    if options.write:
        require_writable("--write", options.write)
    lines, rows = [], dict[str, list[LaneDot]]()
    for line, dots in chain.from_iterable(probe(name, options) for name in options.properties or PROPERTIES):
        lines.append(line)
        rows.setdefault(line["labels"], []).extend(dots)
    show_study((lines, lanes("mdl", rows)), options)
