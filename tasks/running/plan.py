"""A run before it starts: what it is called, what its outcome depends on, and where its record goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.records.record import Identity, fingerprint, hashed, record_path
from results.records.run_lock import LOCK_NAME
from tasks.data.datasets import DataSource
from tasks.features.token_features import features_fingerprint, features_recipes
from tasks.running.config import RunConfig
from tasks.running.loggers import Logged

CHECKPOINT_NAME = "checkpoint.pt"


@dataclass(frozen=True)
class Plan:
    """What is settled about a run before anything is trained.

    Attributes:
        config: the run.
        source: its data.
        identity: its name.
        path: the record's, which follows from the name.
        parts: what may change a score besides what the name says; see `RunRecord.fingerprinted`.
    """

    config: RunConfig
    source: DataSource
    identity: Identity
    path: Path
    parts: dict[str, Any]

    @classmethod
    def of(cls, config: RunConfig) -> Plan:
        """The plan of a run; its data and weights are there, and hashed."""
        identity = identity_of(config)
        source = DataSource(config.data, config.data_dir, config.limit, config.train_fraction, config.seed)
        parts = {
            "recipes": {"task": config.task.recipe, **features_recipes(config.features)},
            "data": source.fingerprint(),
            **features_fingerprint(config.features),
            **({"settings": config.own_settings} if config.own_settings else {}),
        }
        return cls(config, source, identity, record_path(config.runs_dir, identity), parts)

    @property
    def hashed(self) -> dict[str, Any]:
        """All that the run's fingerprint covers."""
        return hashed(self.identity, self.parts)

    @property
    def fingerprint(self) -> str:
        """Equal for runs whose scores must be equal."""
        return fingerprint(self.hashed)

    @property
    def title(self) -> str:
        """The run's name for people."""
        return self.identity.title

    @property
    def logged(self) -> Logged:
        """What a logger is told of the run: its seeds share a group, and it keeps its number when it is stopped."""
        name = self.identity
        return Logged(
            id=self.fingerprint[:16],
            title=self.title,
            group=self.title.replace(f" seed {name.seed}", "", 1),
            tags=(name.data, name.task, name.features),
            settings=self.config.resolved,
            runs_dir=self.config.runs_dir,
        )

    @property
    def checkpoint(self) -> Path:
        """Where the state after the last epoch is kept until the run has ended."""
        return self.path.with_name(CHECKPOINT_NAME)

    @property
    def left_behind(self) -> bool:
        """Whether there is something of a process at work, or of one that was killed before it had tidied up."""
        return self.checkpoint.exists() or self.path.with_name(LOCK_NAME).exists()


def identity_of(config: RunConfig) -> Identity:
    """The name of a run."""
    return Identity(config.data.name, config.task.name, config.features.name, config.seed, config.variant)
