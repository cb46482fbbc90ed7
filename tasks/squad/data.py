"""SQuAD 1.1 files: articles with passages, and questions whose answers are spans of the passages."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmo.common import checks
from elmo.common.errors import InputError, excerpt, not_utf8
from elmo.common.files import parse_json
from tasks.batch import Sentence, Split
from tasks.data.offset_tokens import OffsetTokeniser, Tokens

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


def read_squad(path: Path, split: Split, reader: SquadReader, answered: bool = True) -> list[SquadExample]:
    """The questions of a file that belong to a split; with `answered` False, answers are not read."""
    if split == "dev" and reader.select_on != "files":
        is_training_file = path.name.startswith("train")
        if is_training_file != (reader.select_on == "train_articles"):
            return []
    try:
        content = parse_json(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise not_utf8(str(path), error) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}: expected one JSON object as in SQuAD 1.1, found no JSON: {error.msg}. "
            "Is it a file of this task?"
        ) from error
    return _examples(_get(content, "data", list, str(path)), str(path), split, reader, answered)


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: SquadReader) -> list[SquadExample]:
    """The questions in rows of the hub: `id`, `title`, `context`, `question`, `answers` of lists."""
    articles = []
    for number, row in enumerate(rows):
        where = f"{split}, row {number}"
        title, context = _get(row, "title", str, where), _get(row, "context", str, where)
        answers = _get(row, "answers", dict, where)
        texts, starts = _get(answers, "text", list, where), _get(answers, "answer_start", list, where)
        listed = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
        articles.append({"title": title, "paragraphs": [{"context": context, "qas": [{**row, "answers": listed}]}]})
    return _examples(articles, split, split, reader)


def _examples(
    articles: Sequence[Any], where: str, split: Split, reader: SquadReader, answered: bool = True
) -> list[SquadExample]:
    """The questions of those articles that a split takes; equal passages of one title are one object."""
    tokenise = OffsetTokeniser()
    titles = [_get(article, "title", str, f"{where}, article {number}") for number, article in enumerate(articles)]
    dev = held_out(titles, reader.dev_share) if reader.select_on == "train_articles" and split != "test" else None
    passages: dict[tuple[str, str], Passage] = {}
    examples: list[SquadExample] = []
    for title, article in zip(titles, articles, strict=True):
        if dev is not None and (title in dev) != (split == "dev"):
            continue
        titled = f"{where}, article {excerpt(title)}"
        for row, paragraph in enumerate(_get(article, "paragraphs", list, titled)):
            inside = f"{titled}, paragraph {row}"
            context = _get(paragraph, "context", str, inside)
            if (title, context) not in passages:
                passages[title, context] = Passage(title, context, tokenise(context))
            passage = passages[title, context]
            if not len(passage.tokens):
                found = excerpt(context)
                raise InputError(f"{inside}: expected a passage with words, found {found}. Correct or remove it")
            for question in _get(paragraph, "qas", list, inside):
                name = f"{where}, question {excerpt(_get(question, 'id', str, inside))}"
                examples.append(_example(question, passage, tokenise, name, answered))
    return examples


Value = TypeVar("Value")


def _get(holder: object, key: str, kind: type[Value], where: str) -> Value:
    """The value of a key, checked to be of the type in SQuAD's format; text, that UTF-8 can encode it."""
    if not isinstance(holder, Mapping):
        found = f"a {type(holder).__name__}"
    elif key not in holder:
        found = f"only {', '.join(str(name)[:60] for name in list(holder)[:20]) or 'nothing'}"
    elif not isinstance(holder[key], kind) or isinstance(holder[key], bool):
        found = f"a {type(holder[key]).__name__}"
    else:
        value: Value = holder[key]
        try:
            str(value if kind is str else "").encode()
        except UnicodeEncodeError as error:  # JSON can escape half of a surrogate pair
            raise InputError(
                f"{where}, {key!r}: expected text, found half of a surrogate pair, {error.object[error.start]!r} at "
                f"character {error.start}. Correct the escape, or write U+FFFD in its place"
            ) from error
        return value
    raise InputError(
        f"{where}: expected an object with {key!r}, a {kind.__name__}, as in SQuAD 1.1, found {found}. "
        "Is it a file of this task?"
    )


def _example(row: Any, passage: Passage, tokenise: OffsetTokeniser, where: str, answered: bool) -> SquadExample:  # noqa: ANN401
    text = _get(row, "question", str, where)
    question = tokenise(text).words
    if not question:
        raise InputError(f"{where}: expected a question with words, found {excerpt(text)}. Correct or remove it")
    if not answered:
        return SquadExample(row["id"], passage, question)
    answers = _get(row, "answers", list, where)
    if not answers:
        raise InputError(
            f"{where}: expected at least one answer, found none. Remove it: SQuAD 2.0, with questions that have none, "
            "is another task"
        )
    texts: list[str] = []
    spans: list[tuple[int, int]] = []
    unaligned = 0
    for answer in answers:
        gold = _get(answer, "text", str, where)
        begins = _begins(answer, gold, passage.context, where)
        exact = [begin for begin in begins if passage.tokens.aligned(begin, begin + len(gold))]
        unaligned += not exact
        texts.append(gold)
        # Only the first answer's. "1" also occurs inside "1815": prefer occurrences that are whole tokens, if any.
        spans = spans or [passage.tokens.covering(begin, begin + len(gold)) for begin in exact or begins]
    return SquadExample(row["id"], passage, question, tuple(texts), tuple(dict.fromkeys(spans)), unaligned)


def _begins(answer: Mapping[str, Any], text: str, context: str, where: str) -> list[int]:
    """Where an answer begins: at its `answer_start`, or at each occurrence if there are several."""
    begin = _get(answer, "answer_start", int, where)
    found = context[max(begin, 0) : max(begin, 0) + len(text)]
    if not text.strip() or begin < 0 or found != text:
        raise InputError(
            f"{where}: expected the answer {excerpt(text)} at character {begin} of a passage of {len(context)} "
            f"characters, found {excerpt(found)}. Correct answer_start"
        )
    if answer.get("occurrences", 1) == 1:
        return [begin]
    return [match.start() for match in re.finditer(re.escape(text), context)]
