"""Perplexity or masked loss of a language model on any text: the work of `python -m elmo.pretrain.perplexity`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from rich.console import Console

from elmo.common.device import choose_device
from elmo.common.errors import InputError
from elmo.common.progress import Meter
from elmo.pretrain.batches import Text, text_of_words, texts_of_store
from elmo.pretrain.corpus.text import CONTINUES, WINDOW, find_sources, read_blocks, shared
from elmo.pretrain.corpus.token_store import TokenStore
from elmo.pretrain.export import Output, load_model
from elmo.pretrain.objective import objective_of
from elmo.tokeniser import Tokenise, Tokeniser

# Share of a document's lines. Of 48 Wikipedia articles, those in a text of 108 M words shared 81 % of their lines or
# more with it, the others 46 % or less: titles, quotations, lists of names.
SEEN = 0.5


def read_text(
    path: Path, output: Output, tokenise: str | None, max_characters: int, unseen_in: Sequence[str] = ()
) -> Text:
    """The text of a file or folder, or the held-out part of a token store, numbered by an output layer's vocabulary.

    Args:
        path: of the text.
        output: layer whose vocabulary is used.
        tokenise: how to split words; None means as in training.
        max_characters: characters of a word that the encoder reads.
        unseen_in: text files and folders; documents that occur in them are left out.
    """
    if (path / "header.json").is_file():
        given = {"--unseen-in": unseen_in, "--tokenise": tokenise}
        if wrong := [option for option, value in given.items() if value]:
            raise InputError(f"{path}: {wrong[0]} needs a text, found a token store, whose held-out part is fixed")
        return texts_of_store(TokenStore.open(path), max_characters, output.vocabulary)[1]
    documents = _documents(path)
    if unseen_in:
        documents = _unseen(documents, unseen_in)
    tokeniser = Tokeniser(cast(Tokenise, tokenise or output.tokenise))
    sentences = [sentence for document in documents for line in document for sentence in tokeniser.paragraph(line)]
    if not sentences:
        raise InputError(f"{path}: expected text, found no word in it" + " that is unseen" * bool(unseen_in))
    return text_of_words(sentences, output.vocabulary, max_characters)


def _unseen(documents: list[list[str]], corpus: Sequence[str]) -> list[list[str]]:
    """The documents of which few lines occur in a corpus; prints how many there are."""
    in_text = iter(shared([line for document in documents for line in document], find_sources(corpus)))
    rates = [sum(next(in_text) for _ in document) / len(document) for document in documents]
    unseen = [document for document, rate in zip(documents, rates, strict=True) if rate < SEEN]
    print(
        f"{len(unseen)} of {len(documents)} documents count: fewer than {SEEN:.0%} of their lines share {WINDOW} "
        f"characters in a row with {', '.join(corpus)}"
    )
    return unseen


def _documents(path: Path) -> list[list[str]]:
    """The lines of a file or folder, by document; a blank line or the end of a file ends a document."""
    documents: list[list[str]] = []
    for block in read_blocks(find_sources([path])):
        for line in block.lines:
            if line.place != CONTINUES:
                documents.append([])
            documents[-1].append(line.text)
    return documents


def measure(options: argparse.Namespace) -> None:
    """Prints the value and its terms."""
    model, output = load_model(options.weights, options.softmax)
    width = model.core.encoder.options.max_characters
    text = read_text(options.text, output, options.tokenise, width, options.unseen_in)
    model, objective = model.to(choose_device(options.device)), objective_of(model)
    with Meter(Console(stderr=True), "measuring", text.predictions) as meter:
        measured = objective.measure(model, text, meter=meter)
    print(objective.describe(measured))
