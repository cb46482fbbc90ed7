"""Folder of a pretraining run: settings, last checkpoint and learning curve, from which a killed run continues."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from elmo.common.errors import InputError
from elmo.common.files import explain_full_disk, read_json, replacing, require_space, write_json
from elmo.common.processes import locked
from elmo.common.tensor_files import check_optimizer, check_tensors, naming, read_tensors, write_tensors
from elmo.pretrain.corpus.token_store import require
from elmo.pretrain.model.language_model import LanguageModel


@dataclass
class Position:
    """Progress of a run."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CurveRow:
    """A line of the learning curve.

    Attributes:
        step: steps done.
        tokens: predictions done in each direction.
        seconds: of training, over all resumptions.
        loss: mean training loss since the previous line, in nats. With sampled negatives it is below a full softmax's.
        learning_rate: at this step.
        tokens_per_second: since the previous line.
        forward: held-out perplexity, if it was measured at this step.
        backward: the same for the other direction.
    """

    step: int
    tokens: int
    seconds: float
    loss: float
    learning_rate: float
    tokens_per_second: float
    forward: float | None = None
    backward: float | None = None


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Locks a run's folder: two processes would overwrite each other's checkpoints."""

    def refuse() -> None:
        raise InputError(f"{out}: another process is training in this folder; wait for it, or name another out=DIR")

    out.mkdir(parents=True, exist_ok=True)
    with locked(out / "lock", refuse):
        yield


class RunFolder:
    """Files of one run."""

    def __init__(self, path: Path, identity: Mapping[str, Any], space: int) -> None:
        """Claims a folder for a run, or checks that it belongs to the same run.

        Args:
            path: the folder.
            identity: settings that decide the result; a folder with other ones is refused.
            space: bytes that the run will need.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        claim = path / "run.json"
        if claim.exists():
            require(path, "settings", _claimed(claim), _plain(identity))
        elif (path / "checkpoint.pt").exists() or (path / "curve.csv").exists():
            raise InputError(f"{path}: holds a run without its run.json; name another folder for this run")
        require_space(path, space, "this run", "make room or name a folder on another disk")
        with self.writing():
            write_json(claim, _plain(identity))

    @property
    def finished(self) -> bool:
        """Whether the run has ended and was exported."""
        return (self.path / "finished.json").exists()

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Marks the run as finished."""
        with self.writing():
            write_json(self.path / "finished.json", summary)

    def save(self, model: LanguageModel, optimiser: torch.optim.Optimizer, position: Position) -> None:
        """Writes a checkpoint; the last one stays until the new one is complete."""
        content = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "position": asdict(position)}
        with self.writing():
            write_tensors(self.path / "checkpoint.pt", content)

    def load(self, model: LanguageModel, optimiser: torch.optim.Optimizer) -> Position:
        """Loads the last checkpoint into model and optimiser; without one, the position is the start of a run."""
        path = self.path / "checkpoint.pt"
        if not path.exists():
            return Position()
        remedy = "Delete it to train from the start, or name another out=DIR"
        content = read_tensors(path, {"model": dict, "optimiser": dict, "position": dict}, "cpu", remedy)
        with naming(path, remedy):
            check_tensors(content["model"], model.state_dict())
            check_optimizer(content["optimiser"], optimiser)
        model.load_state_dict(content["model"])
        optimiser.load_state_dict(content["optimiser"])
        return Position(**content["position"])

    def keep_curve_until(self, step: int) -> None:
        """Drops lines of the curve after a step: a killed run lost that work."""
        path = self.path / "curve.csv"
        if path.exists():
            with path.open(encoding="utf-8", newline="") as file:
                rows = [line for line in csv.DictReader(file) if int(line["step"]) <= step]
            with replacing(path) as partial:
                self._write(partial, rows)

    def log(self, row: CurveRow) -> None:
        """Adds a line to curve.csv."""
        path = self.path / "curve.csv"
        with self.writing():
            if not path.exists():
                self._write(path, [])
            with path.open("a", encoding="utf-8", newline="") as file:
                csv.DictWriter(file, [item.name for item in fields(CurveRow)]).writerow(_shown(row))

    def writing(self) -> AbstractContextManager[None]:
        """Explains a full disk."""
        remedy = "Make room and run again: it continues from the last checkpoint"
        return explain_full_disk(f"{self.path}: no room left on this disk. {remedy}")

    @staticmethod
    def _write(path: Path, rows: list[dict[str, str]]) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [item.name for item in fields(CurveRow)])
            writer.writeheader()
            writer.writerows(rows)


def _shown(row: CurveRow) -> dict[str, str]:
    return {
        name: "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
        for name, value in asdict(row).items()
    }


def _claimed(claim: Path) -> dict[str, Any]:
    """The identity of the run that owns a folder."""
    try:
        identity = read_json(claim)
    except ValueError:
        identity = None
    if not isinstance(identity, dict):
        raise InputError(
            f"{claim}: expected the settings of a run as JSON; it is damaged. Name another out=DIR, or delete that "
            "folder to start again"
        )
    return identity


def _plain(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity as JSON represents it."""
    plain: dict[str, Any] = json.loads(json.dumps(identity))
    return plain
