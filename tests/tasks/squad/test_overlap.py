"""The overlap of SQuAD's paragraphs with a text, on a file written here."""

import json

import pytest

from results.records.example_scores import groups_path, read_groups
from tasks.data.datasets import DataConfig, DataSource
from tasks.squad.overlap import main
from tasks.task import SPLITS

SEEN = "The harbour of Elmsworth was dug by hand in 1811, and it silted up within a generation."
CLEAN = "Nothing of this paragraph stands anywhere else, which is all that it has to offer."
NEARLY = "was dug by hand in 1811, and it silted up w"  # 43 characters of the first


@pytest.fixture
def files(tmp_path):
    def paragraph(name, context, count):
        answers = [{"text": context.split()[0], "answer_start": 0}]
        questions = [{"id": f"{name}{i}", "question": "What?", "answers": answers} for i in range(count)]
        return {"context": context, "qas": questions}

    articles = [
        {"title": "A", "paragraphs": [paragraph("a", SEEN, 2), paragraph("b", CLEAN, 1)]},
        {"title": "B", "paragraphs": [paragraph("c", f"Other words. {NEARLY}", 3), paragraph("d", CLEAN + " B.", 2)]},
    ]
    (tmp_path / "dev.json").write_text(json.dumps({"version": "1.1", "data": articles}))
    (tmp_path / "text.txt").write_text(f"A line.\nBefore it. {SEEN} After it.\n")
    return tmp_path


def test_paragraphs_and_articles_that_overlap(files, capsys):
    assert main([str(files / "dev.json"), str(files / "text.txt")]) == 0
    assert capsys.readouterr().out == (
        "1 of 4 paragraphs share 45 characters in a row with the text; in 1 of 2 articles at least 50% of the "
        "paragraphs do\n"
    )


def test_questions_are_kept_as_kinds(files, capsys):
    assert main([str(files / "dev.json"), str(files / "text.txt"), "--groups", str(files / "runs")]) == 0
    config = DataConfig("mine", splits={split: ["dev.json"] for split in SPLITS})
    test = DataSource(config, files).fingerprint()["test"]
    known = read_groups(groups_path(files / "runs", "squad", test))
    assert list(known.ids) == ["a0", "a1", "b0", "c0", "c1", "c2", "d0", "d1"]
    assert list(known.groups["pretraining_text"].labels) == ["overlaps", "clean"]
    assert known.groups["pretraining_text"].of == [0, 0, 1, 1, 1, 1, 1, 1]
    assert capsys.readouterr().out.splitlines()[1] == str(groups_path(files / "runs", "squad", test))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file"),
        ('{"data": [', "expected JSON as in SQuAD 1.1"),
        ('{"data": []}', "expected paragraphs with questions, found none"),
    ],
)
def test_files_that_cannot_be_used(files, capsys, content, reason):
    path = files / "other.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert main([str(path), str(files / "text.txt")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tasks.squad.overlap: ")
    assert str(path) in line
    assert reason in line
