"""Examples of semantic role labelling: one predicate of a sentence each, from files with CoNLL-2012 columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.data.conll2012 import read_documents
from tasks.data.tag_schemes import Span
from tasks.interface import Sentence


@dataclass
class FrameReader:
    """Differences between files: none."""


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
    """

    sentence: str
    words: Sentence
    predicate: int | None = None
    pos: str = ""
    arguments: tuple[Span, ...] = ()
    first: bool = True

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
