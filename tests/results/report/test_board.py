"""The board: bundles as arms, ranked where their differences allow it; a refused one is a finding."""

import csv
import io
import re

import pytest

import results.submit
from results.board.bundle import pack, unpack
from results.experiments import load_experiment
from results.records.collect import PUBLISHED, collect
from results.report.board import BOARD, BUNDLES, board, shows_board, with_bundles
from results.tables.sheet import marks_in, sheets_of
from results.tables.writers import as_csv
from tests.results.making import run_table

STATED = ["--text", "the <news>", "--parameters", "1000000", "--milliseconds", "50", "--measured", "here"]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """ELMo on three tasks; its untrained control on the same, with an overlap; and a bundle that is cut short."""
    folder = tmp_path_factory.mktemp("bundles")
    runs = ["--runs", *(str(PUBLISHED / "mini" / task) for task in ("ner", "sst5", "srl"))]
    for source, *more in (["elmo", "--title", "Ours"], ["elmo_random", "--title", "<b>", "--overlap", "mini/ner=all"]):
        assert results.submit.main(["--source", source, *more, *STATED, *runs, "--out", str(folder)]) == 0
    (folder / "broken.tar.gz").write_bytes((folder / "elmo.tar.gz").read_bytes()[:-99])
    return folder


@pytest.fixture(scope="module")
def table(bundles):
    return board(load_experiment(BOARD), bundles)


def test_sources_by_tasks(table):
    (sheet,) = sheets_of(table)
    lines = {line[0]: dict(zip(sheet.headers, line, strict=True)) for line in sheet.lines}
    assert list(lines) == ["GloVe 50-d", "Ours (elmo)", "<b> (elmo_random)"]
    published = {arm: table_of(arm) for arm in ("glove", "elmo", "elmo_random")}
    for name, arm in zip(lines, published, strict=True):
        for title, shown in published[arm].items():
            assert lines[name][title].startswith(shown), "the same scores as in the suite's own table"
    ours, control, base = lines["Ours (elmo)"], lines["<b> (elmo_random)"], lines["GloVe 50-d"]
    assert (ours["frozen parameters"], ours["ms per 1,000 tokens"], ours["trials on dev"]) == ("1.0 M", "50", "0")
    assert ours["confirmed"] == "self-reported"
    assert "rank 1" in ours["mini NER"]
    assert "rank" not in control["mini NER"] + base["mini NER"], "their difference is within noise"
    assert re.search(r"\(3\)‡§? \[", control["mini NER"])
    assert "‡" not in control["mini SRL"] + ours["mini NER"]
    assert "‡ <b>, mini NER: all" in marks_in(table, [sheet])
    gains = [
        float(re.match(r"[\d.]+", ours[title])[0]) - float(re.match(r"[\d.]+", base[title])[0]) for title in TITLES
    ]
    (mean,) = (header for header in sheet.headers if header.startswith("mean gain over 3 tasks"))
    assert float(ours[mean].split(",")[0]) == pytest.approx(sum(gains) / 3, abs=0.011)
    assert base[mean] == "-"
    assert (ours["frontier"], base["frontier"], control["frontier"]) == ("yes", "yes", "-")
    assert "Ours: trained on the <news>; time: here" in table.experiment.note
    assert "a consistent forgery" in table.experiment.note
    (line,) = (
        one for one in csv.DictReader(io.StringIO(as_csv(table))) if (one["task"], one["arm"]) == ("ner", "elmo")
    )
    assert (line["confirmed"], line["trials on dev"], line["milliseconds"]) == ("self-reported", "0", "50.0")


TITLES = ("mini NER", "mini SST-5", "mini SRL")


def table_of(arm):
    table = board(load_experiment("mini"), PUBLISHED)  # no bundles there
    assert (table.rows, table.arms) == ([], ["glove"])
    records = [item.record for item in collect([PUBLISHED / "mini"]).files if item.record.identity.features == arm]
    of_task = dict(zip(("ner", "sst5", "srl"), TITLES, strict=True))
    scores = {name: [r.score for r in records if r.identity.task == task] for task, name in of_task.items()}
    return {name: f"{sum(found) / len(found):.2f}" for name, found in scores.items()}


def test_a_bundle_that_is_refused_is_a_finding(table):
    (finding,) = table.findings
    assert finding.wrong
    assert "broken.tar.gz: expected a whole gzip file" in finding.text
    assert "results.verify refuses it: broken.tar.gz" in table.experiment.note


def test_any_two_sources_of_chosen_tasks_are_compared(bundles):
    chosen = with_bundles(load_experiment(BOARD), bundles).narrowed({"task": ["ner", "srl"]})
    assert "broken" in chosen.arms
    table = board(chosen.comparing("elmo_random", "elmo"), bundles)
    assert [row.task for row in table.rows] == ["ner", "srl"]
    published = {arm: table_of(arm) for arm in ("elmo", "elmo_random")}
    expected = float(published["elmo"]["mini NER"]) - float(published["elmo_random"]["mini NER"])
    assert table.rows[0].gain == pytest.approx(expected, abs=0.011)
    assert [group.features for group in table.rows[0].groups] == ["glove", "elmo", "elmo_random"]


def test_a_source_without_all_tasks_has_no_mean_and_no_rank_of_it(bundles, tmp_path):
    (tmp_path / "elmo.tar.gz").write_bytes((bundles / "elmo.tar.gz").read_bytes())
    manifest = unpack(bundles / "elmo_random.tar.gz", tmp_path / "files")
    ner = {name: (tmp_path / "files" / name).read_bytes() for name in manifest.files if "/ner/" in name}
    pack(tmp_path / "elmo_random.tar.gz", manifest, ner)
    (sheet,) = sheets_of(board(load_experiment(BOARD), tmp_path))
    control = dict(zip(sheet.headers, sheet.lines[2], strict=True))
    assert [control[header] for header in sheet.headers if "mean" in header or header in ("rank", "mini SRL")] == [
        "-"
    ] * 3
    assert re.search(r"\(3\)‡§? \[", control["mini NER"])


def test_only_published_records_stand_next_to_the_bundles(tmp_path, capsys):
    assert shows_board(collect([PUBLISHED / "mini" / "ner"]), BOARD)
    assert not shows_board(collect([PUBLISHED / "mini" / "ner"]), "mini")
    assert not shows_board(collect([tmp_path]), BOARD)
    code, out, _ = run_table(capsys, "--runs", tmp_path, "--experiment", BOARD)
    assert code == 0
    assert "python -m tasks.run -m experiment=board" in out


def test_the_boards_own_bundles_are_accepted():
    table = board(load_experiment(BOARD))
    assert table.findings == []
    assert {*load_experiment(BOARD).arms} <= {*table.arms}
    assert {path.name.removesuffix(".tar.gz") for path in BUNDLES.glob("*.tar.gz")} == {*table.arms} - {"glove"}
