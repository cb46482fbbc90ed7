"""The SQuAD task: from a passage and a question to a span of the passage, in files of SQuAD 1.1.

Scores follow the official rules of version 1.1: answers are compared without case, ASCII punctuation, articles and
extra white space. A prediction gets its best score against the gold answers, and a score is the mean over questions.

The head is BiDAF with self-attention (Seo et al. 2017; Clark and Gardner 2018). All its similarities are tri-linear:
w1.x + w2.y + w3.(x * y). The last term is computed as (w3 * x) y^T, so that nothing larger than one number for each
pair of tokens is kept: memory is bounded by batch * tokens * tokens.
"""

import hashlib
import re
import string
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor, nn

from elmo.common.checks import AtLeastOne, Dropout, Fraction, Width, one_of
from elmo.common.errors import InputError, excerpt, reworded
from results.records.metric import Grouping, mean_of
from tasks.data.text import Tokens, raw_text, tokens_of
from tasks.metrics import Scores, add_units
from tasks.modules.layers import BiRnn, VariationalDropout, masked_softmax, product
from tasks.task import Answer, Batch, FeatureBatch, Head, Sentence, Split, Task

SELECT_ON = ("files", "train_articles", "official_dev")
QUESTION_WORDS = {
    **{word: word for word in ("what", "who", "when", "where", "which", "why", "how")},
    **dict.fromkeys(("whom", "whose"), "who"),
}
OTHER = "other"
ARTICLE_KINDS = ("place", "history", "science", "society")
OFFICIAL_DEV = "301123103012212302021203312232330333103220331312"  # the kinds of its articles, in order
IMPOSSIBLE = -1e30  # the score of padding; finite, so that products with zero are not NaN
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass
class SquadReader:
    """Settings that say which questions each split has.

    Attributes:
        select_on: the dev split. `files`: each split is all of its files. `train_articles`: dev is a share of the
            articles of the training file, which are then not trained on, so that the official dev set can be the test.
            `official_dev`: training keeps all articles and dev is the official dev set, as in the paper; the test score
            is then on the same questions that selected the model, and only good for comparison. With the latter two,
            dev lists the training file, whose name begins with "train", and the official dev file; on the hub, dev
            names the training rows, and `official_dev` takes those of test instead.
        dev_share: share of the training articles for dev, chosen by a hash of their titles.
    """

    select_on: Annotated[str, partial(one_of, SELECT_ON)] = "files"
    dev_share: Fraction = 0.05


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


class _Strict(BaseModel, strict=True):
    """A part of a file."""


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


def read_squad(path: Path, split: Split, reader: SquadReader, answered: bool = True) -> list[SquadExample]:
    """The questions of a file that belong to a split; with `answered` False, answers are not read."""
    if split == "dev" and reader.select_on != "files":
        is_training_file = path.name.startswith("train")
        if is_training_file != (reader.select_on == "train_articles"):
            return []
    with _named(path):
        content = _File.model_validate_json(path.read_bytes().removeprefix(BOM_UTF8))
    return _examples(content.data, str(path), split, reader, answered)


def read_rows(rows: Sequence[Mapping[str, Any]], split: Split, reader: SquadReader) -> list[SquadExample]:
    """The questions in rows of the hub: `id`, `title`, `context`, `question`, `answers` of lists."""
    articles = []
    for row in rows:
        answers = row["answers"] if isinstance(row["answers"], Mapping) else {}
        pairs = zip(answers.get("text", ()), answers.get("answer_start", ()), strict=True)
        question = {**row, "answers": [{"text": text, "answer_start": start} for text, start in pairs]}
        articles.append({**row, "paragraphs": [{**row, "qas": [question]}]})
    with _named(split):
        content = _File.model_validate({"data": articles})
    return _examples(content.data, split, split, reader)


def _named(where: object) -> AbstractContextManager[None]:
    """Names what is read if it is not as in SQuAD 1.1."""

    def say(error: ValidationError) -> str:
        first = error.errors(include_input=False, include_url=False)[0]
        problem = " ".join(filter(None, (".".join(map(str, first["loc"])), first["msg"])))
        return f"{where}: expected JSON as in SQuAD 1.1, found {problem}. Is it a file of this task?"

    return reworded(ValidationError, say)


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
        quoted = f"{excerpt(row.question)} about {excerpt(passage.context)}"
        raise InputError(f"{where}: expected a question and a passage with words, found {quoted}. Correct or remove it")
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
    """The starts of an answer: at its `answer_start`, or at each occurrence if there are several."""
    begin, text = answer.answer_start, answer.text
    there = context[max(begin, 0) : max(begin, 0) + len(text)]
    if not text.strip() or begin < 0 or there != text:
        raise InputError(
            f"{where}: expected the answer {excerpt(text)} at character {begin} of a passage of {len(context)} "
            f"characters, found {excerpt(there)}. Correct answer_start"
        )
    return [begin] if answer.occurrences == 1 else [match.start() for match in re.finditer(re.escape(text), context)]


@dataclass
class SquadSettings:
    """The head's sizes: GRU width per direction, variational dropout, and the longest answer in tokens at test."""

    hidden: Width = 90
    dropout: Dropout = 0.2
    longest: AtLeastOne = 17


class Trilinear(nn.Module):
    """The similarity of each token of one text to each of another.

    There is no bias: it cancels in a softmax over tokens, and together with a null score it would be redundant.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.empty(3, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights again, as a linear layer over [x; y; x * y] would."""
        bound = (3 * self.weights.shape[1]) ** -0.5
        nn.init.uniform_(self.weights, -bound, bound)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(batch, m, dim), (batch, n, dim) -> (batch, m, n)."""
        of_x, of_y, of_both = self.weights
        # The terms of one text are extra columns of the product: baddbmm would need one more (batch, m, n).
        left = torch.cat([x * of_both, (x @ of_x)[..., None], torch.ones_like(x[..., :1])], dim=-1)
        right = torch.cat([y, torch.ones_like(y[..., :1]), (y @ of_y)[..., None]], dim=-1)
        return product(left, right.transpose(1, 2))


class BiAttention(nn.Module):
    """Attention from each token of the passage to the question, and from the question to the passage."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = Trilinear(dim)
        self.output_dim = 4 * dim

    def forward(self, passage: Tensor, question: Tensor, passage_mask: Tensor, question_mask: Tensor) -> Tensor:
        """[x; a; x * a; x * c] with c one vector per passage, (batch, tokens, 4 * dim)."""
        similarity = self.similarity(passage, question)  # (batch, tokens, words)
        attended = product(masked_softmax(similarity, question_mask[:, None]), question)  # (batch, tokens, dim)
        closest = similarity.masked_fill(~question_mask[:, None], torch.finfo(similarity.dtype).min).amax(dim=2)
        wanted = product(masked_softmax(closest, passage_mask)[:, None], passage)  # (batch, 1, dim)
        return torch.cat([passage, attended, passage * attended, passage * wanted], dim=-1)


class SelfAttention(nn.Module):
    """Attention from each token to the other tokens of its passage, or to nothing.

    `null` is the score of nothing: its share of the attention goes to no token.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.similarity = Trilinear(dim)
        self.null = nn.Parameter(torch.empty(1))
        self.output_dim = 3 * dim
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the null score to its initial value."""
        nn.init.constant_(self.null, -1.0)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[a; x; a * x], (batch, tokens, 3 * dim)."""
        scores = self.similarity(x, x)  # (batch, tokens, tokens)
        hidden = ~mask[:, None] | torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        scores = scores.masked_fill(hidden, float("-inf"))
        null = self.null.to(scores.dtype).expand(*scores.shape[:2], 1)
        shares = torch.softmax(torch.cat([scores, null], dim=2), dim=2)[..., :-1]
        attended = product(shares, x)  # (batch, tokens, dim)
        return torch.cat([attended, x, attended * x], dim=-1)


class BidafSelfAttention(Head):
    """Encodes question and passage with one BiGRU and joins them by attention. Predicts spans of passage tokens.

    A span is (first token, one past the last). ELMo's output vectors join the shared BiGRU's, before any attention, so
    that the model can attend to them.
    """

    def __init__(self, settings: SquadSettings, input_dim: int, output_dim: int) -> None:
        super().__init__()
        hidden, dim = settings.hidden, 2 * settings.hidden
        self.longest = settings.longest
        self.dropout = VariationalDropout(settings.dropout)
        self.encoder = BiRnn(input_dim, hidden, cell=nn.GRU)
        self.attention = BiAttention(dim + output_dim)
        self.joined = nn.Linear(self.attention.output_dim, dim)
        self.matcher = BiRnn(dim, hidden, cell=nn.GRU)
        self.self_attention = SelfAttention(dim)
        self.matched = nn.Linear(self.self_attention.output_dim, dim)
        self.start_reader = BiRnn(dim, hidden, cell=nn.GRU)
        self.start = nn.Linear(dim, 1, bias=False)  # a bias would cancel in the softmax over tokens
        self.end_reader = BiRnn(2 * dim, hidden, cell=nn.GRU)
        self.end = nn.Linear(dim, 1, bias=False)

    def _encode(self, text: FeatureBatch) -> Tensor:
        """[h; ELMo] of a text, (batch, tokens, 2 * hidden + output_dim)."""
        return torch.cat([self.dropout(self.encoder(self.dropout(text.input), text.lengths)), text.output], dim=-1)

    def _scores(self, features: Sequence[FeatureBatch]) -> tuple[Tensor, Tensor]:
        """Scores of each token as the first and as the last of the answer, each (batch, tokens)."""
        passage, question = features
        lengths, mask = passage.lengths, passage.mask
        joined = self.attention(self._encode(passage), self._encode(question), mask, question.mask)
        x = torch.relu(self.joined(joined))  # (batch, tokens, 2 * hidden)
        states = self.dropout(self.matcher(self.dropout(x), lengths))
        x = self.dropout(x + torch.relu(self.matched(self.self_attention(states, mask))))
        starting = self.start_reader(x, lengths)
        ending = self.end_reader(torch.cat([x, starting], dim=-1), lengths)
        start, end = self.start(starting).squeeze(-1).float(), self.end(ending).squeeze(-1).float()
        return start.masked_fill(~mask, IMPOSSIBLE), end.masked_fill(~mask, IMPOSSIBLE)

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """-log of the probability of the gold starts, and of the gold ends, summed over all occurrences.

        If an answer occurs more than once, the probability may be on any of the occurrences.
        """
        start, end = self._scores(features)
        meant = batch.targets["meant"]  # (batch, places)
        losses = [
            nn.functional.log_softmax(scores, dim=1)
            .gather(1, batch.targets[name])
            .masked_fill(~meant, float("-inf"))
            .logsumexp(dim=1)
            for name, scores in (("starts", start), ("ends", end))
        ]
        return -torch.stack(losses).sum(dim=0).mean()

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[tuple[int, int]]:
        """The most probable span of at most `longest` tokens of each passage."""
        return [span for span, _ in self.decode_with_probabilities(features, batch)]

    def decode_with_probabilities(self, features: Sequence[FeatureBatch], batch: Batch) -> list[Answer]:
        """The spans, each with the probability of its first token times that of its last."""
        scores = self._scores(features)
        ends = best_spans(*scores, self.longest)
        shares = [of_ends.softmax(dim=1).gather(1, at.unsqueeze(1)) for of_ends, at in zip(scores, ends, strict=True)]
        spans = zip(ends[0].tolist(), (ends[1] + 1).tolist(), strict=True)
        return list(zip(spans, (shares[0] * shares[1]).tolist(), strict=True))


def best_spans(start: Tensor, end: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """First and last tokens whose scores have the greatest sum, of spans of 1 to `longest` tokens: each (batch,)."""
    padded = nn.functional.pad(end, (0, longest - 1), value=float("-inf"))
    sums = start[..., None] + padded.unfold(1, longest, 1)  # (batch, tokens, longest)
    best = sums.flatten(1).argmax(dim=1)
    first = best // longest
    return first, first + best % longest


class Squad(Task[SquadExample, SquadSettings]):
    """Answers to questions by the F1 of their words, as the official script of SQuAD 1.1 counts it."""

    name = "squad"
    metric = "f1"
    exact = "em"
    metrics: ClassVar = {
        "f1": mean_of("f1", unit="article", title="F1"),
        "em": mean_of("em", unit="article", title="exact match"),
    }
    length_edges = (100, 150, 200)
    recipe = 2  # 2: Adadelta with TensorFlow's constants
    settings_type = SquadSettings
    reader_type = SquadReader
    columns = ("id", "title", "context", "question", "answers")
    raw_fields = ("context", "question")

    def read(self, path: Path, split: Split) -> list[SquadExample]:
        """The questions of a SQuAD 1.1 file."""
        return read_squad(path, split, self.reader)

    def from_rows(self, rows: Sequence[Mapping[str, Any]], split: Split) -> list[SquadExample]:
        """The questions in rows with `id`, `title`, `context`, `question` and `answers`."""
        return read_rows(rows, split, self.reader)

    def read_unlabelled(self, path: Path) -> list[SquadExample]:
        """The questions of a SQuAD 1.1 file, with or without answers."""
        return read_squad(path, "test", self.reader, answered=False)

    def from_raw(self, name: str, fields: Mapping[str, Any]) -> SquadExample:
        """A `question` about a passage, `context`."""
        context, question = raw_text(fields, "context"), raw_text(fields, "question")
        return SquadExample(name, Passage("", context, tokens_of(context)), tokens_of(question).words)

    def prediction_fields(self, example: SquadExample, prediction: tuple[int, int]) -> dict[str, Any]:
        """The answer and its characters in the passage."""
        characters = list(example.passage.tokens.place(*prediction))
        return {"answer": answer_text(example, prediction), "characters": characters}

    def example_fields(self, example: SquadExample) -> dict[str, Any]:
        """The passage and the question."""
        return {"context": example.passage.context, "question": " ".join(example.question)}

    def gold_fields(self, example: SquadExample) -> dict[str, Any]:
        """The gold answers, each once."""
        return {"answers": list(dict.fromkeys(example.answers))}

    def prediction_text(self, example: SquadExample, prediction: tuple[int, int]) -> str:
        """The answer, on one line."""
        return " ".join(answer_text(example, prediction).split())

    def hub_split(self, split: Split, names: Mapping[str, str]) -> str:
        """The hub's name for a split's rows; with `official_dev`, dev takes the rows of test, the official dev set."""
        if split == "dev" and self.reader.select_on == "official_dev" and names["dev"] == names["train"]:
            return names["test"]
        return names[split]

    def counts(self, examples: Sequence[SquadExample]) -> dict[str, int]:
        """Articles, paragraphs, questions, answers, and tokens of paragraphs and questions."""
        passages = {(example.passage.title, example.passage.context): example.passage for example in examples}
        return {
            "articles": len({title for title, _ in passages}),
            "paragraphs": len(passages),
            "questions": len(examples),
            "answers": sum(len(example.answers) for example in examples),
            "paragraph_tokens": sum(len(passage.tokens) for passage in passages.values()),
            "question_tokens": sum(len(example.question) for example in examples),
        }

    def notes(self, examples: Sequence[SquadExample]) -> dict[str, object]:
        """Counts of answers that are not aligned with tokens, and of questions whose answer has several spans."""
        return {
            "unaligned_answers": sum(example.unaligned for example in examples),
            "questions_with_several_places": sum(len(example.spans) > 1 for example in examples),
            "longest_paragraph": max((len(example.passage.tokens) for example in examples), default=0),
        }

    def groups(self, examples: Sequence[SquadExample], train: Sequence[SquadExample]) -> dict[str, Grouping]:
        """By length, casing, the first question word and, of the official dev set, the article's kind.

        `python -m tasks.squad.overlap` adds the biLM's text.
        """
        labels = [*dict.fromkeys(QUESTION_WORDS.values()), OTHER]
        asked = [question_word(example.question) for example in examples]
        groups = {**super().groups(examples, train), "question": Grouping(labels, list(map(labels.index, asked)))}
        titles = [example.passage.title for example in examples]
        if (len(set(titles)), len(titles)) == (len(OFFICIAL_DEV), 10_570):
            kinds = dict(zip(dict.fromkeys(titles), map(int, OFFICIAL_DEV), strict=True))
            groups["article"] = Grouping(ARTICLE_KINDS, [kinds[title] for title in titles])
        return groups

    def texts(self, example: SquadExample) -> tuple[Sentence, ...]:
        """The passage, as one sequence, and the question."""
        return example.passage.tokens.words, example.question

    def targets(self, examples: Sequence[SquadExample]) -> dict[str, Tensor]:
        """`starts` and `ends`, the gold first and last tokens, and their mask `meant`, (batch, places)."""
        places = np.array([len(example.spans) for example in examples])
        meant = np.arange(places.max()) < places[:, None]  # (batch, places)
        starts, ends = np.zeros((2, *meant.shape), dtype=np.int64)
        spans = np.array([span for example in examples for span in example.spans])  # (spans, 2)
        starts[meant], ends[meant] = spans[:, 0], spans[:, 1] - 1
        return {"starts": torch.from_numpy(starts), "ends": torch.from_numpy(ends), "meant": torch.from_numpy(meant)}

    def size(self, example: SquadExample) -> int:
        """Tokens of the longer text, the passage, not of both: the published runs were made with these batches."""
        return max(map(len, self.texts(example)))

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """BiDAF with self-attention."""
        return BidafSelfAttention(self.settings, widths["input"], widths["output"])

    def gold(self, examples: Sequence[SquadExample]) -> list[tuple[int, int]]:
        """The tokens of the first answer, or those around it where it does not align with tokens."""
        return [example.spans[0] for example in examples]

    def score(self, examples: Sequence[SquadExample], predictions: Sequence[tuple[int, int]]) -> Scores:
        """F1 and exact match of the predicted spans' text against all gold answers, and each question's article."""
        guesses = [answer_text(example, span) for example, span in zip(examples, predictions, strict=True)]
        scores = answer_scores([example.answers for example in examples], guesses)
        return add_units(scores, "article", [example.passage.title for example in examples])


def question_word(question: Sentence) -> str:
    """The first question word, in lower case; whom and whose count as who."""
    return next(filter(None, (QUESTION_WORDS.get(word.lower()) for word in question)), OTHER)


def answer_text(example: SquadExample, span: tuple[int, int]) -> str:
    """The exact text of the passage that a span of its tokens covers."""
    begin, end = example.passage.tokens.place(*span)
    return example.passage.context[begin:end]


@lru_cache(maxsize=1 << 16)  # answers are compared several times per epoch
def normalised(answer: str) -> str:
    """The normalised form of an answer, for comparison."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_WITHOUT_PUNCTUATION)).split())


def exact_match(predicted: str, gold: str) -> float:
    """1 if both are the same answer, else 0."""
    return float(normalised(predicted) == normalised(gold))


def word_f1(predicted: str, gold: str) -> float:
    """The F1 of the predicted words against the gold ones, 0 to 1; repeated words count with multiplicity."""
    guess, right = normalised(predicted).split(), normalised(gold).split()
    common = sum((Counter(guess) & Counter(right)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(guess), common / len(right)
    return 2 * precision * recall / (precision + recall)


def answer_scores(gold: Sequence[Sequence[str]], predicted: Sequence[str]) -> Scores:
    """`f1` and `em` in percent, overall and for each question.

    Args:
        gold: the gold answers of each question.
        predicted: the predicted answer of each question.
    """
    examples = [
        {
            "em": 100 * max(exact_match(guess, right) for right in answers),
            "f1": 100 * max(word_f1(guess, right) for right in answers),
        }
        for answers, guess in zip(gold, predicted, strict=True)
    ]
    mean = {name: sum(example[name] for example in examples) / max(len(examples), 1) for name in ("f1", "em")}
    return Scores(values=mean, examples=examples)
