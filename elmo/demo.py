"""python -m elmo.demo: what the frozen layer gives, shown on a few sentences with an untrained biLM."""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.table import Table
from torch.nn.functional import cosine_similarity

from elmo.bilm import random_bilm
from elmo.layer import Elmo

# Each pair uses one word in two senses.
PAIRS = {
    "play": (
        "The home side had to play the second half with ten men .",
        "She wrote a new play for the small stage in our street .",
    ),
    "bank": (
        "They sat on the grassy bank and watched the river rise .",
        "The bank raised its interest rates again this morning .",
    ),
}


def main() -> None:
    """Embeds the sentences and prints shapes, time, mix weights and a small table."""
    console = Console(highlight=False)
    bilm = random_bilm("small", seed=1)
    elmo = Elmo(bilm).eval()
    sentences = [sentence.split() for pair in PAIRS.values() for sentence in pair]
    n_tokens = sum(map(len, sentences))

    with torch.no_grad():
        mixed = elmo(sentences).places["input"]  # (sentences, tokens, dim)
    start = time.perf_counter()  # of a second run: the first also sets up torch's kernels
    layers = bilm.layers(sentences)  # (layers, sentences, tokens, dim)
    seconds = time.perf_counter() - start

    n_parameters = sum(parameter.numel() for parameter in bilm.parameters())
    console.print(f"A biLM of size small: {n_parameters / 1e6:.1f} million parameters, frozen, [bold]UNTRAINED[/bold].")
    console.print("Its weights are random: this shows the mechanics, the similarities mean nothing.\n")
    console.print(f"{len(sentences)} sentences, {n_tokens} tokens, {1000 * seconds:.0f} ms")
    console.print(f"layers of the biLM      {tuple(layers.shape)}  (layers, sentences, tokens, dim)")
    console.print(f"ELMo, the layers mixed  {tuple(mixed.shape)}     (sentences, tokens, dim)")
    ((place, mix),) = elmo.weights().items()
    shares = ", ".join(f"{share:.2f}" for share in mix["layers"])  # type: ignore[union-attr]
    console.print(f"the mix of {place!r}      gamma {mix['gamma']:.2f}, shares {shares} (as they start)\n")

    table = Table(title="one word, two sentences: cosine of its vectors", title_justify="left")
    for name in ("word", "layer 0: characters", "layer 1", "layer 2", "ELMo"):
        table.add_column(name, justify="left" if name == "word" else "right")
    vectors = torch.cat([layers, mixed[None]])  # (layers and mix, sentences, tokens, dim)
    for i, word in enumerate(PAIRS):
        one, other = (vectors[:, row, sentences[row].index(word)] for row in (2 * i, 2 * i + 1))
        table.add_row(word, *(f"{value:.3f}" for value in cosine_similarity(one, other, dim=-1).tolist()))
    console.print(table)
    console.print("Layer 0 reads the word's letters alone, so it cannot tell the two apart.")


if __name__ == "__main__":
    main()
