"""Tables of what others published, from `paper/others.toml`: scores on the paper's tasks, and costs of pretraining."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from results.analysis.names import load_names
from results.analysis.paper_scores import load_paper
from results.records.typed_json import PAPER, read_toml
from results.tables.paper_tables import MarkdownTable

ROOT = PAPER.parents[1]


@dataclass(frozen=True)
class OtherSystem:
    """Scores that a system reached, by task and as printed, and where they are printed."""

    name: str
    source: str
    scores: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PretrainingCost:
    """What training a representation took, as published; empty where it was not.

    Attributes:
        name: Of the representation.
        source: Where the numbers are printed.
        card: The card of a model of ours below the repository, which has them instead.
        parameters: Of the model, without its output layer.
        text: Its size.
        read: How much was read in all passes.
        time: With the hardware.
    """

    name: str
    source: str = ""
    card: str = ""
    parameters: str = ""
    text: str = ""
    read: str = ""
    time: str = ""


@dataclass(frozen=True)
class Others:
    """The content of others.toml."""

    system: Sequence[OtherSystem]
    cost: Sequence[PretrainingCost]


def load_others(path: Path = PAPER / "others.toml") -> Others:
    """The published numbers; those of our own models are read from their cards."""
    found = read_toml(Others, path)
    return replace(found, cost=[_of_card(own) if own.card else own for own in found.cost])


def anchors_table(others: Others) -> MarkdownTable:
    """The scores, a column for each task in the order of the paper's Table 1."""
    tasks = load_paper().tasks
    headers = ["", *(load_names().tasks[task].title for task in tasks), "source"]
    lines = [[own.name, *(own.scores.get(task, "") for task in tasks), own.source] for own in others.system]
    return MarkdownTable(headers, lines)


def costs_table(others: Others) -> MarkdownTable:
    """The costs, ours and published."""
    lines = [[own.name, own.parameters, own.text, own.read, own.time, own.source] for own in others.cost]
    return MarkdownTable(["", "parameters", "text", "read in all passes", "time", "source"], lines)


def _of_card(cost: PretrainingCost) -> PretrainingCost:
    card = (ROOT / cost.card).read_text(encoding="utf-8")

    def value(pattern: str) -> str:
        found = re.search(pattern, card)
        if found is None:
            raise ValueError(f"{cost.card}: expected {pattern!r}")
        return found[1]

    def count(pattern: str) -> int:
        return int(value(pattern).replace(",", ""))

    parameters, text = count(r"([\d,]+) parameters without"), count(r"train tokens ([\d,]+),")
    read, minutes = count(r"\| tokens seen.* \| ([\d,]+) \|"), value(r"\| minutes \| ([\d.]+) \|")
    return replace(
        cost,
        parameters=f"{parameters / 1e6:.1f} M",
        text=f"{text / 1e6:.1f} M tokens",
        read=f"{read / 1e9:.1f} G tokens",
        time=f"{minutes} minutes, {value(r'hardware . (.*?),')}",
        source=cost.card,
    )
