"""Perplexity of a biLM: `perplexity(...)`, and a command for any text and any exported biLM or masked LM.

For each direction it is exp of minus the mean natural log probability of every word and of the end of every sentence
(forward: of w1 .. wn and </S>, each given the words to its left; backward: of wn .. w1 and one end mark, each given the
words to its right), among all words of the vocabulary. Each sentence is read from a zero state. Words are cased. A word
outside the vocabulary counts as a prediction of <UNK>. The rate of such words is printed too, because a small
vocabulary makes the task easier.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast, get_args

import numpy as np
import torch
from rich.console import Console

from elmo.common import checks
from elmo.common.device import CHOICES, choose_device
from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.progress import Meter
from elmo.pretrain.corpus.drawing import splitmix, uniform
from elmo.pretrain.corpus.overlap import WINDOW, shared
from elmo.pretrain.corpus.sources import CONTINUES, find_sources, lines, read_blocks
from elmo.pretrain.corpus.token_store import CorpusSettings, TokenStore
from elmo.pretrain.model.export import Output, load_model
from elmo.pretrain.model.language_model import LanguageModel, lstm_layers, word_vectors
from elmo.pretrain.training.batches import IGNORED, Batcher, BatchPlan, Text, text_of_words, texts_of_store
from elmo.pretrain.training.masked_loss import TERMS as MASKED_TERMS
from elmo.pretrain.training.masked_loss import masked_loss
from elmo.tokeniser import Tokenise, Tokeniser, parts

TERMS = "full softmax, each sentence from a zero state, cased, </S> predicted, <UNK> predicted"
TOKENS_AT_ONCE = 16_384
# Share of a document's lines. Of 48 Wikipedia articles, those in a text of 108 M words shared 81 % of their lines or
# more with it, the others 46 % or less: titles, quotations, lists of names.
SEEN = 0.5


@dataclass(frozen=True)
class HeldOut:
    """The paragraphs that a token store with heldout_unit=paragraph holds out, by `key`: `key in HeldOut(0.005, 1)`.

    Attributes:
        fraction: held out.
        seed: decides which text the store holds out.
    """

    fraction: float
    seed: int

    def __contains__(self, key: int) -> bool:
        return bool(uniform(splitmix(np.array([key], np.uint64), self.seed))[0] < self.fraction)


@dataclass(frozen=True)
class Perplexity:
    """Perplexities of a text.

    Attributes:
        forward: of the left-to-right direction.
        backward: of the other direction.
        tokens: predictions in each direction, the ends of sentences included.
        unknown_rate: share of words that were <UNK>.
        vocabulary: number of words in the softmax.
    """

    kind: ClassVar[str] = "perplexity"
    columns: ClassVar[tuple[str, ...]] = ("forward", "backward")

    forward: float
    backward: float
    tokens: int
    unknown_rate: float
    vocabulary: int

    @property
    def mean(self) -> float:
        """The arithmetic mean of both directions."""
        return (self.forward + self.backward) / 2

    @property
    def short(self) -> str:
        """The values in a few words."""
        return f"perplexity {self.forward:.1f} forward, {self.backward:.1f} backward"

    def __str__(self) -> str:
        return (
            f"perplexity forward {self.forward:.2f}, backward {self.backward:.2f}, mean {self.mean:.2f} "
            f"({self.tokens:,} predictions each; {TERMS} at {100 * self.unknown_rate:.2f} % of words, "
            f"vocabulary of {self.vocabulary:,})"
        )


@torch.no_grad()
def perplexity(
    model: LanguageModel, text: Text, dtype: torch.dtype = torch.float32, meter: Meter | None = None
) -> Perplexity:
    """The perplexity of a text under a model, on the model's device.

    Args:
        model: the biLM and its output layer.
        text: to predict.
        dtype: of the biLM's products; the output layer is always in single precision.
        meter: for progress, by predictions (`text.predictions` in all).
    """
    if not len(text.sentences):
        raise InputError("perplexity needs at least one sentence, found none; give more text")
    device = model.bilm.device
    batcher = Batcher(BatchPlan(text.sentences, TOKENS_AT_ONCE, seed=None), text.spelling, text.n_targets)
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    tokens = 0
    for step in range(len(batcher.plan)):
        batch = batcher(step)
        spelled = torch.from_numpy(text.spelling.ids[batch.types]).to(device)
        there = (batch.targets[0] != IGNORED).any(axis=0)  # (sentences,): the last batch of a length has empty rows
        types, inputs, targets = (
            torch.from_numpy(array).to(device)
            for array in (batch.types, batch.inputs[..., there], batch.targets[..., there])
        )
        vectors = word_vectors(model.bilm, types, spelled, batch.profile, dtype)
        top = lstm_layers(model.bilm, vectors, inputs)[-1]  # (2, steps, sentences, projection_dim)
        for direction in range(2):
            words = targets[direction] != IGNORED
            found = model.output.log_likelihood(top[direction][words], targets[direction][words])
            sums[direction] += found.sum(dtype=torch.float64)
        tokens += batch.tokens
        if meter is not None:
            meter.advance(batch.tokens, batch.tokens)
    forward, backward = (_exp(-total / tokens) for total in sums.tolist())
    return Perplexity(forward, backward, tokens, text.unknown_rate, text.n_targets)


def _exp(value: float) -> float:
    return math.exp(value) if not value > 700 else math.inf  # above the range of a float


def read_text(
    path: Path,
    output: Output,
    tokenise: str | None,
    max_characters: int,
    unseen_in: Sequence[str] = (),
    heldout: HeldOut | None = None,
) -> Text:
    """The text of a file or folder, or the held-out part of a token store, numbered by an output layer's vocabulary.

    Args:
        path: of the text.
        output: layer whose vocabulary is used.
        tokenise: how to split words; None means as in training.
        max_characters: characters of a word that the encoder reads.
        unseen_in: text files and folders; documents that occur in them are left out.
        heldout: reads only the paragraphs that a pretraining holds out.
    """
    if (path / "header.json").is_file():
        given = {"--unseen-in": unseen_in, "--heldout-fraction": heldout, "--tokenise": tokenise}
        if wrong := [option for option, value in given.items() if value]:
            raise InputError(f"{path}: {wrong[0]} needs a text, found a token store, whose held-out part is fixed")
        return texts_of_store(TokenStore.open(path), max_characters, output.vocabulary)[1]
    documents = _documents(path, heldout)
    if unseen_in:
        documents = _unseen(documents, unseen_in)
    tokeniser = Tokeniser(cast(Tokenise, tokenise or output.tokenise))
    found = [sentence for document in documents for line in document for sentence in tokeniser.paragraph(line)]
    if heldout:
        found = [part for sentence in found for part in parts(sentence, CorpusSettings.max_tokens)]  # as in a store
    if not found:
        raise InputError(f"{path}: expected text, found no word in it" + " that is unseen" * bool(unseen_in))
    return text_of_words(found, output.vocabulary, max_characters)


def _unseen(documents: list[list[str]], corpus: Sequence[str]) -> list[list[str]]:
    """The documents of which few lines occur in a corpus; prints how many there are."""
    found = iter(shared([line for document in documents for line in document], find_sources(corpus)))
    rates = [sum(next(found) for _ in document) / len(document) for document in documents]
    unseen = [document for document, rate in zip(documents, rates, strict=True) if rate < SEEN]
    print(
        f"{len(unseen)} of {len(documents)} documents count: fewer than {SEEN:.0%} of their lines share {WINDOW} "
        f"characters in a row with {', '.join(corpus)}"
    )
    return unseen


def _documents(path: Path, heldout: HeldOut | None) -> list[list[str]]:
    """The lines of a file or folder, by document; a blank line or the end of a file ends a document."""
    documents: list[list[str]] = []
    read: set[int] = set()  # keys of held-out paragraphs, since a store has each once
    for block in read_blocks(find_sources([path])):
        for piece in block.pieces:
            for line in lines(piece):
                if line.place != CONTINUES or not documents:
                    documents.append([])
                if heldout:
                    if line.key in read or line.key not in heldout:
                        continue
                    read.add(line.key)
                documents[-1].append(line.text)
    return [document for document in documents if document]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser(
        "elmo.pretrain.perplexity",
        f"Measure the perplexity of an exported biLM on any text, in each direction:\n{TERMS}.\n"
        f"For a masked LM, measure its masked loss:\n{MASKED_TERMS}.",
        "example: python -m elmo.pretrain.perplexity news.txt --weights small",
    )
    parser.add_argument(
        "text",
        metavar="TEXT",
        type=Path,
        help="a .txt, .gz or .xz file, a folder of them, or a token store (its held-out part)",
    )
    parser.add_argument(
        "--weights",
        metavar="W",
        default="small",
        help="an exported biLM or masked LM, or a name (default: small); allennlp/* are published without output layer",
    )
    parser.add_argument("--softmax", metavar="DIR", help="the output layer of W (default: W-softmax next to W)")
    parser.add_argument("--tokenise", choices=get_args(Tokenise), help="default: as in training")
    parser.add_argument(
        "--unseen-in",
        metavar="CORPUS",
        nargs="+",
        default=[],
        help=f"the training text of the biLM: leave out documents of TEXT (a blank line ends one) if at least "
        f"{SEEN:.0%} of their lines share {WINDOW} characters in a row with these files and folders".replace("%", "%%"),
    )
    parser.add_argument(
        *("--heldout-fraction", "--heldout"),  # the latter was its name before
        metavar="SHARE",
        dest="heldout",
        type=float,
        help="read only the paragraphs of TEXT that a pretraining with heldout_unit=paragraph and "
        "heldout_fraction=SHARE holds out, independently of its other text, weights and recasing",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="heldout_seed, or seed, of that pretraining (default: %(default)s)"
    )
    parser.add_argument("--device", choices=CHOICES, default="auto", help="default: a GPU if there is one")
    options = parser.parse_args(arguments)
    return exit_status("elmo.pretrain.perplexity", lambda: _measure(options))


def _measure(options: argparse.Namespace) -> None:
    checks.fraction("--heldout-fraction", options.heldout)
    heldout = HeldOut(options.heldout, options.seed) if options.heldout is not None else None
    model, output = load_model(options.weights, options.softmax)
    width = model.core.encoder.options.max_characters
    text = read_text(options.text, output, options.tokenise, width, options.unseen_in, heldout)
    model = model.to(choose_device(options.device))
    with Meter(Console(stderr=True), "measuring", text.predictions) as meter:
        measured = (
            perplexity(model, text, meter=meter)
            if isinstance(model, LanguageModel)
            else masked_loss(model, text, meter=meter)
        )
    print(measured)
