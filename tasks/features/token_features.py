"""Token features: the vectors of each token from all parts, joined at each place of a head.

An arm of the benchmark is a choice of these features. Heads depend on their widths alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import hashes_of
from elmo.common.progress import Reporter
from elmo.sources.masked import is_masked
from elmo.sources.source import code_of, fingerprint_of
from elmo.word_vectors import FileVectors, open_vectors
from results.records.paths import without_folder
from tasks.batch import PLACES, FeatureBatch, Sentence
from tasks.features.frozen_layers import (
    ElmoConfig,
    FrozenConfig,
    FrozenLayers,
    SourceConfig,
    StoreConfig,
    TransformerConfig,
    TunedGroup,
    TunedLayers,
)
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
    dropout: float = 0.0

    def check(self) -> None:
        """Raises an InputError for a value out of range."""
        for part in (self.words, self.characters):
            if part is not None:
                part.check()
        for name in self.frozen:
            if not name.isidentifier() or hasattr(nn.ModuleDict, name):
                raise InputError(f"features.frozen.{name}: expected another name, of letters, digits and _")
        for name, frozen in self.all_frozen().items():
            frozen.check(f"features.{name}")
        at_input = any("input" in frozen.places for frozen in self.all_frozen().values())
        if not (self.words or self.characters or at_input):
            raise InputError("features: every part is null; keep at least one of words, characters, elmo at the input")
        checks.dropout("features.dropout", self.dropout)

    def check_weights(self) -> None:
        """Raises an InputError for features=masked with a biLM: its scores would be listed as those of a masked LM."""
        if self.name == "masked" and self.elmo is not None and not is_masked(self.elmo.weights):
            raise InputError(
                "features=masked: expected the weights of a masked LM, found the biLM features.elmo.weights="
                f"{self.elmo.weights}. Use features=elmo, or a masked LM: python -m elmo.pretrain objective=masked"
            )

    def all_frozen(self) -> dict[str, FrozenConfig]:
        """All frozen layers, by their key below `features`."""
        own = {"elmo": self.elmo, "transformer": self.transformer}
        others = {f"frozen.{name}": self.frozen[name] for name in sorted(self.frozen)}
        return {name: frozen for name, frozen in (own | others).items() if frozen is not None}

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
        config.check()
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
        found = {}
        if self._vectors is not None and self.config.words is not None and self.config.words.vectors:
            found[f"vectors/{without_folder('words', self.config.words.vectors)}"] = self._vectors.sha256()
        for name in chain.from_iterable(source.vector_names() for source in self.config.frozen.values()):
            found[f"vectors/{name}"] = open_vectors(name, "features.words.vectors").sha256()
        for part, frozen in self.config.all_frozen().items():
            found |= {f"{part}/{name}": it for name, it in hashes_of(frozen.files()).items()}
        for layers in self._layers:
            source: Any = layers.source
            while type(source).__module__.startswith("elmo.") and hasattr(source, "source"):  # a cache, a context
                source = source.source
            if code := code_of(source):
                found[f"{layers.name}/module:{code[0]}"] = code[1]
        return found

    @property
    def device(self) -> torch.device:
        """The device of the vectors."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def training_words(self) -> tuple[str, ...]:
        """The words of the trained table, in order. Features built from this one sentence get the same table."""
        return self.word_vectors.training_words if self.word_vectors is not None else ()

    def coverage(self, sentences: Iterable[Sentence]) -> dict[str, int] | None:
        """Distinct words of sentences that were met, and how many have a pretrained vector; see `WordVectors`."""
        return self.word_vectors.coverage(sentences) if self.word_vectors is not None else None

    def mix_weights(self) -> dict[str, dict[str, list[float] | float]]:
        """The learned mix of each place; of further frozen layers by NAME.PLACE. See `elmo.Elmo.weights`."""
        found: dict[str, dict[str, list[float] | float]] = {}
        for part in self._layers:
            prefix = "" if part is self.elmo else f"{part.name.removeprefix('frozen.')}."
            found |= {f"{prefix}{place}": mix for place, mix in part.weights().items()}
        return found

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
        return max(part.prepare(sentences, reporter) for part in self._parts)

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
        distinct, places = self._numbers.distinct(words)
        return LocatedText(
            torch.from_numpy(lengths),
            int(self._numbers.characters[distinct].max(initial=0)),
            torch.from_numpy(words),
            torch.from_numpy(distinct),
            torch.from_numpy(places),
            {part.name: part.locate(sentences) for part in self._layers},
        )

    def forward(self, sentences: Sequence[Sentence]) -> FeatureBatch:
        """The vectors of a batch of sentences."""
        return self.vectors_of(self.find([sentences]))[0]

    def vectors_of(self, found: Sequence[LocatedText]) -> list[FeatureBatch]:
        """The vectors of texts from `find`."""
        by_part = zip(*(part.vectors(found) for part in self._parts), strict=True)
        return [self._joined(text, vectors) for text, vectors in zip(found, by_part, strict=True)]

    def _joined(self, text: LocatedText, vectors: Sequence[Mapping[str, Tensor]]) -> FeatureBatch:
        """The vectors of all parts at each place, in the order of the parts."""
        nothing = torch.zeros(*text.mask.shape, 0, device=text.mask.device)
        at = {place: [part[place] for part in vectors if place in part] or [nothing] for place in PLACES}
        joined = {place: some[0] if len(some) == 1 else torch.cat(some, dim=-1) for place, some in at.items()}
        return FeatureBatch(self.dropout(joined["input"]), joined["hidden"], joined["output"], text.mask, text.lengths)

    def penalty(self) -> Tensor:
        """The term that the features add to the loss: the L2 penalty of the mix weights, or zero."""
        penalties = [part.penalty() for part in self._layers]
        return functools.reduce(torch.add, penalties) if penalties else torch.zeros((), device=self.device)
