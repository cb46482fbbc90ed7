"""The command `python -m elmo.pretrain.perplexity`: perplexity or masked loss of a language model."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

from rich.console import Console

from elmo.common.checks import DEVICES
from elmo.common.device import choose_device
from elmo.common.errors import InputError, command_parser
from elmo.common.progress import Meter
from elmo.pretrain.batches import Text, text_of_words, texts_of_store
from elmo.pretrain.corpus.text import CONTINUES, WINDOW, find_sources, read_blocks, shared
from elmo.pretrain.corpus.token_store import TokenStore
from elmo.pretrain.export import Output, load_model
from elmo.pretrain.objective import OBJECTIVES, objective_of
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


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser(
        "elmo.pretrain.perplexity",
        f"Measure the perplexity of an exported biLM on any text, in each direction:\n{OBJECTIVES['joined'].terms}.\n"
        f"For a masked LM, measure its masked loss:\n{OBJECTIVES['masked'].terms}.",
        "example: python -m elmo.pretrain.perplexity news.txt --weights small",
    )
    parser.add_argument(
        "text", metavar="TEXT", type=Path, help=".txt, .gz or .xz, a folder, or a token store (its held-out part)"
    )
    parser.add_argument(
        "--weights", metavar="W", default="small", help="a model with its output layer, or a name (default: small)"
    )
    parser.add_argument("--softmax", metavar="DIR", help="the output layer of W (default: W-softmax next to W)")
    parser.add_argument("--tokenise", choices=get_args(Tokenise), help="default: as in training")
    unseen = (
        "the training text of the biLM: leave out documents of TEXT (a blank line ends one) if at least half of their "
        f"lines share {WINDOW} characters in a row with these files and folders"
    )
    parser.add_argument("--unseen-in", metavar="CORPUS", nargs="+", default=[], help=unseen)
    parser.add_argument("--device", choices=DEVICES, default="auto", help="default: a GPU if there is one")
    return parser.run(arguments, _measure)


def _measure(options: argparse.Namespace) -> None:
    model, output = load_model(options.weights, options.softmax)
    width = model.core.encoder.options.max_characters
    text = read_text(options.text, output, options.tokenise, width, options.unseen_in)
    model, objective = model.to(choose_device(options.device)), objective_of(model)
    with Meter(Console(stderr=True), "measuring", text.predictions) as meter:
        measured = objective.measure(model, text, meter=meter)
    print(objective.describe(measured))


if __name__ == "__main__":
    sys.exit(main())
