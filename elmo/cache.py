"""Frozen layers from memory: within a run, a sentence is embedded once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor, nn

from elmo.bilm import Sentence

TOKENS_AT_ONCE = 8192
LIMIT_GB = 4.0

Key = tuple[str, ...]
Batch = list[Key]
Track = Callable[[Sequence[Batch], int, str], Iterable[Batch]]


class TokenLayers(Protocol):
    """What computes frozen layers: a `Bilm`, or any other model with these four; `CachedLayers` makes it `Layers`."""

    @property
    def dim(self) -> int:
        """Width of a layer."""

    @property
    def n_layers(self) -> int:
        """Number of layers."""

    def fingerprint(self) -> str:
        """A hash of everything that the layers depend on."""

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (n_layers, tokens, dim), no gradients."""


@dataclass(frozen=True)
class Held:
    """The layers of some sentences, (n_layers, 1 + tokens, dim), row 0 being zero, and the row where each starts."""

    table: Tensor
    starts: dict[Key, int]


class CachedLayers(nn.Module):
    """Frozen layers, from memory for the sentences that were prepared, computed on the spot for others.

    Sentences are embedded in batches that follow from the set of sentences alone, not from the order in which training
    meets them: a run that goes on after a kill gets the same bits as one that was never stopped.

    Args:
        source: what computes the layers, such as a `Bilm`; a module's device is the cache's, too.
        limit_gb: memory to fill at most, on that device; sentences beyond it are computed each time.
    """

    def __init__(self, source: TokenLayers, limit_gb: float = LIMIT_GB) -> None:
        super().__init__()
        self.source = source
        self._limit_bytes = limit_gb * 1e9
        # All layers of all kept tokens; row 0 is zero, for padding.
        self.register_buffer("_table", torch.zeros(source.n_layers, 1, source.dim), persistent=False)
        self._table: Tensor  # (n_layers, 1 + tokens, dim)
        self._starts: dict[Key, int] = {}
        self._held: Held | None = None

    @property
    def dim(self) -> int:
        """Width of a layer."""
        return self.source.dim

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self.source.n_layers

    def fingerprint(self) -> str:
        """The source's: where layers are kept does not change them."""
        return self.source.fingerprint()

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
            parts.append(self.source.token_layers(batch))
            for sentence in batch:
                self._starts[sentence] = row
                row += len(sentence)
        if batches:
            self._table = torch.cat(parts, dim=1)
        return len(new) - len(fitting)

    def hold(self, sentences: Iterable[Sentence]) -> None:
        """Embeds those of a batch's sentences that are not in memory, each once and all in one go, for `layers`.

        They are forgotten with the next call, so that what comes out does not depend on earlier batches.
        """
        missing = self._missing(map(tuple, sentences))
        self._held = self._embed(missing) if missing else None

    def layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of a padded batch, (n_layers, sentences, tokens, dim), zero where a sentence has ended.

        Sentences that are neither in memory nor held are embedded now, each once however often the batch has it.
        """
        keys = [tuple(sentence) for sentence in sentences]
        kept = self._gather(self._table, [self._starts.get(key) for key in keys], keys)
        missing = self._missing(keys)
        if not missing:
            return kept
        held = self._held
        if held is None or any(key not in held.starts for key in missing):
            held = self._embed(missing)
        return kept + self._gather(held.table, [held.starts.get(key) for key in keys], keys)

    def _missing(self, keys: Iterable[Key]) -> list[Key]:
        """The distinct sentences that are not in memory."""
        return [key for key in dict.fromkeys(keys) if key not in self._starts]

    def _embed(self, missing: list[Key]) -> Held:
        """The layers of distinct sentences."""
        table = torch.cat([self._table[:, :1], self.source.token_layers(missing)], dim=1)
        return Held(table, dict(zip(missing, accumulate(map(len, missing), initial=1), strict=False)))

    @staticmethod
    def _gather(table: Tensor, starts: Sequence[int | None], keys: Sequence[Key]) -> Tensor:
        """Rows of a table for a padded batch; its row 0 for padding, and for sentences that start nowhere."""
        device = table.device
        first = torch.tensor([start or 0 for start in starts], device=device)[:, None]  # (sentences, 1)
        lengths = [0 if start is None else len(key) for start, key in zip(starts, keys, strict=True)]
        step = torch.arange(max(map(len, keys), default=0), device=device)
        rows = torch.where(step < torch.tensor(lengths, device=device)[:, None], first + step, 0)
        return table[:, rows]  # (n_layers, sentences, tokens, dim)


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
