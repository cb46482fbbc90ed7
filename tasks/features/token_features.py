"""Token features: frozen layers of any source and vectors of words, joined at each place of a head.

An arm of the benchmark is a choice of these features. Heads depend on their widths alone.
"""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo import Elmo, FrozenSource, published
from elmo.bilm.model import Bilm
from elmo.bilm.options import cell_of
from elmo.bilm.sentences import padded
from elmo.bilm.weight_files import find_weights, read_options
from elmo.common.checks import AtLeastZero, Dropout, NotNegative, Positive, Share, check_tree, importable, one_of
from elmo.common.errors import InputError, excerpt, reworded
from elmo.common.files import FileState, expanded, hashes_of, states_of
from elmo.common.progress import Reporter
from elmo.download import obtain
from elmo.layer import LayerChoice
from elmo.published import VECTOR_NAMES
from elmo.sources import bilm, controls
from elmo.sources.bilm import TunedBilm
from elmo.sources.source import TunableSource, code_of, fingerprint_of, require_source
from elmo.sources.transformer import OVERLAP, POOLINGS, WINDOW, Transformer, file_states, files_of
from elmo.store.cached_layers import MEMORY_GB, CachedLayers, Located
from elmo.store.shelf import LIMIT_GB, PRECISIONS, StoreUnusable, open_shelf
from elmo.tokeniser import sentences_of_tokens
from elmo.word_vectors import FileVectors, open_vectors
from results.records.identity import without_folder
from tasks.features.words import (
    CharacterCnn,
    CharactersConfig,
    FeaturePart,
    LocatedText,
    WordNumbers,
    WordsConfig,
    WordVectors,
)
from tasks.modules.seeding import initialise
from tasks.task import PLACES, FeatureBatch, Sentence

INT8 = "int8"
BAG_OF_WORDS = "bag_of_words"  # the features without any part: the head reads the words themselves
# What readers of scores must know about a model, by the last part of its name or path.
WARNINGS = {
    "all-mpnet-base-v2": "all-mpnet-base-v2 was trained on SNLI, MultiNLI, SQuAD 2.0, Reddit and Stack Exchange, so "
    "scores on SNLI, SQuAD and WNUT-17 say little about it"
}


@dataclass
class TuningConfig:
    """Settings of tuning a source. Its layers are groups of parameters; the head and the mixes keep the trainer's rate.

    Attributes:
        lr: the highest learning rate of the top layer; the default is for Adam, and too low for Adadelta.
        decay: the rate of a layer is that of the layer above it times this; 1 for equal rates.
        warmup: share of the run in which rates rise from zero; afterwards they fall, and reach zero with the last of
            trainer.epochs.
        unfreeze: epochs between the start of a layer and that of the one below it. The top layer starts at once; 0
            starts all.
    """

    lr: Positive = 1e-3
    decay: Share = 0.4
    warmup: Dropout = 0.1
    unfreeze: AtLeastZero = 1


@dataclass(frozen=True)
class TunedGroup:
    """A layer of a tuned source.

    Attributes:
        parameters: of the layer.
        depth: the number of layers above it.
        config: how it is tuned.
    """

    parameters: Sequence[nn.Parameter]
    depth: int
    config: TuningConfig

    def frozen_in(self, epoch: int) -> bool:
        """Whether it is not trained yet in an epoch, counted from 1."""
        return epoch <= self.depth * self.config.unfreeze

    def rate(self, progress: float) -> float:
        """The learning rate after this share of the run, from 0 to 1."""
        config = self.config
        rising = progress < config.warmup
        share = progress / config.warmup if rising else (1 - progress) / (1 - config.warmup)
        return config.lr * config.decay**self.depth * share


@dataclass
class FrozenConfig(ABC):
    """Settings of all frozen layers: their mixes, see `elmo.Elmo`, and their precision.

    Attributes:
        places: where they enter: some of input, hidden and output, as far as the task's head offers them.
        layers: mix, last, or the number of a layer.
        l2: lambda, on the raw mix weights.
        dropout: of the mixed layers alone; features.dropout and the head's own dropout follow it.
        precision: float16 or float32, of the frozen layers before they are mixed. It changes the last digits of scores.
        context: what the source reads for a word: whole, the sentence; isolated, the word alone; window1 or any other
            number, of neighbours on each side; permuted, the sentence in another order. See `elmo.sources.controls`.
        by_sentence: whether the source reads a text of several sentences, such as a passage of SQuAD, one by one, as a
            biLM was trained; the head still reads the whole text. See `elmo.tokeniser.sentences_of_tokens`.
        warning: what a reader of scores must know about the source, such as test data that it was trained on. It is in
            the record, and tables mark the scores with it.
        tune: whether the task trains the source, too. Its layers are then computed in every step, past the store.
        tuning: how it is trained.
    """

    recipe: ClassVar[int] = 1

    places: list[str] = field(default_factory=lambda: ["input"])
    layers: str = "mix"
    l2: NotNegative = 0.001
    layer_norm: bool = False
    dropout: Dropout = 0.5
    precision: Annotated[str, partial(one_of, PRECISIONS)] = "float16"
    context: str = controls.WHOLE
    by_sentence: bool = False
    warning: str = ""
    tune: bool = False
    tuning: TuningConfig = field(default_factory=TuningConfig)

    @property
    def kept(self) -> str:
        """The precision in which layers are kept."""
        return "float16" if self.precision == INT8 else self.precision

    def check(self, key: str) -> None:
        """Raises an InputError for a value out of range; `key` is where these settings are in the config."""
        if not self.places or sorted(self.places) != sorted(set(self.places) & set(PLACES)):
            raise InputError(f"{key}.places: expected some of {', '.join(PLACES)}, each once, found {self.places}")
        if not re.fullmatch("mix|last|0|[1-9][0-9]*", self.layers):
            raise InputError(f"{key}.layers: expected mix, last or the number of a layer, found {self.layers!r}")
        if not controls.CONTEXTS.fullmatch(self.context):
            raise InputError(
                f"{key}.context: expected whole, isolated, permuted or windowK, such as window1, found {self.context!r}"
            )
        if self.tune and self.context != controls.WHOLE:
            raise InputError(f"{key}.context: expected whole with tune=true, found {self.context}. Leave one out")
        if not self.tune and self.tuning != type(self)().tuning:
            raise InputError(
                f"{key}.tuning: expected {key}.tune=true with these settings, found tune=false. Set it too"
            )

    def open(self) -> FrozenSource:
        """The source of the layers, as it reads each word in `context`."""
        return controls.in_context(self._open(), self.context)

    def fingerprint(self) -> str:
        """The hash of the source's content and of `context`; it names the folder of the layers in the store."""
        return controls.context_fingerprint(self._content(), self.context)

    @abstractmethod
    def _open(self) -> FrozenSource:
        """The source, reading whole sentences."""

    def _content(self) -> str:
        """The hash of its content."""
        return fingerprint_of(self._open())

    @abstractmethod
    def files(self) -> list[Path]:
        """The files that the source reads; none for one that is drawn."""


@dataclass
class ElmoConfig(FrozenConfig):
    """ELMo: the layers of a biLM.

    Attributes:
        enabled: false leaves ELMo out and ignores the other keys; one sweep can then set weights for all arms.
        weights: a name, shipped or published, a file or a folder; see `elmo.bilm.weight_files.find_weights`.
        untrained: draw random weights of the same shape, the control elmo_random.
        untrained_seed: the seed for these weights; not the run's seed, so that all runs share one biLM as with elmo.
        control: shuffled or matched, see `elmo.sources.controls`.
        draw: the seed of the control. None is the run's seed, so that a mean over seeds is one over draws: the run puts
            it here, and its record keeps null.
        precision: int8 computes the products of the biLM in int8, on a CPU, and keeps layers in float16.
    """

    enabled: bool = True
    weights: str = "small"
    untrained: bool = False
    untrained_seed: int = 0
    control: Annotated[str, partial(one_of, tuple(controls.CONTROLS))] | None = None
    draw: AtLeastZero | None = 0
    precision: Annotated[str, partial(one_of, (*PRECISIONS, INT8))] = "float16"

    def check(self, key: str) -> None:
        """Raises an InputError for a value out of range."""
        super().check(key)
        if self.tune and self.precision == INT8:
            raise InputError(f"{key}.precision: expected float16 or float32 with tune=true, found int8. Leave one out")
        if self.untrained if self.control else self.draw != 0:
            raise InputError(
                f"{key}: expected a draw with a control alone, as in features=elmo_matched, and no control of "
                f"untrained weights, found control={self.control}, draw={self.draw} and untrained={self.untrained}"
            )

    def _open(self) -> FrozenSource:
        return _open_elmo(*self._settings)

    def _content(self) -> str:
        return _remembered_fingerprint(_open_elmo, self._settings, states_of(self.files()))

    def files(self) -> list[Path]:
        """The weights, and the options if they are not among the weights."""
        return [] if controls.only_a_size(self.weights) and self.untrained else bilm.files(self.weights)

    @property
    def _settings(self) -> tuple[str, int | None, str | None, int, bool]:
        """The weights, the seed of untrained ones, the control and its seed, and whether products are in int8."""
        untrained = self.untrained_seed if self.untrained else None
        return self.weights, untrained, self.control, self.draw or 0, self.precision == INT8


def _open_elmo(weights: str, untrained_seed: int | None, control: str | None, draw: int, int8: bool) -> FrozenSource:
    if int8:
        return bilm.in_int8(_open_elmo(weights, untrained_seed, control, draw, False))
    if untrained_seed is not None:
        return controls.untrained(weights, untrained_seed)
    return bilm.trained(weights) if control is None else controls.CONTROLS[control](weights, draw)


@lru_cache(maxsize=16)
def _remembered_fingerprint(
    kind: Callable[..., FrozenSource], settings: tuple[Any, ...], state: tuple[FileState, ...]
) -> str:
    """The fingerprint of a source, cached while its files have this state, since a sweep needs it often."""
    return kind(*settings).fingerprint()


@dataclass
class TransformerConfig(FrozenConfig):
    """The layers of a transformer.

    Attributes:
        enabled: false leaves it out and ignores the other keys.
        model: a name on the Hugging Face hub, or a folder.
        pooling: first or mean, of the sub-words of a word.
        window: sub-words to read at once.
        overlap: sub-words that neighbouring windows of a long text share.
    """

    enabled: bool = True
    model: str = "bert-base-cased"
    pooling: Annotated[str, partial(one_of, POOLINGS)] = "first"
    window: int = WINDOW
    overlap: AtLeastZero = OVERLAP
    # As BERT is tuned: low rates, and all layers at once.
    tuning: TuningConfig = field(default_factory=lambda: TuningConfig(lr=2e-5, decay=0.95, unfreeze=0))

    def check(self, key: str) -> None:
        """Raises an InputError for a value out of range."""
        super().check(key)
        if self.window <= self.overlap:
            raise InputError(f"{key}.window: expected more than the overlap, {self.overlap}, found {self.window}")

    def _open(self) -> FrozenSource:
        return Transformer(*self._settings)

    def _content(self) -> str:
        return _remembered_fingerprint(Transformer, self._settings, file_states(self._settings[0]))

    def files(self) -> list[Path]:
        """Config, tokeniser and weights."""
        return files_of(self._settings[0])

    @property
    def _settings(self) -> tuple[str, str, int, int]:
        place = expanded(self.model, "features.transformer.model") if self.model.startswith("~") else self.model
        return str(place), self.pooling, self.window, self.overlap


@dataclass
class SourceConfig(FrozenConfig):
    """Frozen layers of any other source.

    Attributes:
        source: `_target_`, the class of the source as module.Class, and the arguments of its constructor.
    """

    source: dict[str, Any] = field(default_factory=dict)

    def check(self, key: str) -> None:
        """Raises an InputError for a value out of range. Imports nothing: the settings may come from a file."""
        super().check(key)
        target = self.source.get("_target_")
        if not (isinstance(target, str) and "." in target):
            raise InputError(
                f"{key}.source._target_: expected the class of a source as module.Class, found {excerpt(target)}"
            )

    def _open(self) -> FrozenSource:
        target = str(self.source["_target_"])
        kind = cast(Callable[..., object], importable("features.frozen", target))
        arguments = {name: value for name, value in self.source.items() if name != "_target_"}
        expected = "features.frozen: expected a class that accepts these settings"
        with reworded(TypeError, lambda error: f"{expected}, found {target}: {error}"):
            inspect.signature(kind).bind(**arguments)
        return require_source(kind(**arguments), f"features.frozen: {target}")

    def vector_names(self) -> list[str]:
        """The word vectors that its settings name, by a name rather than a path."""
        return [value for value in self.source.values() if value in (*VECTOR_NAMES, *published.VECTORS)]

    def files(self) -> list[Path]:
        """The files that its settings name: by path, a folder's own files, or those of a published model."""
        paths: list[Path] = []
        for value in self.source.values():
            path = Path(value).expanduser() if isinstance(value, str) and value else None
            if path is not None and path.exists():
                paths += sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
            elif value in published.PUBLISHED and value not in published.VECTORS:  # vectors: see `vector_names`
                paths += [obtain(value) / file.name for file in published.PUBLISHED[value]]
        return paths


@dataclass
class StoreConfig:
    """Settings of the store of frozen layers between runs; no setting here changes a score.

    Attributes:
        path: the folder; null for no store.
        limit_gb: maximum size. Layers that do not fit are kept in memory or computed each time.
        memory_gb: maximum memory of the device for layers: on a GPU, without a store, or when the store is full.
    """

    path: str | None = None
    limit_gb: NotNegative = LIMIT_GB
    memory_gb: NotNegative = MEMORY_GB

    def check(self, key: str) -> None:
        """Raises an InputError for a folder of an unknown user."""
        self.folder()

    def folder(self) -> Path | None:
        """The folder with ~ expanded."""
        return None if self.path is None else expanded(self.path, "store.path")


@dataclass
class FeaturesConfig:
    """The parts of x_k; any of them may be null. `dropout` is applied to the joined vector, `title` is shown in tables.

    Attributes:
        frozen: further frozen layers, by names that the user gives.
    """

    name: str = "???"
    title: str = ""
    words: WordsConfig | None = field(default_factory=WordsConfig)
    characters: CharactersConfig | None = field(default_factory=CharactersConfig)
    elmo: ElmoConfig | None = None
    transformer: TransformerConfig | None = None
    frozen: dict[str, SourceConfig] = field(default_factory=dict)
    dropout: Dropout = 0.0

    def check(self, key: str) -> None:
        """Raises an InputError for a wrong name, or without any part at the input."""
        for name in self.frozen:
            if not name.isidentifier() or hasattr(nn.ModuleDict, name):
                raise InputError(f"{key}.frozen.{name}: expected another name, of letters, digits and _")
        at_input = any("input" in frozen.places for frozen in self.all_frozen().values())
        if not (self.words or self.characters or at_input or self.name == BAG_OF_WORDS):
            raise InputError(f"{key}: every part is null; keep at least one of words, characters, elmo at the input")

    def check_weights(self) -> None:
        """Raises an InputError for features=masked with another LM: its scores would be listed as a masked LM's."""
        if self.name != "masked" or self.elmo is None:
            return
        objective, network = cell_of(read_options(find_weights(self.elmo.weights))[0])
        if objective != "masked":
            raise InputError(
                f"features=masked: expected the weights of a masked LM, found objective={objective} network={network} "
                f"in features.elmo.weights={self.elmo.weights}. Use features=lm, or a masked LM: "
                "python -m elmo.pretrain objective=masked"
            )

    def all_frozen(self) -> dict[str, FrozenConfig]:
        """All frozen layers, by their key below `features`."""
        sources = {"elmo": self.elmo, "transformer": self.transformer}
        others = {f"frozen.{name}": self.frozen[name] for name in sorted(self.frozen)}
        return {name: frozen for name, frozen in (sources | others).items() if frozen is not None}

    def places(self) -> dict[str, list[str]]:
        """The places of the parts, by key in the config; words and characters are at the input."""
        return {f"features.{name}": frozen.places for name, frozen in self.all_frozen().items()}


def features_fingerprint(config: FeaturesConfig) -> dict[str, Any]:
    """The hashes of the features' content: `vectors`, `weights` of a biLM, if any `transformer` and `frozen` layers."""
    vectors = config.words.open_vectors() if config.words is not None else None
    return _hashes(vectors, {name: frozen.fingerprint() for name, frozen in config.all_frozen().items()})


def _hashes(vectors: FileVectors | None, layers: Mapping[str, str]) -> dict[str, Any]:
    further = {name.removeprefix("frozen."): it for name, it in layers.items() if name.startswith("frozen.")}
    return {
        "vectors": vectors.fingerprint() if vectors is not None else None,
        "weights": layers.get("elmo"),
        **({"transformer": layers["transformer"]} if "transformer" in layers else {}),
        **({"frozen": further} if further else {}),
    }


def features_recipes(config: FeaturesConfig) -> dict[str, int]:
    """The recipe number of each part that the features have."""
    parts = {"words": config.words, "characters": config.characters, **config.all_frozen()}
    return {name: part.recipe for name, part in parts.items() if part is not None}


class FrozenLayers(Elmo, FeaturePart):
    """Layers of a source as a part, with one mix for each place; cached.

    Args:
        name: of the part, for `LocatedText.layers`.
        config: the source and its mixes.
        store: where the layers are stored.
    """

    source: CachedLayers

    def __init__(self, name: str, config: FrozenConfig, store: StoreConfig) -> None:
        source, shelf = config.open(), None
        if (folder := store.folder()) is not None:
            try:
                shelf = open_shelf(folder, fingerprint_of(source), tuple(source.widths), config.kept, store.limit_gb)
            except StoreUnusable as error:
                raise StoreUnusable(f"{error}: store.path=DIR, or store.path=null") from error
        cached = CachedLayers(source, shelf, config.kept, store.memory_gb)
        self._mix(name, config, cached)

    def _mix(self, name: str, config: FrozenConfig, source: FrozenSource) -> None:
        layers = cast(LayerChoice, int(config.layers) if config.layers.isdigit() else config.layers)
        super().__init__(source, config.places, layers, config.layer_norm, config.l2, config.dropout)
        self.name = name
        self.widths = dict.fromkeys(self.mixes, self.dim)
        self.by_sentence = config.by_sentence

    def read(self, texts: Iterable[Sentence]) -> list[list[Sentence]]:
        """The sentences of each text for the source: its sentences with `by_sentence`, or the whole."""
        return [_sentences_of(tuple(text)) if self.by_sentence else [text] for text in texts]

    def prepare(self, sentences: Iterable[Sentence], reporter: Reporter | None) -> int:
        """Embeds the sentences that are not cached yet."""
        return self.source.prepare(chain.from_iterable(self.read(sentences)), reporter)

    def locate(self, sentences: Sequence[Sentence]) -> Located:
        """The places of a padded batch's layers; a store starts to read those that it has."""
        read = self.read(sentences)
        return self.source.locate(list(chain.from_iterable(read)), list(map(len, read)))

    def vectors(self, texts: Sequence[LocatedText]) -> Iterator[dict[str, Tensor]]:
        """The mixed layers; a sentence that occurs several times in a batch is embedded once."""
        layers = self.source.layers_at([text.layers[self.name] for text in texts])
        for text, stack in zip(texts, layers, strict=True):
            yield self.mixed(stack, text.mask)


_sentences_of = lru_cache(maxsize=100_000)(sentences_of_tokens)


class TunedLayers(FrozenLayers):
    """Layers of a source that is trained with the task: computed in every step, without cache or store.

    Raises:
        InputError: the source cannot be tuned.
    """

    source: TunableSource  # type: ignore[assignment]

    def __init__(self, name: str, config: FrozenConfig) -> None:
        source = config.open()
        tunable = TunedBilm(source) if isinstance(source, Bilm) else source  # computed as in pretraining
        if not isinstance(tunable, TunableSource):
            raise InputError(
                f"features.{name}.tune: expected a biLM, a transformer, or a source with parameter_groups(), see "
                f"elmo.sources.source.TunableSource, found {type(source).__name__}. Leave tune out"
            )
        self._mix(name, config, tunable)
        groups = tunable.parameter_groups()
        self.groups = [TunedGroup(group, len(groups) - 1 - i, config.tuning) for i, group in enumerate(groups)]

    def prepare(self, sentences: Iterable[Sentence], reporter: Reporter | None) -> int:
        """Nothing: layers change in every step."""
        return 0

    def locate(self, sentences: Sequence[Sentence]) -> Located:
        """The sentences alone: `vectors` computes their layers."""
        return Located(list(map(tuple, sentences)))

    def vectors(self, texts: Sequence[LocatedText]) -> Iterator[dict[str, Tensor]]:
        """The mixed layers."""
        for text in texts:
            whole = text.layers[self.name].sentences
            tokens = self.source.token_layers(list(chain.from_iterable(self.read(whole))))
            yield self.mixed(padded(tokens, whole), text.mask)


class TokenFeatures(nn.Module):
    """Vectors for the tokens of sentences.

    Each part draws its initial values from a separate generator, so that the parts that two arms share start equal.
    `meet` gives each word a number, so that batches need no Python work per token.

    Args:
        config: the parts.
        training: the sentences trained on; their words get trainable vectors.
        seed: the run's seed.
        store: where frozen layers are stored; None keeps them in memory.

    Attributes:
        widths: the width of the joined vectors at each place.
    """

    def __init__(
        self, config: FeaturesConfig, training: Iterable[Sentence], seed: int, store: StoreConfig | None = None
    ) -> None:
        super().__init__()
        check_tree("features", config)
        self.config = config
        self._numbers = WordNumbers()
        self.word_vectors = WordVectors(config.words, training, seed) if config.words is not None else None
        if self.word_vectors is not None:
            self.words = self.word_vectors.table  # the name that this parameter has in saved models
        self.characters = CharacterCnn(config.characters) if config.characters is not None else None
        if self.characters is not None:
            initialise(self.characters, seed, "characters")
        store = store or StoreConfig()
        layers = {
            name: TunedLayers(name, frozen) if frozen.tune else FrozenLayers(name, frozen, store)
            for name, frozen in config.all_frozen().items()
        }
        self.elmo, self.transformer = layers.get("elmo"), layers.get("transformer")
        self.frozen = nn.ModuleDict({name: layers[f"frozen.{name}"] for name in sorted(config.frozen)})
        self._layers = list(layers.values())
        words = [part for part in (self.word_vectors, self.characters) if part is not None]
        self._parts: list[FeaturePart] = [*words, *self._layers]  # their vectors are joined in this order
        self.dropout = nn.Dropout(config.dropout)
        self.widths = {place: sum(part.widths.get(place, 0) for part in self._parts) for place in PLACES}

    @property
    def _vectors(self) -> FileVectors | None:
        return self.word_vectors.pretrained if self.word_vectors is not None else None

    def check_fingerprint(self, expected: Mapping[str, Any]) -> None:
        """Raises an InputError if what was read is not what was hashed before: see `features_fingerprint`."""
        now = _hashes(self._vectors, {part.name: fingerprint_of(part.source) for part in self._layers})
        if changed := [name for name, content in now.items() if content != expected.get(name)]:
            raise InputError(
                f"features: expected one content in a run, found another of {', '.join(changed)} than was hashed "
                "before. Weights that are drawn need a fixed seed, and files must not change during a run"
            )

    def inputs(self) -> dict[str, str]:
        """The sha256 of all that the features read, by name; see `RunRecord.inputs`."""
        hashes = {}
        if self._vectors is not None and self.config.words is not None and self.config.words.vectors:
            hashes[f"vectors/{without_folder('words', self.config.words.vectors)}"] = self._vectors.sha256()
        for name in chain.from_iterable(source.vector_names() for source in self.config.frozen.values()):
            hashes[f"vectors/{name}"] = open_vectors(name, "features.words.vectors").sha256()
        for part, frozen in self.config.all_frozen().items():
            hashes |= {f"{part}/{name}": it for name, it in hashes_of(frozen.files()).items()}
        for layers in self._layers:
            source: Any = layers.source
            while type(source).__module__.startswith("elmo.") and hasattr(source, "source"):  # a cache, a context
                source = source.source
            if code := code_of(source):
                hashes[f"{layers.name}/module:{code[0]}"] = code[1]
        return hashes

    @property
    def device(self) -> torch.device:
        """The device of the vectors."""
        return next(chain(self.parameters(), self.buffers(), [torch.empty(0)])).device

    @property
    def training_words(self) -> tuple[str, ...]:
        """The words of the trained table, in order. Features built from this one sentence get the same table."""
        return self.word_vectors.training_words if self.word_vectors is not None else ()

    def coverage(self, sentences: Iterable[Sentence]) -> dict[str, int] | None:
        """Distinct words of sentences that were met, and how many have a pretrained vector; see `WordVectors`."""
        return self.word_vectors.coverage(sentences) if self.word_vectors is not None else None

    def mix_weights(self) -> dict[str, dict[str, list[float] | float]]:
        """The learned mix of each place; of further frozen layers by NAME.PLACE. See `elmo.Elmo.weights`."""
        named = (("" if part is self.elmo else f"{part.name.removeprefix('frozen.')}.", part) for part in self._layers)
        return {f"{prefix}{place}": mix for prefix, part in named for place, mix in part.weights().items()}

    def tuned_groups(self) -> list[TunedGroup]:
        """The layers of all sources that the task tunes."""
        return [group for part in self._layers if isinstance(part, TunedLayers) for group in part.groups]

    def meet(self, sentences: Iterable[Sentence], reporter: Reporter | None = None) -> int:
        """Prepares sentences before they are used: numbers their words and computes their frozen layers.

        Args:
            sentences: all that will be used.
            reporter: reports the progress of the embedding.

        Returns:
            The number of sentences whose layers do not fit in the cache. They are computed each time.
        """
        sentences = list(sentences)
        self._number(sentences)
        return max((part.prepare(sentences, reporter) for part in self._parts), default=0)

    def _number(self, sentences: Iterable[Sentence]) -> None:
        """Gives every word of these sentences a number."""
        if new := self._numbers.meet(sentences):
            for part in self._parts:
                part.add_words(new, self._numbers)

    def find(self, texts: Sequence[Sequence[Sentence]]) -> list[LocatedText]:
        """Each kind of text of a batch as numbers. A store starts to read the layers that it has.

        May be called for the next batch while the device still computes the current one.
        """
        self._number(chain.from_iterable(texts))
        return [self._find(text).to(self.device) for text in texts]

    def _find(self, sentences: Sequence[Sentence]) -> LocatedText:
        """One text as numbers, on the CPU."""
        words, lengths = self._numbers.padded(sentences)
        distinct, places = np.unique(words, return_inverse=True)
        return LocatedText(
            torch.from_numpy(lengths),
            int(self._numbers.characters[distinct].max(initial=0)),
            torch.from_numpy(words),
            torch.from_numpy(distinct),
            torch.from_numpy(places.reshape(words.shape)),
            {part.name: part.locate(sentences) for part in self._layers},
        )

    def forward(self, sentences: Sequence[Sentence]) -> FeatureBatch:
        """The vectors of a batch of sentences."""
        return self.vectors_of(self.find([sentences]))[0]

    def vectors_of(self, texts: Sequence[LocatedText]) -> list[FeatureBatch]:
        """The vectors of texts from `find`."""
        by_part = zip(*(part.vectors(texts) for part in self._parts), strict=True) if self._parts else [()] * len(texts)
        return [self._joined(text, vectors) for text, vectors in zip(texts, by_part, strict=True)]

    def _joined(self, text: LocatedText, vectors: Sequence[Mapping[str, Tensor]]) -> FeatureBatch:
        """The vectors of all parts at each place, in the order of the parts."""
        nothing = torch.zeros(*text.mask.shape, 0, device=text.mask.device)
        at = {place: [part[place] for part in vectors if place in part] or [nothing] for place in PLACES}
        joined = {place: some[0] if len(some) == 1 else torch.cat(some, dim=-1) for place, some in at.items()}
        return FeatureBatch(self.dropout(joined["input"]), joined["hidden"], joined["output"], text.mask, text.lengths)

    def penalty(self) -> Tensor:
        """The term that the features add to the loss: the L2 penalty of the mix weights, or zero."""
        penalties = [part.penalty() for part in self._layers]
        return reduce(torch.add, penalties) if penalties else torch.zeros((), device=self.device)
