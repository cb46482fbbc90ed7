"""Reads labelled data of any common form, and says what it found: delimiter, columns and task. Loads no torch."""

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, permutations
from pathlib import Path
from typing import Any, Literal

from elmo.common.errors import InputError
from elmo.common.files import LONGEST_TEXT, UNDECODED, decoded_lines, encoding_of, parse_json

DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
LOOKED_AT = 500  # rows by which the form of a table is found
LEAST = 40  # distinct texts; equal ones are in one part
MOST_RARE = 5  # a label of fewer texts cannot be in all parts
MOST_CLASSES = 200
MOST_NUMBERS = 10  # of different numbers that are classes
LABEL_WORDS, TEXT_WORDS = 4, 2.5  # labels are shorter on average, and texts longer
LABELS = (
    *("label", "labels", "class", "category", "target", "sentiment", "gold_label", "y", "intent", "topic", "stars"),
    *("rating", "polarity", "stance", "emotion", "tag", "output", "coarse_label", "is_duplicate", "quality"),
)
TEXTS = (
    *("text", "sentence", "review", "comment", "tweet", "content", "body", "message", "document", "utterance"),
    *("question", "query", "description", "abstract"),
)
PAIRED = [
    ("premise", "hypothesis"),
    *(("sentence1", "sentence2"), ("text1", "text2"), ("question1", "question2"), ("s1", "s2")),
    *(("text_a", "text_b"), ("sentence_a", "sentence_b"), ("question", "answer"), ("query", "passage")),
]
REMEDY = "Name the columns: --columns TEXT,LABEL, or for pairs --columns TEXT,TEXT,LABEL"
_TAG = re.compile(r"[BIESLUM]-\S+|O")
_TREE = re.compile(r"\((\S+) .*\)")
_NO_SPACE = re.compile(r"\s+|^$")
CONLLU, UPOS = 10, 3  # columns of CoNLL-U, and the one of parts of speech
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class OwnExample:
    """An example: its texts, or the words of a sentence, and its label, or the tags of the words."""

    texts: tuple[str, ...]
    label: str
    tags: tuple[str, ...] = ()


@dataclass
class OwnData:
    """The examples that were read.

    Attributes:
        task: the task that a comparison runs: classify, pairs or ner.
        columns: the names of the columns of the texts and of the label; a predictor reads tables by them.
        rows: the examples.
        said: what was found, a line each.
    """

    task: str
    columns: Sequence[str]
    rows: list[OwnExample]
    said: list[str]

    @property
    def labels(self) -> list[str]:
        """The labels, or those of the spans that the tags mark."""
        return sorted({tag[2:] for row in self.rows for tag in row.tags if tag[2:]} or {row.label for row in self.rows})


def read_own(given: str, columns: Sequence[str] = ()) -> OwnData:
    """Reads a file, a folder of text files by class, or a dataset of the Hugging Face library.

    Args:
        given: a path, or a name on the hub.
        columns: the columns of the text, or of both texts, and last of the label; found by themselves if empty.

    Raises:
        InputError: it cannot be read, or does not say which columns or task are meant.
    """
    path, said = Path(given).expanduser(), list[str]()
    saved = any((path / name).exists() for name in ("dataset_dict.json", "state.json"))
    if saved or (not path.exists() and re.fullmatch(r"[\w-]+(/[\w.-]+)?", given)):
        data = _of_table(*_hub_rows(given, saved), columns)
    elif path.is_dir():
        files = sorted(file for file in path.rglob("*.txt") if file.parent != path)
        if not files:
            raise InputError(
                f"{given}: expected text files (.txt) in a folder for each class, found none. Name one file"
            )
        rows = [OwnExample((_decoded(file, said),), file.parent.name) for file in files]
        said = [f"{len(files):,} text files (.txt), each in the folder of its class", *said[:1]]
        data = OwnData("classify", ("text", "label"), rows, [])
    elif path.is_file():
        text = _decoded(path, said)
        if text.lstrip()[:1] in ("{", "["):
            data = _of_table(*_json_rows(path, text), columns)
        else:
            data = _trees(text) or _tagged(text) or _of_table(*_delimited(path, text), columns)
    else:
        raise InputError(f"{given}: expected a file, a folder or the name of a dataset, found none. Check the path")
    data.said[:0] = said
    return _checked(data)


def _decoded(path: Path, said: list[str]) -> str:
    """The text of a file; if it is not UTF-8, that is said."""
    said += filter(None, encoding_of(path)[1:])
    return UNDECODED.sub("\N{REPLACEMENT CHARACTER}", "".join(decoded_lines(path, tolerant=True)))


def _delimited(path: Path, text: str) -> tuple[list[str], Rows, str]:
    """The columns and rows of a table, and its form in words; rows of another length are left out."""
    csv.field_size_limit(LONGEST_TEXT)
    readings: list[tuple[float, int, str, int, list[list[str]]]] = []
    for delimiter in DELIMITERS:
        # Between tabs is plain text, where a quote may be anywhere, unless quotes enclose cells.
        plain = delimiter == "\t" and not re.search(r'(^|\t)"[^\t\n]*"(\t|\n|$)', text[:100_000])
        quoting: Literal[0, 3] = csv.QUOTE_NONE if plain else csv.QUOTE_MINIMAL
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting) if row]
        width, count = Counter(map(len, rows[:LOOKED_AT])).most_common(1)[0] if rows else (0, 0)
        if width > 1:
            readings.append((round(count / len(rows[:LOOKED_AT]), 1), -len(readings), delimiter, width, rows))
    if not readings:
        raise InputError(
            f"{path}: expected columns between {', '.join(DELIMITERS.values())}, or words with tags, found neither. "
            "Save it as CSV with a text and a label in each row"
        )
    _, _, delimiter, width, rows = max(readings)
    last = rows[-1][-1].rstrip("\n")
    if "\n" in last and not text.rstrip().endswith('"'):  # csv takes all that follows as one cell
        line = text.rstrip("\n").count("\n") - last.count("\n") + 1
        raise InputError(f"{path}, line {line}: expected a closing quote, found none up to the end. Check the quotes")
    header = [name.strip() for name in rows[0]] if _is_header(rows) else []
    names = header or [f"column {number}" for number in range(1, width + 1)]
    kept = [dict(zip(names, row, strict=True)) for row in rows[bool(header) :] if len(row) == width == len(names)]
    left_out = len(rows) - bool(header) - len(kept)
    form = f"columns between {DELIMITERS[delimiter]}" + ", no header" * (not header)
    return names, kept, form + f"; {left_out:,} rows with another number of columns are left out" * bool(left_out)


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns."""
    first, others = [cell.strip().lower() for cell in rows[0]], rows[1:LOOKED_AT]
    names = len(set(first)) == len(first) and all(re.fullmatch(r"[^\W\d][\w .-]{0,40}", cell) for cell in first)
    again = any(cell.strip().lower() == first[at] for row in others for at, cell in enumerate(row[: len(first)]))
    return names and (not again or bool(set(first) & {*LABELS, *TEXTS}))


def _json_rows(path: Path, text: str) -> tuple[list[str], Rows, str]:
    """The columns and rows of JSON lines, or of a list of objects."""
    try:
        whole = text.lstrip().startswith("[")
        rows = parse_json(text) if whole else [parse_json(line) for line in text.splitlines() if line.strip()]
        return list(dict.fromkeys(name for row in rows[:LOOKED_AT] for name in row)), rows, "JSON"
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path}: expected JSON objects, a line each, found: {error}. Correct the file") from error


def _hub_rows(given: str, saved: bool) -> tuple[list[str], Rows, str]:
    """The columns and rows of a dataset, all of its splits together; numbers of classes become their names."""
    import datasets  # imported here: slow to import

    from tasks.data.datasets import labelled

    try:
        content = datasets.load_from_disk(given) if saved else datasets.load_dataset(given)
    except Exception as error:  # the library raises errors of any kind
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{given}: no such file, nor a dataset that the hub's library can load: {reason}") from error
    rows = []
    for split in content.values() if isinstance(content, dict) else [content]:
        columns = {name: labelled(split[name], kind) for name, kind in split.features.items()}
        rows += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return list(rows[0]), rows, "a Hugging Face dataset, all of its splits together"


def _trees(text: str) -> OwnData | None:
    """The sentences of treebank trees, a line each, with the label of the whole tree; None if these are none."""
    trees = [_TREE.fullmatch(line.strip()) for line in text.split("\n") if line.strip()]
    if not trees or not all(trees[:LOOKED_AT]):
        return None
    rows = [OwnExample((" ".join(re.findall(r"([^\s()]+)\)", tree[0])),), tree[1]) for tree in trees if tree]
    return OwnData("classify", ("text", "label"), rows, ["trees, each with the label of its root"])


def _tagged(text: str) -> OwnData | None:
    """Sentences of words with tags in columns, with a blank line after each; None if the text is something else.

    Raises:
        InputError: there are columns of another task.
    """
    if text.startswith("#begin document"):
        raise InputError(
            "expected labelled texts, pairs or tagged words, found columns of coreference or semantic roles "
            "(CoNLL-2012). For these: python -m tasks.run task=coref, or task=srl"
        )
    lines = [line.rstrip("\r ") for line in text.split("\n") if not line.startswith("-DOCSTART-")]
    delimiter = "\t" if any("\t" in line.strip() for line in lines[:LOOKED_AT]) else None
    split = [line.split(delimiter) if line.strip() else [] for line in lines]
    width = max(Counter(map(len, filter(None, split))).items(), key=lambda it: it[1], default=(0, 0))[0]
    # A line that begins with # is a comment, unless it has a tag like others.
    last = {row[-1] for row in split if 0 < len(row) == width and not row[0].startswith("#")}
    split = [row for row in split if not row or not row[0].startswith("#") or (len(row) == width and row[-1] in last)]
    conllu = width == CONLLU and delimiter == "\t"
    cells = [
        [row for row in block if len(row) >= width and not (conllu and re.fullmatch(r"\d+[-.]\d+", row[0]))]
        for blank, block in groupby(split, lambda row: not row)
        if not blank
    ]
    cells = list(filter(None, cells))
    columns = list(zip(*(row[:width] for sentence in cells for row in sentence), strict=True))
    in_sentences = width > 1 and len(cells) >= max(2, len(lines) / 300)
    if not in_sentences or sum(" " in word for word in columns[0]) > len(columns[0]) / 50:
        return None
    word = int(width > 2 and all(map(str.isdigit, columns[0])))
    spans = [place for place in range(width) if all(map(_TAG.fullmatch, columns[place]))]
    tag = spans[-1] if spans else UPOS if conllu else width - 1
    said = [f"{width} columns, words in column {word + 1}, tags in column {tag + 1}"]
    if left_out := sum(0 < len(row) < width for row in split):
        said.append(f"{left_out:,} lines with fewer columns are left out")
    return _of_words([([row[word] for row in rows], [row[tag] for row in rows]) for rows in cells], said)


def _of_words(sentences: Sequence[tuple[Sequence[str], Sequence[str]]], said: list[str]) -> OwnData:
    """The examples of words and tags."""
    spans = all(_TAG.fullmatch(tag) for _, tags in sentences for tag in tags)
    if not spans:
        said.append("each word has a tag, scored as a span of one word")
    rows = []
    for words, given in sentences:
        tags = tuple(given if spans else (f"B-{tag}" for tag in given))
        rows.append(OwnExample(tuple(words), str(set(tags) == {"O"}), tags))
    return OwnData("ner", ("words", "tags"), rows, said)


def _of_lists(names: Sequence[str], rows: Rows, form: str) -> OwnData | None:
    """The examples of a table whose cells are lists of words and of their tags; None if there are none."""
    lists = [name for name in names if all(isinstance(row.get(name), list) for row in rows[:LOOKED_AT])]
    words = next((name for name in lists if re.search("token|word", name.lower())), "")
    alike = [name for name in lists if words and all(len(row[name]) == len(row[words]) for row in rows)]
    tags = [name for name in alike if name != words]
    if not tags:
        return None
    tag = next((name for name in tags if "ner" in name.lower()), tags[-1])
    kept = [([_NO_SPACE.sub("_", it) for it in row[words]], list(map(str, row[tag]))) for row in rows if row[tag]]
    return _of_words(kept, [form, f"words in {words}, tags in {tag}"])


def _of_table(names: Sequence[str], rows: Rows, form: str, columns: Sequence[str]) -> OwnData:
    """The examples of a table, in the columns that are given, or found by names and values."""
    said = [form]
    if not columns:
        if data := _of_lists(names, rows, form):
            return data
        columns = _columns(names, rows, said)
    elif len(columns) not in (2, 3) or not set(columns) <= set(names):
        raise InputError(f"--columns {','.join(columns)}: expected two or three of {', '.join(names)}. {REMEDY}")
    *texts, label = columns
    examples = [OwnExample(tuple(_cell(row, name) for name in texts), _cell(row, label)) for row in rows]
    kept = [one for one in examples if all(one.texts) and one.label not in ("", "-")]
    said.append(f"text in {' and '.join(texts)}, label in {label}")
    if len(kept) < len(examples):
        said.append(f"{len(examples) - len(kept):,} of {len(examples):,} rows have no text or no label: left out")
    return OwnData("pairs" if len(texts) > 1 else "classify", columns, kept, said)


def _cell(row: Mapping[str, Any], name: str) -> str:
    return "" if row.get(name) is None else str(row[name]).strip()


def _columns(names: Sequence[str], rows: Rows, said: list[str]) -> list[str]:
    """The columns of the text, or of both texts, and of the label."""
    values = {name: list(filter(None, (_cell(row, name) for row in rows[:LOOKED_AT]))) for name in names}
    words = {name: sum(len(cell.split()) for cell in cells) / max(len(cells), 1) for name, cells in values.items()}
    lower = {name.lower(): name for name in names}
    short = [name for name in names if words[name] <= LABEL_WORDS and len(set(values[name])) <= len(values[name]) / 2]
    labels = [*(lower[name] for name in LABELS if name in lower), *reversed(short)]
    if not labels:
        raise InputError(f"expected a column of labels that repeat, found none among {', '.join(names)}. {REMEDY}")
    label = labels[0]
    for first, second in PAIRED:
        if {first, second} <= lower.keys():
            return [lower[first], lower[second], label]
    named = [lower[name] for name in TEXTS if name in lower and lower[name] != label]
    long = [name for name in names if name != label and words[name] >= TEXT_WORDS]
    texts = [*(name for name in named if name in long), *sorted(long, key=words.__getitem__, reverse=True), *named]
    if not texts:
        raise InputError(f"expected a column of texts, found none among {', '.join(names)}. {REMEDY}")
    text = texts[0]
    for place, mention in permutations([name for name in names if name != text], 2):
        if all(_is_place(row, text, place, mention) for row in rows[:LOOKED_AT]):
            raise InputError(
                f"{place} says where {mention} is in {text}, so the labels are of places: expected labels of whole "
                f"texts, of pairs, or of words (columns of words and tags). For whole texts: --columns {text},{label}"
            )
    if label not in map(lower.get, LABELS) and len(short) > 1:
        said.append(f"{', '.join(short)} could be the label: used {label}. For another --columns {text},{short[0]}")
    if others := [name for name in dict.fromkeys(texts[1:]) if name != texts[0] and name in long]:
        said.append(
            f"{texts[0]} and {', '.join(others)} could be the text: used {texts[0]}. For another --columns "
            f"{others[0]},{label}, for pairs --columns {texts[0]},{others[0]},{label}"
        )
    return [texts[0], label]


def _is_place(row: Mapping[str, Any], text: str, place: str, mention: str) -> bool:
    """Whether a cell is the number of a character in the text, where that of another column begins."""
    start, part = _cell(row, place), _cell(row, mention)
    return bool(part) and start.isdecimal() and _cell(row, text)[int(start) :].startswith(part)


def _checked(data: OwnData) -> OwnData:
    """The data without what cannot be compared, each with a line that says so.

    Raises:
        InputError: there is one class only, the labels are numbers, or there are too few distinct texts.
    """
    counts, column = Counter(row.label for row in data.rows), data.columns[-1]
    numbers = {label for label in counts if re.fullmatch(r"[-+]?\d*[.,]?\d+", label)}
    if data.task != "ner":
        most = max(MOST_CLASSES if len(numbers) < len(counts) else MOST_NUMBERS, len(data.rows) / 20)
        if len(counts) > (MOST_NUMBERS if any(re.search("[.,]", label) for label in numbers) else most):
            many = f"{len(counts):,} different {'numbers' if len(numbers) == len(counts) else 'values'}"
            raise InputError(f"{column}: expected classes, such as low and high, found {many}. {REMEDY}")
        if rare := [label for label in counts if counts[label] < MOST_RARE]:
            data.rows = [row for row in data.rows if row.label not in rare]
            data.said.append(f"labels of fewer than {MOST_RARE} texts are left out: {', '.join(rare)[:80]}")
    kinds = {tag for row in data.rows for tag in row.tags} or {row.label for row in data.rows}
    if data.task == "ner" and len(kinds) > MOST_CLASSES:
        raise InputError(f"{column}: expected at most {MOST_CLASSES} different tags, found {len(kinds):,}. Merge some")
    if data.rows and len(kinds) < 2:
        raise InputError(f"{column}: expected at least two labels, found only {', '.join(kinds)}. {REMEDY}")
    distinct = {tuple(" ".join(text.lower().split()) for text in row.texts) for row in data.rows}
    if (few := len(distinct)) < LEAST:
        raise InputError(f"expected at least {LEAST} distinct texts, {MOST_RARE} of each label, found {few}. Add more")
    return data
