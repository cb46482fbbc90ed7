"""python -m tasks.text, against the shipped files read by hand."""

import os
import subprocess
import sys

import pytest

from tasks.data.datasets import SHIPPED
from tasks.text import main


def printed(capsys, *settings):
    assert main(["data=mini", *settings]) == 0
    return capsys.readouterr().out.splitlines()


def columns(split):
    """The first column of a file in CoNLL's format, a line a sentence."""
    blocks = (SHIPPED / "ner" / f"{split}.txt").read_text(encoding="utf-8").split("\n\n")
    sentences = [" ".join(line.split()[0] for line in block.splitlines() if line.strip()) for block in blocks]
    return [sentence for sentence in sentences if sentence and not sentence.startswith("-DOCSTART-")]


def test_prints_each_training_sentence_once_in_order(capsys):
    found = printed(capsys, "task=ner")
    assert found == list(dict.fromkeys(columns("train")))
    assert not set(found) & (set(columns("dev")) - set(columns("train")))


def test_uses_the_settings_of_the_reader(capsys):
    sentences = printed(capsys, "task=sst5")
    with_phrases = printed(capsys, "task=sst5", "datasets.mini.reader.train_phrases=true")
    lines = (SHIPPED / "sst5" / "train.txt").read_text(encoding="utf-8").splitlines()
    assert len(sentences) == len(set(lines))
    assert len(with_phrases) > 5 * len(sentences)
    assert set(sentences) <= set(with_phrases)


def test_a_passage_comes_once_for_all_its_questions(capsys):
    found = printed(capsys, "task=squad")
    assert len(found) == len(set(found))
    assert any(line.endswith("?") for line in found)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(["task=nerr"], "nerr"), (["task=ner", "data=wnut17", "data_dir=/nowhere"], "/nowhere")],
)
def test_names_what_is_wrong(capsys, settings, expected):
    assert main(settings) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tasks.text: ")
    assert expected in captured.err


def test_help_shows_how_to_tune_a_bilm(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert "elmo.pretrain init=small" in capsys.readouterr().out


@pytest.mark.processes
def test_a_closed_pipe_ends_it_without_a_message():
    """As in `python -m tasks.text task=ner | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "tasks.text", "task=ner", "data=mini"],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, ""), "as shells say it of a program that SIGPIPE ended"
