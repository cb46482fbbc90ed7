"""Frozen layers from a config: the biLM, its store, its mixes, and the hash of its weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, cast

from elmo import SIZES, Bilm, Elmo, load_bilm, random_bilm
from elmo.bilm.options import BilmOptions
from elmo.bilm.weight_files import WEIGHTS_SUFFIXES, find_weights, shipped_names
from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import expanded
from elmo.mix import LayerChoice
from elmo.store.cached_layers import MEMORY_GB, CachedLayers
from elmo.store.opening import open_shelf
from elmo.store.shelf import LIMIT_GB, PRECISIONS, ShelfDescription
from tasks.interface import PLACES


@dataclass
class ElmoConfig:
    """The frozen layers and their mixes; see `elmo.Elmo`.

    Attributes:
        enabled: false leaves ELMo out, whatever else is set here; one sweep can then set weights for all arms.
        weights: a name, shipped or published, a file or a folder; see `elmo.bilm.weight_files.find_weights`.
        untrained: draw random weights of the same shape: the control, with the width of ELMo but without training.
        untrained_seed: the seed for these weights; not the run's seed, so that all runs share one biLM as with elmo.
        places: where ELMo enters: some of input, hidden and output, as far as the task's head offers them.
        layers: mix, last, or the number of a layer.
        l2: lambda, on the raw mix weights.
        precision: float16 or float32, of the frozen layers before they are mixed. It changes the last digits of scores.
    """

    recipe: ClassVar[int] = 1

    enabled: bool = True
    weights: str = "small"
    untrained: bool = False
    untrained_seed: int = 0
    places: list[str] = field(default_factory=lambda: ["input"])
    layers: str = "mix"
    l2: float = 0.001
    layer_norm: bool = False
    dropout: float = 0.5
    precision: str = "float16"

    def check(self) -> None:
        """Raises an InputError for a value out of range."""
        wrong = [place for place in self.places if place not in PLACES]
        if wrong or not self.places:
            raise InputError(f"features.elmo.places: expected some of {', '.join(PLACES)}, found {wrong or 'none'}")
        if not (self.layers in ("mix", "last") or self.layers.isdigit()):
            raise InputError(
                f"features.elmo.layers: expected mix, last or the number of a layer, found {self.layers!r}"
            )
        checks.one_of(PRECISIONS, "features.elmo.precision", self.precision)
        checks.at_least(0, "features.elmo.l2", self.l2)
        checks.dropout("features.elmo.dropout", self.dropout)


@dataclass
class StoreConfig:
    """Where frozen layers are stored between runs; no setting here changes a score.

    Attributes:
        path: the folder; null for no store.
        limit_gb: maximum size. Layers that do not fit are kept in memory or computed each time.
        memory_gb: maximum memory of the device for layers: on a GPU, without a store, or when the store is full.
    """

    path: str | None = None
    limit_gb: float = LIMIT_GB
    memory_gb: float = MEMORY_GB

    def check(self) -> None:
        """Raises an InputError for a value out of range."""
        for name in ("limit_gb", "memory_gb"):
            checks.at_least(0, f"store.{name}", getattr(self, name))
        self.folder()

    def folder(self) -> Path | None:
        """The folder with ~ expanded."""
        return None if self.path is None else expanded(self.path, "store.path")


class StoreUnusable(InputError):  # noqa: N818
    """The store cannot be opened. The run itself did not fail: it would work without a store."""


def build_elmo(config: ElmoConfig, store: StoreConfig) -> Elmo:
    """The ELMo layer of a config; each prepared sentence is embedded once."""
    layers: str | int = int(config.layers) if config.layers.isdigit() else config.layers
    bilm = _bilm(config)
    bilm.remember_words()
    shelf = None
    if (folder := store.folder()) is not None:
        about = ShelfDescription(bilm.fingerprint(), bilm.widths, config.precision)
        try:
            shelf = open_shelf(folder, about, store.limit_gb)
        except InputError as error:
            raise StoreUnusable(str(error)) from error
    return Elmo(
        CachedLayers(bilm, shelf, config.precision, store.memory_gb),
        config.places,
        cast(LayerChoice, layers),
        config.layer_norm,
        config.l2,
        config.dropout,
    )


def _bilm(config: ElmoConfig) -> Bilm:
    if not config.untrained:
        return load_bilm(config.weights)
    options: str | BilmOptions = config.weights if _only_a_size(config) else load_bilm(config.weights).options
    return random_bilm(options, config.untrained_seed)


def _only_a_size(config: ElmoConfig) -> bool:
    """Whether a control has only a named size; if shipped weights have that name, it takes their shape and clipping."""
    return config.untrained and config.weights in SIZES and config.weights not in shipped_names()


def bilm_fingerprint(config: ElmoConfig) -> str:
    """The hash of a biLM's weights. It is cached until a file in their folder changes, since a sweep asks often."""
    state: list[tuple[str, int, int]] = []
    if not _only_a_size(config):
        path = find_weights(config.weights).absolute()
        folder = path if path.is_dir() else path.parent
        suffixes = (*WEIGHTS_SUFFIXES, ".json")
        files = [file for file in sorted(folder.iterdir()) if file.suffix in suffixes]
        state = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return _remembered_fingerprint(config.weights, config.untrained, config.untrained_seed, tuple(state))


@lru_cache(maxsize=16)
def _remembered_fingerprint(weights: str, untrained: bool, seed: int, state: tuple[tuple[str, int, int], ...]) -> str:
    return _bilm(ElmoConfig(weights=weights, untrained=untrained, untrained_seed=seed)).fingerprint()
