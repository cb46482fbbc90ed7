"""Settings of a pretraining run, with range checks."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any

from elmo.bilm.options import STANDARD_FILTERS, BilmOptions
from elmo.bilm.weight_files import PRECISIONS
from elmo.common import checks
from elmo.common.checks import AtLeastOne, Dropout, Fraction, Layers, Positive, Width, check_ranges
from elmo.common.errors import InputError
from elmo.common.files import expanded
from elmo.pretrain.corpus.token_store import TextSettings
from elmo.sources.masked import MaskedOptions, check_heads, encoder_options

INPUTS = ("char", "word", "both")
MOST_BATCH_TOKENS = 1 << 24  # far more than fits on any GPU


@dataclass
class Budget:
    """Length of the training; exactly one is set, and the learning-rate schedule is fitted to it.

    Attributes:
        steps: optimiser steps.
        tokens: words and ends of sentences read: for a biLM, predictions in each direction.
        minutes: of training, including the measure of held-out text, but not preparing the corpus. The only
            budget whose end depends on the machine.
    """

    steps: Annotated[int, checks.positive] | None = None
    tokens: Annotated[int, checks.positive] | None = None
    minutes: Positive | None = None

    def __post_init__(self) -> None:
        chosen = self._chosen()
        if len(chosen) > 1:
            names = ", ".join(asdict(self))
            raise InputError(f"budget: expected one of {names}, found {' and '.join(chosen)}; drop all but one")
        check_ranges("budget", self)

    def _chosen(self) -> dict[str, float]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def progress(self, steps: int, tokens: int, seconds: float) -> float:
        """The fraction of the budget that is spent; 1 or more ends the run."""
        done = {"steps": steps, "tokens": tokens, "minutes": seconds / 60}
        for name, value in self._chosen().items():
            return done[name] / value
        raise InputError("no budget: set one of budget.steps, budget.tokens and budget.minutes")


@dataclass
class Model:
    """The shape of the biLM; see `BilmOptions`. Clipping is off, so any LSTM implementation can run the result."""

    cell_dim: int = 1024
    projection_dim: int = 128
    filters: list[list[int]] = field(default_factory=lambda: [list(item) for item in STANDARD_FILTERS])
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
        checks.one_of(INPUTS, "input", kind)
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
class Masked:
    """A masked LM, for objective=masked; see `MaskedOptions`. Its encoder and the width of its output are `model`'s.

    Attributes:
        dim: width of every layer. In the named sizes it is that of the biLM's layers, twice projection_dim.
        n_layers: transformer blocks.
        n_heads: of attention.
        feedforward_dim: inner width of a block.
        chosen: share of the words that are predicted in each pass.
    """

    dim: Width = 256
    n_layers: Layers = 6
    n_heads: Width = 4
    feedforward_dim: Width = 960
    chosen: Fraction = 0.15

    def __post_init__(self) -> None:
        check_ranges("masked", self)
        check_heads("masked", self.dim, self.n_heads)

    def options(self, model: BilmOptions, longest: int) -> MaskedOptions:
        """The options of a masked LM with the encoder and output width of this biLM."""
        encoder = encoder_options(model.to_json(), self.dim)
        inner = self.n_layers, self.n_heads, self.feedforward_dim
        return MaskedOptions(encoder, *inner, model.projection_dim, longest)


@dataclass
class Training:
    """How to train.

    Attributes:
        batch_tokens: positions in a step, padding included.
        negatives: sampled words per softmax; the vocabulary size or more means the full softmax.
        dropout: on the inputs of each LSTM layer and of the softmax; of a masked LM see `MaskedLm.layers`.
        learning_rate: highest, after the warm-up.
        warmup: fraction of the budget over which the rate rises; then it falls along a cosine.
        final_rate: the last rate, as a fraction of the highest.
        beta2: Adam's average of squared gradients.
        clip_norm: upper bound of the gradient norm.
        precision: bfloat16 or float32, of all products; "auto" is bfloat16 on a GPU.
        log_every: steps between lines of curve.csv.
        evaluate_every: steps between held-out perplexities; 0 leaves only the one at the end.
        evaluate_sentences: held-out sentences for these; the one at the end uses all.
        checkpoint_every: steps between checkpoints: the most that a killed run can lose.
        recase: share of the training sentences whose case is changed, drawn by the seed, so that headlines and
            datelines are not rare: two thirds of these are upper-cased, in one third every word begins with a
            capital. Held-out text keeps its case. A property of the token store: other shares need other stores.
    """

    batch_tokens: Annotated[int, partial(checks.count, MOST_BATCH_TOKENS)] = 16384
    negatives: AtLeastOne = 8192
    dropout: Dropout = 0.1
    learning_rate: Positive = 2e-3
    warmup: Dropout = 0.02
    final_rate: Annotated[float, partial(checks.count, 1, least=0)] = 0.01
    beta2: Dropout = 0.99
    clip_norm: Positive = 1.0
    precision: Annotated[str, partial(checks.one_of, ("auto", "bfloat16", "float32"))] = "auto"
    log_every: AtLeastOne = 50
    evaluate_every: int = 1000
    evaluate_sentences: AtLeastOne = 2000
    checkpoint_every: AtLeastOne = 2000
    recase: Dropout = 0.0

    def __post_init__(self) -> None:
        check_ranges("training", self)


@dataclass
class Export:
    """What to write at the end.

    Attributes:
        weights: precision of the biLM in export/NAME: float16, float32, or int8 with one scale per output row, half the
            size of float16. export/bilm-tf is always in float32.
    """

    weights: Annotated[str, partial(checks.one_of, PRECISIONS)] = "float16"

    def __post_init__(self) -> None:
        check_ranges("export", self)


@dataclass
class Settings(TextSettings):
    """Settings of a pretraining run; those of its text are in `TextSettings`, of the token store.

    Attributes:
        corpus: text files and folders of them, each with a weight if needed: corpus=[wiki.txt.xz,news.txt.xz*4] reads
            every training sentence of the news four times in a pass. Weights such as 2.5 and 0.5 are drawn by the seed.
            See `CorpusSettings.sources`.
        vocabulary_of: a biLM with its output layer next to it, or a shipped name: predicts the words that it predicts,
            instead of the most frequent of the text. Perplexities of biLMs compare only if both predict the same words.
        store: folder of the token store; default OUT/store. Runs may share one.
        out: folder of the run.
        name: of the exported biLM.
        objective: bilm, or masked for a masked LM on the same text, words and vocabulary.
        input: char, word or both.
        init: weights to start from instead of random ones: a folder with its output layer next to it, or a shipped
            name. Shape and vocabulary come with it.
        device: auto, cpu or cuda.
        licence: of the text, for the card.
        model: shape of the biLM.
        masked: shape of the masked LM.
        budget: how long.
        training: how.
        export: what to write.
    """

    corpus: list[str] = field(default_factory=list)
    out: str = ""
    vocabulary_of: str | None = None
    store: str | None = None
    name: str = "small"
    objective: Annotated[str, partial(checks.one_of, ("bilm", "masked"))] = "bilm"
    input: Annotated[str, partial(checks.one_of, INPUTS)] = "char"
    init: str | None = None
    device: str = "auto"
    licence: str | None = None
    model: Model = field(default_factory=Model)
    masked: Masked = field(default_factory=Masked)
    budget: Budget = field(default_factory=Budget)
    training: Training = field(default_factory=Training)
    export: Export = field(default_factory=Export)

    def __post_init__(self) -> None:
        checks.finite(asdict(self))
        super().__post_init__()
        if self.init and self.vocabulary_of:
            given = f"vocabulary_of={self.vocabulary_of}"
            raise InputError(f"{given}: expected none with init={self.init}, whose vocabulary is kept; drop one")
        self.corpus = [str(expanded(path, "corpus")) for path in self.corpus]
        self.exclude = [str(expanded(path, "exclude")) for path in self.exclude]
        self.out = self.out and str(expanded(self.out, "out"))
        self.store = self.store and str(expanded(self.store, "store"))
        # It becomes a folder of the export, next to bilm-tf and NAME-softmax.
        if self.name in ("", ".", "..", "bilm-tf") or "/" in self.name or self.name.endswith("-softmax"):
            raise InputError(
                f"name={self.name!r}: expected a plain file name, neither bilm-tf nor ending in -softmax, which the "
                "export uses for other files"
            )

    def identity(self) -> dict[str, Any]:
        """Settings that decide the result, flat: a run is resumed only with the same. The store identifies the text."""
        flat: dict[str, Any] = {}
        for name, value in asdict(self).items():
            flat |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
        of_text = ("corpus", "exclude", "workers", "store", "heldout_seed", "training.recase")
        for name in (*of_text, "name", "licence", "export.weights", "out", "device"):
            del flat[name]
        return flat
