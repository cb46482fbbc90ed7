"""Sentences and helpers for the tests of the layer store."""

import random

SENTENCES = [tuple(f"w{random.Random(i).randrange(40)}" for _ in range(i % 9)) for i in range(30)]
DISTINCT = set(SENTENCES) - {()}


def sentences_embedded(bilm, monkeypatch):
    """The sentences that go through the biLM from now on."""
    embedded = []
    compute = bilm.token_layers
    monkeypatch.setattr(bilm, "token_layers", lambda batch, state=None: embedded.extend(batch) or compute(batch))
    return embedded
