"""The coreference task: from documents to chains of mentions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo.common.errors import InputError, excerpt
from elmo.tokeniser import sentences_of_tokens
from results.records.metric import Grouping
from tasks.batch import Sentence, Split
from tasks.coref.head import CorefSettings, EndToEndCoref
from tasks.coref.scoring import COREF_METRICS, score_documents
from tasks.coref.spans import Chains, Span
from tasks.data.conll2012 import ConllDocument, read_documents
from tasks.data.offset_tokens import Offsets, OffsetTokeniser
from tasks.data.raw_text import raw_text, span_fields, word_list
from tasks.metrics import Scores, by_number
from tasks.task import Head, Task

UNKNOWN_GENRE = 0


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
    chain_of: dict[Span, int] = {}
    before = repeated = 0
    for sentence in document.sentences:
        for mention in sentence.mentions:
            span = before + mention.start, before + mention.end
            repeated += span in chain_of
            chain_of.setdefault(span, mention.chain)  # a span is in one chain: the scorer counts it once
        before += len(sentence.words)
    by_chain: dict[int, list[Span]] = {}
    for span in sorted(chain_of):
        by_chain.setdefault(chain_of[span], []).append(span)
    return CorefExample(
        f"{document.id}:{document.part}",
        tuple(sentence.words for sentence in document.sentences),
        tuple(chain.from_iterable(sentence.speakers for sentence in document.sentences)),
        document.genre,
        tuple(map(tuple, by_chain.values())),
        repeated,
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
            tokens = OffsetTokeniser()(raw_text(fields, "text"))
            sentences, offsets = sentences_of_tokens(tokens.words), tokens.offsets
        elif isinstance(fields["sentences"], list):
            sentences = [word_list(words, "a sentence") for words in fields["sentences"]]
        else:
            raise ValueError(f"expected a list of sentences as sentences, found {excerpt(fields['sentences'])}")
        return CorefExample(name, tuple(sentences), ("",) * sum(map(len, sentences)), "", (), offsets=offsets)

    def prediction_fields(self, example: CorefExample, prediction: Chains) -> dict[str, Any]:
        """The words, and the mentions of each chain."""
        words = list(chain.from_iterable(example.sentences))
        chains = [[span_fields(words, example.offsets, *mention) for mention in own] for own in prediction]
        return {"tokens": words, "chains": chains}

    def prediction_text(self, example: CorefExample, prediction: Chains) -> str:
        """One chain per line, its mentions separated by bars."""
        words = list(chain.from_iterable(example.sentences))
        return "".join(" | ".join(" ".join(words[start:end]) for start, end in own) + "\n" for own in prediction)

    def usable(self, example: CorefExample) -> bool:
        """Whether a document has words."""
        return bool(example.sentences)

    def counts(self, examples: Sequence[CorefExample]) -> dict[str, int]:
        """Documents, sentences, tokens, mentions and chains."""
        chains = [own for example in examples for own in example.chains]
        singletons = sum(len(own) == 1 for own in chains)
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
        widths = [end - start for example in examples for own in example.chains for start, end in own]
        return {
            "mentions_wider_than_span_width": sum(width > self.settings.span_width for width in widths),
            "repeated_mentions": sum(example.repeated for example in examples),
            "longest_document": max(map(self.size, examples), default=0),
        }

    def groups(self, examples: Sequence[CorefExample], train: Sequence[CorefExample]) -> dict[str, Grouping]:
        """By length and casing, the length of sentences, and the share of mentions that the largest chain has."""
        sizes = [sorted(map(len, example.chains)) for example in examples]
        shares = [100 * own[-1] / sum(own) if own else 0.0 for own in sizes]
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
            for number, own in enumerate(example.chains, start=1)
            for start, end in own
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
