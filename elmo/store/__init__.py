"""The layer store: embeds each sentence once, for all runs, whatever their seed, lambda, places or training size.

A store is a folder of shelves, one for each kind of layers. The name of a shelf's folder says of which weights, how
wide, in which precision and in which format they are, so that a run cannot read layers of another kind. It holds:

- `rows`, one flat file with a row for every token: layer after layer; a layer that repeats itself (the biLM's layer 0)
  is stored once. It is memory-mapped, and a batch is one gather from it; parallel runs share it in the page cache.
- `entries`, one record for every sentence: the hash of its token list, first row, number of tokens and checksum. Both
  files are only appended to, by one process at a time, rows first: a kill leaves rows without a record, at worst. The
  lock of that process is the file `lock`.

A process compares rows with their checksum when it first finds them. Damaged ones count as missing and are embedded
again, whatever is damaged: the record, its rows, or both. A writer waits at most a minute for another one, which may be
stopped. Keys are hashes of token lists, never text. File locks need a local disk.

A source may change and keep its fingerprint. So each process computes three of the stored sentences again when it first
needs some. They must be within `elmo.store.cached_layers.TOLERANCE`.

`elmo.store.cached_layers.CachedLayers` fills and reads a store; `python -m elmo.store` lists and prunes it.
"""
