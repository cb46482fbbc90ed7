"""Cached frozen layers: each sentence is embedded once, for all runs if there is a layer store, else for this run."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Self

import torch
from torch import Tensor, nn

from elmo.bilm.sentences import Sentence
from elmo.common import checks
from elmo.common.device import begin_download, frozen_arithmetic, upload
from elmo.common.durations import duration
from elmo.common.errors import InputError, excerpt
from elmo.common.progress import Reporter
from elmo.common.threads import in_background
from elmo.sources.source import FrozenSource, dim_of, fingerprint_of, name_of, require_source
from elmo.store.half_precision import require_half_holds
from elmo.store.row_numbers import (
    NOWHERE,
    Key,
    KeyBatch,
    Numbering,
    Numbers,
    first_within,
    in_batches,
    joined_numbers,
    padded_numbers,
    running_numbers,
    starts_from,
)
from elmo.store.shelf import PRECISIONS, Shelf, StoreFull, StoreUnusable
from elmo.store.spot_check import computed_with, largest_difference, three_of, tolerance_of

# Tokens that are embedded at once; memory grows with them. Only thousands of parallel sentences keep a GPU busy.
TOKENS_AT_ONCE = 8192
TOKENS_AT_ONCE_ON_A_GPU = 65_536
MEMORY_GB = 4.0


@dataclass(frozen=True)
class Held:
    """The layers of some sentences, (1 + tokens, width), row 0 being zero, and the row where each starts."""

    table: Tensor
    starts: dict[Key, int]


@dataclass(frozen=True)
class Located:
    """Where the layers of some sentences are, looked up before they are needed.

    Attributes:
        sentences: the sentences.
        rows: row numbers in memory, 0 for padding and sentences elsewhere; None if all are elsewhere.
        reading: rows that are being read from the store, (*rows, width); None if there are none.
        missing: the distinct sentences that must be embedded.
        number: numbers the rows of these sentences from where each starts.
    """

    sentences: list[Key]
    rows: Tensor | None
    reading: Future[Tensor] | None
    missing: list[Key]
    number: Numbering


class CachedLayers(nn.Module):
    """Frozen layers of sentences, from a store or from memory; computed on demand if they were not prepared.

    With a store, prepared sentences are written to it and read from it, one gather for each batch; what fits into the
    memory of a GPU is copied there once, at the start. Without a store, what fits into memory is embedded at the start
    of every run. The values are the same in all cases: all are rounded to `precision`.

    Args:
        source: computes the layers; if it is a module, it is frozen, and the cache is on its device.
        shelf: where to store them on disk; None keeps them for this run only.
        precision: float16 needs half the space of float32.
        memory_gb: limit for the memory of that device, with the copy that is made while the cache grows. A cache that
            is filled in several steps therefore holds about half of it.
        key: of these layers in the config of a run, such as features.elmo, for error messages.
    """

    def __init__(
        self,
        source: FrozenSource,
        shelf: Shelf | None = None,
        precision: str = "float32",
        memory_gb: float = MEMORY_GB,
        key: str | None = None,
    ) -> None:
        super().__init__()
        checks.one_of(PRECISIONS, "precision", precision)
        self.widths = tuple(require_source(source, name_of(source)).widths)
        self.dim = dim_of(source)
        if shelf is not None and (shelf.about.precision, shelf.about.widths) != (precision, self.widths):
            raise ValueError(f"expected a shelf of {precision} and widths {self.widths}, found {shelf.about}")
        self.source = source
        if isinstance(source, nn.Module):
            source.requires_grad_(False)
        self.shelf = shelf
        self.precision = precision
        self._key = key
        self._kind: torch.dtype = getattr(torch, precision)
        self._memory_bytes = memory_gb * 1e9
        # All layers of the tokens in memory; row 0 is zero, for padding.
        self.register_buffer("_table", torch.zeros(1, sum(self.widths), dtype=self._kind), persistent=False)
        self._table: Tensor  # (1 + tokens, width)
        self._starts: dict[Key, int] = {}
        self._stored: dict[Key, int] = {}
        self._filling = shelf is not None  # until the store is full or cannot be written
        self.train()

    def train(self, mode: bool = True) -> Self:
        """Leaves the source in evaluation mode: its layers are computed once."""
        return super().train(False)

    def fingerprint(self) -> str:
        """The source's: the cache does not change layers."""
        return fingerprint_of(self.source)

    def prepare(self, sentences: Iterable[Sentence], reporter: Reporter | None = None) -> int:
        """Embeds the sentences that are not cached yet.

        Args:
            sentences: those that will be needed.
            reporter: reports the work to do, its progress and problems of the store.

        Returns:
            The number of sentences that do not fit in the cache, and are computed each time.
        """
        wanted = sorted({tuple(sentence) for sentence in sentences} - {()}, key=lambda s: (len(s), s))
        reporter = reporter or Reporter(quiet=True)
        self._look_up([key for key in wanted if key not in self._stored])
        self._spot_check([key for key in wanted if key in self._stored])
        new = [key for key in wanted if key not in self._starts and key not in self._stored]
        reporter.say(f"{len(new):,} of {len(wanted):,} sentences to embed" + self._forecast(new))
        if new and self.shelf is not None and self._filling:
            self._fill(self.shelf, new, reporter)
        while self.shelf is not None and self.shelf.warnings:
            reporter.warn(self.shelf.warnings.pop(0))
        self._expect([self._stored[key] for key in wanted if key in self._stored])
        on_disk = self.shelf is not None and self._table.device.type == "cpu"  # the page cache is enough
        self._load(
            [key for key in wanted if key not in self._starts and not (on_disk and key in self._stored)], reporter
        )
        return sum(key not in self._starts and key not in self._stored for key in wanted)

    def _spot_check(self, stored: Sequence[Key]) -> None:
        """Computes three sentences again, once a process, of those that were stored before it began.

        Raises:
            StoreUnusable: the source now computes something else.
        """
        shelf = self.shelf
        if shelf is None or shelf.spot_checked:
            return
        before = [key for key in stored if self._stored[key] < shelf.known]
        if not before:
            return
        sentences, device = three_of(before), self._table.device
        found = self._take(running_numbers([self._stored[key] for key in sentences], sentences))
        tolerance = tolerance_of(self.source, device, shelf.computed_with())
        difference = largest_difference(self._compute(sentences)[0].cpu(), found, self.widths)
        if difference > tolerance:
            raise StoreUnusable(
                f"{shelf.path}: expected the layers that {name_of(self.source)} computes now, found others, with a "
                f"relative difference of {difference:.1g} (at most {tolerance:g}): its code, weights or libraries "
                "changed, and its fingerprint did not. Remove the stored ones with "
                f"python -m elmo.store --store {shelf.store} prune --kind {shelf.path.name}"
            )
        shelf.spot_checked = True

    def _expect(self, starts: Sequence[int]) -> None:
        """Starts to read from disk, if the rows from the first to the last of these fit into memory."""
        if self.shelf is not None and starts:
            first, last = min(starts), max(starts)
            if (last - first) * self.shelf.about.row_bytes <= self._memory_bytes:
                self.shelf.expect(first, last)

    def _forecast(self, new: Sequence[Key]) -> str:
        tokens = sum(map(len, new))
        size = tokens * self._table.shape[1] * self._table.element_size()
        shown = f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
        need = f": {tokens:,} tokens, {shown}" * bool(new)
        return need + (
            f"; store: {self.shelf.store}" if self.shelf is not None else "; no store: kept for this run alone"
        )

    def _look_up(self, keys: Sequence[Key]) -> None:
        """Looks up which of these sentences the store has now."""
        if self.shelf is not None:
            starts = zip(keys, self.shelf.find(keys), strict=True)
            self._stored.update({key: start for key, start in starts if start is not None})

    def _fill(self, shelf: Shelf, new: Sequence[Key], reporter: Reporter) -> None:
        """Embeds sentences into the store, as far as they fit.

        Each process takes the batches in another order and skips what others have written meanwhile: processes that
        start together share the work, and none waits for one that was killed.
        """
        if shelf.refusal is not None:
            self._end_filling(shelf.refusal, reporter)
            return
        fitting = first_within(shelf.room(), new)
        if len(fitting) < len(new):
            self._filling = False
            reporter.warn(
                f"the store has room for {len(fitting):,} of them. Raise store.limit_gb, or python -m elmo.store prune"
            )
        batches = self._batches(fitting)
        random.Random(os.getpid()).shuffle(batches)
        try:
            shelf.note(computed_with(self._table.device))
        except StoreFull as full:
            self._end_filling(str(full), reporter)
            return
        started = time.perf_counter()
        for number, (batch, rows) in enumerate(self._embedded(reporter.track(batches, len(batches), "embedding"))):
            try:
                shelf.add(batch, rows.numpy())
            except StoreFull as full:
                self._end_filling(str(full), reporter)
                break
            # The first batch is slow: it also warms up a GPU and encodes most words. After two of two, all is done.
            if number == 1 and len(batches) > 2:
                share = sum(map(len, batch)) / sum(map(len, fitting))
                seconds = (time.perf_counter() - started) / share
                reporter.say(
                    f"embedding takes about {duration(seconds)}, measured on the second of {len(batches):,} batches"
                )
            started = time.perf_counter()
        self._look_up(fitting)

    def _end_filling(self, why: str, reporter: Reporter) -> None:
        self._filling = False
        reporter.warn(f"{why}. What is left is kept in memory for this run, as far as it fits")

    def _embedded(self, batches: Iterable[KeyBatch]) -> Iterator[tuple[KeyBatch, Tensor]]:
        """The missing sentences of each batch and their rows on the CPU; a GPU computes the next batch meanwhile."""
        ahead: Callable[[], tuple[KeyBatch, Tensor]] | None = None
        for batch in batches:
            self._look_up(batch)
            missing = [key for key in batch if key not in self._stored]
            if missing:
                begun = self._begin(missing)
                if ahead is not None:
                    yield ahead()
                ahead = begun
        if ahead is not None:
            yield ahead()

    def _begin(self, batch: KeyBatch) -> Callable[[], tuple[KeyBatch, Tensor]]:
        """Starts to embed sentences; the returned function waits for their rows on the CPU."""
        rows, peak = map(begin_download, self._compute(batch))

        def wait() -> tuple[KeyBatch, Tensor]:
            self._check(peak())
            return batch, rows()

        return wait

    def _load(self, keys: Sequence[Key], reporter: Reporter) -> None:
        """Loads sentences into memory, from the store or computed, as far as they fit."""
        row_bytes = self._table.shape[1] * self._table.element_size()
        # A table that grows is copied, and for a moment both are in memory.
        fitting = first_within(int(self._memory_bytes / row_bytes) - 2 * len(self._table), keys)
        if not fitting:
            return
        stored = [key for key in fitting if key in self._stored]
        computed = [key for key in fitting if key not in self._stored]
        starts = starts_from(len(self._table), stored + computed)
        table = self._table.new_empty(len(self._table) + sum(map(len, fitting)), self._table.shape[1])
        table[: len(self._table)] = self._table
        for batch in self._batches(stored):
            rows = self._take(running_numbers([self._stored[key] for key in batch], batch))
            _put(table, starts[batch[0]], rows)
        peaks = []
        batches = self._batches(computed)
        for batch in reporter.track(batches, len(batches), "embedding") if batches else []:
            rows, peak = self._compute(batch)
            _put(table, starts[batch[0]], rows)
            peaks.append(peak)
        for peak in peaks:  # only now: each check waits for the device
            self._check(peak)
        # Only now, and the table first: after an error or Ctrl-C no sentence may point to rows of another one.
        self._table = table
        self._starts.update(starts)

    def _batches(self, by_length: Sequence[Key]) -> list[KeyBatch]:
        """Batches of similar lengths, sized for the device."""
        on_cpu = self._table.device.type == "cpu"
        return list(in_batches(TOKENS_AT_ONCE if on_cpu else TOKENS_AT_ONCE_ON_A_GPU, by_length))

    def _compute(self, batch: Sequence[Key]) -> tuple[Tensor, Tensor]:
        """The layers of sentences, rounded, (tokens, width), and their largest value; does not wait for a GPU."""
        with frozen_arithmetic(self._table.device):  # as in `prepare`, also in a training step with autocast
            layers = self.source.token_layers(batch)
        if not isinstance(layers, Tensor):
            raise InputError(f"token_layers of {name_of(self.source)}: expected a tensor, found {excerpt(layers)}")
        layers = layers.detach().to(self._table.device)  # a source may stay on the CPU
        expected = len(self.widths), sum(map(len, batch)), self.dim
        if layers.shape != expected:
            raise InputError(
                f"token_layers of {name_of(self.source)}: expected the shape (layers, tokens, dim) {expected}, found "
                f"{tuple(layers.shape)}"
            )
        parts = [layer[:, :width] for layer, width in zip(layers, self.widths, strict=True)]
        rows = torch.cat(parts, dim=1).to(self._kind)
        return rows, torch.stack(torch.aminmax(layers)).abs().amax()

    def _check(self, peak: Tensor) -> None:
        if self._kind == torch.float16:  # else there is no need to wait for the device
            require_half_holds(float(peak), self._key)

    def _take(self, rows: Numbers) -> Tensor:
        """Rows of the store by number, (*rows, width), on the CPU, ready to be copied while a GPU works."""
        if self.shelf is None:
            raise ValueError("there is no store to read from")
        pinned = self._table.device.type == "cuda"
        into = torch.empty(*rows.shape, self._table.shape[1], dtype=self._kind, device="cpu", pin_memory=pinned)
        self.shelf.take(rows, into.numpy())
        return into

    def locate(self, sentences: Sequence[Sentence], counts: Sequence[int] | None = None) -> Located:
        """Looks up the layers of a padded batch and starts to read those in the store.

        Args:
            sentences: the sentences of the batch.
            counts: if given, a row of the batch is a text of the next `counts` sentences, instead of one sentence.
        """
        return self._locate(sentences, padded_numbers if counts is None else partial(joined_numbers, counts=counts))

    def _locate(self, sentences: Sequence[Sentence], number: Numbering) -> Located:
        # A lookup hashes a sentence word by word, so each is looked up only once if all are in memory.
        keys = [tuple(sentence) for sentence in sentences]
        starts = [self._starts.get(key, NOWHERE) for key in keys]
        reading, missing = None, []
        if NOWHERE in starts:
            stored = [
                self._stored.get(key, NOWHERE) if start == NOWHERE else NOWHERE
                for key, start in zip(keys, starts, strict=True)
            ]
            if any(start != NOWHERE for start in stored):
                reading = in_background(partial(self._take, number(stored, keys)))
            found = zip(keys, starts, stored, strict=True)
            missing = list(dict.fromkeys(key for key, one, other in found if key and one == other == NOWHERE))
        in_memory = any(start != NOWHERE for start in starts) or (reading is None and not missing)
        rows = torch.from_numpy(number(starts, keys)) if in_memory else None
        return Located(keys, rows, reading, missing, number)

    def embed(self, located: Iterable[Located]) -> Held | None:
        """Embeds the missing sentences of these texts of a batch, each once and all together; None if none are."""
        missing = list(dict.fromkeys(chain.from_iterable(text.missing for text in located)))
        if not missing:
            return None
        rows, peak = self._compute(missing)
        self._check(peak)
        return Held(torch.cat([self._table[:1], rows]), starts_from(1, missing))

    def layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of a padded batch, (n_layers, sentences, tokens, dim), zero where a sentence has ended.

        Sentences that are not cached are embedded now, each once even if the batch repeats it.
        """
        located = self.locate(sentences)
        return self.layers_at(located, self.embed([located]))

    def layers_at(self, located: Located, held: Held | None) -> Tensor:
        """The layers of a located batch, whose missing sentences were embedded by `embed`."""
        return self._spread(self._gather(located, held))

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (n_layers, tokens, dim)."""
        located = self._locate(sentences, running_numbers)
        return self.layers_at(located, self.embed([located]))

    def _gather(self, located: Located, held: Held | None) -> Tensor:
        """Stored rows, (*rows, width), from memory, the store and what was embedded now."""
        device = self._table.device
        found = []
        if located.rows is not None:
            found.append(self._table[located.rows.to(device, non_blocking=True)])
        if located.reading is not None:
            found.append(located.reading.result().to(device, non_blocking=True))
        if located.missing:
            if held is None:
                raise ValueError(f"{len(located.missing)} sentences must be embedded first")
            starts = [held.starts.get(key, NOWHERE) for key in located.sentences]
            found.append(held.table[upload(located.number(starts, located.sentences), device)])
        return found[0] if len(found) == 1 else torch.stack(found).sum(dim=0)

    def _spread(self, rows: Tensor) -> Tensor:
        """Stored rows, (..., width), as layers, (n_layers, ..., dim)."""
        places = rows.shape[:-1]
        layers = torch.empty(len(self.widths), *places, self.dim, device=rows.device)
        parts = torch.split(rows, list(self.widths), dim=-1)
        for layer, part in zip(layers, parts, strict=True):
            width = part.shape[-1]
            layer.view(*places, self.dim // width, width).copy_(part.unsqueeze(-2))
        return layers


def _put(table: Tensor, first: int, rows: Tensor) -> None:
    table[first : first + len(rows)] = rows
