"""The layer store: a sentence is embedded once, then shared by every run, seed, lambda, placement and training size.

A store is a folder of shelves. What would make layers differ has a shelf of its own (weights, state policy, precision,
format), so nothing else can be read by mistake; `about.json` spells it out and is checked whenever a shelf is opened. A
shelf has two parts:

- `rows`, one flat file with a row for every token: layer after layer, a layer that repeats itself (the biLM's layer 0)
  once. It is memory-mapped, and a batch is one gather from it; the page cache holds it once for all runs side by side.
- `index`, an LMDB environment: hash of a token list -> first row, number of tokens, checksum. LMDB because it has what
  is hard to get right: transactions that a kill cannot tear, many readers next to one writer, and locks that are freed
  when their owner dies. Rows stay out of it: its values are spread over pages, so that a batch would be a copy for each
  sentence instead of one gather, and short sentences would waste most of a page.

Rows are written and synced before the transaction that makes them known commits; what a killed writer left behind the
last known row is overwritten by the next. A process compares rows with their checksum the first time that it finds
them; damaged ones count as missing, and are replaced. A writer waits a minute at most for another one, which may be
stopped. Keys are hashes of token lists, never text. LMDB needs a local disk.

`elmo.store.cached_layers.CachedLayers` is what fills and reads a store; `python -m elmo.store` looks after it.
"""

from elmo.store.opening import open_shelf
from elmo.store.shelf import (
    LIMIT_GB,
    PRECISIONS,
    Shelf,
    ShelfDescription,
    StoreFull,
    default_store,
    disk_bytes,
    read_about,
    shelves,
)

__all__ = [
    "LIMIT_GB",
    "PRECISIONS",
    "Shelf",
    "ShelfDescription",
    "StoreFull",
    "default_store",
    "disk_bytes",
    "open_shelf",
    "read_about",
    "shelves",
]
