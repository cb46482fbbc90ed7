"""Sentences and helpers for the tests of the layer store."""

import random
import resource
from contextlib import contextmanager

from elmo.store import shelf

SENTENCES = [tuple(f"w{random.Random(i).randrange(40)}" for _ in range(i % 9)) for i in range(30)]
DISTINCT = set(SENTENCES) - {()}


def sentences_embedded(bilm, monkeypatch):
    """The sentences that go through the biLM from now on, without those of the spot check."""
    embedded = []
    monkeypatch.setattr(shelf.Shelf, "spot_checked", True)
    compute = bilm.token_layers
    monkeypatch.setattr(bilm, "token_layers", lambda batch, state=None: embedded.extend(batch) or compute(batch))
    return embedded


def close_shelves():
    """The next opening is like that of another process."""
    shelf.opened.cache_clear()


def count(of):
    """The number of sentences and tokens of a shelf, also of damaged ones."""
    of._read_new_records()
    return len(of._entries), sum(tokens for _, tokens, _ in of._entries.values())


def count_damaged(of):
    """The number of entries of a shelf with damaged rows."""
    of._read_new_records()
    return sum(not of._is_whole(*entry) for entry in of._entries.values())


@contextmanager
def files_of_at_most(size):
    """A quota, faked by the limit that the kernel keeps on the size in bytes of the files of a process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
