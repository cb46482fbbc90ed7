"""Settings of `features.transformer`, and the transformer that they describe."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from elmo import FrozenSource
from elmo.common import checks
from elmo.common.errors import InputError
from elmo.common.files import FileState, expanded
from elmo.sources.transformer import OVERLAP, POOLINGS, WINDOW, Transformer, file_states, files_of
from tasks.features.frozen_layers import FrozenConfig
from tasks.features.tuning import TuningConfig

# What readers of scores must know about a model, by the last part of its name or path.
WARNINGS = {
    "all-mpnet-base-v2": "all-mpnet-base-v2 was trained on SNLI, MultiNLI, SQuAD 2.0, Reddit and Stack Exchange, so "
    "scores on SNLI, SQuAD and WNUT-17 say little about it"
}


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
    pooling: str = "first"
    window: int = WINDOW
    overlap: int = OVERLAP
    # As BERT is tuned: low rates, and all layers at once.
    tuning: TuningConfig = field(default_factory=lambda: TuningConfig(lr=2e-5, decay=0.95, unfreeze=0))

    def check(self, key: str) -> None:
        """Raises an InputError for a value out of range."""
        super().check(key)
        checks.one_of(POOLINGS, f"{key}.pooling", self.pooling)
        checks.at_least(0, f"{key}.overlap", self.overlap)
        if self.window <= self.overlap:
            raise InputError(f"{key}.window: expected more than the overlap, {self.overlap}, found {self.window}")

    def open(self) -> FrozenSource:
        """The transformer."""
        return Transformer(self._place(), self.pooling, self.window, self.overlap)

    def fingerprint(self) -> str:
        """The hash, cached until a file in the model's folder changes, since a sweep needs it often."""
        model = self._place()
        return _remembered_fingerprint(model, self.pooling, self.window, self.overlap, file_states(model))

    def files(self) -> list[Path]:
        """Config, tokeniser and weights."""
        return files_of(self._place())

    def _place(self) -> str:
        return str(expanded(self.model, "features.transformer.model")) if self.model.startswith("~") else self.model


@lru_cache(maxsize=16)
def _remembered_fingerprint(model: str, pooling: str, window: int, overlap: int, state: tuple[FileState, ...]) -> str:
    return Transformer(model, pooling, window, overlap).fingerprint()
