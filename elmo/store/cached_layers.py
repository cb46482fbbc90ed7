"""Cached frozen layers: each sentence is embedded once, for all runs if there is a layer store, else for this run."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.sentences import Numbers, Sentence, in_batches, padded_numbers
from elmo.common.device import frozen_arithmetic, upload
from elmo.common.errors import InputError, excerpt
from elmo.common.files import size_in_words
from elmo.common.progress import Reporter
from elmo.sources.source import FrozenSource, dim_of, fingerprint_of, name_of, require_source
from elmo.store.shelf import Key, Shelf, StoreFull, StoreUnusable, starts_from

# Tokens that are embedded at once; memory grows with them. Only thousands of parallel sentences keep a GPU busy.
TOKENS_AT_ONCE = 8192
TOKENS_AT_ONCE_ON_A_GPU = 65_536
MEMORY_GB = 4.0

# Of the length of a token's vector. Other kernels, batches and threads gave 5e-6 with trained weights. On a GPU,
# permuted ones, as of the control, amplify the last bits to about 1e-2 in single values. A step of float16 is 1e-3.
TOLERANCE = 1e-2
INT8_TOLERANCE = 5e-2  # last bits decide how activations are rounded: with and without compiled code up to 1.5e-2
LONGEST = 20  # tokens: the check takes a fraction of a second, with torch alone a second
HALF_OVERFLOWS = 65_520.0  # this and larger values round to infinity in float16


@dataclass(frozen=True)
class Located:
    """The places of the layers of some sentences, looked up before they are needed.

    Attributes:
        sentences: the sentences.
        counts: how many of them each text has.
        rows: row numbers in memory, (texts, tokens), 0 for padding and sentences elsewhere; None if all are elsewhere.
        stored: rows from the store, (texts, tokens, width), on the CPU; None if there are none.
        missing: the sentences that must be embedded.
    """

    sentences: list[Key]
    counts: Sequence[int] = ()
    rows: Tensor | None = None
    stored: Tensor | None = None
    missing: Sequence[Key] = ()


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
    """

    def __init__(
        self, source: FrozenSource, shelf: Shelf | None = None, precision: str = "float32", memory_gb: float = MEMORY_GB
    ) -> None:
        super().__init__()
        self.widths = tuple(require_source(source, name_of(source)).widths)
        self.dim = dim_of(source)
        self.source = source
        self.shelf = shelf
        self._kind: torch.dtype = getattr(torch, precision)
        self._memory_bytes = memory_gb * 1e9
        # All layers of the tokens in memory; row 0 is zero, for padding.
        self.register_buffer("_table", torch.zeros(1, sum(self.widths), dtype=self._kind), persistent=False)
        self._table: Tensor  # (1 + tokens, width)
        self._starts: dict[Key, int] = {}
        self._stored: dict[Key, int] = {} if shelf is None else shelf.starts
        self.requires_grad_(False).train()

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
        absent = self.shelf.missing(wanted, reporter) if self.shelf else wanted
        new = [key for key in absent if key not in self._starts]
        tokens = sum(map(len, new))
        where = f"store: {self.shelf.store}" if self.shelf else "no store: kept for this run alone"
        todo = f": {tokens:,} tokens, {size_in_words(tokens * self._table[0].nbytes)}" * bool(new)
        reporter.say(f"{len(new):,} of {len(wanted):,} sentences to embed{todo}; {where}")
        if self.shelf is not None:
            self._spot_check(self.shelf, [key for key in wanted if key in self._stored])
            try:
                self._fill(self.shelf, new, reporter)
            except StoreFull as full:
                reporter.warn(f"{full}. What is left is kept in memory for this run, as far as it fits")
        # On a CPU the page cache of the store takes the place of the memory.
        elsewhere = self._stored if self._table.device.type == "cpu" else {}
        self._load([key for key in wanted if key not in self._starts and key not in elsewhere], reporter)
        return sum(key not in self._starts and key not in self._stored for key in wanted)

    def _spot_check(self, shelf: Shelf, stored: Sequence[Key]) -> None:
        """Computes three of these sentences again, once a process.

        Raises:
            StoreUnusable: the source now computes something else.
        """
        if shelf.spot_checked or not stored:
            return
        sentences = three_of(stored)
        difference = largest_difference(self._compute(sentences), self._rows(sentences), self.widths)
        rounded = any(getattr(part, "int8", False) for part in self.modules())
        if difference > (tolerance := INT8_TOLERANCE if rounded else TOLERANCE):
            raise StoreUnusable(
                f"{shelf.path}: expected the layers that {name_of(self.source)} computes now, found others, with a "
                f"relative difference of {difference:.1g} (at most {tolerance:g}): its code, weights or libraries "
                "changed, and its fingerprint did not. Remove the stored ones with "
                f"python -m elmo.store --store {shelf.store} prune {shelf.path.name}"
            )
        shelf.spot_checked = True

    def _fill(self, shelf: Shelf, new: Sequence[Key], reporter: Reporter) -> None:
        """Embeds sentences into the store.

        Each process takes the batches in another order and skips what others have written meanwhile: processes that
        start together share the work, and none waits for one that was killed.

        Raises:
            StoreFull: it cannot be written, or not all of it.
        """
        batches = self._batches(new)
        random.Random().shuffle(batches)
        for batch in reporter.track(batches, len(batches), "embedding"):
            if missing := shelf.missing(batch, reporter):
                shelf.add(missing, self._compute(missing).cpu().numpy())

    def _load(self, keys: Sequence[Key], reporter: Reporter) -> None:
        """Loads sentences into memory, from the store or computed, as far as they fit."""
        # A table that grows is copied, and for a moment both are in memory.
        fitting = first_within(int(self._memory_bytes / self._table[0].nbytes) - 2 * len(self._table), keys)
        if not fitting:
            return
        starts = starts_from(len(self._table), fitting)
        table = self._table.new_empty(len(self._table) + sum(map(len, fitting)), self._table.shape[1])
        table[: len(self._table)] = self._table
        batches = self._batches(fitting)
        for batch in reporter.track(batches, len(batches), "embedding"):
            table[starts[batch[0]] :][: sum(map(len, batch))] = self._rows(batch)
        # Only now, and the table first: after an error or Ctrl-C no sentence may point to rows of another one.
        self._table = table
        self._starts.update(starts)

    def _batches(self, by_length: Sequence[Key]) -> list[list[Key]]:
        """Batches of similar lengths, sized for the device."""
        on_cpu = self._table.device.type == "cpu"
        return list(in_batches(TOKENS_AT_ONCE if on_cpu else TOKENS_AT_ONCE_ON_A_GPU, by_length))

    def _compute(self, batch: Sequence[Key]) -> Tensor:
        """The layers of sentences, rounded, (tokens, width)."""
        with frozen_arithmetic(self._table.device):  # as in `prepare`, also in a training step with autocast
            layers = self.source.token_layers(batch)
        expected = len(self.widths), sum(map(len, batch)), self.dim
        shape = tuple(layers.shape) if isinstance(layers, Tensor) else excerpt(layers)
        if shape != expected:
            raise InputError(
                f"token_layers of {name_of(self.source)}: expected a tensor of the shape (layers, tokens, dim) "
                f"{expected}, found {shape}"
            )
        layers = layers.detach().to(self._table.device)  # a source may stay on the CPU
        if self._kind == torch.float16:  # else there is no need to wait for the device
            require_half_holds(float(torch.stack(torch.aminmax(layers)).abs().amax()), name_of(self.source))
        parts = [layer[:, :width] for layer, width in zip(layers, self.widths, strict=True)]
        return torch.cat(parts, dim=1).to(self._kind)

    def locate(self, sentences: Sequence[Sentence], counts: Sequence[int]) -> Located:
        """Looks up the layers of a batch and reads those in the store.

        Args:
            sentences: the sentences of the batch.
            counts: how many of them each text has, one or more.
        """
        # A lookup hashes a sentence word by word, so each is looked up only once if all are in memory.
        keys = [tuple(sentence) for sentence in sentences]
        starts = [self._starts.get(key, 0) for key in keys]
        stored = [0 if start else self._stored.get(key, 0) for key, start in zip(keys, starts, strict=True)]
        missing = [key for key, *rows in zip(keys, starts, stored, strict=True) if key and not any(rows)]
        read = None
        if self.shelf is not None and any(stored):
            wanted = row_numbers(stored, keys, counts)
            pinned = self._table.device.type == "cuda"  # ready to be copied while a GPU works
            read = torch.empty(*wanted.shape, self._table.shape[1], dtype=self._kind, device="cpu", pin_memory=pinned)
            self.shelf.take(wanted, read.numpy())
        numbers = torch.from_numpy(row_numbers(starts, keys, counts)) if any(starts) else None
        return Located(keys, counts, numbers, read, missing)

    def _rows_at(self, batch: Sequence[Located]) -> Iterator[Tensor]:
        """The rows of texts, (texts, tokens, width); what is missing is embedded at once, each sentence once."""
        device = self._table.device
        missing = list(dict.fromkeys(chain.from_iterable(text.missing for text in batch)))
        embedded = torch.cat([self._table[:1], self._compute(missing)]) if missing else self._table
        starts = starts_from(1, missing)
        for text in batch:
            parts = []  # each (texts, tokens, width): from memory, from the store, embedded now
            if text.rows is not None:
                parts.append(self._table[text.rows.to(device, non_blocking=True)])
            if text.stored is not None:
                parts.append(text.stored.to(device, non_blocking=True))
            if text.missing or not parts:
                numbers = row_numbers([starts.get(key, 0) for key in text.sentences], text.sentences, text.counts)
                parts.append(embedded[upload(numbers, device)])
            yield parts[0] if len(parts) == 1 else torch.stack(parts).sum(dim=0)

    def _rows(self, sentences: Sequence[Key]) -> Tensor:
        """The rows of all tokens, sentence after sentence, (tokens, width)."""
        located = self.locate(sentences, [len(sentences)])
        return self._compute(sentences) if located.missing == sentences else next(self._rows_at([located]))[0]

    def layers_at(self, batch: Sequence[Located]) -> Iterator[Tensor]:
        """The layers of each kind of texts of a batch, (n_layers, texts, tokens, dim), zero where a text has ended.

        Sentences that are not cached are embedded now, each once even if several texts have it.
        """
        for rows in self._rows_at(batch):
            layers = torch.empty(len(self.widths), *rows.shape[:-1], self.dim, device=rows.device)
            for layer, part in zip(layers, torch.split(rows, list(self.widths), dim=-1), strict=True):
                # A part that is narrower than the layer is repeated.
                layer.view(*part.shape[:-1], self.dim // part.shape[-1], part.shape[-1]).copy_(part.unsqueeze(-2))
            yield layers

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (n_layers, tokens, dim)."""
        return next(self.layers_at([self.locate(sentences, [len(sentences)])]))[:, 0]


def row_numbers(starts: Sequence[int], sentences: Sequence[Key], counts: Sequence[int]) -> Numbers:
    """Row numbers of the tokens of texts, (texts, longest), 0 for padding and for sentences whose start is 0.

    Args:
        starts: the first row of each sentence, 0 if it is elsewhere.
        sentences: those of all texts.
        counts: how many of them each text has, one or more.
    """
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    first = np.repeat(np.array(starts, dtype=np.int64), lengths)
    each = np.array(counts, dtype=np.int64)
    tokens = np.add.reduceat(lengths, np.cumsum(each) - each)  # of each text
    return padded_numbers(np.where(first, first + step, 0), tokens)


def first_within(tokens: int, keys: Sequence[Key]) -> list[Key]:
    """The longest prefix of the sentences with at most this many tokens in all."""
    return [key for key, end in zip(keys, accumulate(map(len, keys)), strict=True) if end <= tokens]


def three_of(by_length: Sequence[Key]) -> list[Key]:
    """The shortest, the middle and the longest of these sentences, of those that are not long if there are any."""
    short = [key for key in by_length if len(key) <= LONGEST] or by_length[:3]
    return list(dict.fromkeys((short[0], short[len(short) // 2], short[-1])))


def largest_difference(layers: Tensor, expected: Tensor, widths: Sequence[int]) -> float:
    """The largest difference of a token's vector in a layer of two sets, (tokens, width), relative to its length."""
    pairs = zip(*(torch.split(rows.float(), list(widths), dim=1) for rows in (layers, expected)), strict=True)
    parts = [(one - other).norm(dim=1) / other.norm(dim=1).clamp(min=1e-30) for one, other in pairs]
    return float(torch.cat(parts).nan_to_num(torch.inf).amax())


def require_half_holds(peak: float, name: str = "layers") -> None:
    """Raises an InputError, with this name of their source, if the largest value is NaN or infinite in float16."""
    if not peak < HALF_OVERFLOWS:
        raise InputError(
            f"{name}: expected numbers up to 65504, more than which float16 cannot hold, found values that reach "
            f"{peak:g}. Use precision float32, or check the weights"
        )
