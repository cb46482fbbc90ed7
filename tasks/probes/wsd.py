"""The WSD probe: the sense of a word is that of the nearest mean vector of senses in training.

Data are SemCor as JSON lines, the XML of the WSD evaluation framework, and WordNet's index of senses. Senses are
WordNet's keys, such as art%1:06:00::. An entry is a lemma with its part of speech, art%1.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import torch
from torch import Tensor, nn

from elmo.common import checks
from elmo.common.errors import InputError, excerpt, reworded
from elmo.common.files import utf8_lines
from results.records.metric import Metric, Ratio
from tasks.data.text import TREEBANK_ESCAPES, is_texts, json_object, parsed_lines, span_fields
from tasks.metrics import Scores
from tasks.task import Batch, FeatureBatch, Head, NoSettings, Sentence, Split, Task
from tasks.training.trainer import FitState, TaskModel, Trainer

ANSWERS = ("nearest", "first")
NO_ANSWER = ""
TIE = 1e-9  # cosines that differ by no more are equal: static vectors of one word have no nearest sense

SETS = {
    "senseval2": "Senseval-2",
    "senseval3": "Senseval-3",
    "semeval2007": "SemEval-2007",
    "semeval2013": "SemEval-2013",
    "semeval2015": "SemEval-2015",
}
DEV = "semeval2007"


def _f1(prefixes: Sequence[str], title: str) -> Metric:
    """F1 of the columns with these prefixes: the harmonic mean of correct/answered and correct/instances."""
    correct = {f"{prefix}correct": 200.0 for prefix in prefixes}
    both = {f"{prefix}{name}": 1.0 for prefix in prefixes for name in ("answered", "instances")}
    return Metric([[Ratio(correct, both)]], title=title)


METRICS = {
    "f1": _f1([""], "F1"),
    "precision": Metric([[Ratio({"correct": 100}, {"answered": 1})]]),
    "recall": Metric([[Ratio({"correct": 100}, {"instances": 1})]]),
    "four_sets": _f1([f"{name}_" for name in SETS if name != DEV], f"F1 without {SETS[DEV]}"),
    **{name: _f1([f"{name}_"], f"F1 on {title}") for name, title in SETS.items()},
}

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
    match = SENSE.fullmatch(sense)
    if match is None:
        raise ValueError(f"expected a sense key of WordNet such as art%1:06:00::, found {excerpt(sense)}")
    lemma, number = match.groups()
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
    lists = is_texts(tokens) and isinstance(senses, list) and len(tokens) == len(senses)
    if not lists or not all(keys is None or is_texts(keys) for keys in senses):
        raise ValueError("expected a list of tokens, and for each a list of sense keys or null")
    entries = [[entry_of(key) for key in keys or ()] for keys in senses]  # checks all keys
    rows = zip(tokens, entries, senses, strict=True)
    return _sentence(name, path, [(token, entry[0] if entry else None, keys or ()) for token, entry, keys in rows])


def _of_xml(path: Path) -> list[SenseSentence]:
    wrong = ElementTree.ParseError, LookupError, ValueError  # the latter two for its encoding
    with reworded(wrong, lambda error: f"{path}: expected XML: {error}. Get the file again"):
        root = ElementTree.parse(path).getroot()
    gold_file = path.with_name(path.name.removesuffix(XML) + GOLD)
    gold = dict(parsed_lines(utf8_lines(gold_file), gold_file, "Correct the line", _gold_keys))
    sentences = []
    for sentence in root.iter("sentence"):
        tagged: list[TaggedToken] = []
        for word in sentence:
            text, name, lemma, pos = (word.text or "", *(word.get(key, "") for key in ("id", "lemma", "pos")))
            has_sense = word.tag == "instance"
            if not text.strip() or (has_sense and not (lemma and pos in NUMBERS and name in gold)):
                raise InputError(
                    f"{path}, sentence {sentence.get('id')}: expected words, and for an instance a lemma, one of "
                    f"{', '.join(NUMBERS)} and a line with its id in the file *{GOLD}, found {excerpt(text)} with "
                    f"{excerpt(word.attrib)}. Correct the file"
                )
            tagged.append((text, f"{lemma}%{NUMBERS[pos]}", gold[name]) if has_sense else (text, None, ()))
        sentences.append(_sentence(f"{path.name}:{sentence.get('id')}", path, tagged))
    return sentences


def _gold_keys(_: str, line: str) -> tuple[str, list[str]]:
    name, *keys = line.split() or [""]
    if not keys:
        raise ValueError("expected an instance and its sense keys")
    for key in keys:
        entry_of(key)
    return name, keys


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


@dataclass
class WsdSettings:
    """Settings of the search for senses.

    Attributes:
        answer: nearest chooses the nearest sense, and backs off for a lemma that training does not have; first is the
            baseline, which always backs off.
    """

    answer: Annotated[str, partial(checks.one_of, ANSWERS)] = "nearest"


class SenseMemory(Head):
    """The sum of the vectors of each sense in training. Predictions are a sense or NO_ANSWER for each instance.

    The vector of several words is their mean. Sums are float64 on the CPU, so that their order does not matter.

    Args:
        senses: those in training.
        dim: width of the features.
        answers: whether it gives an answer.
    """

    def __init__(self, senses: Sequence[str], dim: int, answers: bool) -> None:
        super().__init__()
        self.senses = senses
        self.sums = torch.zeros(len(senses), dim, dtype=torch.float64)
        self.answers = answers
        self.filled = False

    @staticmethod
    def vectors(features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """The vectors of the instances, (instances, dim)."""
        (text,) = features
        tokens = text.input.double().cpu()
        instances: list[list[int]] = batch.targets["instances"].tolist()
        return torch.stack([tokens[row, start:end].mean(dim=0) for row, start, end, *_ in instances])

    def remember(self, features: Sequence[FeatureBatch], batch: Batch) -> None:
        """Adds the vectors of a batch to the sums of their senses."""
        instances, senses = batch.targets["senses"].cpu().unbind(dim=1)
        self.sums.index_add_(0, senses, self.vectors(features, batch)[instances])
        self.filled = True

    def nearest(self, vector: Tensor, first: int, past: int) -> str:
        """The sense in a range with the highest cosine, the first of equal ones; a sum has its mean's direction."""
        cosines = nn.functional.cosine_similarity(vector, self.sums[first:past], dim=-1)  # (senses,)
        return self.senses[first + int((cosines >= cosines.max() - TIE).nonzero()[0])]

    def loss(self, features: Sequence[FeatureBatch], batch: Batch) -> Tensor:
        """Zero: nothing is trained."""
        return torch.zeros(())

    def decode(self, features: Sequence[FeatureBatch], batch: Batch) -> list[list[str]]:
        """The nearest sense of each instance; NO_ANSWER where training does not have its entry."""
        if self.answers and not self.filled:
            raise InputError("task=wsd_probe: expected the vectors of senses, found none. Run the probe again")
        predicted: list[list[str]] = [[] for _ in batch.ids]
        instances: list[list[int]] = batch.targets["instances"].tolist()
        for (row, _, _, first, past), vector in zip(instances, self.vectors(features, batch), strict=True):
            known = self.answers and first < past
            predicted[row].append(self.nearest(vector, first, past) if known else NO_ANSWER)
        return predicted


class WsdProbe(Task[SenseSentence, WsdSettings]):
    """Senses of words by their nearest neighbour in training, scored as the WSD evaluation framework does."""

    name = "wsd_probe"
    metric = "f1"
    metrics = METRICS
    recipe = 1
    settings_type = WsdSettings
    places = ("input",)

    def __init__(self, settings: WsdSettings, reader: NoSettings) -> None:
        super().__init__(settings, reader)
        self.first_senses: Mapping[str, str] = {}  # of WordNet, if its file is among those of training
        self.lexicon: Mapping[str, Sequence[str]] = {}  # the senses of each entry in training, the most frequent first
        self._senses: Mapping[str, int] = {}  # the number of each; those of an entry follow each other

    def read(self, path: Path, split: Split) -> list[SenseSentence]:
        """The sentences of a file; WordNet's index of senses has none, and is kept for the back-off."""
        if path.name == WORDNET:
            self.first_senses = read_first_senses(path)
            return []
        return read_sentences(path)

    def prediction_fields(self, example: SenseSentence, prediction: Sequence[str]) -> dict[str, Any]:
        """The words, and the sense of each instance after the back-off."""
        senses = [
            {"label": sense or self.back_off(instance.entry)}
            | span_fields(example.words, (), instance.start, instance.end)
            for instance, sense in zip(example.instances, prediction, strict=True)
        ]
        return {"tokens": list(example.words), "senses": senses}

    def usable(self, example: SenseSentence) -> bool:
        """Whether a word of the sentence has a sense."""
        return bool(example.instances)

    def counts(self, examples: Sequence[SenseSentence]) -> dict[str, int]:
        """Sentences, tokens, and words with a sense."""
        return {**super().counts(examples), "instances": sum(len(example.instances) for example in examples)}

    def notes(self, examples: Sequence[SenseSentence]) -> dict[str, object]:
        """The answer of `back_off`."""
        without_wordnet = "the most frequent sense in training; none for an entry that training does not have"
        return {"back_off": "WordNet's first sense" if self.first_senses else without_wordnet}

    def learn_labels(self, train: Sequence[SenseSentence]) -> None:
        """Sets the senses of each entry to those of training."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for example in train:
            for instance in example.instances:
                for sense in instance.senses:
                    counts[entry_of(sense)][sense] += 1
        self.lexicon = {entry: sorted(of, key=lambda sense: (-of[sense], sense)) for entry, of in counts.items()}
        self._senses = {sense: number for number, sense in enumerate(chain.from_iterable(self.lexicon.values()))}

    def targets(self, examples: Sequence[SenseSentence]) -> dict[str, Tensor]:
        """Numbers for the memory.

        `instances` (instances, 5): example, start and end, and the range of the entry's senses, empty if training does
        not have it. `senses` (any number, 2): pairs of an instance and one of its senses that training has.
        """
        rows: list[tuple[int, ...]] = []
        known: list[tuple[int, int]] = []
        for row, example in enumerate(examples):
            for instance in example.instances:
                known += [(len(rows), self._senses[sense]) for sense in instance.senses if sense in self._senses]
                candidates = self.lexicon.get(instance.entry, ())
                first = self._senses[candidates[0]] if candidates else 0
                rows.append((row, instance.start, instance.end, first, first + len(candidates)))
        return {"instances": torch.tensor(rows), "senses": torch.tensor(known, dtype=torch.long).view(-1, 2)}

    def build_head(self, widths: Mapping[str, int]) -> Head:
        """An empty memory."""
        return SenseMemory(list(self._senses), widths["input"], self.settings.answer == "nearest")

    def fit(
        self,
        trainer: Trainer,
        model: TaskModel,
        train: Sequence[SenseSentence],
        dev: Sequence[SenseSentence],
        state: FitState,
    ) -> dict[str, float]:
        """Fills the memory in one pass over training. Nothing is selected on dev."""
        memory = model.head
        assert isinstance(memory, SenseMemory)
        if model.features.tuned_groups():
            raise InputError("task=wsd_probe trains nothing: expected features.*.tune=false, found true. Leave it out")
        if memory.answers:
            for _, batch, features in trainer.vectors(model, train, "averaging senses"):
                memory.remember(features, batch)
        return trainer.evaluate(model, dev).values

    def back_off(self, entry: str) -> str:
        """WordNet's first sense of an entry; without WordNet the most frequent one in training."""
        if self.first_senses:
            return self.first_senses.get(entry, NO_ANSWER)
        return self.lexicon[entry][0] if entry in self.lexicon else NO_ANSWER

    def gold(self, examples: Sequence[SenseSentence]) -> list[list[str]]:
        """The first of the senses that are right for each instance."""
        return [[instance.senses[0] for instance in example.instances] for example in examples]

    def score(self, examples: Sequence[SenseSentence], predictions: Sequence[Sequence[str]]) -> Scores:
        """F1, precision and recall after the back-off, also by set and by part of speech.

        As the scorer of the framework counts: an answer is correct if it is one of the gold senses; precision is over
        the instances that are answered, recall over all.
        """
        sources = [source for source in SETS if any(example.source == source for example in examples)]
        rows: list[dict[str, float]] = []
        groups: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for example, senses in zip(examples, predictions, strict=True):
            of_sentence = Counter[str](correct=0, answered=0, instances=0)
            for instance, sense in zip(example.instances, senses, strict=True):
                answer = sense or self.back_off(instance.entry)
                counted = {"correct": int(answer in instance.senses), "answered": int(bool(answer)), "instances": 1}
                part_of_speech = PARTS_OF_SPEECH[instance.entry[-1]]
                for counts in (of_sentence, groups["sets", example.source], groups["parts_of_speech", part_of_speech]):
                    counts.update(counted)
            row: dict[str, float] = {**of_sentence}
            for source in sources:
                row |= {f"{source}_{name}": of * (source == example.source) for name, of in of_sentence.items()}
            rows.append(row)
        details: dict[str, dict[str, object]] = {"sets": {}, "parts_of_speech": {}}
        for (group, name), counts in groups.items():
            details[group][name] = {"f1": METRICS["f1"].of_examples([counts]), **counts}
        backed_off = sum(not sense for senses in predictions for sense in senses)
        return Scores.of_examples(METRICS, rows, {**details, "backed_off": backed_off})
