"""Tests of the spot check: stored layers that their source would compute otherwise now stop a run."""

import re

import pytest
from torch import nn

from elmo import InputError, random_bilm
from elmo.store.__main__ import main
from elmo.store.cached_layers import INT8_TOLERANCE, LONGEST, TOLERANCE, CachedLayers, three_of
from elmo.store.shelf import open_shelf
from tests.elmo.store.stores import SENTENCES, close_shelves

BILM = random_bilm("tiny", seed=3)
COMPUTE = BILM.token_layers


class Changed:
    """The layers of a biLM, under its fingerprint, after a change of the code."""

    widths = BILM.widths

    def __init__(self, by=0.0):
        self.by, self.calls = by, []

    def fingerprint(self):
        return BILM.fingerprint()

    def token_layers(self, sentences):
        self.calls.append(list(sentences))
        return COMPUTE(sentences) * (1 + self.by)


@pytest.fixture(params=["float32", "float16"])
def opened(request, tmp_path):
    """Opens the shelf as another process would."""

    def call(source, sentences=SENTENCES):
        close_shelves()
        shelf = open_shelf(tmp_path / "store", BILM.fingerprint(), BILM.widths, request.param, 1.0)
        cached = CachedLayers(source, shelf, request.param)
        cached.prepare(sentences)
        return cached

    yield call
    close_shelves()


def test_a_source_that_changed_and_kept_its_fingerprint_stops_the_run(opened, tmp_path, capsys):
    opened(Changed())
    for _ in range(2):
        with pytest.raises(InputError) as stopped:
            opened(Changed(by=-1.0))
    folder = next((tmp_path / "store").iterdir())
    assert str(stopped.value).startswith(f"{folder}: expected the layers that {__name__}.Changed computes now, found")
    command = re.search(r"python -m elmo\.store (--store \S+ prune \S+)$", str(stopped.value))
    assert main(command[1].split()) == 0
    assert " GB freed" in capsys.readouterr().out
    zeros = opened(Changed(by=-1.0))
    assert not zeros.token_layers(SENTENCES).any()


def test_last_bits_may_differ_and_nothing_more(opened):
    opened(Changed())
    opened(Changed(by=TOLERANCE / 4))
    with pytest.raises(InputError, match=f"at most {TOLERANCE:g}"):
        opened(Changed(by=TOLERANCE * 4))


class ChangedInInt8(Changed, nn.Module):
    int8 = True

    def __init__(self, by=0.0):
        nn.Module.__init__(self)
        Changed.__init__(self, by)


def test_in_int8_last_bits_may_have_been_rounded_otherwise(opened):
    opened(ChangedInInt8())
    opened(ChangedInInt8(by=INT8_TOLERANCE / 2))
    with pytest.raises(InputError, match=f"at most {INT8_TOLERANCE:g}"):
        opened(ChangedInInt8(by=INT8_TOLERANCE * 2))


def test_three_sentences_once_a_process(opened):
    source = Changed()
    cached = opened(source, SENTENCES[:20])
    filled = len(source.calls)
    cached.prepare(SENTENCES[:20])
    cached.prepare(SENTENCES[:20])
    assert len(source.calls) == filled + 1, "it checks what it wrote itself, too"
    source = Changed()
    cached = opened(source, SENTENCES[:20])
    cached.prepare(SENTENCES[5:20])
    assert [len(call) for call in source.calls] == [3]


def test_layers_that_are_no_numbers_are_other_layers(opened):
    opened(Changed())
    with pytest.raises(InputError, match=r"a relative difference of inf|reach nan"):
        opened(Changed(by=float("nan")))


@pytest.mark.parametrize(
    ("lengths", "chosen"),
    [([1], [1]), ([1, 2], [1, 2]), ([1, 2, 3, 4, 500], [1, 3, 4]), ([LONGEST + 1, 50, 60, 70], [LONGEST + 1, 50, 60])],
)
def test_short_and_longer_ones_are_chosen(lengths, chosen):
    assert [len(key) for key in three_of([("a",) * length for length in lengths])] == chosen
