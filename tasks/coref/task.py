"""The coreference task: from documents to chains of mentions, scored as the official CoNLL scorer does.

Each metric is the harmonic mean of a precision and a recall. Their numerators and denominators are summed over the
documents before they are divided, so `Scores.examples` has those of each document.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo.common.errors import InputError, excerpt
from elmo.tokeniser import sentences_of_tokens
from results.records.metric import Grouping, Metric, Ratio
from tasks.coref.head import Chains, CorefSettings, EndToEndCoref, Span
from tasks.data.text import ConllDocument, Offsets, raw_text, read_documents, span_fields, tokens_of, word_list
from tasks.metrics import Scores, by_number
from tasks.task import Head, Sentence, Split, Task

UNKNOWN_GENRE = 0
Chain = Sequence[Span]  # the mentions of one entity
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


@dataclass
class CorefReader:
    """The differences between files.

    Attributes:
        singletons: whether mentions that are alone in their chain are annotated.
    """

    singletons: bool = False


@dataclass(frozen=True)
class CorefExample:
    """A document.

    Attributes:
        id: its name and part.
        sentences: its words.
        speakers: of each word of the document.
        genre: "" if unknown.
        chains: the mentions of each entity, in tokens of the document.
        repeated: mentions left out because they are in the file more than once.
        offsets: the places of the words in raw text; () for a file.
    """

    id: str
    sentences: tuple[Sentence, ...]
    speakers: tuple[str, ...]
    genre: str
    chains: Chains
    repeated: int = 0
    offsets: Offsets = ()


def read_coref(path: Path) -> list[CorefExample]:
    """The documents of a file."""
    return [_example(document) for document in read_documents(path)]


def _example(document: ConllDocument) -> CorefExample:
    chain_of: dict[Span, str] = {}
    before = mentions = 0
    for sentence in document.sentences:
        for chain_number, start, end in sentence.mentions:
            # A span is in one chain: the scorer counts it once.
            chain_of.setdefault((before + start, before + end), chain_number)
        mentions += len(sentence.mentions)
        before += len(sentence.words)
    by_chain: dict[str, list[Span]] = {}
    for span in sorted(chain_of):
        by_chain.setdefault(chain_of[span], []).append(span)
    return CorefExample(
        f"{document.id}:{document.part}",
        tuple(sentence.words for sentence in document.sentences),
        tuple(chain.from_iterable(sentence.speakers for sentence in document.sentences)),
        document.genre,
        tuple(map(tuple, by_chain.values())),
        mentions - len(chain_of),
    )


class Coref(Task[CorefExample, CorefSettings]):
    """Coreference by the mean F1 of MUC, B-cubed and CEAF-e."""

    name = "coref"
    metric = "average"
    metrics = COREF_METRICS
    length_edges = (100, 200, 500, 1000, 2000)
    recipe = 2  # 2: LitBank until patience ends
    settings_type = CorefSettings
    reader_type = CorefReader
    raw_fields = ("text",)
    places = ("input",)
    documents = True

    def read(self, path: Path, split: Split) -> list[CorefExample]:
        """The documents of a file in CoNLL-2012 columns."""
        return read_coref(path)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> CorefExample:
        """A document without speakers, genre and chains: `text`, or `sentences` of words."""
        offsets: Offsets = ()
        if "sentences" not in fields:
            tokens = tokens_of(raw_text(fields, "text"))
            sentences, offsets = sentences_of_tokens(tokens.words), tokens.offsets
        elif isinstance(fields["sentences"], list):
            sentences = [word_list(words, "a sentence") for words in fields["sentences"]]
        else:
            raise ValueError(f"expected a list of sentences as sentences, found {excerpt(fields['sentences'])}")
        return CorefExample(name, tuple(sentences), ("",) * sum(map(len, sentences)), "", (), offsets=offsets)

    def prediction_fields(self, example: CorefExample, prediction: Chains) -> dict[str, Any]:
        """The words, and the mentions of each chain."""
        words = list(chain.from_iterable(example.sentences))
        chains = [[span_fields(words, example.offsets, *mention) for mention in mentions] for mentions in prediction]
        return {"tokens": words, "chains": chains}

    def prediction_text(self, example: CorefExample, prediction: Chains) -> str:
        """One chain per line, its mentions separated by bars."""
        words = list(chain.from_iterable(example.sentences))
        return "".join(" | ".join(" ".join(words[start:end]) for start, end in one) + "\n" for one in prediction)

    def usable(self, example: CorefExample) -> bool:
        """Whether a document has words."""
        return bool(example.sentences)

    def counts(self, examples: Sequence[CorefExample]) -> dict[str, int]:
        """Documents, sentences, tokens, mentions and chains."""
        chains = [spans for example in examples for spans in example.chains]
        singletons = sum(len(spans) == 1 for spans in chains)
        return {
            "documents": len(examples),
            "sentences": sum(len(example.sentences) for example in examples),
            "tokens": sum(map(self.size, examples)),
            "mentions": sum(map(len, chains)),
            "chains": len(chains),
            **({"singletons": singletons} if singletons else {}),
        }

    def notes(self, examples: Sequence[CorefExample]) -> dict[str, object]:
        """Counts of mentions that the head cannot predict, and of those left out."""
        widths = [end - start for example in examples for spans in example.chains for start, end in spans]
        return {
            "mentions_wider_than_span_width": sum(width > self.settings.span_width for width in widths),
            "repeated_mentions": sum(example.repeated for example in examples),
            "longest_document": max(map(self.size, examples), default=0),
        }

    def groups(self, examples: Sequence[CorefExample], train: Sequence[CorefExample]) -> dict[str, Grouping]:
        """By length and casing, the length of sentences, and the share of mentions that the largest chain has."""
        sizes = [sorted(map(len, example.chains)) for example in examples]
        shares = [100 * mentions[-1] / sum(mentions) if mentions else 0.0 for mentions in sizes]
        lengths = [self.size(example) / len(example.sentences) for example in examples]
        return {
            **super().groups(examples, train),
            "sentences": by_number(lengths, (20, 25, 30), "tokens in a sentence"),
            "largest_chain": by_number(shares, (20, 30), "% of the mentions"),
        }

    def learn_labels(self, train: Sequence[CorefExample]) -> None:
        """Sets the labels to the genres of the training documents; other documents are of no known genre."""
        if not any(example.chains for example in train):
            raise InputError(
                f"task=coref: expected chains in the training files, found none in {len(train):,} documents. "
                "Name files with a coreference column in data.splits"
            )
        self.labels = sorted({example.genre for example in train} - {""})

    def texts(self, example: CorefExample) -> tuple[Sentence, ...]:
        """The sentences of the document."""
        return example.sentences

    def targets(self, examples: Sequence[CorefExample]) -> dict[str, Tensor]:
        """Mentions, speakers and genres.

        `mentions` (mentions, 4): document, first token, the token after the last, number of the chain from 1;
        `speakers` (all tokens); `genres` (documents).
        """
        mentions = [
            (document, start, end, number)
            for document, example in enumerate(examples)
            for number, spans in enumerate(example.chains, start=1)
            for start, end in spans
        ]
        names = list(chain.from_iterable(example.speakers for example in examples))
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        genre_of = {genre: number for number, genre in enumerate(self.labels, start=UNKNOWN_GENRE + 1)}
        return {
            "mentions": torch.tensor(mentions, dtype=torch.long).view(-1, 4),
            "speakers": torch.tensor([numbers[name] for name in names]),
            "genres": torch.tensor([genre_of.get(example.genre, UNKNOWN_GENRE) for example in examples]),
        }

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """The model of Lee et al. 2017."""
        return EndToEndCoref(self.settings, widths["input"], len(self.labels) + 1, self.reader.singletons)

    def gold(self, examples: Sequence[CorefExample]) -> list[Chains]:
        """The gold chains."""
        return [example.chains for example in examples]

    def score(self, examples: Sequence[CorefExample], predictions: Sequence[Chains]) -> Scores:
        """MUC, B-cubed, CEAF-e and their average, with singletons and without; the counts of each document."""
        return score_documents(self.gold(examples), predictions)


def score_documents(gold: Sequence[Sequence[Chain]], predicted: Sequence[Sequence[Chain]]) -> Scores:
    """The scores of predicted chains; details have the precision and recall of each metric.

    Args:
        gold: the chains of each document; a mention is in one chain.
        predicted: the predicted chains of each document, in the same order.
    """
    examples = []
    for chains in zip(gold, predicted, strict=True):
        without = _counts(*([chain for chain in some if len(chain) > 1] for some in chains))
        apart = {name + WITHOUT_SINGLETONS: count for name, count in without.items() if "links" not in name}
        examples.append(_counts(*chains) | apart)
    sums = {name: sum(example[name] for example in examples) for m in COREF_METRICS.values() for name in m.columns}
    details: dict[str, object] = {}
    for name, metric in COREF_METRICS.items():
        if len(metric.terms) == 1:
            precision, recall = (float(Metric([[ratio]]).score(sums, len(examples))) for ratio in metric.terms[0])
            details[name] = {"precision": precision, "recall": recall}
    values = {name: float(metric.score(sums, len(examples))) for name, metric in COREF_METRICS.items()}
    return Scores(values, details, examples)


def _counts(gold: Sequence[Chain], predicted: Sequence[Chain]) -> dict[str, float]:
    """MUC, which counts links, B-cubed, which counts mentions, and CEAF-e, which counts chains.

    A chain of n mentions has n - 1 links, and so have the mentions that two chains share. B-cubed gives each mention in
    both the share of its predicted chain (for recall: of its gold chain) that is in the other. CEAF-e pairs gold and
    predicted chains, each at most once, for the largest sum of similarities 2 |G and P| / (|G| + |P|).
    """
    gold_chain = {mention: number for number, chain in enumerate(gold) for mention in chain}
    linked = ((number, mention) for number, chain in enumerate(predicted) for mention in chain)
    shared = Counter((gold_chain[mention], number) for number, mention in linked if mention in gold_chain)
    similarity = np.zeros((len(gold), len(predicted)))
    for (g, p), count in shared.items():
        similarity[g, p] = 2 * count / (len(gold[g]) + len(predicted[p]))
    mentions, gold_mentions = sum(map(len, predicted)), sum(map(len, gold))
    return {
        "links": sum(count - 1 for count in shared.values()),
        "predicted_links": mentions - len(predicted),
        "gold_links": gold_mentions - len(gold),
        "b_cubed_precision": sum(count * count / len(predicted[p]) for (_, p), count in shared.items()),
        "b_cubed_recall": sum(count * count / len(gold[g]) for (g, _), count in shared.items()),
        "predicted_mentions": mentions,
        "gold_mentions": gold_mentions,
        "similarity": most_similar(similarity),
        "predicted_chains": len(predicted),
        "gold_chains": len(gold),
    }


def most_similar(similarity: np.ndarray) -> float:
    """The largest sum of entries of which no two share a row or a column.

    Args:
        similarity: (rows, columns), not negative.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    return float(similarity[linear_sum_assignment(similarity, maximize=True)].sum())
