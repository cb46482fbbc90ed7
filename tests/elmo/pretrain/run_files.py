"""The files of a pretraining run called tiny, read back from its folder."""

import csv
import json

import torch


def curve_of(out):
    """The rows of the learning curve, as texts."""
    with (out / "curve.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def checkpoint_of(out):
    return torch.load(out / "checkpoint.pt", weights_only=True)


def summary_of(out):
    return json.loads((out / "finished.json").read_text(encoding="utf-8"))


def card_of(out):
    return (out / "export" / "tiny" / "card.md").read_text(encoding="utf-8")
