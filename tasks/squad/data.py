"""SQuAD 1.1 files: articles with passages, and questions whose answers are spans of the passages."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from elmo.common import checks
from elmo.common.errors import InputError, excerpt
from tasks.batch import Sentence, Split
from tasks.data.raw_text import Tokens, tokens_of

SELECT_ON = ("files", "train_articles", "official_dev")


@dataclass
class SquadReader:
    """Which questions each split has.

    Attributes:
        select_on: the dev split. `files`: each split is all of its files. `train_articles`: dev is a share of the
            articles of the training file, which are then not trained on, so that the official dev set can be the test.
            `official_dev`: training keeps all articles and dev is the official dev set, as in the paper; the test score
            is then on the same questions that selected the model, and only good for comparison. With the latter two,
            dev lists the training file, whose name begins with "train", and the official dev file; on the hub, dev
            names the training rows, and `official_dev` takes those of test instead.
        dev_share: share of the training articles for dev, chosen by a hash of their titles.
    """

    select_on: str = "files"
    dev_share: float = 0.05

    def __post_init__(self) -> None:
        checks.one_of(SELECT_ON, "data.reader.select_on", self.select_on)
        checks.fraction("data.reader.dev_share", self.dev_share)


@dataclass(frozen=True)
class Passage:
    """A paragraph of an article, shared by its questions."""

    title: str
    context: str
    tokens: Tokens


@dataclass(frozen=True)
class SquadExample:
    """A question about a passage; by default without answers, to predict.

    Attributes:
        id: as in the file.
        passage: the passage that contains the answer.
        question: the words of the question.
        answers: the texts of the gold answers, all of them correct.
        spans: the tokens of the first answer, first and one past the last: one span, or one for each occurrence if the
            file does not mark the right one.
        unaligned: how many gold answers do not begin and end at token boundaries; training uses the tokens around them.
    """

    id: str
    passage: Passage
    question: Sentence
    answers: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ((0, 1),)
    unaligned: int = 0


def held_out(titles: Iterable[str], share: float) -> frozenset[str]:
    """The share of the articles that is not trained on: those whose titles have the smallest hashes."""
    ranked = sorted(set(titles), key=lambda title: hashlib.sha256(title.encode()).digest())
    return frozenset(ranked[: max(1, round(share * len(ranked)))])


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class _Answer(_Strict):
    text: str
    answer_start: int
    occurrences: int = 1


class _Question(_Strict):
    id: str
    question: str
    answers: list[_Answer] = []


class _Paragraph(_Strict):
    context: str
    qas: list[_Question]


class _Article(_Strict):
    title: str
    paragraphs: list[_Paragraph]


class _File(_Strict):
    data: list[_Article]


class _Answers(_Strict):
    text: list[str]
    answer_start: list[int]


class _Row(_Strict):
    """A question as the hub has it."""

    id: str
    title: str
    context: str
    question: str
    answers: _Answers


def read_squad(path: Path, split: Split, reader: SquadReader, answered: bool = True) -> list[SquadExample]:
    """The questions of a file that belong to a split; with `answered` False, answers are not read."""
    if split == "dev" and reader.select_on != "files":
        is_training_file = path.name.startswith("train")
        if is_training_file != (reader.select_on == "train_articles"):
            return []
    try:
        content = _File.model_validate_json(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        raise _malformed(str(path), error) from error
    return _examples(content.data, str(path), split, reader, answered)


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: SquadReader) -> list[SquadExample]:
    """The questions in rows of the hub: `id`, `title`, `context`, `question`, `answers` of lists."""
    try:
        checked = TypeAdapter(list[_Row]).validate_python(rows)
    except ValidationError as error:
        raise _malformed(split, error) from error
    articles = []
    for row in checked:
        pairs = zip(row.answers.text, row.answers.answer_start, strict=True)
        answers = [_Answer(text=text, answer_start=start) for text, start in pairs]
        question = _Question(id=row.id, question=row.question, answers=answers)
        articles.append(_Article(title=row.title, paragraphs=[_Paragraph(context=row.context, qas=[question])]))
    return _examples(articles, split, split, reader)


def _malformed(where: str, error: ValidationError) -> InputError:
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(map(str, first["loc"]))
    problem = f"{place}: {first['msg']}" if place else first["msg"]
    return InputError(f"{where}: expected JSON as in SQuAD 1.1, found {problem}. Is it a file of this task?")


def _examples(
    articles: Sequence[_Article], where: str, split: Split, reader: SquadReader, answered: bool = True
) -> list[SquadExample]:
    """The questions of those articles that a split takes; equal passages of one title are one object."""
    by_title = reader.select_on == "train_articles" and split != "test"
    dev = held_out((article.title for article in articles), reader.dev_share) if by_title else frozenset()
    passages: dict[tuple[str, str], Passage] = {}
    examples: list[SquadExample] = []
    for article in articles:
        if by_title and (article.title in dev) != (split == "dev"):
            continue
        for paragraph in article.paragraphs:
            key = article.title, paragraph.context
            if key not in passages:
                passages[key] = Passage(*key, tokens_of(paragraph.context))
            for question in paragraph.qas:
                name = f"{where}, question {excerpt(question.id)}"
                examples.append(_example(question, passages[key], name, answered))
    return examples


def _example(row: _Question, passage: Passage, where: str, answered: bool) -> SquadExample:
    question = tokens_of(row.question).words
    if not question or not len(passage.tokens):
        found = f"{excerpt(row.question)} about {excerpt(passage.context)}"
        raise InputError(f"{where}: expected a question and a passage with words, found {found}. Correct or remove it")
    if not answered:
        return SquadExample(row.id, passage, question)
    if not row.answers:
        raise InputError(
            f"{where}: expected at least one answer, found none. Remove it: SQuAD 2.0, with questions that have none, "
            "is another task"
        )
    spans: list[tuple[int, int]] = []
    unaligned = 0
    for answer in row.answers:
        begins = _begins(answer, passage.context, where)
        exact = [begin for begin in begins if passage.tokens.aligned(begin, begin + len(answer.text))]
        unaligned += not exact
        # Only the first answer's. "1" also occurs inside "1815": prefer occurrences that are whole tokens, if any.
        spans = spans or [passage.tokens.covering(begin, begin + len(answer.text)) for begin in exact or begins]
    texts = tuple(answer.text for answer in row.answers)
    return SquadExample(row.id, passage, question, texts, tuple(dict.fromkeys(spans)), unaligned)


def _begins(answer: _Answer, context: str, where: str) -> list[int]:
    """Where an answer begins: at its `answer_start`, or at each occurrence if there are several."""
    begin, text = answer.answer_start, answer.text
    there = context[max(begin, 0) : max(begin, 0) + len(text)]
    if not text.strip() or begin < 0 or there != text:
        raise InputError(
            f"{where}: expected the answer {excerpt(text)} at character {begin} of a passage of {len(context)} "
            f"characters, found {excerpt(there)}. Correct answer_start"
        )
    return [begin] if answer.occurrences == 1 else [match.start() for match in re.finditer(re.escape(text), context)]
