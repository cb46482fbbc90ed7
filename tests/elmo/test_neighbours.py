"""Tests of elmo.neighbours: the nearest uses of a word, in any language, and error messages."""

import numpy as np
import pytest

from elmo import SIZES, random_bilm, save_bilm
from elmo.embed.one_file import read_lines
from elmo.neighbours import main, nearest, static_vectors, uses_of

ENGLISH = """we play football
the play was staged

we play football again
nothing here
the play was long and the play ended
"""
CHINESE = "他 抖 了 一个 包袱\n她 背 着 包袱\n我 抖 了 一个 包袱\n"


@pytest.fixture
def weights(tmp_path):
    save_bilm(random_bilm(SIZES["tiny"], seed=1), tmp_path / "bilm" / "weights.safetensors")
    return tmp_path / "bilm"


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text(ENGLISH, encoding="utf-8")
    return path


def test_uses_come_in_order_with_the_vectors_of_the_biLM(sentences):  # noqa: N802
    bilm = random_bilm(SIZES["tiny"], seed=1)
    lines = [line.words for line in read_lines(sentences)]
    uses, vectors = uses_of(lines, "play", bilm)
    assert [(use.line, use.position) for use in uses] == [(1, 1), (2, 1), (4, 1), (6, 1), (6, 6)]
    wanted = bilm.layers([uses[3].words])[2, 0, 6].numpy()
    np.testing.assert_allclose(vectors[4], wanted / np.linalg.norm(wanted), atol=1e-5)


def test_nearest_leaves_the_query_out_and_puts_the_best_first():
    candidates = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0]], dtype=np.float32)
    found = nearest(candidates[0], candidates, 5, leave_out=[0])
    assert [index for index, _ in found] == [1, 2, 3]
    assert [score for _, score in found] == pytest.approx([0.6, 0.0, -1.0])


def test_the_command_shows_the_nearest_use_and_static_neighbours(weights, sentences, tmp_path, capsys):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("3 2\nplay 1 0\ngame 0.9 0.1\nstone 0 1\n", encoding="utf-8")
    arguments = [str(sentences), "play", "--weights", str(weights), "--vectors", str(vectors), "-k", "1", "--line", "1"]
    assert main(arguments) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "1  we [play] football" in shown[1]
    assert "4  we [play] football again" in shown[2]  # the same words before it, and one more after it
    assert shown[3] == "static vectors: game 0.994"
    assert len(shown) == 4


@pytest.mark.parametrize(
    ("vectors", "neighbour"),
    [
        ("apple 1 0\npear 0.9 0.1\nApple 0 1\nBanana 0.1 0.9\n", "Banana"),  # the exact form, in any line
        ("pear 0.9 0.1\napple 1 0\nBanana 0.1 0.9\n", "pear"),  # else the lower-cased one
    ],
)
def test_static_neighbours_are_those_of_the_form_asked_for(weights, tmp_path, capsys, vectors, neighbour):
    (tmp_path / "vectors.txt").write_text(vectors, encoding="utf-8")
    (tmp_path / "sentences.txt").write_text("Apple sells\nan apple fell\nApple grows\n", encoding="utf-8")
    options = ["--weights", str(weights), "--vectors", str(tmp_path / "vectors.txt"), "-k", "1"]
    assert main([str(tmp_path / "sentences.txt"), "Apple", *options]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"static vectors: {neighbour} ")


def test_any_language(weights, tmp_path, capsys):
    path = tmp_path / "chinese.txt"
    path.write_text(CHINESE, encoding="utf-8")
    assert main([str(path), "包袱", "--weights", str(weights), "--vectors", "none", "-k", "1", "--line", "3"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "3  我 抖 了 一个 [包袱]" in shown[1]
    assert "1  他 抖 了 一个 [包袱]" in shown[2]


def test_more_uses_than_are_shown_are_counted(weights, sentences, capsys):
    sentences.write_text(ENGLISH + "play well\n" * 3, encoding="utf-8")
    assert main([str(sentences), "play", "--weights", str(weights), "--vectors", "none"]) == 0
    assert "3 more uses" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Play"], "expected two uses of 'Play' or more in this spelling, "),
        (["zebra"], "found some in lines: none"),
        (["play", "--line", "5"], "found some in lines: 1, 2, 4, 6, 6"),
        (["nothing"], "found some in lines: 5"),
        (["play", "--vectors", "nowhere.txt"], "'nowhere.txt' is neither a file nor a name: "),
        (["play", "--vectors", "nowhere.txt"], "check --vectors"),
    ],
)
def test_errors_name_the_problem(weights, sentences, capsys, arguments, message):
    assert main([str(sentences), *arguments, "--weights", str(weights)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["play 1 0\ngame 1\n", "play 1 x\n", ""])
def test_malformed_vectors_are_refused_with_their_line(tmp_path, text):
    path = tmp_path / "vectors.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"vectors.txt(, line \d)?: expected"):
        static_vectors(str(path))


def test_no_neighbours_are_refused(tmp_path, capsys):
    assert main([str(tmp_path / "sentences.txt"), "play", "-k", "0"]) == 1
    assert capsys.readouterr().err == "elmo.neighbours: -k: expected at least 1, found 0\n"
