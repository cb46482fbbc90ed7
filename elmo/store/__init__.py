"""The layer store: embeds each sentence once, for all runs, whatever their seed, lambda, places or training size.

A store is a folder of shelves, one for each kind of layers (weights, state policy, precision, format), so that a run
cannot read layers of another kind. `about.json` describes the kind and is checked whenever a shelf is opened. A shelf
has two parts:

- `rows`, one flat file with a row for every token: layer after layer; a layer that repeats itself (the biLM's layer 0)
  is stored once. It is memory-mapped, and a batch is one gather from it; parallel runs share it in the page cache.
- `index`, an LMDB environment: hash of a token list -> first row, number of tokens, checksum. LMDB has what
  is hard to get right: transactions that survive a kill, many readers next to one writer, and locks that are freed
  when their owner dies. Rows are not in LMDB: it spreads values over pages, so a batch would be a copy for each
  sentence instead of one gather, and short sentences would waste most of a page.

Rows are written and synced before the transaction that adds them to the index; the next writer overwrites what a killed
one left after the last known row. A process compares rows with their checksum when it first finds them; damaged ones
count as missing and are replaced. A writer waits at most a minute for another one, which may be stopped. Keys are
hashes of token lists, never text. LMDB needs a local disk.

A source may change and keep its fingerprint. So each process computes three of the stored sentences again when it first
needs some. `computed.json` notes what computed a shelf's rows: those of a biLM must have equal bits where the same
compiled code and torch computed all of them on a CPU; others must be within `elmo.store.spot_check.TOLERANCE`.

`elmo.store.cached_layers.CachedLayers` fills and reads a store; `python -m elmo.store` inspects and prunes it.
"""
