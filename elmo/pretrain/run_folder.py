"""Folder of a pretraining run: settings, last checkpoint and learning curve, from which a killed run continues."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from elmo.common.errors import InputError
from elmo.common.files import read_own_json, replacing, require_space, write_json
from elmo.common.tensor_files import check_optimizer, check_tensors, naming, read_tensors, write_tensors
from elmo.pretrain.corpus.token_store import require
from elmo.pretrain.language_model import LanguageModel

CurveRow = Mapping[str, float | None]
"""A line of the learning curve: step, tokens (words and ends of sentences read), seconds of training over all
resumptions, loss (the mean since the previous line, in nats; with sampled negatives it is below a full softmax's),
learning_rate, tokens_per_second (since the previous line), and the objective's columns on held-out text, None if not
measured at this step."""


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
            require(path, "settings", hashes | read_own_json(claim), identity)  # older runs did not store them
        elif (path / "checkpoint.pt").exists() or (path / "curve.csv").exists():
            raise InputError(f"{path}: contains a run without its run.json; name another folder for this run")
        require_space(path, space, "this run", "make room or name a folder on another disk")
        write_json(claim, identity)

    def made_with(self) -> dict[str, Any] | None:
        """All settings of the run if it has ended and was exported; None otherwise."""
        path = self.path / "finished.json"
        return read_own_json(path).get("settings") if path.exists() else None

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Marks the run as finished."""
        write_json(self.path / "finished.json", summary)

    def save(self, model: LanguageModel, optimiser: torch.optim.Optimizer, position: Position) -> None:
        """Writes a checkpoint; the last one stays until the new one is complete."""
        content = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "position": asdict(position)}
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
            lines = path.read_bytes().splitlines(keepends=True)
            header, *rows = [line for line in lines if line.endswith(b"\n")] or [b""]  # a full disk cuts the last one
            steps = [row.partition(b",")[0] for row in rows]
            kept = [row for row, at in zip(rows, steps, strict=True) if at.isdigit() and int(at) <= step]
            with replacing(path) as partial:
                partial.write_bytes(header + b"".join(kept))

    def log(self, row: CurveRow) -> None:
        """Adds a line to curve.csv."""
        shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}
        with (self.path / "curve.csv").open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, shown)
            if not file.tell():
                writer.writeheader()
            writer.writerow(shown)
