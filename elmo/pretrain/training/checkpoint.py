"""Folder of a pretraining run: settings, last checkpoint and learning curve, from which a killed run continues."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from elmo.common.errors import InputError, excerpt
from elmo.common.files import read_json, replacing, require_space, write_json
from elmo.common.tensor_files import check_optimizer, check_tensors, naming, read_tensors, write_tensors
from elmo.pretrain.corpus.token_store import require
from elmo.pretrain.training.masked_loss import MaskedLoss
from elmo.pretrain.training.objective import Measured, TrainedModel
from elmo.pretrain.training.perplexity import Perplexity


@dataclass
class Position:
    """Progress of a run."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Over the whole run, including held-out perplexity."""
        return self.tokens / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class CurveRow:
    """A line of the learning curve.

    Attributes:
        step: steps done.
        tokens: words and ends of sentences read.
        seconds: of training, over all resumptions.
        loss: mean training loss since the previous line, in nats. With sampled negatives it is below a full softmax's.
        learning_rate: at this step.
        tokens_per_second: since the previous line.
        heldout: what was measured on held-out text, by the names of columns; None if not at this step.
    """

    step: int
    tokens: int
    seconds: float
    loss: float
    learning_rate: float
    tokens_per_second: float
    heldout: Mapping[str, float | None]

    def columns(self) -> dict[str, float | None]:
        """All figures by the names of their columns."""
        figures = asdict(self)
        heldout: dict[str, float | None] = figures.pop("heldout")
        return figures | heldout


class RunFolder:
    """Files of one run."""

    def __init__(self, path: Path, identity: Mapping[str, Any], space: int) -> None:
        """Claims a folder for a run, or checks that it belongs to the same run.

        Args:
            path: the folder.
            identity: settings that decide the result; a folder with other ones is rejected.
            space: bytes that the run will need.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        claim = path / "run.json"
        if claim.exists():
            hashes = {key: value for key, value in identity.items() if key.endswith(".sha256")}
            require(path, "settings", hashes | _claimed(claim), identity)  # older runs did not store them
        elif (path / "checkpoint.pt").exists() or (path / "curve.csv").exists():
            raise InputError(f"{path}: contains a run without its run.json; name another folder for this run")
        require_space(path, space, "this run", "make room or name a folder on another disk")
        write_json(claim, identity)

    def made_with(self) -> dict[str, Any] | None:
        """All settings of the run if it has ended and was exported; None otherwise."""
        path = self.path / "finished.json"
        if not path.exists():
            return None
        found = _read_own(path).get("settings")
        if not isinstance(found, dict) or not isinstance(found.get("name"), str):
            raise _not_ours(path, "settings and their name")
        return found

    def measured_before(self, kind: type[Perplexity] | type[MaskedLoss]) -> Measured | None:
        """The held-out value of the given weights, if an earlier process of the run has stored it."""
        path = self.path / "before.json"
        if not path.exists():
            return None
        found, names = _read_own(path), [field.name for field in fields(kind)]
        if set(found) != set(names) or not all(isinstance(value, int | float) for value in found.values()):
            raise _not_ours(path, f"numbers for {', '.join(names)}")
        return kind(**found)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Marks the run as finished."""
        write_json(self.path / "finished.json", summary)

    def save(self, model: TrainedModel, optimiser: torch.optim.Optimizer, position: Position) -> None:
        """Writes a checkpoint; the last one stays until the new one is complete."""
        content = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "position": asdict(position)}
        write_tensors(self.path / "checkpoint.pt", content)

    def load(self, model: TrainedModel, optimiser: torch.optim.Optimizer) -> Position:
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
            lines = path.read_bytes().splitlines(keepends=True)
            header, *rows = [line for line in lines if line.endswith(b"\n")] or [b""]  # a full disk cuts the last one
            steps = [row.partition(b",")[0] for row in rows]
            if wrong := [found for found in steps if not re.fullmatch(b"[0-9]{1,18}", found)]:
                raise InputError(
                    f"{path}: expected lines that begin with a step, found {excerpt(wrong[0])}. Delete the file: the "
                    "curve then begins where the run continues"
                )
            with replacing(path) as partial:
                kept = (row for row, found in zip(rows, steps, strict=True) if int(found) <= step)
                partial.write_bytes(header + b"".join(kept))

    def log(self, row: CurveRow) -> None:
        """Adds a line to curve.csv."""
        shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.columns().items()}
        with (self.path / "curve.csv").open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, shown)
            if not file.tell():
                writer.writeheader()
            writer.writerow(shown)


def _read_own(path: Path) -> dict[str, Any]:
    """The object in a file that the next process of the run would write again."""
    try:
        content = read_json(path)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise _not_ours(path, "a JSON object")
    return content


def _not_ours(path: Path, expected: str) -> InputError:
    return InputError(
        f"{path}: expected {expected}, as the run wrote it, found something else. Delete the file and run again: it is "
        "measured and written again, and the checkpoint stays"
    )


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
