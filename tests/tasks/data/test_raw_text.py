"""Raw text for a trained model: lines, fields, words and their characters, and what is said about wrong input."""

import pytest

from tasks.coref.head import CorefSettings
from tasks.coref.task import Coref, CorefReader
from tasks.data.text import fields_of_line, span_fields, tag_columns, tokens_of
from tasks.modules.biattentive import BcnSettings
from tasks.ner import ColumnReader, Ner, NerSettings
from tasks.snli import EsimSettings, PairReader, Snli
from tasks.squad.task import Squad, SquadReader, SquadSettings
from tasks.srl import Srl, SrlSettings
from tasks.sst5 import Sst5, TreeReader
from tasks.task import NoSettings

raw_sentence = Ner(NerSettings(), ColumnReader()).from_raw
raw_phrase = Sst5(BcnSettings(), TreeReader()).from_raw
raw_document = Coref(CorefSettings(), CorefReader()).from_raw
raw_predicate = Srl(SrlSettings(), NoSettings()).from_raw
raw_question = Squad(SquadSettings(), SquadReader()).from_raw
raw_pair = Snli(EsimSettings(), PairReader()).from_raw


def test_a_line_has_as_many_texts_as_the_task_reads():
    assert fields_of_line("a\tb", ["text"]) == {"text": "a\tb"}
    assert fields_of_line("a b\tc", ["context", "question"]) == {"context": "a b", "question": "c"}
    with pytest.raises(ValueError, match="expected context TAB question, found 3 texts between tabs"):
        fields_of_line("a\tb\tc", ["context", "question"])


def test_words_keep_their_hyphens_unless_answers_may_end_there():
    text = "The well-made boat, 1990-2000"
    assert tokens_of(text, inner_cuts=False).words == ("The", "well-made", "boat", ",", "1990-2000")
    assert len(tokens_of(text).words) == 9


def test_a_span_has_its_characters_in_raw_text():
    text = "Yesterday  Mrs.  Ada Lind’s boat sank."  # noqa: RUF001
    example = raw_sentence("7", {"text": text})
    assert (example.id, example.words) == ("7", ("Yesterday", "Mrs.", "Ada", "Lind", "'s", "boat", "sank", "."))
    said = span_fields(example.words, example.offsets, 2, 5)
    assert said == {"text": "Ada Lind 's", "start": 2, "end": 5, "characters": [17, 27]}
    assert text[17:27] == "Ada Lind’s"  # noqa: RUF001
    in_words = raw_sentence("7", {"tokens": list(example.words)})
    assert in_words.words == example.words
    assert span_fields(in_words.words, in_words.offsets, 2, 3) == {"text": "Ada", "start": 2, "end": 3}


def test_the_marked_word_is_the_predicate_and_the_marks_are_no_words():
    text = "Ada (who can't swim) *sold* 2 boats *"
    example = raw_predicate("1", {"text": text})
    assert example.words == ("Ada", "(", "who", "ca", "n't", "swim", ")", "sold", "2", "boats", "*")
    assert example.words[example.predicate] == "sold"
    assert [text[begin:end] for begin, end in example.offsets] == list(example.words)
    assert raw_predicate("1", {"tokens": ["Ada", "sold"], "predicate": 1}).predicate == 1


def test_other_tasks():
    assert raw_phrase("1", {"text": "It isn't well-made."}).words == ("It", "is", "n't", "well-made", ".")
    pair = raw_pair("1", {"sentence1": "A man sleeps.", "sentence2": "Nobody's awake"})
    assert (pair.premise, pair.hypothesis) == (("A", "man", "sleeps", "."), ("Nobody", "'s", "awake"))
    assert pair.label == ""
    asked = raw_question("1", {"context": "It sank in 1990-91.", "question": "When?"})
    assert (asked.passage.tokens.words[-4:], asked.question) == (("1990", "-", "91", "."), ("When", "?"))
    document = raw_document("1", {"text": "Ada left. She came back."})
    assert document.sentences == (("Ada", "left", "."), ("She", "came", "back", "."))
    assert len(document.speakers) == len(document.offsets) == 7
    assert raw_document("1", {"sentences": [["Ada", "left"], ["She"]]}).sentences == (("Ada", "left"), ("She",))


@pytest.mark.parametrize(
    ("read", "fields", "expected"),
    [
        (raw_sentence, {}, "expected words as text, found none"),
        (raw_sentence, {"text": " "}, "expected words as text, found ' '"),
        (raw_sentence, {"tokens": "Ada"}, "expected a list of words as tokens, found 'Ada'"),
        (raw_sentence, {"tokens": ["Ada", ""]}, "expected a list of words as tokens"),
        (raw_predicate, {"text": "Ada sold boats"}, r"between asterisks, as in Ada \*sold\* the boat, found 0"),
        (raw_predicate, {"text": "Ada *sold* *boats*"}, "between asterisks.*, found 2"),
        (raw_predicate, {"text": "Ada *can't* swim"}, "expected one token between asterisks, found 2: ca, n't"),
        (raw_predicate, {"tokens": ["a", "b"]}, "the position of a token, 0 to 1, as predicate, found None"),
        (raw_predicate, {"tokens": ["a", "b"], "predicate": 2}, "0 to 1, as predicate, found 2"),
        (raw_pair, {"sentence1": "A man"}, "expected the fields .*, found no sentence2"),
        (raw_question, {"context": "A man"}, "expected words as question, found none"),
        (raw_document, {"sentences": "x"}, "expected a list of sentences as sentences, found 'x'"),
        (raw_document, {"sentences": ["x"]}, "expected a list of words as a sentence, found 'x'"),
    ],
)
def test_what_is_missing_is_named(read, fields, expected):
    with pytest.raises(ValueError, match=expected):
        read("1", fields)


def test_columns_can_be_read_again():
    assert tag_columns(["Ada", "left"], ["B-PER", "O"]) == "Ada\tB-PER\nleft\tO\n"
