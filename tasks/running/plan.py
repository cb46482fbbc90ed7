"""Run plans: the name, the fingerprint and the record path of a run, known before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from results.records.identity import CHECKPOINT_NAME, Identity, fingerprint, record_path
from results.records.record import hashed
from results.records.run_lock import LOCK_NAME
from tasks.data.datasets import DataSource
from tasks.features.token_features import features_fingerprint, features_recipes
from tasks.running.config import RunConfig
from tasks.running.loggers import Logged


@dataclass(frozen=True)
class RunPlan:
    """What is known about a run before training.

    Attributes:
        config: the run.
        source: its data.
        identity: its name.
        path: where its record is; follows from the identity.
        parts: what else can change a score; see `RunRecord.fingerprinted`.
    """

    config: RunConfig
    source: DataSource
    identity: Identity
    path: Path
    parts: dict[str, Any]

    @classmethod
    def of(cls, config: RunConfig) -> RunPlan:
        """Plans a run; hashes its data, vectors and weights."""
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
        """Everything that the fingerprint covers."""
        return hashed(self.identity, self.parts)

    @property
    def fingerprint(self) -> str:
        """The run's fingerprint: runs with equal fingerprints have equal scores."""
        return fingerprint(self.hashed)

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


def identity_of(config: RunConfig) -> Identity:
    """The identity of a run."""
    names = (config.data.name, config.task.name, config.features.name)
    return Identity(*names, config.seed, config.variant, config.fold)
