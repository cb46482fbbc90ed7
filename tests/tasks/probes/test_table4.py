"""Table 4: nearest uses by vectors written here, senses from files written here, and what may be kept."""

import json
import re

import numpy as np
import pytest

from elmo import SIZES, random_bilm, save_bilm
from elmo.embed.one_file import read_lines
from elmo.neighbours import Use
from tasks.probes import uses as table4
from tasks.probes.table4 import main
from tasks.probes.uses import SENTENCES, SHIPPED_SENSES, WordUses, by_chance, semcor_uses, table

SEMCOR = [
    ("Quibbles", "play", "ends", "play%1:04:00::"),
    ("Zebras", "play", "daily", "play%2:33:00::"),
    ("Quorums", "play", "ends", "play%1:04:00::"),
]


def uses(*senses, vectors):
    made = [Use(line, 1, [f"w{line}", "play", "on"]) for line in range(1, len(senses) + 1)]
    unit = np.array(vectors, dtype=np.float32)
    return WordUses("play", "here", made, unit / np.linalg.norm(unit, axis=1, keepdims=True), senses)


ANGLES = np.radians([0, 10, 90, 100, 40, 15])
FOUND = uses("a", "a", "b", "b", "b", "", vectors=np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1))


def test_neighbours_are_those_at_the_smallest_angle():
    degrees = np.array([0, 10, 90, 100, 40, 15])
    for i, near in enumerate(FOUND.neighbours):
        assert near == sorted((j for j in range(6) if j != i), key=lambda j: abs(degrees[i] - degrees[j]))


def test_only_uses_with_a_sense_are_counted():
    assert FOUND.nearest_label(4, FOUND.senses) == "a"  # at 40 degrees: 15 has no sense, 10 is "a"
    assert FOUND.right(FOUND.senses) == 4
    assert table4.summary(FOUND) == (
        "4 of 5 uses of 'play' with a sense have a nearest such use of the same sense (2.0 expected of one drawn at "
        "random); 1 more uses have no sense"
    )


def test_chance_is_the_mean_over_all_draws():
    """Each of the five uses with a sense draws one of the other four."""
    known = [sense for sense in FOUND.senses if sense]
    draws = [[known[i] == known[j] for j in range(5) if j != i] for i in range(5)]
    assert by_chance(FOUND.senses) == pytest.approx(sum(sum(own) / 4 for own in draws))


def test_parts_of_speech_are_counted_next_to_senses():
    """At 0 and 10 degrees two senses of the noun, at 90 and 100 of the verb; at 40 a noun, whose nearest is a noun."""
    keys = ["play%1:04:00::", "play%1:10:00::", "play%2:33:00::", "play%2:36:00::", "play%1:04:00::", ""]
    found = uses(*keys, vectors=FOUND.vectors)
    assert found.right(found.senses) == 0
    assert found.right(found.parts_of_speech) == 5
    # by chance: each of three nouns draws one of the two others among four, each of two verbs the other one
    assert ", 5 one of the same part of speech (2.0); 1 more uses have no sense" in table4.summary(found)
    assert "part of speech" not in table4.summary(FOUND)  # "a" and "b" do not say it


def test_the_table_asks_for_the_first_use_of_each_frequent_sense():
    assert table(FOUND, ["game", "player"]).splitlines() == [
        "| | use | nearest |",
        "|---|---|---|",
        "| GloVe | play | game, player |",
        "| biLM | w3 **play** on (b) | w4 **play** on (b) |",
        "| biLM |  | w5 **play** on (b) |",
        "| biLM | w1 **play** on (a) | w2 **play** on (a) |",
        "| biLM |  | w6 **play** on |",
    ]


def test_the_shipped_sentences_have_the_senses_that_are_said():
    lines = [line.words for line in read_lines(SENTENCES)]
    ends = [(word, last) for word, senses in SHIPPED_SENSES.items() for last in senses.values()]
    for number, words in enumerate(lines):
        assert next(word for word, last in ends if number < last) in words
    assert ends[-1][1] == len(lines)


@pytest.fixture
def semcor(tmp_path):
    path = tmp_path / "semcor.jsonl"
    rows = [{"tokens": [a, b, c, "."], "sense": [None, [key], None, None]} for a, b, c, key in SEMCOR]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_semcor_gives_its_senses(semcor):
    found = semcor_uses("play", semcor, random_bilm(SIZES["tiny"], seed=1))
    assert list(found.senses) == [key for *_, key in SEMCOR]
    assert [use.words[0] for use in found.uses] == [first for first, *_ in SEMCOR]


def test_sentences_of_semcor_are_printed_and_not_kept(semcor, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(table4, "mini_sentences", lambda: [("Children", "play", "outside", "."), ("No", "use", ".")])
    monkeypatch.setattr(table4, "nearest_words", lambda name, word, k: [("game", 0.9)])
    save_bilm(random_bilm(SIZES["tiny"], seed=1), tmp_path / "bilm" / "weights.safetensors")
    options = ["--weights", str(tmp_path / "bilm"), "--semcor", str(semcor), "--write", str(tmp_path / "out")]
    assert main(options) == 0
    assert "Quorums **play** ends ." in capsys.readouterr().out
    kept = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir())
    assert [first for first, *_ in SEMCOR if first in kept] == []
    table = (tmp_path / "out" / "table4.md").read_text(encoding="utf-8")
    assert "| GloVe | play | game |" in table
    counted = "uses of 'play' with a sense have a nearest such use of the same sense"
    assert re.search(
        rf"\. In the shipped sentences \d+ of 16 {counted}.*\. In SemCor \d of {len(SEMCOR)} {counted}", table
    )


def test_a_folder_that_cannot_be_made_is_said_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(table4, "load_bilm", lambda _: pytest.fail("the work has begun"))
    (tmp_path / "file").touch()
    assert main(["--write", str(tmp_path / "file" / "out")]) == 1
    assert capsys.readouterr().err.startswith(f"tasks.probes.table4: --write={tmp_path}/file/out: expected a folder")


def test_a_word_that_occurs_once(semcor):
    semcor.write_text(semcor.read_text().splitlines()[0] + "\n")
    with pytest.raises(table4.InputError, match="expected two uses of 'play' or more, found 1"):
        semcor_uses("play", semcor, random_bilm(SIZES["tiny"], seed=1))
