"""Sentences and helpers for the tests of the layer store."""

import random
import resource
import zlib
from contextlib import contextmanager

from elmo.common.progress import Reporter
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
    shelf.open_shelf.cache_clear()


def layers_of(cached, sentences):
    """The layers of a padded batch, as a head gets them."""
    (layers,) = cached.layers_at([cached.locate(sentences, [1] * len(sentences))])
    return layers


def find(of, sentences):
    """For each sentence its first row on a shelf, or None."""
    of.missing(sentences, Reporter(quiet=True))
    return [of.starts.get(sentence) for sentence in sentences]


def entries(of):
    """The first row, tokens and checksum of each sentence of a shelf, by its key; of records, the last one counts."""
    content = (of.path / shelf.ENTRIES).read_bytes()
    content = content[: len(content) // shelf.RECORD.size * shelf.RECORD.size]
    return {key: entry for key, *entry in shelf.RECORD.iter_unpack(content)}


def count(of):
    """The number of sentences and tokens of a shelf, also of damaged ones."""
    return len(entries(of)), sum(tokens for _, tokens, _ in entries(of).values())


def count_damaged(of):
    """The number of entries of a shelf whose rows, as the file has them now, do not match their checksum."""
    size, content = of.row_bytes, (of.path / shelf.ROWS).read_bytes()
    return sum(
        len(rows := content[start * size : (start + tokens) * size]) < tokens * size or zlib.crc32(rows) != checksum
        for start, tokens, checksum in entries(of).values()
    )


@contextmanager
def files_of_at_most(size):
    """A quota, faked by the limit that the kernel keeps on the size in bytes of the files of a process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
