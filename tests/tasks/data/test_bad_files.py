"""Damaged data files, with megabytes on a line or brackets without end: the error is short."""

import json

import pytest

from elmo.common.errors import InputError, excerpt
from tasks.ner import ColumnReader, read_columns
from tasks.snli import EsimSettings, PairReader, Snli
from tasks.squad.task import SquadReader, read_squad
from tasks.srl import read_frames
from tasks.sst5 import TreeReader, read_trees

LONG = "x" * 2_000_000
DEEP = "[" * 100_000 + "]" * 100_000
READERS = {
    "ner": lambda path: read_columns(path, ColumnReader()),
    "snli": lambda path: Snli(EsimSettings(), PairReader()).read(path, "train"),
    "sst5": lambda path: read_trees(path, "train", TreeReader()),
    "squad": lambda path: read_squad(path, "train", SquadReader()),
    "srl": read_frames,
}


def pair(**fields):
    return json.dumps({"gold_label": "neutral", "sentence1": "a", "sentence2": "b", **fields})


def article(title="t", context="a b", name="1", question="q", answers=()):
    asked = {"id": name, "question": question, "answers": list(answers)}
    return json.dumps({"data": [{"title": title, "paragraphs": [{"context": context, "qas": [asked]}]}]})


def answer(text, start=0):
    return [{"text": text, "answer_start": start}]


def roles(*arguments, chain="-"):
    """A sentence with one predicate, and these cells of its column of arguments."""
    rows = [f"d 0 {i} w NN * w {'-' if i else '01'} - - * {cell} {chain}" for i, cell in enumerate(arguments)]
    return "\n".join(["#begin document (d); part 0", *rows, "#end document"])


@pytest.mark.parametrize(
    ("task", "content"),
    [
        ("ner", f"a O\n{LONG}\n"),
        ("ner", f"a O\nb {LONG}\n"),
        ("snli", LONG),
        ("snli", pair(gold_label=LONG)),
        ("snli", pair(sentence1=[LONG])),
        ("snli", pair(sentence1="\ud800" + LONG)),
        ("sst5", LONG),
        ("sst5", f"(3 (2 a) ({LONG} b))"),
        ("squad", json.dumps({LONG: 1})),
        ("squad", json.dumps({f"{number:060}": 1 for number in range(30_000)})),
        ("squad", json.dumps({"data": [{"title": LONG, "paragraphs": 3}]})),
        ("squad", article(name=LONG)),
        ("squad", article(context=" " * len(LONG))),
        ("squad", article(question=" " * len(LONG))),
        ("squad", article(answers=answer(LONG))),
        ("srl", LONG),
        ("srl", roles(LONG)),
        ("srl", roles(f"({LONG}*")),
        ("srl", roles(f"({LONG}*", "(ARG1*)")),
        ("srl", roles("*)", chain=LONG)),
        ("srl", roles("(V*)", chain=f"({LONG})")),
        ("srl", roles("(V*)", chain=f"({'7' * 5000})")),
        ("snli", DEEP),
        ("squad", DEEP),
        ("squad", '{"data":' + DEEP + "}"),
    ],
    ids=lambda value: value if len(value) < 10 else f"{value[:20]}...",
)
def test_messages_are_short(tmp_path, task, content):
    (tmp_path / "f.txt").write_text(content)
    with pytest.raises(InputError) as caught:
        READERS[task](tmp_path / "f.txt")
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "f.txt"))
    assert len(message) < len(str(tmp_path)) + 2_000
    if content.endswith(("]", "]}")):
        assert "nested too deeply" in message or "expected" in message


@pytest.mark.parametrize("value", ["abc", "x" * 80, b"abc", ["a", 1], None])
def test_short_text_is_shown_whole(value):
    assert excerpt(value) == repr(value)


@pytest.mark.parametrize("value", ["x" * 81, b"x" * 500, ["x" * 500], "\n" * 79])
def test_long_text_is_cut(value):
    assert excerpt(value).endswith("...")
    assert excerpt(value)[:80] == repr(value)[:80]
    assert len(excerpt(value)) == 83
