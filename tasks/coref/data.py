"""Documents with coreference chains, from files in CoNLL-2012 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from elmo.common.errors import excerpt
from elmo.tokeniser import sentences_of_tokens
from tasks.batch import Sentence
from tasks.coref.spans import Chains, Span
from tasks.data.conll2012 import ConllDocument, read_documents
from tasks.data.offset_tokens import Offsets, OffsetTokeniser
from tasks.data.raw_text import raw_text, word_list


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


def raw_document(name: str, fields: Mapping[str, Any]) -> CorefExample:
    """A document of raw text without speakers, genre and chains: `text`, or `sentences` of words.

    Raises:
        ValueError: there is neither.
    """
    if "sentences" not in fields:
        tokens = OffsetTokeniser()(raw_text(fields, "text"))
        sentences = tuple(sentences_of_tokens(tokens.words))
        return CorefExample(name, sentences, ("",) * len(tokens), "", (), offsets=tokens.offsets)
    given = fields["sentences"]
    if not isinstance(given, list):
        raise ValueError(f"expected a list of sentences as sentences, found {excerpt(given)}")
    sentences = tuple(word_list(words, "a sentence") for words in given)
    return CorefExample(name, sentences, ("",) * sum(map(len, sentences)), "", ())


def _example(document: ConllDocument) -> CorefExample:
    chain_of: dict[Span, int] = {}
    mentions = list(_mentions(document))
    for span, number in mentions:
        chain_of.setdefault(span, number)  # a span is in one chain: the scorer counts it once
    by_chain: dict[int, list[Span]] = {}
    for span in sorted(chain_of):
        by_chain.setdefault(chain_of[span], []).append(span)
    return CorefExample(
        f"{document.id}:{document.part}",
        tuple(sentence.words for sentence in document.sentences),
        tuple(chain.from_iterable(sentence.speakers for sentence in document.sentences)),
        document.genre,
        tuple(map(tuple, by_chain.values())),
        len(mentions) - len(chain_of),
    )


def _mentions(document: ConllDocument) -> Iterator[tuple[Span, int]]:
    """The mentions in tokens of the document, and their chains."""
    before = 0
    for sentence in document.sentences:
        for mention in sentence.mentions:
            yield (before + mention.start, before + mention.end), mention.chain
        before += len(sentence.words)
