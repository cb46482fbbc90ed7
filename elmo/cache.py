"""Frozen layers from memory: within a run, a sentence is embedded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn

from elmo.bilm import Bilm, Sentence

TOKENS_AT_ONCE = 8192
LIMIT_GB = 4.0

Key = tuple[str, ...]
Batch = list[Key]
Track = Callable[[Sequence[Batch], int, str], Iterable[Batch]]


class CachedLayers(nn.Module):
    """The layers of a biLM, from memory for the sentences that were prepared, computed on the spot for others.

    Sentences are embedded in batches that follow from the set of sentences alone, not from the order in which training
    meets them: a run that goes on after a kill gets the same bits as one that was never stopped.

    Args:
        bilm: what computes the layers.
        limit_gb: memory to fill at most, on the biLM's device; sentences beyond it are computed each time.
    """

    def __init__(self, bilm: Bilm, limit_gb: float = LIMIT_GB) -> None:
        super().__init__()
        self.bilm = bilm
        self._limit_bytes = limit_gb * 1e9
        # All layers of all kept tokens; row 0 is zero, for padding.
        self.register_buffer("_table", torch.zeros(bilm.n_layers, 1, bilm.dim), persistent=False)
        self._table: Tensor  # (n_layers, 1 + tokens, dim)
        self._starts: dict[Key, int] = {}

    @property
    def dim(self) -> int:
        """Width of a layer."""
        return self.bilm.dim

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self.bilm.n_layers

    def fingerprint(self) -> str:
        """The biLM's: where layers are kept does not change them."""
        return self.bilm.fingerprint()

    def prepare(self, sentences: Iterable[Sentence], track: Track | None = None) -> int:
        """Embeds the sentences that are not in memory yet, as far as the limit allows; how many do not fit comes out.

        Args:
            sentences: what will be asked for.
            track: shows progress over the batches, given them, their number and a title.
        """
        new = sorted({tuple(sentence) for sentence in sentences} - self._starts.keys(), key=lambda s: (len(s), s))
        room = int(self._limit_bytes / (self.n_layers * self.dim * self._table.element_size())) - self._table.shape[1]
        fitting = []
        for sentence in new:
            room -= len(sentence)
            if room < 0:
                break
            fitting.append(sentence)
        batches = list(_batches(fitting))
        parts = [self._table]
        row = self._table.shape[1]
        for batch in track(batches, len(batches), "embedding") if track else batches:
            parts.append(self.bilm.token_layers(batch))
            for sentence in batch:
                self._starts[sentence] = row
                row += len(sentence)
        if batches:
            self._table = torch.cat(parts, dim=1)
        return len(new) - len(fitting)

    def layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of a padded batch, (n_layers, sentences, tokens, dim), zero where a sentence has ended."""
        starts = [self._starts.get(tuple(sentence)) for sentence in sentences]
        if None in starts:
            return self.bilm.layers(sentences)
        device = self._table.device
        first = torch.tensor(starts, device=device)[:, None]  # (sentences, 1)
        lengths = torch.tensor([len(sentence) for sentence in sentences], device=device)[:, None]
        step = torch.arange(max((len(sentence) for sentence in sentences), default=0), device=device)
        rows = torch.where(step < lengths, first + step, 0)  # (sentences, tokens)
        return self._table[:, rows]


def _batches(by_length: Sequence[Key]) -> Iterator[Batch]:
    """Batches of alike lengths with at most TOKENS_AT_ONCE tokens, or one longer sentence."""
    batch: Batch = []
    tokens = 0
    for sentence in by_length:
        if batch and tokens + len(sentence) > TOKENS_AT_ONCE:
            yield batch
            batch, tokens = [], 0
        batch.append(sentence)
        tokens += len(sentence)
    if batch:
        yield batch
