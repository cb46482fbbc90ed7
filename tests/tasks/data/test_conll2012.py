"""CoNLL-2012 columns: documents, frames, mentions, and errors that name the line."""

import pytest

from elmo.common.errors import InputError
from tasks.data.text import Span, read_documents

BEGIN = "#begin document (nw/made/00/up_0001); part 002"
END = "#end document"


def rows(*words, document="nw/made/00/up_0001", separator="\t"):
    """Lines of a sentence from tuples (word, POS, lemma, sense, speaker, arguments..., coreference)."""
    lines = []
    for number, (word, pos, lemma, sense, speaker, *arguments, chain) in enumerate(words):
        cells = [document, "2", str(number), word, pos, "*", lemma, sense, "-", speaker, "*", *arguments, chain]
        lines.append(separator.join(cells))
    return lines


# "Ann wants to sing (": two predicates, Ann in the arguments of both.
WANTS = [
    ("Ann", "NNP", "-", "-", "A_B", "(ARG0*)", "(ARG0*)", "(4|(7)"),
    ("wants", "VBZ", "want", "01", "A_B", "(V*)", "*", "-"),
    ("to", "TO", "-", "-", "A_B", "(ARG1*", "*", "4)"),
    ("sing", "VB", "sing", "02", "A_B", "*)", "(V*)", "-"),
    ("-LRB-", "-LRB-", "-", "-", "-", "*", "*", "(7)"),
]
PLAIN = [("Yes", "UH", "-", "-", "-", "-"), ("/.", ".", "-", "-", "-", "-")]


def read(tmp_path, *lines):
    path = tmp_path / "file.conll"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return list(read_documents(path))


class TestDocuments:
    @pytest.mark.parametrize("separator", ["\t", "    "])
    def test_frames_mentions_and_words(self, tmp_path, separator):
        lines = [BEGIN, *rows(*WANTS, separator=separator), "", *rows(*PLAIN, separator=separator), "", END]
        (document,) = read(tmp_path, *lines)
        assert (document.id, document.part, document.genre) == ("nw/made/00/up_0001", 2, "nw")
        wants, plain = document.sentences
        assert wants.words == ("Ann", "wants", "to", "sing", "(")
        assert wants.pos[:2] == ("NNP", "VBZ")
        assert wants.speakers == ("A_B", "A_B", "A_B", "A_B", "")
        assert wants.predicates == (1, 3)
        assert wants.arguments == (
            (Span("ARG0", 0, 1), Span("V", 1, 2), Span("ARG1", 2, 4)),
            (Span("ARG0", 0, 1), Span("V", 3, 4)),
        )
        assert wants.mentions == (Span("7", 0, 1), Span("4", 0, 3), Span("7", 4, 5))
        assert (plain.line, plain.words, plain.predicates, plain.mentions) == (8, ("Yes", "."), (), ())

    def test_documents_need_no_blank_line_and_may_be_empty(self, tmp_path):
        second = "#begin document (b); part 0"
        documents = read(tmp_path, BEGIN, *rows(*PLAIN), END, second, END)
        assert [(len(document.sentences), document.genre) for document in documents] == [(1, "nw"), (0, "")]

    def test_placeholders_and_an_empty_last_column(self, tmp_path):
        lines = [f"book\t0\t{number}\t{word}" + "\t_" * 8 + "\t" for number, word in enumerate("abc")]
        lines[0] += "(1"
        lines[2] += "1)"
        ((sentence,),) = [
            document.sentences for document in read(tmp_path, "#begin document (book); part 0", *lines, END)
        ]
        assert (sentence.words, sentence.predicates, sentence.mentions) == (("a", "b", "c"), (), (Span("1", 0, 3),))
        assert sentence.speakers == ("", "", "")

    def test_mentions_of_one_chain_may_be_nested(self, tmp_path):
        column = ["(1|(1)", "-", "(1", "1)", "1)"]  # the one that began last ends first
        words = [("w", "NN", "-", "-", "-", cell) for cell in column]
        (document,) = read(tmp_path, BEGIN, *rows(*words), END)
        assert document.sentences[0].mentions == (Span("1", 0, 1), Span("1", 0, 5), Span("1", 2, 4))


def changed(row, column, cell):
    """The rows of WANTS with one cell changed; columns count from the end, coreference is -1."""
    words = [list(word) for word in WANTS]
    words[row][column] = cell
    return rows(*words)


SENTENCE = rows(*WANTS)
DOCUMENT = "expected '#begin document (ID); part 000' and, before the next document, '#end document'"
ARGUMENTS = "expected arguments such as (ARG0*, *, *) or (V*) in column 12, each with its start and its end"
MENTIONS = "expected mentions such as (7), (7 or 7) in column 14, each with its start and its end in the sentence"


@pytest.mark.parametrize(
    ("lines", "line", "expected"),
    [
        (SENTENCE, 1, DOCUMENT),
        ([END], 1, DOCUMENT),
        ([BEGIN, *SENTENCE], 6, "expected '#end document', found the end of the file"),
        ([BEGIN, *SENTENCE, BEGIN], 7, DOCUMENT),
        ([BEGIN, "a b c", END], 2, "expected 12 columns, with the number 0 of a word in column 3 and the word in the"),
        ([BEGIN, SENTENCE[0], SENTENCE[1] + "\t-"], 3, "expected 14 columns, with the number 1"),
        ([BEGIN, *SENTENCE, *SENTENCE, END], 7, "expected 14 columns, with the number 5"),
        ([BEGIN, *SENTENCE[1:], END], 2, "expected 14 columns, with the number 0"),
        ([BEGIN, *changed(2, 0, ""), END], 4, "and the word in the next"),
        ([BEGIN, *changed(2, 0, "[WORD]"), END], 4, "skeleton2conll"),
        ([BEGIN, *changed(1, 3, "-"), END], 2, "found 2 columns and 1 words with a frameset in column 8"),
        ([BEGIN, *changed(0, -3, "ARG0"), END], 2, ARGUMENTS),
        ([BEGIN, *changed(3, -3, "(ARG2*)"), END], 5, ARGUMENTS),
        ([BEGIN, *changed(3, -3, "*"), END], 4, ARGUMENTS),
        ([BEGIN, *changed(4, -2, "*)"), END], 6, "found only the end of one"),
        ([BEGIN, *changed(1, -1, "x"), END], 3, MENTIONS),
        ([BEGIN, *changed(1, -1, "7"), END], 3, MENTIONS),
        ([BEGIN, *changed(1, -1, "9)"), END], 3, MENTIONS),
        ([BEGIN, *changed(2, -1, "-"), END], 2, "found only the start of '4'"),
    ],
)
def test_malformed_lines(tmp_path, lines, line, expected):
    with pytest.raises(InputError) as caught:
        read(tmp_path, *lines)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'file.conll'}, line {line}: ")
    assert expected in message
    assert message.count(". ") >= 1, "no remedy"


def test_documents_before_a_malformed_line_are_read(tmp_path):
    path = tmp_path / "file.conll"
    path.write_text("\n".join([BEGIN, *SENTENCE, END, "oops"]))
    documents = read_documents(path)
    assert len(next(documents).sentences) == 1
    with pytest.raises(InputError, match="line 8"):
        next(documents)
