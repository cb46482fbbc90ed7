"""A run's folder: whose run it is, its last checkpoint and its learning curve; a killed run goes on from there."""

from __future__ import annotations

import csv
import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from elmo.common.errors import InputError
from elmo.common.files import read_json, replacing, write_json
from elmo.common.processes import locked
from elmo.common.tensor_files import check_optimizer, check_tensors, naming, read_tensors, write_tensors
from elmo.pretrain.corpus.token_store import require
from elmo.pretrain.model.language_model import LanguageModel


@dataclass
class Position:
    """How far a run is: what it has done, and for how long."""

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
        loss: mean training loss since the line before, in nats, with sampled negatives: below the full softmax's.
        learning_rate: at this step.
        tokens_per_second: since the line before.
        forward: held-out perplexity, where it was measured.
        backward: likewise.
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
    """Keeps other processes from training in a run's folder: two would write over each other's checkpoints."""

    def refuse() -> None:
        raise InputError(f"{out}: another process is training in this folder; wait for it, or name another out=DIR")

    out.mkdir(parents=True, exist_ok=True)
    with locked(out / "lock", refuse):
        yield


class RunFolder:
    """Files of one run."""

    def __init__(self, path: Path, identity: Mapping[str, Any], room: int) -> None:
        """Claims a folder for a run, or finds it claimed by the same one.

        Args:
            path: the folder.
            identity: what decides the outcome; a folder with another one is refused.
            room: bytes that the run will need.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        claim = path / "run.json"
        if claim.exists():
            require(path, "settings", _claimed(claim), _plain(identity))
        elif (path / "checkpoint.pt").exists() or (path / "curve.csv").exists():
            raise InputError(f"{path}: holds a run without its run.json; name another folder for this run")
        free = shutil.disk_usage(path).free
        if free < room:
            raise InputError(
                f"{path}: checkpoints and export need about {room / 1e6:,.0f} MB, {free / 1e6:,.0f} MB are free; "
                "make room or name a folder on another disk"
            )
        with self.writing():
            write_json(claim, _plain(identity))

    @property
    def finished(self) -> bool:
        """Whether the run ended and was exported."""
        return (self.path / "finished.json").exists()

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Marks the run as done."""
        with self.writing():
            write_json(self.path / "finished.json", summary)

    def save(self, model: LanguageModel, optimiser: torch.optim.Optimizer, position: Position) -> None:
        """Writes a checkpoint in the place of the last one, which stays until the new one is whole."""
        content = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "position": asdict(position)}
        with self.writing():
            write_tensors(self.path / "checkpoint.pt", content)

    def load(self, model: LanguageModel, optimiser: torch.optim.Optimizer) -> Position:
        """Puts the last checkpoint into model and optimiser; a folder without one gives the start of a run."""
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
        """Drops lines of the curve after a step: they are of work that the killed run lost."""
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

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns a full disk into a message that says what to do."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise InputError(
                f"{self.path}: no room left on this disk. Make room and run again: it goes on from the last checkpoint"
            ) from error

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
    """The identity of the run that a folder belongs to."""
    try:
        identity = read_json(claim)
    except ValueError:
        identity = None
    if not isinstance(identity, dict):
        raise InputError(
            f"{claim}: expected the settings of a run as JSON; it is damaged. Name another out=DIR, or delete that "
            "folder to start afresh"
        )
    return identity


def _plain(identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity as it is after a way through JSON."""
    plain: dict[str, Any] = json.loads(json.dumps(identity))
    return plain
