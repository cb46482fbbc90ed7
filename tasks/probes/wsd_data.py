"""Sense-tagged text: SemCor as JSON lines, the XML of the WSD evaluation framework, and WordNet's index of senses.

Senses are WordNet's keys, such as art%1:06:00::. An entry is a lemma with its part of speech, art%1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from elmo.common.errors import InputError, excerpt
from elmo.common.files import utf8_lines
from tasks.batch import Sentence
from tasks.data.raw_text import is_texts
from tasks.data.text_files import TREEBANK_ESCAPES, json_object, parsed_lines

SENSE = re.compile(r"([^%\s]+)%([1-5]):\d\d:\d\d:[^:\s]*:\d*")
NUMBERS = {"NOUN": "1", "VERB": "2", "ADJ": "3", "ADV": "4"}  # of parts of speech in sense keys
SATELLITE = "5"  # an adjective, too
PARTS_OF_SPEECH = {number: name for name, number in NUMBERS.items()}
JSON_LINES, XML, GOLD, WORDNET = ".jsonl", ".data.xml", ".gold.key.txt", "index.sense"  # how names of files end

TaggedToken = tuple[str, str | None, Sequence[str]]  # with its entry and its senses, if it has some


@dataclass(frozen=True)
class SenseInstance:
    """Words with a sense: `end` is the position after the last one.

    Attributes:
        entry: the lemma and its part of speech.
        senses: the keys that are right; usually one.
    """

    start: int
    end: int
    entry: str
    senses: tuple[str, ...]


@dataclass(frozen=True)
class SenseSentence:
    """A sentence, those of its words that have a sense, and the name of the set that it is from."""

    id: str
    words: Sentence
    instances: tuple[SenseInstance, ...]
    source: str


def entry_of(sense: str) -> str:
    """The entry of a sense key.

    Raises:
        ValueError: this is no sense key.
    """
    found = SENSE.fullmatch(sense)
    if found is None:
        raise ValueError(f"expected a sense key of WordNet such as art%1:06:00::, found {excerpt(sense)}")
    lemma, number = found.groups()
    return f"{lemma}%{NUMBERS['ADJ'] if number == SATELLITE else number}"


def read_sentences(path: Path) -> list[SenseSentence]:
    """The sentences of a file of JSON lines or XML.

    Joined words, such as took_place, are split as the biLM's text has them. A file of gold keys has no sentences: it is
    read with its XML, and named among the files of a dataset so that the run's fingerprint covers it.
    """
    if path.name.endswith(JSON_LINES):
        remedy = 'Correct the line: {"tokens": ["took_place", ...], "sense": [["take_place%2:30:00::"], ...]}'
        return list(parsed_lines(utf8_lines(path), path, remedy, lambda name, line: _of_json(path, name, line)))
    if path.name.endswith(XML):
        return _of_xml(path)
    if path.name.endswith(GOLD):
        return []
    raise InputError(f"{path}: expected a name that ends in {JSON_LINES}, {XML}, {GOLD} or {WORDNET}. Rename the file")


def read_first_senses(path: Path) -> dict[str, str]:
    """The first sense of each entry of WordNet, from lines "sense-key offset sense-number count"."""

    def parsed(_: str, line: str) -> tuple[str, str, int]:
        cells = line.split()
        if len(cells) != 4 or not cells[2].isdigit():
            raise ValueError("expected a sense key and three numbers")
        return entry_of(cells[0]), cells[0], int(cells[2])

    remedy = "Use index.sense of WordNet 3.0"
    senses = parsed_lines(utf8_lines(path), path, remedy, parsed)
    first = {entry: sense for entry, sense, number in senses if number == 1}
    if not first:  # a run would have SemCor's most frequent senses under the name of WordNet's
        raise InputError(f"{path}: expected the first sense of each entry, found none. {remedy}")
    return first


def _of_json(path: Path, name: str, line: str) -> SenseSentence:
    row = json_object(line)
    tokens, senses = (row.get(key) or [] for key in ("tokens", "sense"))
    if not (is_texts(tokens) and isinstance(senses, list) and len(tokens) == len(senses)):
        raise ValueError("expected a list of tokens, and a list of sense keys or null for each")
    tagged: list[TaggedToken] = []
    for token, keys in zip(tokens, senses, strict=True):
        if keys is not None and not is_texts(keys):
            raise ValueError(f"expected a list of sense keys or null, found {excerpt(keys)}")
        entries = [entry_of(key) for key in keys or ()]
        tagged.append((token, entries[0], keys) if keys else (token, None, ()))
    return _sentence(name, path, tagged)


def _of_xml(path: Path) -> list[SenseSentence]:
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the latter two for its encoding
        line = error.position[0] if isinstance(error, ElementTree.ParseError) else 1
        raise InputError(f"{path}, line {line}: expected XML: {error}. Get the file again") from error
    gold = _gold_keys(_gold_path(path))
    sentences = []
    for sentence in root.iter("sentence"):
        name = f"{path.name}:{sentence.get('id')}"
        tagged: list[TaggedToken] = []
        for word in sentence:
            if not (word.text or "").strip():
                raise InputError(
                    f"{path}, sentence {sentence.get('id')}: expected a word, found none. Correct the file"
                )
            tagged.append((str(word.text), *(_tagged(path, word, gold) if word.tag == "instance" else (None, ()))))
        sentences.append(_sentence(name, path, tagged))
    return sentences


def _tagged(path: Path, word: ElementTree.Element, gold: Mapping[str, Sequence[str]]) -> tuple[str, Sequence[str]]:
    """The entry and the gold keys of an instance."""
    name, lemma, part_of_speech = (word.get(key, "") for key in ("id", "lemma", "pos"))
    if not lemma or part_of_speech not in NUMBERS:
        raise InputError(
            f"{path}, instance {name}: expected a lemma and one of {', '.join(NUMBERS)}, found {excerpt(lemma)} and "
            f"{excerpt(part_of_speech)}. Correct the file"
        )
    if name not in gold:
        raise InputError(
            f"{path}, instance {name}: expected a line with its id in {_gold_path(path).name}, found none. "
            "Correct one of them"
        )
    return f"{lemma}%{NUMBERS[part_of_speech]}", gold[name]


def _gold_path(xml: Path) -> Path:
    return xml.with_name(xml.name.removesuffix(XML) + GOLD)


def _gold_keys(path: Path) -> dict[str, list[str]]:
    if not path.is_file():
        raise InputError(f"{path}: expected the gold keys of the XML next to it, found no such file")

    def parsed(_: str, line: str) -> tuple[str, list[str]]:
        name, *keys = line.split() or [""]
        if not keys:
            raise ValueError("expected an instance and its sense keys")
        for key in keys:
            entry_of(key)
        return name, keys

    return dict(parsed_lines(utf8_lines(path), path, "Correct the line", parsed))


def _sentence(name: str, path: Path, tagged: Sequence[TaggedToken]) -> SenseSentence:
    """A sentence of tokens, each with its entry and senses if it has one; a token may be several words."""
    words: list[str] = []
    instances = []
    for token, entry, senses in tagged:
        start = len(words)
        words += [TREEBANK_ESCAPES.get(part, part) for part in re.split(r"[\s_]+", token) if part] or [token]
        if entry is not None:
            instances.append(SenseInstance(start, len(words), entry, tuple(senses)))
    return SenseSentence(name, tuple(words), tuple(instances), path.name.split(".")[0])
