"""Settings of a pretraining run, with range checks."""

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any

import torch

from elmo.bilm.model import Bilm
from elmo.bilm.options import NETWORKS, OBJECTIVES, STANDARD_FILTERS, BilmOptions, cell_of
from elmo.bilm.weight_files import PRECISIONS
from elmo.common import checks
from elmo.common.checks import AtLeastOne, Dropout, Fraction, Layers, Positive, Width, check_tree
from elmo.common.errors import InputError
from elmo.common.files import expanded
from elmo.pretrain.corpus.token_store import TextSettings
from elmo.sources.grid import GridLm, GridOptions, encoder_options

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

    def check(self, key: str) -> None:
        """Raises an InputError if several are set; `key` is where these settings are."""
        chosen = self._chosen()
        if len(chosen) > 1:
            names = ", ".join(asdict(self))
            raise InputError(f"{key}: expected one of {names}, found {' and '.join(chosen)}; drop all but one")

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
class TransformerShape:
    """The shape of transformers, for network=transformer; see `GridOptions`.

    Attributes:
        n_layers: blocks of a stack.
        n_heads: of attention; each of two joined stacks has half of them.
        feedforward_dim: inner width of a block; null: by the rule of `shaped`.
        exported: layers of the exported model, if it has so many; null: as many as the biLM has.
    """

    n_layers: Layers = 6
    n_heads: Width = 4
    feedforward_dim: Width | None = None
    exported: Annotated[int, partial(checks.at_least, 2)] | None = None


def shaped(
    bilm: BilmOptions, objective: str, network: str, longest: int, transformer: TransformerShape
) -> BilmOptions | GridOptions:
    """The options of a language model with the words, layers' width, output width and about the parameters of a biLM.

    What is not given is the width within a layer (cells of LSTMs, or the feed-forward part): of the multiples of a
    quarter of a stack's width it is the one whose number of parameters is nearest to the biLM's.
    """
    if (objective, network) == cell_of({}):
        return bilm
    stacks = 2 if objective == "joined" else 1
    encoder = encoder_options(bilm.to_json(), 2 * bilm.projection_dim // stacks)
    if network == "lstm":
        options = partial(GridOptions, encoder, bilm.n_layers)
        inner, given = "cell_dim", None
    else:
        wanted = transformer.exported or bilm.n_layers + 1
        exported = wanted if wanted <= transformer.n_layers else 0  # else all
        n_heads = transformer.n_heads // stacks
        options = partial(GridOptions, encoder, transformer.n_layers, n_heads=n_heads, exported=exported)
        inner, given = "feedforward_dim", transformer.feedforward_dim
    options = partial(options, bilm.projection_dim, longest, objective, network)

    def of_width(value: int) -> GridOptions:
        return options(**{inner: value})

    if given is not None:
        return of_width(given)
    step = -(-of_width(1).dim // of_width(1).n_stacks // 4)
    one, two, equal = (parameters_of(some) for some in (of_width(step), of_width(2 * step), bilm))
    return of_width(step * max(1, 1 + round((equal - one) / (two - one))))


def parameters_of(options: BilmOptions | GridOptions) -> int:
    """The number of parameters of a model without its output layer."""
    with torch.device("meta"):  # shapes alone
        model = Bilm(options) if isinstance(options, BilmOptions) else GridLm(options)
    return sum(item.numel() for item in model.parameters())


@dataclass
class Training:
    """Settings of the training.

    Attributes:
        batch_tokens: positions in a step, padding included.
        negatives: sampled words per softmax; the vocabulary size or more means the full softmax.
        chosen: share of the words that a masked LM predicts in each pass.
        dropout: on the inputs of each LSTM layer and of the softmax; of a transformer see `GridLm.layers`.
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
    chosen: Fraction = 0.15
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


@dataclass
class Export:
    """Settings of the export.

    Attributes:
        weights: precision of the biLM in export/NAME: float16, float32, or int8 with one scale per output row, half the
            size of float16. export/bilm-tf is always in float32.
    """

    weights: Annotated[str, partial(checks.one_of, PRECISIONS)] = "float16"


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
        objective: forward (the next word), joined (the next word of each direction, by two models: a biLM) or masked
            (hidden words, from both sides), on the same text, words and vocabulary.
        network: lstm or transformer.
        input: char, word or both.
        init: weights to start from instead of random ones: a folder with its output layer next to it, or a shipped
            name. Shape and vocabulary come with it.
        device: auto, cpu or cuda.
        licence: of the text, for the card.
        model: shape of the biLM; other objectives and networks have its number of parameters, see `shaped`.
        transformer: shape of transformers.
        budget: how long.
        training: how.
        export: what to write.
    """

    corpus: list[str] = field(default_factory=list)
    out: str = ""
    vocabulary_of: str | None = None
    store: str | None = None
    name: str = "small"
    objective: Annotated[str, partial(checks.one_of, OBJECTIVES)] = "joined"
    network: Annotated[str, partial(checks.one_of, NETWORKS)] = "lstm"
    input: Annotated[str, partial(checks.one_of, INPUTS)] = "char"
    init: str | None = None
    device: str = "auto"
    licence: str | None = None
    model: Model = field(default_factory=Model)
    transformer: TransformerShape = field(default_factory=TransformerShape)
    budget: Budget = field(default_factory=Budget)
    training: Training = field(default_factory=Training)
    export: Export = field(default_factory=Export)

    def __post_init__(self) -> None:
        checks.finite(asdict(self))
        check_tree("", self)
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

    def options(self, vocabulary: list[str]) -> BilmOptions | GridOptions:
        """The options of a new model."""
        bilm = self.model.options(self.input, vocabulary)
        return shaped(bilm, self.objective, self.network, self.max_tokens, self.transformer)

    def identity(self) -> dict[str, Any]:
        """Settings that decide the result, flat: a run is resumed only with the same. The store identifies the text."""
        flat: dict[str, Any] = {}
        for name, value in asdict(self).items():
            flat |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
        of_text = ("corpus", "exclude", "workers", "store", "heldout_seed", "training.recase")
        for name in (*of_text, "name", "licence", "export.weights", "out", "device"):
            del flat[name]
        return flat
