"""Model card of an exported biLM or masked LM, written from figures of the run."""

from __future__ import annotations

import os
import platform
import shlex
from collections.abc import Mapping
from typing import Any

import torch

from elmo.pretrain.batches import MASKED, REPLACED
from elmo.pretrain.corpus.overlap import WINDOW
from elmo.pretrain.objective import OBJECTIVES, Objective

_MEASURED = {"before": "given weights, before training", "trained": "trained weights", "exported": "these files"}
ROUNDING_SENTENCES = 200  # at most, to measure how far int8 weights change layers
_OF_THE_VOCABULARY = ("vocabulary_size", "train_unknown", "heldout_unknown")


def hardware(device: torch.device, world: int) -> str:
    """The machine in one line."""
    torch_version = f"torch {torch.__version__}"
    if device.type == "cuda":
        return f"{world} x {torch.cuda.get_device_name(device)}, {torch_version}"
    return f"CPU ({platform.machine()}, {os.cpu_count()} cores), {torch_version}"


def card(facts: Mapping[str, Any]) -> str:
    """The text of card.md, from the content of finished.json."""
    settings, position = facts["settings"], facts["position"]
    how = settings["training"]
    objective = OBJECTIVES[settings["objective"]]
    weighted = any("weight" in item for item in facts["sources"])
    sources = "\n".join(
        f"| {item['name']} | {item['bytes']:,} | `{item['sha256']}` |"
        + (f" {item.get('weight', 1):g} |" if weighted else "")
        for item in facts["sources"]
    )
    # The store counts its own vocabulary, which is not the model's if that was given.
    unused = _OF_THE_VOCABULARY if settings["init"] or settings["vocabulary_of"] else ()
    shown = {name: value for name, value in facts["counts"].items() if name not in unused}
    counts = ", ".join(f"{name.replace('_', ' ')} {_shown(value)}" for name, value in shown.items())
    wiki = any("wiki" in item["name"].lower() for item in facts["sources"])
    notes = [f"Licence of the text: {settings['licence'] or 'not stated'}."]
    if wiki:
        notes.append("The text holds Wikipedia articles: paragraphs of the SQuAD dev set may occur in it.")
    if weighted:
        notes.append(
            "A weight is how often each training sentence occurs in a pass; counts include the copies. "
            "Held-out text is not repeated."
        )
    if how["recase"]:
        notes.append(
            f"{how['recase']:.1%} of the training sentences are recased: two thirds of them in capitals, one third "
            "with a capital at the beginning of every word. Held-out text keeps its case."
        )
    if facts["exclude"]:
        names = ", ".join(item["name"] for item in facts["exclude"])
        notes.append(
            f"Paragraphs left out: {facts['counts']['excluded_paragraphs']:,}, which share {WINDOW} letters and digits "
            f"in a row with {names}."
        )
    shape = f"{_shape(settings)}, input {settings['input']}"
    if settings["init"]:
        shape = f"as in `{settings['init']}`"
        notes.append(f"Training continued from the weights `{settings['init']}`, with their shape and vocabulary.")
    weights = settings["export"]["weights"]
    if weights == "int8":
        weights = "int8, one scale per output row; biases, filters and their projection in float16"
    precision = "bfloat16 on a GPU, float32 on a CPU" if how["precision"] == "auto" else how["precision"]
    return f"""# {objective.title} {settings["name"]}

{shape}; {facts["parameters"]:,} parameters without the output layer; {facts["vocabulary"]:,} words predicted;
weights in {weights}.

## Held-out {objective.kind}

{_measured(facts, objective)}
{_hardly_trained(facts)}
Terms: {objective.terms};
{_vocabulary(settings)}; {_held_out(facts)}.
{_rounding(facts)}
## Text

| file | bytes | sha256 |{" weight |" * weighted}
|---|---|---|{"---|" * weighted}
{sources}

Tokenised with `tokenise={settings["tokenise"]}`. {counts[:1].upper()}{counts[1:]}.
{chr(10).join(notes)}

## Training

| | |
|---|---|
| steps | {position["step"]:,} |
| tokens seen, </S> counted | {position["tokens"]:,} |
| passes over the text | {facts["passes"]:.2g} |
| minutes | {position["seconds"] / 60:.1f} |
| tokens a second | {facts["tokens_per_second"]:,.0f} |
| hardware | {facts["hardware"]} |
| batch, learning rate, dropout | {how["batch_tokens"]:,} tokens, {how["learning_rate"]:g}, {how["dropout"]:g} |
| negatives | {how["negatives"]:,} |
| course of the rate | up over {how["warmup"]:.1%} of the budget, then a cosine down to {how["final_rate"]:.1%} |
| Adam's beta2, gradient norm at most | {how["beta2"]:g}, {how["clip_norm"]:g} |
| precision of products | {precision} |
| seed | {settings["seed"]} |

```
python -m elmo.pretrain {shlex.join(facts["command"])}
```
"""


def _shape(settings: Mapping[str, Any]) -> str:
    model, masked = settings["model"], settings["masked"]
    if settings["objective"] == "bilm":
        return f"LSTM {model['cell_dim']}/{model['projection_dim']}, {model['n_layers']} layers each way"
    return (
        f"Transformer {masked['dim']}/{masked['feedforward_dim']}, {masked['n_layers']} layers of {masked['n_heads']} "
        f"heads, {masked['chosen']:.0%} of the words chosen ({MASKED:.0%} of them masked, {REPLACED:.0%} replaced)"
    )


def _hardly_trained(facts: Mapping[str, Any]) -> str:
    if facts["passes"] >= 1 or facts["settings"]["init"]:
        return ""
    return f"\n**Hardly trained:** training ended after {facts['passes']:.2%} of one pass over the text.\n"


def _vocabulary(settings: Mapping[str, Any]) -> str:
    other = settings["init"] or settings["vocabulary_of"]
    return f"vocabulary: the words that `{other}` predicts" if other else "vocabulary chosen on the training text only"


def _held_out(facts: Mapping[str, Any]) -> str:
    settings, counts = facts["settings"], facts["counts"]
    share = f"{settings['heldout_fraction']:.2%}"
    if settings["heldout_unit"] == "paragraph":
        return f"""held out are single paragraphs ({share} of them,
chosen by a hash of their text). Other paragraphs of these documents were trained on: expect a higher perplexity on
unseen documents"""
    return f"""held out are {counts["heldout_documents"]:,} of {counts["documents"]:,} documents
({share} asked for, chosen by a hash of their text). A blank line or the end of a file ends a document; long files
without blank lines, and text of fewer than 20 documents, are cut into stretches of
{counts["stretch_paragraphs"]:,} paragraphs"""


def _rounding(facts: Mapping[str, Any]) -> str:
    if "rounding" not in facts:
        return ""
    shares = ", ".join(f"{share:.2%} (layer {number})" for number, share in enumerate(facts["rounding"]))
    text = "heldout" if facts["counts"]["heldout_sentences"] else "train"
    sentences = min(ROUNDING_SENTENCES, facts["counts"][f"{text}_sentences"])
    return f"""
## Rounding

The layers of these int8 weights differ from those of the trained weights by {shares}
of their length, on {sentences:,} sentences of the {"held-out" if text == "heldout" else "training"} text.
"""


def _measured(facts: Mapping[str, Any], objective: Objective) -> str:
    rows = [
        {"": _MEASURED[name], **objective.figures(values)}
        | {"predictions": f"{values['tokens']:,}", "words that are <UNK>": f"{values['unknown_rate']:.2%}"}
        for name, values in facts[objective.kind.replace(" ", "_")].items()
    ]
    if not rows:
        return "Not measured: no text was held out."
    lines = [rows[0].keys(), ["---"] * len(rows[0]), *(row.values() for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _shown(value: object) -> str:
    return f"{value:.2%}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
