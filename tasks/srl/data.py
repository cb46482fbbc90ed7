"""Examples of semantic role labelling: one predicate of a sentence each, from files with CoNLL-2012 columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.common.errors import excerpt
from tasks.batch import Sentence
from tasks.data.conll2012 import read_documents
from tasks.data.offset_tokens import Offsets, OffsetTokeniser
from tasks.data.raw_text import raw_text, word_list
from tasks.data.tag_schemes import Span

MARKED = re.compile(r"\*([^\s*]+)\*")  # the predicate in raw text
INVISIBLE = "\u200b"  # the tokeniser drops it


@dataclass(frozen=True)
class SrlExample:
    """A predicate and its arguments; or a sentence without predicates, which is trained on and never scored.

    Attributes:
        sentence: document, part and first line of the sentence; the predicates of a sentence share it.
        words: the tokens.
        predicate: its position; None in a sentence without predicates.
        pos: the predicate's part of speech, "" without one.
        arguments: spans that do not overlap, in their order; among them V and continuations, such as C-ARG1.
        first: whether it is the first example of its sentence.
        offsets: the places of the words in raw text; () for a file.
    """

    sentence: str
    words: Sentence
    predicate: int | None = None
    pos: str = ""
    arguments: tuple[Span, ...] = ()
    first: bool = True
    offsets: Offsets = ()

    @property
    def id(self) -> str:
        """The sentence and the predicate's position."""
        return self.sentence if self.predicate is None else f"{self.sentence}:{self.predicate}"


def read_frames(path: Path) -> list[SrlExample]:
    """The examples of a file: the predicates of each sentence, in their order."""
    examples: list[SrlExample] = []
    for document in read_documents(path):
        for sentence in document.sentences:
            name = f"{document.id}.{document.part}:{sentence.line}"
            if not sentence.frames:
                examples.append(SrlExample(name, sentence.words))
            for number, frame in enumerate(sentence.frames):
                pos = sentence.pos[frame.predicate]
                examples.append(
                    SrlExample(name, sentence.words, frame.predicate, pos, frame.arguments, first=number == 0)
                )
    return examples


def raw_predicate(name: str, fields: Mapping[str, Any]) -> SrlExample:
    """A sentence with one predicate: `text` with the predicate between asterisks, or `tokens` and `predicate`.

    Raises:
        ValueError: the predicate is missing, or there is more than one.
    """
    if "tokens" in fields:
        words, predicate = word_list(fields["tokens"], "tokens"), fields.get("predicate")
        if not isinstance(predicate, int) or not 0 <= predicate < len(words):
            expected = f"expected the position of a token, 0 to {len(words) - 1}, as predicate"
            raise ValueError(f"{expected}, found {excerpt(predicate)}")
        return SrlExample(name, words, predicate)
    text = raw_text(fields, "text")
    marks = list(MARKED.finditer(text))
    if len(marks) != 1:
        raise ValueError(f"expected one predicate between asterisks, as in Ada *sold* the boat, found {len(marks)}")
    tokens = OffsetTokeniser(inner_cuts=False)(MARKED.sub(rf"{INVISIBLE}\1{INVISIBLE}", text))  # keeps the places
    first, past = tokens.covering(*marks[0].span(1))
    if past - first > 1:
        found = ", ".join(tokens.words[first:past])
        raise ValueError(f"expected one token between asterisks, found {past - first}: {found}. Mark one of them")
    return SrlExample(name, tokens.words, first, offsets=tokens.offsets)
