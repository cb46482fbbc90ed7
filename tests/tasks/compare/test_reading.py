"""OwnExample data of any form are read as what they are, and what cannot be compared is said in a line."""

import json
import subprocess
import sys
import time

import pytest

from elmo.common.errors import InputError
from tasks.compare.reading import read_own

ANIMALS = ["the cat sleeps on the mat", "a dog barks at the moon", "the old horse eats green grass"]


def rows(count=60, labels=("good", "bad")):
    """Texts of five to six words, all different, each with a label."""
    return [(f"{ANIMALS[i % 3]} number {i}", labels[i % len(labels)]) for i in range(count)]


def table(path, lines, encoding="utf-8"):
    path.write_text("".join(f"{line}\n" for line in lines), encoding=encoding)
    return str(path)


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("header", [True, False])
def test_any_delimiter_with_and_without_a_header(tmp_path, delimiter, header):
    lines = [delimiter.join(row) for row in rows()]
    data = read_own(table(tmp_path / "x.txt", [delimiter.join(("review", "stars"))] * header + lines))
    assert data.task == "classify"
    assert [(row.texts[0], row.label) for row in data.rows] == rows()
    assert list(data.columns) == (["review", "stars"] if header else ["column 1", "column 2"])


def test_commas_in_quotes_do_not_separate(tmp_path):
    data = read_own(
        table(tmp_path / "x.csv", ["label,text", *(f'{label},"{text}, and more"' for text, label in rows())])
    )
    assert data.rows[0].texts == ("the cat sleeps on the mat number 0, and more",)


def test_quotes_between_tabs_are_text(tmp_path):
    data = read_own(
        table(tmp_path / "x.tsv", ["text\tlabel", *(f'"{text} he said\t{label}' for text, label in rows())])
    )
    assert len(data.rows) == 60
    assert data.rows[0].texts[0].startswith('"the cat')


@pytest.mark.parametrize("as_list", [True, False])
def test_json(tmp_path, as_list):
    objects = [{"sentence": text, "label": number % 2} for number, (text, _) in enumerate(rows())]
    lines = [json.dumps(objects)] if as_list else list(map(json.dumps, objects))
    data = read_own(table(tmp_path / "x.jsonl", lines))
    assert [row.label for row in data.rows[:2]] == ["0", "1"]


def test_pairs(tmp_path):
    lines = [f"{number},{text},{text} too,{label}" for number, (text, label) in enumerate(rows())]
    data = read_own(table(tmp_path / "x.csv", ["id,premise,hypothesis,gold_label", *lines]))
    assert (data.task, list(data.columns)) == ("pairs", ["premise", "hypothesis", "gold_label"])
    assert data.rows[1].texts == ("a dog barks at the moon number 1", "a dog barks at the moon number 1 too")


def test_words_with_tags(tmp_path):
    lines = [line for i in range(50) for line in (f"1 Ada{i} NNP B-PER", "2 sleeps VBZ O", "")]
    data = read_own(table(tmp_path / "x.conll", ["# a comment", *lines]))
    assert (data.task, len(data.rows)) == ("ner", 50)
    assert (data.rows[0].texts, data.rows[0].tags) == (("Ada0", "sleeps"), ("B-PER", "O"))


def test_tags_without_spans_are_spans_of_one_word(tmp_path):
    lines = [line for i in range(50) for line in (f"Ada{i}\tNNP", "sleeps\tVBZ", "")]
    data = read_own(table(tmp_path / "x.txt", lines))
    assert data.rows[0].tags == ("B-NNP", "B-VBZ")
    assert "each word has a tag" in data.said[1]


def test_columns_of_conllu_are_words_and_parts_of_speech(tmp_path):
    words = [
        ("1-2", "don't", "_", "_"),
        ("1", "do", "do", "AUX"),
        ("2", "n't", "not", "PART"),
        ("3", "go", "go", "VERB"),
    ]
    lines = ["# text = don't go", *("\t".join([*own, *"_" * 6]) for own in words), ""]
    data = read_own(
        table(tmp_path / "x.conllu", [line.replace("go\t", f"go{i}\t") for i in range(50) for line in lines])
    )
    assert (data.rows[0].texts, data.rows[0].tags) == (("do", "n't", "go0"), ("B-AUX", "B-PART", "B-VERB"))
    assert len(data.rows) == 50


def test_a_word_may_be_the_sign_of_comments_and_lines_may_have_more_columns(tmp_path):
    lines = [f"# newdoc\n#\tO\nAda{i}\tB-X\tmore\n\nBo{i}\tO\n" for i in range(30)]
    data = read_own(table(tmp_path / "x.conll", lines))
    assert [row.texts for row in data.rows[:2]] == [("#", "Ada0"), ("Bo0",)]
    assert data.rows[0].tags == ("O", "B-X")


def test_trees_have_the_label_of_their_root(tmp_path):
    trees = [f"({i % 5} (2 It) (3 ({i % 2} {i}) (1 .)))" for i in range(60)]
    data = read_own(table(tmp_path / "x.txt", trees))
    assert [(row.texts[0], row.label) for row in data.rows[:2]] == [("It 0 .", "0"), ("It 1 .", "1")]


def test_lists_of_words_and_tags(tmp_path):
    rows = [
        {"id": i, "tokens": [f"Ada{i}", "sleeps"], "pos_tags": [3, 4], "ner_tags": ["B-PER", "O"]} for i in range(60)
    ]
    data = read_own(table(tmp_path / "x.jsonl", map(json.dumps, rows)))
    assert (data.task, data.rows[0].texts, data.rows[0].tags) == ("ner", ("Ada0", "sleeps"), ("B-PER", "O"))


def test_a_folder_of_text_files_by_class(tmp_path):
    for number, (text, label) in enumerate(rows()):
        (tmp_path / "texts" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / label / f"{number}.txt").write_text(text)
    data = read_own(str(tmp_path / "texts"))
    assert sorted((row.texts[0], row.label) for row in data.rows) == sorted(rows())


def test_a_dataset_of_the_hub_that_was_saved(tmp_path):
    import datasets

    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})
    content = {"text": [text for text, _ in rows()], "label": [number % 2 for number in range(60)]}
    datasets.DatasetDict({"train": datasets.Dataset.from_dict(content, features)}).save_to_disk(str(tmp_path / "saved"))
    data = read_own(str(tmp_path / "saved"))
    assert [row.label for row in data.rows[:2]] == ["no", "yes"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["title,body,label", *(f"{t} x,{t} and much more of it,{n}" for t, n in rows())], "body and title could be"),
        (["text,label", *(f"{t},{n}" for t, n in rows()), ",good", "a text,"], "2 of 62 rows have no text or no label"),
        (
            ["text,label", *(f"{t},{n}" for t, n in rows()), "a rare one here,odd"],
            "fewer than 5 texts are left out: odd",
        ),
        (["text,label", *(f"{t},{n}" for t, n in rows()), "a,b,c"], "1 rows with another number of columns"),
        (
            ["text,a,b", *(f"{t},{n},{n}" for t, n in rows())],
            "a, b could be the label: used b. For another --columns text,a",
        ),
    ],
)
def test_what_it_did_is_said(tmp_path, lines, said):
    data = read_own(table(tmp_path / "x.csv", lines))
    assert len(data.rows) == 60
    assert any(said in line for line in data.said), data.said


def test_the_longer_of_two_texts_is_used(tmp_path):
    lines = [f"{text} x,{text} and much more of it,{label}" for text, label in rows()]
    path = table(tmp_path / "x.csv", ["title,body,label", *lines])
    assert list(read_own(path).columns) == ["body", "label"]
    assert list(read_own(path, ["title", "label"]).columns) == ["title", "label"]


def test_another_encoding(tmp_path):
    path = table(tmp_path / "x.csv", ["text,label", *(f"café {text},{label}" for text, label in rows())], "latin-1")
    data = read_own(path)
    assert data.rows[0].texts[0].startswith("café")
    assert "not UTF-8 (line 2): read as Windows-1252" in data.said[0]


def test_a_damaged_line_does_not_change_how_the_others_are_read(tmp_path):
    lines = ["text,label", *(f"café {text},{label}" for text, label in rows())]
    (tmp_path / "x.csv").write_bytes("\n".join(lines).encode().replace(b"\xa9", b"", 1))
    data = read_own(str(tmp_path / "x.csv"))
    assert [row.texts[0][:4] for row in data.rows[:2]] == ["caf\ufffd", "café"]
    assert "not UTF-8 (line 2): read as UTF-8" in data.said[0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["text,label", *(f"{text},only" for text, _ in rows())], "at least two labels, found only only"),
        (["text,label", *(f"{text},{i / 7:.2f}" for i, (text, _) in enumerate(rows()))], "found 60 different numbers"),
        (
            ["text,label", *(f"{text},{label}" for text, label in rows(30))],
            "at least 40 distinct texts, 5 of each label, found 30",
        ),
        (["text,label", *(f"the same text,{label}" for _, label in rows())], "at least 40 distinct texts, .* found 1"),
        (["text,label", *(f"{t.upper()}  too,{n}\n{t} too,{n}" for t, n in rows(38))], "at least 40 .* found 38"),
        (["Ada\tB-X", "sleeps\tO", ""] * 50, "at least 40 distinct texts, .* found 1"),
        (["text,label", *(f"{text},{i}x" for i, (text, _) in enumerate(rows(10)))], "5 of each label, found 0"),
        (["text,label", *(f"{t},{i % 20 / 8}" for i, (t, _) in enumerate(rows(600)))], "found 20 different numbers"),
        (["Ada\tO", "sleeps\tO", ""] * 50, "at least two labels, found only O"),
        (["#begin document (a); part 000", "a\t0\t0\tAda\t-"], r"coreference or semantic roles \(CoNLL-2012\)"),
        (
            ["text,name,at,right", *(f"{i} {t} Ada,Ada,{len(f'{i} {t} ')},{n}" for i, (t, n) in enumerate(rows()))],
            "at says where name is in text, so the labels are of places: expected labels of whole texts",
        ),
        (["one", "two"], "found neither"),
        ([], "found neither"),
    ],
)
def test_what_cannot_be_compared(tmp_path, lines, message):
    with pytest.raises(InputError, match=message) as error:
        read_own(table(tmp_path / "x.csv", lines))
    assert "\n" not in str(error.value)


def test_a_column_that_is_not_there(tmp_path):
    path = table(tmp_path / "x.csv", ["text,label", *(f"{text},{label}" for text, label in rows())])
    with pytest.raises(InputError, match=r"expected two or three of text, label\. Name the columns"):
        read_own(path, ["review", "label"])


def test_no_file(tmp_path):
    with pytest.raises(InputError, match="found none"):
        read_own(str(tmp_path / "nothing.csv"))


def test_reading_loads_no_torch(tmp_path):
    """The first line of the command comes before torch is loaded, which takes seconds."""
    path = table(tmp_path / "x.csv", ["text,label", *(f"{text},{label}" for text, label in rows())])
    code = (
        "import sys; from tasks.compare.__main__ import read_own, make_plan; from pathlib import Path; "
        f"data = read_own({path!r}); make_plan(data, 'x', Path({str(tmp_path)!r}), [1]); print('torch' in sys.modules)"
    )
    started = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("bad", ['"a film,good', 'a film,"good'])
def test_an_open_quote_does_not_swallow_the_rest_of_a_table(tmp_path, bad):
    rows = [f"film {number},{'good' if number % 2 else 'bad'}" for number in range(100)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *rows[:60], bad, *rows[60:]]) + "\n")
    with pytest.raises(InputError, match=r"a\.csv, line 62: expected a closing quote"):
        read_own(str(tmp_path / "a.csv"))


def test_the_file_of_readme(repository):
    data = read_own(str(repository / "tasks" / "mini" / "sst5" / "test.txt"))
    assert (data.task, len(data.rows), len({row.label for row in data.rows})) == ("classify", 500, 5)
