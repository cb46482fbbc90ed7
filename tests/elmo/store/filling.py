"""python -m tests.elmo.store.filling STORE: fills a store with sentences of a tiny biLM, slowly and in small batches.

For tests that start two of it or kill it. Prints "ready", waits for a line on stdin, and prints in the end how many
sentences it embedded, and what was said.
"""

import json
import random
import sys
import time
from pathlib import Path

import elmo.store.cached_layers
from elmo import random_bilm
from elmo.common.progress import Reporter
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import open_shelf
from tests.elmo.store.stores import layers_of

DRAW = random.Random(5)
SENTENCES = [tuple(f"w{DRAW.randrange(300)}" for _ in range(DRAW.randint(1, 12))) for _ in range(600)]
BILM = random_bilm("tiny", seed=3)
TOKENS_AT_ONCE = 64  # small batches
KIND = BILM.fingerprint(), BILM.widths, "float32", 1.0


class Slow:
    """The layers of the biLM, at a pace that leaves time for what a test does."""

    widths = BILM.widths

    def __init__(self, seconds):
        self.seconds = seconds
        self.embedded = 0

    def fingerprint(self):
        return BILM.fingerprint()

    def token_layers(self, sentences):
        time.sleep(self.seconds)
        self.embedded += len(sentences)
        return BILM.token_layers(sentences)


class Listener(Reporter):
    """Records what is reported, warnings included."""

    def __init__(self):
        super().__init__(quiet=True)
        self.said = []

    def say(self, text):
        self.said.append(text)

    warn = say


def fill(store, seconds=0.0):
    """Fills the store: how many sentences were embedded, what was said, whether the layers are right."""
    source, listener = Slow(seconds), Listener()
    layers = CachedLayers(source, open_shelf(store, *KIND))
    layers.prepare(SENTENCES, listener)
    right = bool((layers_of(layers, SENTENCES) == BILM.layers(SENTENCES)).all())
    return {"embedded": source.embedded, "said": listener.said, "right": right}


def main():
    elmo.store.cached_layers.TOKENS_AT_ONCE = TOKENS_AT_ONCE
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(fill(Path(sys.argv[1]), float(sys.argv[2]))))


if __name__ == "__main__":
    main()
