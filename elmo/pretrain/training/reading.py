"""Numbered text for training and evaluation, from a token store or from lists of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.pretrain.corpus.token_store import UNKNOWN, Sentences, TokenStore
from elmo.pretrain.model.spelling import Spelling


@dataclass(frozen=True)
class Text:
    """Sentences of word numbers; words of the vocabulary have the lowest numbers.

    Attributes:
        sentences: word numbers.
        spelling: of every word.
        n_targets: words of the vocabulary, the special ones included; higher numbers are <UNK> as a target.
    """

    sentences: Sentences
    spelling: Spelling
    n_targets: int

    @property
    def predictions(self) -> int:
        """Predictions in each direction: words and ends of sentences."""
        return len(self.sentences.tokens) + len(self.sentences)

    @property
    def unknown_rate(self) -> float:
        """Share of words (without </S>) that are <UNK> as a target."""
        tokens = self.sentences.tokens
        return float(((tokens >= self.n_targets) | (tokens == UNKNOWN)).mean()) if len(tokens) else 0.0


def text_of_words(sentences: Iterable[Sequence[str]], vocabulary: Sequence[str], max_characters: int) -> Text:
    """Numbers the words of sentences by a vocabulary that begins with the special words."""
    number_of = {word: number for number, word in enumerate(vocabulary)}
    offsets, tokens = [0], []
    for sentence in sentences:
        tokens += [number_of.setdefault(word, len(number_of)) for word in sentence]
        offsets.append(len(tokens))
    numbered = Sentences(np.array(tokens, dtype=np.uint32), np.array(offsets, dtype=np.int64))
    return Text(numbered, Spelling.of_words(list(number_of), max_characters), len(vocabulary))


def texts_of_store(
    store: TokenStore, max_characters: int, vocabulary: Sequence[str] | None = None
) -> tuple[Text, Text]:
    """The training and the held-out text of a store.

    Args:
        store: to read from.
        max_characters: characters of a word that the encoder reads.
        vocabulary: words to number first, if they come from another store; None uses the store's own.
    """
    if vocabulary is None:
        spelling = Spelling.of_bytes(store.type_bytes, store.type_offsets, max_characters)
        n_targets = store.vocabulary_size
        return Text(store.train, spelling, n_targets), Text(store.heldout, spelling, n_targets)
    number_of = {word: number for number, word in enumerate(vocabulary)}
    renumbered = np.array(
        [number_of.setdefault(word, len(number_of)) for word in store.words(range(len(store)))], dtype=np.uint32
    )
    spelling = Spelling.of_words(list(number_of), max_characters)
    train, heldout = (
        Text(Sentences(renumbered[part.tokens], part.offsets), spelling, len(vocabulary))
        for part in (store.train, store.heldout)
    )
    return train, heldout
