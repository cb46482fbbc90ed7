"""Semantic role labelling: a deep highway LSTM tags the arguments of a given predicate of a sentence.

Scores follow the rules of srl-eval, the official scorer of CoNLL-2005 and CoNLL-2012.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.common.checks import Dropout, Layers, Width
from elmo.common.errors import InputError, excerpt
from results.records.metric import Grouping
from tasks.data.text import Span, may_follow_in_iob2, raw_text, read_documents, spans_of, tokens_of, word_list
from tasks.kinds import TaggedText, Tagging
from tasks.metrics import SPAN_METRICS, Scores, add_units, span_scores
from tasks.modules.crf import TagRules, best_tags, padded
from tasks.modules.layers import AlternatingHighwayLstm
from tasks.task import Answer, Batch, FeatureBatch, Head, Split

MARKED = re.compile(r"\*([^\s*]+)\*")  # the predicate in raw text
INVISIBLE = "\u200b"  # the tokeniser drops it
NO_PREDICATE = -1  # as a position
PREDICATE = "V"
CONTINUED = "C-"
# The predicates of a sentence share its words, so that intervals leave out whole sentences.
SRL_METRICS = {name: replace(metric, unit="sentence") for name, metric in SPAN_METRICS.items()}
OTHER = "other"
TREEBANK = "google/ewt/"  # the documents of the English Web Treebank: the next folder is the genre, else the first one
KINDS = {"V": "verbal", "N": "nominal", "J": "adjectival"}  # by the first letter of the predicate's part of speech


@dataclass(frozen=True)
class SrlExample(TaggedText):
    """A predicate and its arguments; or a sentence without predicates, which is trained on and never scored.

    Its id is that of the sentence and the predicate's position. Spans are in their order; among them are V and
    continuations, such as C-ARG1.

    Attributes:
        sentence: document, part and first line of the sentence; the predicates of a sentence share it.
        predicate: its position; None in a sentence without predicates.
        pos: the predicate's part of speech, "" without one.
        first: whether it is the first example of its sentence.
    """

    sentence: str = ""
    predicate: int | None = None
    pos: str = ""
    first: bool = True


def read_frames(path: Path) -> list[SrlExample]:
    """The examples of a file: the predicates of each sentence, in their order."""
    examples: list[SrlExample] = []
    for document in read_documents(path):
        for sentence in document.sentences:
            name = f"{document.id}.{document.part}:{sentence.line}"
            if not sentence.predicates:
                examples.append(SrlExample(name, sentence.words, sentence=name))
            for at, spans in zip(sentence.predicates, sentence.arguments, strict=True):
                about = name, at, sentence.pos[at], at == sentence.predicates[0]
                examples.append(SrlExample(f"{name}:{at}", sentence.words, spans, (), *about))
    return examples


@dataclass
class SrlSettings:
    """The head's sizes.

    Attributes:
        hidden: width of each LSTM layer.
        layers: number of layers, in alternating directions.
        flag_dim: width of the vector that marks the predicate.
        recurrent_dropout: of the states, with one mask for all steps of a sentence.
    """

    hidden: Width = 300
    layers: Layers = 8
    flag_dim: Width = 100
    recurrent_dropout: Dropout = 0.1


class FlagEmbedding(nn.Embedding):
    """A vector for the predicate and one for the other words, with Xavier values at the start."""

    def __init__(self, dim: int) -> None:
        super().__init__(2, dim)

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        nn.init.xavier_uniform_(self.weight)


class OrthogonalLinear(nn.Linear):
    """A linear layer with orthogonal weights at the start."""

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        super().reset_parameters()
        nn.init.orthogonal_(self.weight)


class DeepSrl(Head):
    """Reads [x_k; ELMo_k; flag_k], tags [h_k; ELMo_k] word by word; predictions are the best valid BIO tags.

    Args:
        settings: the sizes.
        tags: what to predict.
        input_dim: width of the features at the input.
        output_dim: their width next to the encoder's states.
    """

    def __init__(self, settings: SrlSettings, tags: Sequence[str], input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.tags = list(tags)
        self.flags = FlagEmbedding(settings.flag_dim)
        sizes = settings.hidden, settings.layers, settings.recurrent_dropout
        self.encoder = AlternatingHighwayLstm(input_dim + settings.flag_dim, *sizes)
        self.projection = OrthogonalLinear(self.encoder.output_dim + output_dim, len(tags))
        self.rules = TagRules(tags, may_follow_in_iob2)

    def _emissions(self, features: FeatureBatch, batch: Batch) -> Tensor:
        """The scores of the tags, (batch, tokens, tags)."""
        words = torch.arange(features.mask.shape[1], device=features.mask.device)
        flags = self.flags((words == batch.targets["predicate"].unsqueeze(1)).long())  # (batch, tokens, flag_dim)
        encoded = self.encoder(torch.cat([features.input, flags], dim=-1), features.lengths)
        return self.projection(torch.cat([encoded, features.output], dim=-1))

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The cross-entropy of the gold tags: mean over words, then mean over examples, as AllenNLP does."""
        (text,) = features
        emissions = self._emissions(text, batch).float()
        by_word = functional.cross_entropy(emissions.transpose(1, 2), batch.targets["tags"], reduction="none")
        return ((by_word * text.mask).sum(dim=1) / text.mask.sum(dim=1)).mean()

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[list[str]]:
        """The best valid BIO tags of each example; there are no scores of transitions."""
        return [tags for tags, _ in self.decode_with_probabilities(features, batch)]

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The tags, each with its probability by the softmax over all tags of its token."""
        (text,) = features
        emissions = self._emissions(text, batch)
        paths = best_tags(emissions, self.rules.between, self.rules.first, self.rules.last, text.mask)
        shares = emissions.float().softmax(dim=-1).gather(2, padded(paths, text.mask).unsqueeze(2)).squeeze(2).tolist()
        pairs = zip(paths, shares, strict=True)
        return [([self.tags[number] for number in path], row[: len(path)]) for path, row in pairs]


class Argument(NamedTuple):
    """An argument; `pieces` are start and end of each of its spans, more than one if it is discontinuous."""

    label: str
    pieces: tuple[tuple[int, int], ...]


def counted_arguments(spans: Iterable[Span]) -> list[Argument]:
    """The arguments that are counted, of spans in their order in the sentence.

    V is not counted. C-X continues the last X before it: together they are one argument X, which is right if all its
    pieces are. Without an X before it, C-X is an X. R-X is an argument of its own.
    """
    pieces: list[tuple[str, list[tuple[int, int]]]] = []
    last: dict[str, list[tuple[int, int]]] = {}  # label -> the pieces of its last argument
    for label, start, end in spans:
        continued = label.removeprefix(CONTINUED)
        if label != continued and continued in last:
            last[continued].append((start, end))
        else:
            last[continued] = [(start, end)]
            pieces.append((continued, last[continued]))
    return [Argument(label, tuple(parts)) for label, parts in pieces if label != PREDICATE]


def kind_of(pos: str) -> str:
    """Verbal, nominal, adjectival or other: the kind of a predicate by its part of speech in the Penn treebank."""
    return KINDS.get(pos[:1], OTHER)


def srl_scores(
    gold: Sequence[Iterable[Span]],
    predicted: Sequence[Iterable[Span]],
    sentences: Sequence[str],
    predicates: Sequence[str | None],
) -> Scores:
    """F1, precision and recall of arguments, also by label and by kind of predicate.

    Args:
        gold: the spans of each example.
        predicted: the predicted spans.
        sentences: what the examples of one sentence share; their number among the scores is `sentence`.
        predicates: the part of speech of each example's predicate; None for an example without one, which has no
            arguments for any prediction.
    """
    right = [counted_arguments(spans) for spans in gold]
    pairs = zip(predicted, predicates, strict=True)
    guessed = [[] if pos is None else counted_arguments(spans) for spans, pos in pairs]
    scores = add_units(span_scores(right, guessed), "sentence", sentences)
    by_kind = {}
    for kind in (*KINDS.values(), OTHER):
        places = [place for place, pos in enumerate(predicates) if pos is not None and kind_of(pos) == kind]
        if places:
            gold_of, guessed_of = ([arguments[place] for place in places] for arguments in (right, guessed))
            counts = {"gold": sum(map(len, gold_of)), "predicates": len(places)}
            by_kind[kind] = {**span_scores(gold_of, guessed_of).values, **counts}
    scores.details["predicates"] = by_kind
    return scores


class Srl(Tagging[SrlExample, SrlSettings]):
    """Semantic role labelling by the F1 of arguments without V, as srl-eval counts it. Predicates are given."""

    name = "srl"
    metrics = SRL_METRICS
    recipe = 2  # 2: dropout of the joined vectors by trials, until patience ends
    settings_type = SrlSettings
    prefixes = "BI"
    span_kind = "arguments"

    def read(self, path: Path, split: Split) -> list[SrlExample]:
        """The predicates in a file with CoNLL-2012 columns."""
        return read_frames(path)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> SrlExample:
        """A sentence and its predicate: `text` with *one* word between asterisks, or `tokens` and `predicate`."""
        if "tokens" in fields:
            words, predicate = word_list(fields["tokens"], "tokens"), fields.get("predicate")
            if not isinstance(predicate, int) or not 0 <= predicate < len(words):
                expected = f"expected the position of a token, 0 to {len(words) - 1}, as predicate"
                raise ValueError(f"{expected}, found {excerpt(predicate)}")
            return SrlExample(f"{name}:{predicate}", words, sentence=name, predicate=predicate)
        text = raw_text(fields, "text")
        marks = list(MARKED.finditer(text))
        if len(marks) != 1:
            raise ValueError(f"expected one predicate between asterisks, as in Ada *sold* the boat, found {len(marks)}")
        tokens = tokens_of(MARKED.sub(rf"{INVISIBLE}\1{INVISIBLE}", text), inner_cuts=False)  # keeps the places
        first, past = tokens.covering(*marks[0].span(1))
        if past - first > 1:
            quoted = ", ".join(tokens.words[first:past])
            raise ValueError(f"expected one token between asterisks, found {past - first}: {quoted}. Mark one of them")
        return SrlExample(f"{name}:{first}", tokens.words, (), tokens.offsets, name, first)

    def example_fields(self, example: SrlExample) -> dict[str, Any]:
        """The words and the predicate's position."""
        return {"tokens": list(example.words), "predicate": example.predicate}

    def counts(self, examples: Sequence[SrlExample]) -> dict[str, int]:
        """Sentences and their tokens, predicates, and arguments as they are scored."""
        sentences = [example.words for example in examples if example.first]
        return {
            "sentences": len(sentences),
            "tokens": sum(map(len, sentences)),
            "predicates": sum(example.predicate is not None for example in examples),
            "arguments": sum(len(counted_arguments(example.spans)) for example in examples),
        }

    def label_counts(self, examples: Sequence[SrlExample]) -> dict[str, int]:
        """None: many roles are rare by nature."""
        return {}

    def groups(self, examples: Sequence[SrlExample], train: Sequence[SrlExample]) -> dict[str, Grouping]:
        """By length, casing, predicate and genre; sentences without predicates are not scored: of no kind."""
        kinds = [*KINDS.values(), OTHER]
        predicates = Grouping(kinds, [kinds.index(kind_of(example.pos)) for example in examples])
        folders = [example.sentence.removeprefix(TREEBANK).split("/") for example in examples]
        genres = sorted({folder[0] for folder in folders})
        genre = Grouping(genres, [genres.index(folder[0]) for folder in folders])
        groupings = {**super().groups(examples, train), "predicate": predicates}
        groupings |= {"genre": genre} if all(len(folder) > 1 for folder in folders) else {}
        scored = [example.predicate is not None for example in examples]
        return {
            name: replace(by, of=[number if counts else None for number, counts in zip(by.of, scored, strict=True)])
            for name, by in groupings.items()
        }

    def learn_labels(self, train: Sequence[SrlExample]) -> None:
        """Sets the labels to those of the spans in training, V and continuations among them."""
        super().learn_labels(train)
        if not self.labels:
            raise InputError(
                f"task=srl: expected predicates with roles in the training files, found none in {len(train):,} "
                "sentences. Name files with the columns of PropBank in data.splits"
            )

    def targets(self, examples: Sequence[SrlExample]) -> dict[str, Tensor]:
        """`tags` (batch, tokens), padded with O; `predicate` (batch,), its position."""
        positions = [NO_PREDICATE if example.predicate is None else example.predicate for example in examples]
        return {**super().targets(examples), "predicate": torch.tensor(positions)}

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """A deep highway LSTM."""
        return DeepSrl(self.settings, self.tags, widths["input"], widths["output"])

    def judged(self, examples: Sequence[SrlExample], answers: Sequence[Answer]) -> list[list[tuple[float, bool]]]:
        """The product of the probabilities of each predicted argument's tags, and whether the argument is right."""
        return [
            [
                (prod(share for place in argument.pieces for share in shares[slice(*place)]), argument in right)
                for argument in counted_arguments(spans_of(tags))
                if example.predicate is not None
            ]
            for example, (tags, shares) in zip(examples, answers, strict=True)
            for right in [counted_arguments(example.spans)]
        ]

    def score(self, examples: Sequence[SrlExample], predictions: Sequence[Sequence[str]]) -> Scores:
        """F1, precision and recall of arguments, by label and by kind of predicate; counts of each example."""
        return srl_scores(
            [example.spans for example in examples],
            [spans_of(tags) for tags in predictions],
            [example.sentence for example in examples],
            [None if example.predicate is None else example.pos for example in examples],
        )
