"""Files of senses: SemCor's lines, XML with gold keys, WordNet's index, and errors that say where they are."""

import json

import pytest

from elmo.common.errors import InputError
from tasks.probes.wsd import SenseInstance, WsdProbe, WsdSettings, entry_of, read_first_senses, read_sentences
from tasks.task import NoSettings

BANK, SLOPE, TAKE_PLACE = "bank%1:14:00::", "bank%1:17:01::", "take_place%2:30:00::"
XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en"><text id="d0"><sentence id="d0.s0">
<wf lemma="the" pos="DET">The</wf>
<instance id="d0.s0.t0" lemma="bank" pos="NOUN">banks</instance>
<instance id="d0.s0.t1" lemma="take_place" pos="VERB">took place</instance>
<wf lemma="``" pos=".">``</wf>
</sentence></text></corpus>
"""
GOLD = f"d0.s0.t0 {BANK} {SLOPE}\nd0.s0.t1 {TAKE_PLACE}\n"


def semcor(folder, *rows):
    path = folder / "semcor.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def xml(folder, text=XML, gold=GOLD):
    path = folder / "some.data.xml"
    path.write_text(text)
    (folder / "some.gold.key.txt").write_text(gold)
    return path


def test_joined_words_of_semcor_are_split(tmp_path):
    row = {
        "tokens": ["The", "World_Bank", "took_place", "''", "_"],
        "sense": [None, [BANK, SLOPE], [TAKE_PLACE], None, None],
    }
    (found,) = read_sentences(semcor(tmp_path, row))
    assert found.words == ("The", "World", "Bank", "took", "place", '"', "_")
    assert found.instances == (
        SenseInstance(1, 3, "bank%1", (BANK, SLOPE)),
        SenseInstance(3, 5, "take_place%2", (TAKE_PLACE,)),
    )
    assert (found.id, found.source) == ("semcor.jsonl:1", "semcor")


def test_xml_takes_lemma_and_part_of_speech_from_the_instance_and_senses_from_the_gold_keys(tmp_path):
    path = xml(tmp_path)
    (found,) = read_sentences(path)
    assert found.words == ("The", "banks", "took", "place", '"')
    assert found.instances == (
        SenseInstance(1, 2, "bank%1", (BANK, SLOPE)),
        SenseInstance(2, 4, "take_place%2", (TAKE_PLACE,)),
    )
    assert (found.id, found.source) == ("some.data.xml:d0.s0", "some")
    assert read_sentences(tmp_path / "some.gold.key.txt") == []


def test_wordnet_has_one_first_sense_for_each_lemma_and_part_of_speech(tmp_path):
    """Adjectives and their satellites are numbered together."""
    path = tmp_path / "index.sense"
    lines = [f"{BANK} 08420278 2 20", f"{SLOPE} 09213565 1 25", "bank%2:38:03:: 02041049 1 2"]
    path.write_text("\n".join([*lines, "big%3:00:01:: 01382086 1 107", "big%5:00:00:large:02 01387319 2 1"]) + "\n")
    first = {"bank%1": SLOPE, "bank%2": "bank%2:38:03::", "big%3": "big%3:00:01::"}
    assert read_first_senses(path) == first
    task = WsdProbe(WsdSettings(), NoSettings())
    assert task.read(path, "train") == []
    assert task.first_senses == first


def test_entries():
    assert [entry_of(sense) for sense in (BANK, TAKE_PLACE, "big%5:00:00:large:02")] == [
        "bank%1",
        "take_place%2",
        "big%3",
    ]


@pytest.mark.parametrize(
    "sense", ["bank", "bank%6:00:00::", "bank%1:0:00::", "%1:00:00::", "bank%1:14:00", "a b%1:14:00::"]
)
def test_what_is_no_sense_key(sense):
    with pytest.raises(ValueError, match="expected a sense key of WordNet such as art%1:06:00::, found"):
        entry_of(sense)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("[]", "expected a JSON object, found a list"),
        ({"tokens": ["a"], "sense": []}, "expected a list of tokens, and"),
        ({"tokens": ["a", 3], "sense": [None, None]}, "expected a list of tokens, and"),
        ({"tokens": ["a"], "sense": [BANK]}, "expected a list of tokens, and for each a list of sense keys or null"),
        ({"tokens": ["a"], "sense": [["U"]]}, "expected a sense key of WordNet"),
        ("{", r"expected a JSON object, found no JSON \(EOF while parsing"),
    ],
)
def test_a_wrong_line_of_semcor_is_named(tmp_path, row, expected):
    path = semcor(tmp_path, {"tokens": ["a"], "sense": [None]}, row)
    with pytest.raises(InputError, match=rf"semcor.jsonl, line 2: {expected}.*Correct the line: "):
        read_sentences(path)


@pytest.mark.parametrize(
    ("text", "gold", "expected"),
    [
        (XML.replace("</wf>", "</wf", 1), GOLD, r"some.data.xml: expected XML: .* line 4.*Get the file again"),
        (XML.replace("UTF-8", "UTF-9"), GOLD, r"some.data.xml: expected XML: unknown encoding: UTF-9. Get the"),
        (XML.replace(">The<", "> <"), GOLD, r"some.data.xml, sentence d0.s0: expected words, .* found ' '"),
        (
            XML.replace('pos="NOUN"', 'pos="NN"'),
            GOLD,
            r"for an instance a lemma, one of NOUN, .*'bank'.*'NN'",
        ),
        (
            XML,
            GOLD.splitlines()[0],
            r"and a line with its id in the file \*.gold.key.txt, found 'took place'",
        ),
        (XML, f"{GOLD}d0.s0.t2\n", r"some.gold.key.txt, line 3: expected an instance and its sense keys"),
        (XML, f"{GOLD}\n", r"some.gold.key.txt, line 3: expected an instance and its sense keys"),
        (XML, GOLD.replace(SLOPE, "U"), r"some.gold.key.txt, line 1: expected a sense key of WordNet"),
    ],
)
def test_wrong_xml_and_wrong_gold_keys_are_named(tmp_path, text, gold, expected):
    with pytest.raises(InputError, match=expected):
        read_sentences(xml(tmp_path, text, gold))


def test_files_that_are_missing_or_of_another_kind(tmp_path):
    path = xml(tmp_path)
    (tmp_path / "some.gold.key.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"some\.gold\.key\.txt"):
        read_sentences(path)
    with pytest.raises(
        InputError, match=r"semcor\.txt: expected a name that ends in \.jsonl, \.data\.xml, .* or index"
    ):
        read_sentences(tmp_path / "semcor.txt")
    (tmp_path / "index.sense").write_text(f"{BANK} 08420278 1 20\n{BANK} 08420278 first 20\n")
    with pytest.raises(InputError, match=r"index\.sense, line 2: expected a sense key and three numbers.*WordNet 3\.0"):
        read_first_senses(tmp_path / "index.sense")
    for text in ("", f"{BANK} 08420278 2 20\n"):
        (tmp_path / "index.sense").write_text(text)
        with pytest.raises(InputError, match=r"index\.sense: expected the first sense.*found none.*WordNet 3\.0"):
            read_first_senses(tmp_path / "index.sense")
