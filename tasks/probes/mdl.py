"""How many bits of a label a layer saves: minimum description length probes; python -m tasks.probes.mdl.

Sender and receiver know the vectors, and the labels are sent in an online code (Voita and Titov 2020): the first 0.1 %
with equal bits for each label, then each further share by a linear softmax that was fitted on all before it. The
message begins with the strength of the softmax's prior, so that nothing is tuned. The control task (Hewitt and Liang
2019) gives equal words equal labels, drawn with the frequencies of the labels: bits that it saves are memory of words.

Of each property, the code has the labels of random texts of the training split. Orders shuffle these texts.

example: python -m tasks.probes.mdl pos ner --data-dir DIR --weights small --items 2000
"""

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from elmo.common.errors import InputError, command_parser, exit_status, say_on_terminal
from elmo.published import weights_choices
from results.figures.drawing import Arm
from results.studies import LaneDot, Study, add_study_options, lanes, show_study
from results.tables.sheet import Column, Sheet
from tasks.features.token_features import TokenFeatures
from tasks.modules.seeding import named_seed
from tasks.running.config import typed_config
from tasks.task import Sentence

SHARES = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
STRENGTHS = (
    10.0,
    1.0,
    0.1,
    0.01,
)  # of the prior on weights of standardised vectors, divided by the root of their width
STEPS = 50  # of L-BFGS
NEAR = 10  # mentions before one, of which one is drawn that is no antecedent

Place = tuple[int, int]  # the first word and that after the last, in the words of a text
Found = tuple[Sequence[Place], str]  # one or two places and their label
SOURCES: Mapping[str, Arm] = {
    "glove": Arm("GloVe", "grey", "circle"),
    "0": Arm("layer 0", "violet", "plus"),
    "1": Arm("layer 1", "green", "triangle"),
    "2": Arm("layer 2", "blue", "diamond"),
}


@dataclass(frozen=True)
class ProbeItem:
    """Something with a label.

    Attributes:
        text: the number of its text, whose items stay together in all orders.
        places: its words, in one or two places of the text.
        words: the same as words.
        label: what is sent.
    """

    text: int
    places: Sequence[Place]
    words: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class Code:
    """The bits of a code of so many labels, next to those of a code that gives each of `kinds` labels equal bits."""

    bits: float
    labels: int
    kinds: int

    @property
    def compression(self) -> float:
        """How many times as long the uniform code is."""
        return self.labels * math.log2(self.kinds) / self.bits


def fitted(vectors: Tensor, labels: Tensor, strength: float, start: Tensor) -> Tensor:
    """The weights of a linear softmax with the largest posterior; the last row has no prior, (width + 1, kinds)."""
    weights = start.clone().requires_grad_()
    limits = {"max_iter": STEPS, "tolerance_change": 1e-5 * len(labels), "tolerance_grad": 0.0}
    optimizer = torch.optim.LBFGS([weights], history_size=10, line_search_fn="strong_wolfe", **limits)

    def objective() -> Tensor:
        optimizer.zero_grad()
        loss = _nats(weights, vectors, labels) + strength / 2 * weights[:-1].square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimizer.step(objective)  # type: ignore[arg-type]
    return weights.detach()


def _nats(weights: Tensor, vectors: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(torch.addmm(weights[-1], vectors, weights[:-1]), labels, reduction="sum")


def online_code(vectors: Tensor, labels: Sequence[str]) -> Code:
    """The shortest of the online codes with the strengths of `STRENGTHS`, with the bits that name the strength."""
    kinds = {label: number for number, label in enumerate(sorted(set(labels)))}
    numbers = torch.tensor([kinds[label] for label in labels])
    ends = [max(1, round(share * len(labels))) for share in SHARES]
    scaled = (vectors - vectors.mean(0)) / vectors.std(0).clamp(min=1e-6) / vectors.shape[1] ** 0.5
    totals = []
    for strength in STRENGTHS:
        weights, bits = torch.zeros(vectors.shape[1] + 1, len(kinds)), ends[0] * math.log2(len(kinds))
        for known, end in pairwise(ends):
            weights = fitted(scaled[:known], numbers[:known], strength, weights)
            bits += float(_nats(weights, scaled[known:end], numbers[known:end])) / math.log(2)
        totals.append(bits + math.log2(len(STRENGTHS)))
    return Code(min(totals), len(labels), len(kinds))


def control_labels(items: Sequence[ProbeItem]) -> list[str]:
    """A label for each item that depends on its words alone, drawn from the labels of all items."""
    labels = [item.label for item in items]
    return [labels[named_seed(0, "control", *item.words) % len(labels)] for item in items]


def _spans(example: Any) -> Iterator[Found]:  # noqa: ANN401 (examples of several tasks)
    return (([(start, end)], label) for label, start, end in example.spans)


def _arguments(example: Any) -> Iterator[Found]:  # noqa: ANN401
    predicate = example.predicate
    return (([(start, end), (predicate, predicate + 1)], label) for label, start, end in example.spans if label != "V")


def _senses(example: Any) -> Iterator[Found]:  # noqa: ANN401
    """Senses by the number of their file in WordNet, such as 1:06 of artifacts."""
    return (([(one.start, one.end)], one.senses[0].split("%")[1][:4]) for one in example.instances if one.senses)


def _links(example: Any) -> Iterator[Found]:  # noqa: ANN401
    """Each mention with its antecedent, and with a near mention before it of another chain."""
    drawn = random.Random(example.id)
    mentions = sorted((mention, number) for number, one in enumerate(example.chains) for mention in one)
    for at, (mention, number) in enumerate(mentions):
        before = [(other, of) for other, of in mentions[:at] if other[1] <= mention[0]]
        same, others = ([other for other, of in before if (of == number) is it] for it in (True, False))
        if same and others:
            yield from [([same[-1], mention], "linked"), ([drawn.choice(others[-NEAR:]), mention], "not linked")]


@dataclass(frozen=True)
class Property:
    """What is asked of vectors: a title, the run whose training texts have it, and what has a label in an example."""

    title: str
    run: Sequence[str]
    find: Callable[[Any], Iterable[Found]]


PROPERTIES: Mapping[str, Property] = {
    "pos": Property(
        "POS tags, EWT",
        ["task=pos_probe", "data=ewt"],
        lambda example: (([(at, at + 1)], tag) for at, tag in enumerate(example.tags)),
    ),
    "ner": Property("NER types, CoNLL-2003", ["task=ner", "data=paper"], _spans),
    "srl": Property("SRL roles, EWT", ["task=srl", "data=ewt"], _arguments),
    "coref": Property("coreference links, LitBank", ["task=coref", "data=litbank", "fold=0"], _links),
    "wsd": Property("word senses, SemCor", ["task=wsd_probe", "data=semcor"], _senses),
}
LINKS = "coref"


def items_of(of: Property, data_dir: str | None, most: int) -> tuple[list[ProbeItem], list[tuple[Sentence, ...]]]:
    """The items of as many random training texts as have `most`, and the sentences of these texts."""
    run = typed_config([*of.run, "features=glove", *([f"data_dir={data_dir}"] if data_dir else [])])
    examples = run.source.load(run.task, "train").examples
    items, texts = list[ProbeItem](), list[tuple[Sentence, ...]]()
    for example in random.Random(0).sample(examples, len(examples)):
        words = list(chain.from_iterable(run.task.texts(example)))
        for places, label in of.find(example):
            said = tuple(chain.from_iterable(words[start:end] for start, end in places))
            items.append(ProbeItem(len(texts), places, said, label))
        texts.append(run.task.texts(example))
        if len(items) >= most:
            break
    return items[:most], texts


def vectors_of(
    items: Sequence[ProbeItem], texts: Sequence[Sequence[Sentence]], features: Sequence[str], compare: bool
) -> Tensor:
    """The vector of each item: the mean of its words; of two places both means, joined.

    Args:
        items: what has vectors.
        texts: the sentences of each text.
        features: the settings of the arm, as for the POS probe.
        compare: whether to join the product of both means, too, without which a linear softmax cannot compare them.
    """
    run, sentences = typed_config(["task=pos_probe", *features]), list(chain.from_iterable(texts))
    frozen = TokenFeatures(run.features, sentences, run.seed, run.store)
    frozen.meet(sentences)
    tokens: dict[int, Tensor] = {}
    rows = []
    for item in items:
        if item.text not in tokens:
            with torch.no_grad():
                batch = frozen(texts[item.text])
            tokens = {item.text: batch.input[batch.mask]}
        means = [tokens[item.text][start:end].mean(0) for start, end in item.places]
        rows.append(torch.cat([*means, *([means[0] * means[1]] if compare else [])]))
    return torch.stack(rows)


@dataclass(frozen=True)
class Knowledge:
    """The codes of a property by the vectors of a source, and those of its control, one for each order."""

    title: str
    source: str
    real: Sequence[Code]
    control: Sequence[Code]


def probe(name: str, options: argparse.Namespace) -> Iterator[Knowledge]:
    """The codes of one property, by source."""
    of = PROPERTIES[name]
    items, texts = items_of(of, options.data_dir, options.items)
    labels, controls = [item.label for item in items], control_labels(items)
    title = f"{of.title} ({len(items):,} of {len(set(labels))} kinds)"
    for source in SOURCES:
        words = ["features=glove", f"features.words.vectors={options.vectors}"]
        layer = ["features=elmo", f"features.elmo.weights={options.weights}", f"features.elmo.layers={source}"]
        vectors = vectors_of(items, texts, words if source == "glove" else layer, name == LINKS)
        codes = []
        for order in range(1, options.orders + 1):
            say_on_terminal(f"{title}, {SOURCES[source].title}, order {order}")
            rank = random.Random(order).sample(range(len(texts)), len(texts))
            turn = sorted(range(len(items)), key=lambda at, rank=rank: rank[items[at].text])  # type: ignore[misc]
            codes.append([online_code(vectors[turn], [of_all[at] for at in turn]) for of_all in (labels, controls)])
        yield Knowledge(title, source, *zip(*codes, strict=True))


def study_of(found: Sequence[Knowledge], note: str) -> Study:
    """The table and the figure: a line, and a mark, for each property and source."""

    def each(of: Sequence[Code], value: str) -> list[float]:
        return [one.bits / one.labels if value == "bits" else one.compression for one in of]

    def cell(numbers: Sequence[float]) -> str:
        return f"{statistics.fmean(numbers):.2f}" + (f"±{statistics.stdev(numbers):.2f}" if len(numbers) > 1 else "")

    selectivity = [[c - r for r, c in zip(each(k.real, "bits"), each(k.control, "bits"), strict=True)] for k in found]
    columns: list[Column] = [
        ("labels", "l", [one.title for one in found]),
        ("vectors", "l", [SOURCES[one.source].title for one in found]),
        ("bits a label", "r", [cell(each(one.real, "bits")) for one in found]),
        ("compression", "r", [cell(each(one.real, "")) for one in found]),
        ("control, bits a label", "r", [cell(each(one.control, "bits")) for one in found]),
        ("control, compression", "r", [cell(each(one.control, "")) for one in found]),
        ("selectivity, bits a label", "r", list(map(cell, selectivity))),
    ]
    rows: dict[str, list[LaneDot]] = {}
    for one in found:
        for codes, hollow in ((one.real, False), (one.control, True)):
            numbers = each(codes, "")
            dot = LaneDot(SOURCES[one.source], statistics.fmean(numbers), (min(numbers), max(numbers)), hollow)
            rows.setdefault(one.title, []).append(dot)
    caption = "Length of the uniform code over that of the online code: means over orders; hollow: the control task."
    figure = lanes("mdl", "How much a layer knows", caption, "compression", rows, list(SOURCES.values()))
    return Study(Sheet("How much a layer knows", columns), note, figure)


def _show(options: argparse.Namespace) -> None:
    if options.items < 1 / SHARES[0] or options.orders < 1:
        raise InputError("expected --items of 1000 or more, and --orders of 1 or more")
    found = [one for name in options.properties or PROPERTIES for one in probe(name, options)]
    note = (
        f"Mean±std of {options.orders} orders of the texts, layers of {options.weights}, GloVe {options.vectors}. "
        "Selectivity: bits that the control needs more."
    )
    show_study(study_of(found, note), options)


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.probes.mdl", str(__doc__))
    about = f"of {', '.join(PROPERTIES)}; default: all"
    parser.add_argument("properties", metavar="PROPERTY", nargs="*", choices=[*PROPERTIES, []], help=about)
    parser.add_argument("--data-dir", metavar="DIR", help="the folder of the official files, as data_dir")
    parser.add_argument("--weights", metavar="W", default="medium", help=f"{weights_choices()}; default: medium")
    parser.add_argument("--vectors", metavar="V", default="wink-100d", help="default: wink-100d")
    parser.add_argument("--items", metavar="N", type=int, default=5000, help="labels of a property; default: 5000")
    parser.add_argument("--orders", metavar="N", type=int, default=3, help="default: 3")
    add_study_options(parser)
    return exit_status("tasks.probes.mdl", partial(_show, parser.parse_args(given)))


if __name__ == "__main__":
    sys.exit(main())
