"""Run plans: the name, the fingerprint and the record path of a run, known before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from elmo.common.errors import InputError
from results.records.identity import (
    CHECKPOINT_NAME,
    Identity,
    differences,
    fingerprint,
    settings_hash,
)
from results.records.record import RunRecord, hashed
from results.records.run_lock import LOCK_NAME
from results.records.settings import settings_of
from tasks.data.datasets import DataSource
from tasks.features.token_features import TokenFeatures, features_fingerprint, features_recipes
from tasks.running.config import RunConfig
from tasks.running.loggers import Logged


@dataclass(frozen=True)
class RunPlan:
    """What is known about a run before training.

    Attributes:
        config: the run.
        source: its data.
        parts: what else can change a score; see `RunRecord.fingerprinted`.
        also: the test sets of further datasets, by name.
    """

    config: RunConfig
    source: DataSource
    parts: dict[str, Any]
    also: Mapping[str, DataSource] = field(default_factory=dict)

    @classmethod
    def of(cls, config: RunConfig) -> RunPlan:
        """Plans a run; hashes its data, vectors and weights."""
        source = DataSource(config.data, config.data_dir, config.limit, config.train_fraction, config.seed)
        parts = {
            "recipes": {"task": config.task.recipe, **features_recipes(config.features)},
            "data": source.fingerprint(),
            **features_fingerprint(config.features),
            **({"settings": config.own_settings} if config.own_settings else {}),
        }
        also = {other.data.name: further_set(other, config) for other in config.also}
        for further in also.values():
            further.fingerprint()
        return cls(config, source, parts, also)

    @property
    def identity(self) -> Identity:
        """The run's name."""
        return self.config.identity

    @property
    def path(self) -> Path:
        """Where its record is."""
        return self.config.path

    @property
    def hashed(self) -> dict[str, Any]:
        """Everything that the fingerprint covers."""
        return hashed(self.identity, self.parts)

    @cached_property
    def fingerprint(self) -> str:
        """The run's fingerprint: runs with equal fingerprints have equal scores."""
        return fingerprint(self.hashed)

    def inputs(self, features: TokenFeatures) -> dict[str, str]:
        """The sha256 of everything that the run reads and that can change its score; see `RunRecord.inputs`."""
        return {**self.source.inputs, **features.inputs(), "settings": settings_hash(self.config.resolved)}

    @property
    def further_inputs(self) -> dict[str, str]:
        """The sha256 of each file of the further test sets, by `data.also.NAME/FILE`."""
        return {
            name.replace("data.test/", f"data.also.{data}/", 1): it
            for data, source in self.also.items()
            for name, it in source.inputs.items()
        }

    def check_inputs(self, features: TokenFeatures, before: Mapping[str, str]) -> None:
        """Raises an InputError if something has changed since the run read it."""
        for source in (self.source, *self.also.values()):
            source.check_unchanged()
        now = {**self.inputs(features), **self.further_inputs}
        if changed := differences(before, now):
            raise InputError(
                f"{', '.join(changed)} changed during the run: expected files that stay as they are. Put the old "
                "content back and run with retry=failed, or run again to start over with the new content"
            )

    def changed_settings(self, record: RunRecord) -> list[str]:
        """The settings that may change a score and differ from those of the run's record, with both values."""
        changed = differences(settings_of(record), settings_of(replace(record, config=self.config.resolved)))
        return [f"{key} {there} there, {here} here" for key, (there, here) in changed.items()]

    @property
    def title(self) -> str:
        """The run's readable name."""
        return self.identity.title

    @property
    def logged(self) -> Logged:
        """The run as a logger needs it: its seeds share a group, and a resumed run keeps its id."""
        name = self.identity
        return Logged(
            id=self.fingerprint[:16],
            title=self.title,
            group=self.title.replace(f" seed {name.seed}", "", 1),
            tags=(name.data, name.task, name.features),
            settings=self.config.resolved,
            runs_dir=self.config.runs_dir,
            place=self.path.parent.relative_to(self.config.runs_dir),
        )

    @property
    def checkpoint(self) -> Path:
        """The file with the state after the last epoch; removed when the run ends."""
        return self.path.with_name(CHECKPOINT_NAME)

    @property
    def left_behind(self) -> bool:
        """Whether a process works on the run, or was killed before it cleaned up."""
        return self.checkpoint.exists() or self.path.with_name(LOCK_NAME).exists()


def further_set(other: RunConfig, run: RunConfig) -> DataSource:
    """The test set of a further dataset, which the model of a run is scored on."""
    return DataSource(other.data, run.data_dir, run.limit, used=("test",))
