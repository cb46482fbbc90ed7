"""A predictor to take away: it predicts elsewhere, keeps all columns of a table, and says what it is."""

import csv
import io
import re
import shutil

import pytest

import tasks
from elmo import random_bilm, save_bilm
from elmo.common.files import sha256_of
from tasks.compare import plan as plans
from tasks.compare.answer import OwnAnswer
from tasks.compare.export import export
from tasks.compare.reading import OwnData, OwnExample
from tasks.predict import main as predict
from tests.tasks.making import DRAWN_WORDS

TEXTS = [f"{word} {number}" for number in range(30) for word in ("a fine day", "a bad day")]
SENTENCE = "On these texts it is so."


def answer(best):
    """An answer in which this arm is the best one."""
    scores = {"bag_of_words": 1.0, "glove": 1.0, "elmo": 1.0, "elmo_own": 1.0, best: 2.0}
    return OwnAnswer(SENTENCE, f"{SENTENCE}\n\ntable\n", "", scores)


def exporting(folder, best, own=()):
    """The folder that this arm leaves, elsewhere, without its runs."""
    rows = [OwnExample((text,), "good" if "fine" in text else "poor") for text in TEXTS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(plans.SIZES, "classify", {100: (8, 1, 0.01, 8)})
        patch.setattr(plans, "SHOWN", 0)
        data = OwnData("classify", ["review", "stars"], rows, [])
        plan = plans.make_plan(data, "days", folder / "runs", [1], {"elmo_own": own})
        for _ in range(2):
            assert export(plan, folder / "runs", folder / "model", answer(best)) == best
    shutil.rmtree(folder / "runs")  # it must not need them
    return shutil.move(folder / "model", folder / "elsewhere")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    return exporting(tmp_path_factory.mktemp("export"), "glove")


def test_a_bag_of_words_predicts_elsewhere(tmp_path):
    found = tasks.load_model(exporting(tmp_path, "bag_of_words")).predict(TEXTS)
    assert [one["label"] for one in found] == ["good" if "fine" in text else "poor" for text in TEXTS]
    for one in found:
        assert one["probabilities"].keys() == {"good", "poor"}
        assert max(one["probabilities"], key=one["probabilities"].__getitem__) == one["label"]


def test_a_tuned_bilm_goes_along(tmp_path):
    save_bilm(random_bilm("tiny", 5), tmp_path / "runs" / "own" / "weights.safetensors")
    own = ["features=elmo", *DRAWN_WORDS, f"features.elmo.weights='{tmp_path / 'runs' / 'own'}'"]
    folder = exporting(tmp_path, "elmo_own", own)
    assert {one["label"] for one in tasks.load_model(folder).predict(TEXTS)} <= {"good", "poor"}
    assert "own/weights.safetensors" in (folder / "SHA256SUMS").read_text()


def test_it_predicts_elsewhere(exported):
    (found,) = tasks.load_model(exported).predict(["a fine day"])
    assert found["probabilities"].keys() == {"good", "poor"}
    assert sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-3)


def test_a_table_keeps_its_columns_and_a_bad_row_is_said(exported, tmp_path, capsys):
    table = tmp_path / "new.csv"
    table.write_text('who,review,note\nAda,a fine day,"x, y"\nBo,,none\n')
    assert predict([str(exported), str(table), "--output", "csv"]) == 1
    captured = capsys.readouterr()
    header, first, second = csv.reader(io.StringIO(captured.out))
    assert header == ["who", "review", "note", "prediction", "good", "poor"]
    assert first[:3] == ["Ada", "a fine day", "x, y"]
    assert first[3] == max(zip(map(float, first[4:]), header[4:], strict=True))[1]
    assert second == ["Bo", "", "none", "", "", ""]
    assert "line 3" in captured.err


def test_rows_that_cannot_be_read_keep_their_places(exported, tmp_path, capsys):
    rows = [
        b"who,review",
        b"Ada,a fine day",
        b"Bo",
        b"Cy,a day,or,two",
        b"D\x81,a bad day",  # no letter of Windows-1252 either
        b'Ed,"a "day',
        b"Flo,a bad day",
    ]
    (tmp_path / "new.csv").write_bytes(b"\n".join(rows))
    assert predict([str(exported), str(tmp_path / "new.csv"), "--output", "csv"]) == 1
    captured = capsys.readouterr()
    _, *answers = csv.reader(io.StringIO(captured.out))
    assert [row[:2] for row in answers] == [
        *(["Ada", "a fine day"], ["Bo", ""], ["Cy", "a day,or,two"]),
        *(["D\N{REPLACEMENT CHARACTER}", "a bad day"], ['Ed,"a "day', ""], ["Flo", "a bad day"]),
    ]
    assert [bool(row[2]) for row in answers] == [True, False, False, False, False, True]
    assert re.findall(r"line (\d+): expected ([^,]+), found", captured.err) == [
        *(("3", "2 columns as in the header"), ("4", "2 columns as in the header")),
        *(("5", "UTF-8 text"), ("6", "a table")),
    ]
    assert "4 of 6 have no prediction" in captured.err


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-be"])
def test_other_encodings_are_read_as_they_were_to_train_on(exported, tmp_path, capsys, encoding):
    """Tables and lines of text have the same predictions as in UTF-8."""
    content = "who,review\nZoë,a fine day\nAda,é\n"
    for name, output in (("new.csv", "csv"), ("new.csv", "json"), ("new.txt", "text")):
        said = []
        for mark, as_written in (("", "utf-8"), ("\ufeff" * (encoding == "utf-16-be"), encoding)):
            (tmp_path / name).write_text(mark + content, encoding=as_written)
            assert predict([str(exported), str(tmp_path / name), "--output", output]) == 0
            said.append(capsys.readouterr())
        utf_8, other = said
        assert other.out == utf_8.out
        note = f"tasks.predict: {name} is partly not UTF-8 (line 2): read as Windows-1252; check letters with accents\n"
        assert (utf_8.err, other.err) == ("", note * (encoding == "cp1252"))


def test_a_damaged_row_does_not_change_how_the_others_are_read(exported, tmp_path, capsys):
    """Neither in UTF-8, where Windows-1252 would have letters for all bytes, nor in UTF-16, here half a character."""
    utf_8 = "who,review\nZoë,a fine day\n?,a bad day\nJosé,a bad day\n"
    utf_16 = utf_8.encode("utf-16-le").replace(b"?\0", b"\x00\xd8")
    for content in (utf_8.encode().replace(b"?", b"\xe9"), b"\xff\xfe" + utf_16):
        (tmp_path / "new.csv").write_bytes(content)
        assert predict([str(exported), str(tmp_path / "new.csv"), "--output", "csv"]) == 1
        captured = capsys.readouterr()
        rows = list(csv.reader(io.StringIO(captured.out)))
        assert [row[0] for row in rows] == ["who", "Zoë", "\ufffd", "José"]
        assert [bool(row[2]) for row in rows] == [True, True, False, True]
        assert f"{tmp_path / 'new.csv'}, line 3: expected UTF-8 text, found other bytes" in captured.err
        assert "1 of 3 have no prediction" in captured.err


def test_csv_needs_a_table(exported, tmp_path, capsys):
    (tmp_path / "x.txt").write_text("a day\n")
    assert predict([str(exported), str(tmp_path / "x.txt"), "--output", "csv"]) == 1
    assert "--output csv: expected a file that ends in .csv or .tsv" in capsys.readouterr().err


def test_its_card_and_its_hashes(exported):
    card = (exported / "README.md").read_text()
    assert "On these texts it is so." in card
    assert "`glove`, made of 60 examples" in card
    assert "good, poor" in card
    sums = dict(reversed(line.split()) for line in (exported / "SHA256SUMS").read_text().splitlines())
    assert sums == {path.name: sha256_of(path) for path in exported.iterdir() if path.name != "SHA256SUMS"}
