"""Every setting of a pretraining run, checked: what the command's configuration becomes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from elmo.bilm.options import BilmOptions
from elmo.common.errors import InputError
from elmo.common.files import expanded

INPUTS = ("char", "word", "both")
MOST_BATCH_TOKENS = 1 << 24  # far above what any GPU holds
_BUDGETS = ("steps", "tokens", "minutes")


@dataclass
class Budget:
    """How long to train; exactly one is set, and the learning rate's schedule is fitted to it.

    Attributes:
        steps: optimiser steps.
        tokens: predictions in each direction.
        minutes: of training, held-out perplexity included; the corpus and the start of the GPU are not counted. The
            only budget whose end depends on the machine.
    """

    steps: int | None = None
    tokens: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        chosen = {name: getattr(self, name) for name in _BUDGETS if getattr(self, name) is not None}
        if len(chosen) > 1:
            raise InputError(
                f"budget: expected one of {', '.join(_BUDGETS)}, found {' and '.join(chosen)}; drop all but one"
            )
        for name, value in chosen.items():
            if not 0 < value < math.inf:
                raise InputError(f"budget.{name} must be above 0 and finite, found {value}")

    def short(self, tokens: float, one_pass: int) -> str:
        """A warning where the budget comes to fewer predictions than the text has; "" where it comes to more.

        Args:
            tokens: predictions in each direction that the budget comes to.
            one_pass: the same, of the training text read once.
        """
        if tokens >= one_pass:
            return ""
        name, value = next((name, getattr(self, name)) for name in _BUDGETS if getattr(self, name) is not None)
        return (
            f"warning: budget.{name}={value:g} reads {tokens:,.0f} of the {one_pass:,} words of the text, "
            f"{tokens / one_pass:.2%}: too few for a biLM of use. Reading all of it once takes budget.{name}="
            f"{math.ceil(value * one_pass / max(tokens, 1)):,}; from random weights, plan several times that. Take a "
            "GPU, size=tiny or less text"
        )

    def progress(self, steps: int, tokens: int, seconds: float) -> float:
        """The share of the budget that is spent; 1 or more ends the run."""
        if self.steps is not None:
            return steps / self.steps
        if self.tokens is not None:
            return tokens / self.tokens
        if self.minutes is not None:
            return seconds / 60 / self.minutes
        raise InputError("no budget: set one of budget.steps, budget.tokens and budget.minutes")


@dataclass
class Model:
    """The shape of the biLM; see `BilmOptions`. Clipping is off, so that any LSTM can run the result."""

    cell_dim: int = 1024
    projection_dim: int = 128
    filters: list[list[int]] = field(
        default_factory=lambda: [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    )
    char_dim: int = 16
    n_highway: int = 1
    n_layers: int = 2
    max_characters: int = 50
    activation: str = "relu"
    cell_clip: float | None = None
    projection_clip: float | None = None
    skip_connections: bool = True
    word_dim: int = 200
    char_output_dim: int = 100

    def options(self, kind: str, words: list[str]) -> BilmOptions:
        """The options of a biLM that reads characters, words of a vocabulary, or both."""
        if kind not in INPUTS:
            raise InputError(f"input must be one of {', '.join(INPUTS)}, found {kind!r}")
        for item in self.filters:
            if len(item) != 2:
                raise InputError(f"model.filters: expected pairs of [width, number of filters], found {item}")
        shared = asdict(self) | {"filters": tuple((width, count) for width, count in self.filters)}
        if kind == "char":
            return BilmOptions(**(shared | {"word_dim": 0, "char_output_dim": 0}))
        if kind == "word":
            shared |= {"filters": (), "char_dim": 0, "char_output_dim": 0}
        return BilmOptions(**shared, words=tuple(words))


@dataclass
class Training:
    """How to train.

    Attributes:
        batch_tokens: positions in a step and process, padding included.
        negatives: sampled words that each target is told from; at least the vocabulary means all of them.
        dropout: on what each LSTM layer reads and what the softmax reads.
        learning_rate: highest, after the warm-up.
        warmup: share of the budget over which the rate rises; then it falls along a cosine.
        final_rate: where it ends, as a share of the highest.
        beta2: Adam's average of squared gradients.
        clip_norm: bound of the gradient's norm.
        precision: bfloat16 or float32, of all products; "auto" takes bfloat16 on a GPU.
        compile: whether a GPU compiles and captures its steps: minutes of waiting saved on long runs, one lost on
            short.
        log_every: steps between lines of curve.csv.
        evaluate_every: steps between held-out perplexities; 0 leaves only the one at the end.
        evaluate_sentences: held-out sentences for these; the one at the end takes all.
        checkpoint_every: steps between checkpoints: the most that a killed run loses.
    """

    batch_tokens: int = 16384
    negatives: int = 8192
    dropout: float = 0.1
    learning_rate: float = 2e-3
    warmup: float = 0.02
    final_rate: float = 0.01
    beta2: float = 0.99
    clip_norm: float = 1.0
    precision: str = "auto"
    compile: bool = True
    log_every: int = 50
    evaluate_every: int = 1000
    evaluate_sentences: int = 2000
    checkpoint_every: int = 2000

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "negatives", "log_every", "evaluate_sentences", "checkpoint_every"):
            if getattr(self, name) < 1:
                raise InputError(f"training.{name} must be at least 1, found {getattr(self, name)}")
        for name in ("dropout", "warmup", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"training.{name} must be at least 0 and below 1, found {getattr(self, name)}")
        if not 0 <= self.final_rate <= 1:
            raise InputError(f"training.final_rate must be from 0 to 1, found {self.final_rate}")
        for name in ("learning_rate", "clip_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"training.{name} must be above 0 and finite, found {getattr(self, name)}")
        if self.batch_tokens > MOST_BATCH_TOKENS:
            raise InputError(f"training.batch_tokens must be at most {MOST_BATCH_TOKENS:,}, found {self.batch_tokens}")
        if self.precision not in ("auto", "bfloat16", "float32"):
            raise InputError(f"training.precision must be auto, bfloat16 or float32, found {self.precision!r}")


@dataclass
class Settings:
    """A pretraining run.

    Attributes:
        corpus: text files and folders of them; see `corpus.CorpusSettings` for this and the next seven.
        tokenise: ptb or whitespace.
        vocabulary: words that are predicted.
        min_count: rarer words are <UNK>.
        heldout_fraction: share of the text that perplexity is measured on.
        heldout_unit: document holds out whole ones; paragraph single ones, which is easier text.
        max_tokens: of a sentence.
        workers: processes that tokenise; one a core if null.
        store: folder of the token store; default OUT/store. Runs may share one.
        out: folder of the run.
        name: of the exported biLM.
        input: char, word or both.
        init: weights to continue from, instead of random ones: a folder whose output layer lies beside it, or a shipped
            name. It brings its own shape and vocabulary.
        seed: of everything that is drawn.
        device: auto, cpu or cuda.
        wandb: project to log to as well; no logging without one.
        licence: of the text, for the card.
        model: shape of the biLM.
        budget: how long.
        training: how.
    """

    corpus: list[str] = field(default_factory=list)
    out: str = ""
    tokenise: str = "ptb"
    vocabulary: int = 100_000
    min_count: int = 1
    heldout_fraction: float = 0.005
    heldout_unit: str = "document"
    max_tokens: int = 200
    workers: int | None = None
    store: str | None = None
    name: str = "small"
    input: str = "char"
    init: str | None = None
    seed: int = 1
    device: str = "auto"
    wandb: str | None = None
    licence: str | None = None
    model: Model = field(default_factory=Model)
    budget: Budget = field(default_factory=Budget)
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        if self.input not in INPUTS:
            raise InputError(f"input must be one of {', '.join(INPUTS)}, found {self.input!r}")
        if self.seed < 0:
            raise InputError(f"seed must be at least 0, found {self.seed}")
        self.corpus = [str(expanded(path, "corpus")) for path in self.corpus]
        self.out = self.out and str(expanded(self.out, "out"))
        self.store = self.store and str(expanded(self.store, "store"))
        # It becomes a folder of the export, beside bilm-tf and NAME-softmax.
        if self.name in ("", ".", "..", "bilm-tf") or "/" in self.name or self.name.endswith("-softmax"):
            raise InputError(
                f"name={self.name!r}: expected a plain file name, neither bilm-tf nor ending in -softmax, which the "
                "export has for other files"
            )

    def identity(self) -> dict[str, Any]:
        """What decides the outcome, flat: a run is resumed only with the same. Text is known by its store."""
        flat: dict[str, Any] = {}
        for name, value in asdict(self).items():
            if isinstance(value, dict):
                flat |= {f"{name}.{inner}": entry for inner, entry in value.items()}
            else:
                flat[name] = value
        for name in ("corpus", "workers", "out", "store", "device", "wandb", "name", "licence", "training.compile"):
            del flat[name]
        return flat
