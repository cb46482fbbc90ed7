"""CoNLL column files and rows: their contents, errors with file and line, and the tags of batches."""

import random
import re

import pytest

from elmo.common.errors import InputError
from tasks.data.text import Span
from tasks.ner import ColumnReader, Ner, NerExample, NerSettings, read_columns
from tests.tasks.data.test_tag_schemes import random_spans

TWO_SENTENCES = "EU I-ORG\nrejects O\n\nPeter I-PER\nBlackburn I-PER\n"


def read(tmp_path, content, **settings):
    path = tmp_path / "some.train"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_columns(path, ColumnReader(**settings))


def simple(examples):
    """Words and spans, without ids and tags."""
    return [(example.words, [tuple(span) for span in example.spans]) for example in examples]


EXPECTED = [(("EU", "rejects"), [("ORG", 0, 1)]), (("Peter", "Blackburn"), [("PER", 0, 2)])]


class TestShapesOfFiles:
    @pytest.mark.parametrize(
        "content",
        [
            TWO_SENTENCES,
            TWO_SENTENCES.replace(" ", "\t"),
            TWO_SENTENCES.replace(" ", "   "),
            TWO_SENTENCES.replace("\n", "\r\n"),
            "\ufeff" + TWO_SENTENCES,
            ("\ufeff" + TWO_SENTENCES).replace("\n", "\r\n"),
            TWO_SENTENCES.rstrip("\n"),
            "\n\n" + TWO_SENTENCES.replace("\n\n", "\n\n\n \n") + "\n\n\n",
            TWO_SENTENCES.replace("\n\n", "\n\t\n"),
            "-DOCSTART- O\n\n" + TWO_SENTENCES,
            TWO_SENTENCES.replace("\n\n", "\n-DOCSTART- O\n"),
            "EU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\nPeter NNP I-NP I-PER\nBlackburn NNP I-NP I-PER\n",
            "EU a b c d e f I-ORG\nrejects a b c d e f O\n\nPeter a b c d e f I-PER\nBlackburn a b c d e f I-PER\n",
            "EU B-ORG\nrejects O\n\nPeter B-PER\nBlackburn I-PER\n",
            "EU U-ORG\nrejects O\n\nPeter B-PER\nBlackburn L-PER\n",
            "EU S-ORG\nrejects O\n\nPeter B-PER\nBlackburn E-PER\n",
        ],
    )
    def test_the_same_two_sentences(self, tmp_path, content):
        assert simple(read(tmp_path, content)) == EXPECTED

    def test_docstart_with_other_columns_than_the_rest(self, tmp_path):
        assert simple(read(tmp_path, "-DOCSTART- -X- O O\n\n" + TWO_SENTENCES)) == EXPECTED

    def test_word_and_tag_columns(self, tmp_path):
        content = "1\tEU\tI-ORG\t-\n2\trejects\tO\t-\n\n1\tPeter\tI-PER\t-\n2\tBlackburn\tI-PER\t-\n"
        assert simple(read(tmp_path, content, word_column=1, tag_column=2)) == EXPECTED

    def test_ragged_lines_only_where_asked_for(self, tmp_path):
        content = "1\tEU\tI-ORG\t-\tstephen\n2\trejects\tO\n\n1\tPeter\tI-PER\t-\n2\tBlackburn\tI-PER\n"
        assert simple(read(tmp_path, content, word_column=1, tag_column=2, ragged=True)) == EXPECTED
        with pytest.raises(InputError, match="line 2: expected 5 columns"):
            read(tmp_path, content, word_column=1, tag_column=2)
        with pytest.raises(InputError, match=r"line 3: .*'3\\tno'"):
            read(tmp_path, "1\tEU\tI-ORG\n\n3\tno\n", word_column=1, tag_column=2, ragged=True)

    def test_comments_only_where_asked_for(self, tmp_path):
        content = "# sent_id = 7\n# text = EU rejects\n" + TWO_SENTENCES.replace(" ", "\t")
        assert simple(read(tmp_path, content, comments=True)) == EXPECTED
        with pytest.raises(InputError):
            read(tmp_path, content)
        hashes = "#\tO\n# \tO\n#tag\tO\n"
        assert read(tmp_path, hashes)[0].words == ("#", "# ", "#tag")
        assert read(tmp_path, hashes, comments=True)[0].words == ("#", "#tag")

    def test_ignored_labels_are_no_entities(self, tmp_path):
        content = "EU I-OTH\nis O\nPeter I-PER\n"
        assert simple(read(tmp_path, content, ignore_labels=["OTH"]))[0][1] == [("PER", 2, 3)]

    def test_words_of_any_script_and_with_odd_separators_inside(self, tmp_path):
        """Only line feeds end a line and only tabs split one that has tabs: tweets hold the others."""
        words = ("Łódź", "日本", "🙂", "a\u2028b", "c\u0085d", "e\x0bf", "g h", "i\u00a0j", "")
        content = "".join(f"{word}\tO\n" for word in words)
        assert read(tmp_path, content)[0].words == words

    def test_ids_name_the_file_and_the_sentence(self, tmp_path):
        assert [example.id for example in read(tmp_path, TWO_SENTENCES)] == ["some.train:0", "some.train:1"]

    def test_an_empty_file_has_no_sentences(self, tmp_path):
        assert read(tmp_path, "") == []
        assert read(tmp_path, "\n\n-DOCSTART- O\n\n") == []


class TestErrors:
    @pytest.mark.parametrize(
        ("content", "line", "what"),
        [
            ("EU I-ORG\nrejects\n", 2, "expected 2 columns, with word_column=0 and tag_column=-1, found 1: 'rejects'"),
            (
                "EU I-ORG\n\nrejects X O\n",
                3,
                "expected 2 columns, with word_column=0 and tag_column=-1, found 3: 'rejects X O'",
            ),
            ("EU\n", 1, "expected 2 columns, with word_column=0 and tag_column=-1, found 1: 'EU'"),
            ("EU I-ORG\nrejects Q-PER\n", 2, "expected a tag such as O, B-PER or I-PER, found 'Q-PER'"),
            ("EU I-ORG\nrejects NN\n", 2, "found 'NN'"),
            ("EU\tI-ORG\nrejects\t\n", 2, "found ''"),
        ],
    )
    def test_names_file_line_and_text(self, tmp_path, content, line, what):
        with pytest.raises(InputError) as caught:
            read(tmp_path, content)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path / 'some.train'}, line {line}: ")
        assert what in message
        assert repr(content.splitlines()[line - 1]) in message

    @pytest.mark.parametrize(("word", "tag"), [(5, -1), (0, 5), (-6, -1)])
    def test_a_column_that_is_not_there(self, tmp_path, word, tag):
        with pytest.raises(InputError) as caught:
            read(tmp_path, TWO_SENTENCES, word_column=word, tag_column=tag)
        assert str(caught.value) == (
            f"{tmp_path / 'some.train'}, line 1: expected 6 columns, with word_column={word} and "
            f"tag_column={tag}, found 2: 'EU I-ORG'. Correct the line, or data.reader"
        )

    def test_bytes_that_are_no_utf8(self, tmp_path):
        with pytest.raises(InputError, match=r"some\.train, line 3: expected UTF-8 text, found: .* at byte 4"):
            read(tmp_path, b"EU I-ORG\n\nPet\xe9r I-PER\n".replace(b"Pet\xe9", b"Pete\xe9"))


class TestTask:
    @pytest.fixture
    def task(self):
        return Ner(NerSettings(), ColumnReader(ignore_labels=["OTH"]))

    @pytest.mark.parametrize(
        ("marked", "expected"),
        [
            ((), [0, 1, 2, 3]),  # a sentence is its own document where none is marked
            ((0,), [0, 0, 0, 0]),
            ((0, 3), [0, 0, 0, 1]),
            ((2,), [0, 1, 2, 2]),
        ],
    )
    def test_sentences_of_one_document_share_its_number(self, task, tmp_path, marked, expected):
        sentences = ["-DOCSTART- O\n\n" * (i in marked) + "EU I-ORG\n\n" for i in range(4)]
        rows = [[{"words": ["-DOCSTART-"], "tags": ["O"]}] * (i in marked) for i in range(4)]
        rows = [row for own in rows for row in [*own, {"words": ["EU"], "tags": ["B-ORG"]}]]
        for examples in (read(tmp_path, "".join(sentences)), task.from_rows(rows, "test")):
            scores = task.score(examples, [["O"]] * 4)
            assert [own["document"] for own in scores.examples] == expected
            assert task.metrics["f1"].unit == "document"

    def test_counts(self, task, tmp_path):
        examples = read(tmp_path, TWO_SENTENCES + "Paul B-PER\n")
        assert task.counts(examples) == {"sentences": 2, "tokens": 5, "entities": 3, "ORG": 1, "PER": 2}
        assert task.notes(examples) == {"scheme": "IOB1"}

    def test_tags_come_from_training_alone(self, task, tmp_path):
        task.learn_labels(read(tmp_path, TWO_SENTENCES))
        assert sorted(task.tags) == sorted(["O", *(f"{p}-{label}" for p in "BIES" for label in ("ORG", "PER"))])

    def test_batches_hold_bioes_tags(self, task, tmp_path):
        examples = read(tmp_path, TWO_SENTENCES + "Paul B-PER\n")
        task.learn_labels(examples)
        batch = task.collate(examples)
        tags = [[task.tags[number] for number in row] for row in batch.targets["tags"].tolist()]
        assert tags == [["S-ORG", "O", "O"], ["B-PER", "E-PER", "S-PER"]]
        assert batch.texts == ([("EU", "rejects"), ("Peter", "Blackburn", "Paul")],)
        assert batch.ids == ["some.train:0", "some.train:1"]

    def test_the_tags_of_a_batch_are_those_of_gold(self, task):
        draw = random.Random(1)
        spans = {f"s{n}": (random_spans(draw, n % 23 + 1), n % 23 + 1) for n in range(60)}
        examples = [NerExample(name, ("w",) * length, tuple(some), ()) for name, (some, length) in spans.items()]
        task.learn_labels(examples)
        rows = task.collate(examples).targets["tags"].tolist()
        for row, gold in zip(rows, task.gold(examples), strict=True):
            assert [task.tags[number] for number in row] == gold + ["O"] * (23 - len(gold))

    def test_a_label_that_is_not_in_training_counts_as_a_miss(self, task, tmp_path):
        task.learn_labels(read(tmp_path, "EU I-ORG\n"))
        new = read(tmp_path, "Paris I-LOC\n")
        assert task.collate(new).targets["tags"].tolist() == [[task.tags.index("O")]]
        assert task.score(new, [["O"]]).examples == [{"tp": 0, "fp": 0, "fn": 1, "document": 0}]

    def test_rows_are_read_like_files(self, task):
        rows = [
            {"words": ["-DOCSTART-"], "tags": ["O"]},
            {"words": [], "tags": []},
            {"words": ["EU", "rejects", "It"], "tags": ["B-ORG", "O", "B-OTH"]},
        ]
        (example,) = task.from_rows(rows, "dev")
        assert (example.words, example.spans) == (("EU", "rejects", "It"), (Span("ORG", 0, 1),))
        assert re.fullmatch(r"dev:\d+", example.id)

    @pytest.mark.parametrize(
        ("row", "what"),
        [
            ({"words": ["EU", "rejects"], "tags": ["B-ORG"]}, "2 words and 1 tags"),
            ({"words": ["EU"], "tags": ["Q"]}, "found 'Q'"),
            ({"words": ["EU"], "tags": [3]}, "found 3"),
        ],
    )
    def test_a_malformed_row_is_named(self, task, row, what):
        good = {"words": ["EU"], "tags": ["B-ORG"]}
        with pytest.raises(InputError, match=r"train, row 1: ") as caught:
            task.from_rows([good, row], "train")
        assert what in str(caught.value)
