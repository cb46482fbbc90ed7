"""GAP: places of names in tokens, judgements from chains and scores by hand, and the command with a kept model."""

import pytest

from elmo.common.errors import InputError
from tasks.coref.gap import COLUMNS, chain_with, gap_scores, judged, main, read_gap
from tests.tasks.making import WORDS

TEXT = "Mrs. Ada Lind met Eva Moe in Oslo. Ada Lind's sister saw that she was late."
HEADER = "\t".join(COLUMNS)


def line(number=1, text=TEXT, pronoun="she", a="Ada Lind", b="Eva Moe", truths=("TRUE", "FALSE"), a_offset=None):
    places = text.rindex(pronoun), text.index(a) if a_offset is None else a_offset, text.index(b)
    cells = (f"test-{number}", text, pronoun, places[0], a, places[1], truths[0], b, places[2], truths[1])
    return "\t".join(map(str, (*cells, "http://example.org")))


def written(path, *lines):
    path.write_text("".join(f"{one}\n" for one in (HEADER, *lines)), encoding="utf-8")
    return path


@pytest.fixture
def path(tmp_path):
    other = TEXT.replace("she", "he")
    return written(tmp_path / "gap.tsv", line(), line(2, other, "he", truths=("FALSE", "TRUE")))


def test_names_and_pronouns_are_found_in_the_tokens(path):
    ada, eva = read_gap(path)
    words = [word for sentence in ada.document.sentences for word in sentence]
    assert [words[slice(*span)] for span in (ada.pronoun, *ada.names)] == [["she"], ["Ada", "Lind"], ["Eva", "Moe"]]
    assert [len(sentence) for sentence in ada.document.sentences] == [9, 10]
    assert (ada.feminine, ada.meant) == (True, (True, False))
    assert (eva.feminine, eva.meant) == (False, (False, True))


# Ada Lind is tokens 1 to 3, Eva Moe 4 to 6, the second Ada Lind 9 to 11, "she" 15 to 16.
@pytest.mark.parametrize(
    ("chains", "expected"),
    [
        ((), (False, False)),
        ((((1, 3), (15, 16)),), (True, False)),
        ((((0, 3), (15, 16)), ((4, 6),)), (True, False)),  # with the title
        ((((1, 2), (15, 16)),), (True, False)),  # the first name alone
        ((((1, 3),), ((4, 6), (15, 16))), (False, True)),
        ((((0, 6), (15, 16)), ((1, 3),), ((4, 6),)), (False, False)),  # the names themselves come before what has both
        ((((0, 6), (15, 16)),), (True, True)),
        ((((1, 3), (4, 6), (9, 11)), ((9, 13), (15, 16))), (False, False)),
        ((((1, 3), (4, 6)), ((9, 13),)), (False, False)),  # no mention at the pronoun
        ((((1, 3), (14, 17)),), (False, False)),  # what contains the pronoun is not the pronoun
        ((((1, 3), (14, 17)), ((4, 6), (15, 16))), (False, True)),
        ((((1, 3), (4, 6), (15, 16)),), (True, True)),
    ],
)
def test_a_name_is_meant_if_the_pronoun_is_in_its_chain(path, chains, expected):
    assert judged(read_gap(path)[0], chains) == expected


def test_the_narrowest_mention_around_a_span_comes_before_the_widest_within_it():
    chains = (((0, 9),), ((2, 5),), ((3, 4),), ((1, 6),))
    assert chain_with(chains, (2, 5)) == 1
    assert chain_with(chains, (2, 6)) == 3
    assert chain_with(chains[1:3], (2, 6)) == 0
    assert chain_with(chains, (8, 10)) is None


def test_scores_by_hand(tmp_path):
    """Masculine: 1 right of 2 found and 1 gold. Feminine: 1 right of 1 found and 2 gold."""
    he = TEXT.replace("she", "he")
    file = written(
        tmp_path / "gap.tsv",
        line(1, he, "he"),
        line(2, he, "he", truths=("FALSE", "FALSE")),
        line(3),
        line(4, truths=("FALSE", "TRUE")),
    )
    judgements = [(True, False), (False, True), (True, False), (False, False)]
    scores, bias = gap_scores(read_gap(file), judgements)
    assert scores == {
        "overall": dict.fromkeys(("f1", "precision", "recall"), 200 / 3),
        "masculine": {"f1": pytest.approx(200 / 3), "precision": 50, "recall": 100},
        "feminine": {"f1": pytest.approx(200 / 3), "precision": 100, "recall": 50},
    }
    assert bias == pytest.approx(1)
    nothing, undefined = gap_scores(read_gap(file), [(False, False)] * 4)
    assert nothing["overall"] == {"f1": 0, "precision": 0, "recall": 0}
    assert undefined is None


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        ("a\tb", "line 2: expected 11 columns, ID, .*, found 2 columns"),
        (line(a="Ada", a_offset=3), "line 2: expected the place of 'Ada' in the text as A-offset, found '3'"),
        (line(pronoun="was"), "line 2: expected one of he, him, his, she, her, hers as Pronoun, found 'was'"),
        (line(truths=("yes", "no")), "line 2: expected TRUE or FALSE as A-coref, found 'yes'"),
    ],
)
def test_a_broken_line_is_named(tmp_path, broken, expected):
    with pytest.raises(InputError, match=rf"gap\.tsv, {expected}"):
        read_gap(written(tmp_path / "gap.tsv", broken))


@pytest.mark.parametrize("content", ["", HEADER + "\n", "id\ttext\n"])
def test_a_file_without_texts(tmp_path, content):
    (tmp_path / "gap.tsv").write_text(content)
    with pytest.raises(InputError, match=r"expected (a|the) header"):
        read_gap(tmp_path / "gap.tsv")


@pytest.mark.integration
def test_the_command_scores_a_kept_model(path, command, tmp_path, capsys):
    settings = "task=coref", "data=mini", *WORDS, "limit=2", "trainer.epochs=1", "keep_weights=true"
    code, _, err = command(*settings, f"runs_dir={tmp_path / 'runs'}")
    assert code == 0, err
    (record,) = (tmp_path / "runs").rglob("record.json")
    assert main([str(record.parent), str(path), "--device", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"2 texts of {path}"
    assert [row.split()[0] for row in lines[2:]] == ["overall", "masculine", "feminine", "bias,"]
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty"), str(path)]) == 1
    assert "weights.pt: no such file. Weights are kept by a run with keep" in capsys.readouterr().err
    assert main([str(tmp_path), str(tmp_path / "no.tsv")]) == 1
    assert (
        capsys.readouterr().err
        == f"tasks.coref.gap: {tmp_path / 'no.tsv'}: No such file or directory. Check the path\n"
    )
