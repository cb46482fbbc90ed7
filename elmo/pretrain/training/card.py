"""Model card of an exported biLM, written from figures of the run."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from elmo.pretrain.training.perplexity import TERMS, Perplexity
from elmo.pretrain.training.settings import Settings
from elmo.pretrain.training.train import TrainingResult


@dataclass(frozen=True)
class Facts:
    """The facts on a card.

    Attributes:
        command: arguments of `python -m elmo.pretrain`.
        settings: of the run.
        header: of the token store.
        vocabulary: words that are predicted, special ones included.
        parameters: of the biLM without the output layer.
        outcome: of the training.
        hardware: of the run.
        before: held-out perplexity of the initial weights, if they were given.
        trained: held-out perplexity of the weights in memory at the end.
        exported: the same, of the exported files.
    """

    command: list[str]
    settings: Settings
    header: Mapping[str, Any]
    vocabulary: int
    parameters: int
    outcome: TrainingResult
    hardware: str
    before: Perplexity | None
    trained: Perplexity | None
    exported: Perplexity | None

    @property
    def passes(self) -> float:
        """Passes over the training text."""
        counts = self.header["counts"]
        return self.outcome.position.tokens / int(counts["train_tokens"] + counts["train_sentences"])

    def summary(self) -> dict[str, Any]:
        """The facts as one JSON object."""
        measured = {"before": self.before, "trained": self.trained, "exported": self.exported}
        return {
            "command": self.command,
            "settings": asdict(self.settings),
            "sources": self.header["sources"],
            "counts": self.header["counts"],
            "vocabulary": self.vocabulary,
            "parameters": self.parameters,
            "hardware": self.hardware,
            "position": asdict(self.outcome.position),
            "passes": self.passes,
            "tokens_per_second": self.outcome.tokens_per_second,
            "perplexity": {name: asdict(found) for name, found in measured.items() if found is not None},
        }


def hardware(device: torch.device, world: int) -> str:
    """The machine in one line."""
    torch_version = f"torch {torch.__version__}"
    if device.type == "cuda":
        return f"{world} x {torch.cuda.get_device_name(device)}, {torch_version}"
    return f"CPU ({platform.machine()}, {os.cpu_count()} cores), {torch_version}"


def card(facts: Facts) -> str:
    """The text of card.md."""
    settings, model, training = facts.settings, facts.settings.model, facts.settings.training
    position = facts.outcome.position
    sources = "\n".join(
        f"| {item['name']} | {item['bytes']:,} | `{item['sha256']}` |" for item in facts.header["sources"]
    )
    counts = ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in facts.header["counts"].items())
    wiki = any("wiki" in item["name"].lower() for item in facts.header["sources"])
    notes = [f"Licence of the text: {settings.licence or 'not stated'}."]
    if wiki:
        notes.append("The text holds Wikipedia articles: paragraphs of the SQuAD dev set may occur in it.")
    if settings.init:
        notes.append(f"Training continued from the weights `{settings.init}`, with their shape and vocabulary.")
    shape = (
        f"LSTM {model.cell_dim}/{model.projection_dim}, {model.n_layers} layers each way, input {settings.input}"
        if not settings.init
        else f"as in `{settings.init}`"
    )
    precision = "bfloat16 on a GPU, float32 on a CPU" if training.precision == "auto" else training.precision
    return f"""# biLM {settings.name}

{shape}; {facts.parameters:,} parameters without the output layer; {facts.vocabulary:,} words predicted.

## Held-out perplexity

{_perplexities(facts)}
{_hardly_trained(facts)}
Terms: {TERMS};
vocabulary chosen on the training text only; {_held_out(facts)}.

## Text

| file | bytes | sha256 |
|---|---|---|
{sources}

Tokenised with `tokenise={settings.tokenise}`. {counts[:1].upper()}{counts[1:]}.
{chr(10).join(notes)}

## Training

| | |
|---|---|
| steps | {position.step:,} |
| tokens seen, </S> counted | {position.tokens:,} |
| passes over the text | {facts.passes:.2g} |
| minutes | {position.seconds / 60:.1f} |
| tokens a second | {facts.outcome.tokens_per_second:,.0f} |
| hardware | {facts.hardware} |
| batch, learning rate, dropout | {training.batch_tokens:,} tokens, {training.learning_rate:g}, {training.dropout:g} |
| negatives | {training.negatives:,} |
| course of the rate | up over {training.warmup:.1%} of the budget, then a cosine down to {training.final_rate:.1%} |
| Adam's beta2, gradient norm at most | {training.beta2:g}, {training.clip_norm:g} |
| precision of products | {precision} |
| seed | {settings.seed} |

```
python -m elmo.pretrain {shlex.join(facts.command)}
```
"""


def _hardly_trained(facts: Facts) -> str:
    if facts.passes >= 1 or facts.settings.init:
        return ""
    return f"\n**Hardly trained:** training ended after {facts.passes:.2%} of one pass over the text.\n"


def _held_out(facts: Facts) -> str:
    share, counts = f"{facts.settings.heldout_fraction:.2%}", facts.header["counts"]
    if facts.settings.heldout_unit == "paragraph":
        return f"""held out are single paragraphs ({share} of them,
chosen by a hash of their text). Other paragraphs of these documents were trained on: expect a higher perplexity on
unseen documents"""
    return f"""held out are {counts["heldout_documents"]:,} of {counts["documents"]:,} documents
({share} asked for, chosen by a hash of their text). A blank line or the end of a file ends a document; long files
without blank lines, and text of fewer than 20 documents, are cut into stretches of
{counts["stretch_paragraphs"]:,} paragraphs"""


def _perplexities(facts: Facts) -> str:
    measured = {
        "given weights, before training": facts.before,
        "trained weights": facts.trained,
        "these files": facts.exported,
    }
    lines = [
        f"| {name} | {found.forward:.2f} | {found.backward:.2f} | {found.mean:.2f} | {found.tokens:,} | "
        f"{found.unknown_rate:.2%} |"
        for name, found in measured.items()
        if found is not None
    ]
    if not lines:
        return "Not measured: no text was held out."
    head = "| | forward | backward | mean | predictions each | words that are <UNK> |\n|---|---|---|---|---|---|"
    return "\n".join([head, *lines])


def _shown(value: object) -> str:
    return f"{value:.2%}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
