"""Breakdowns: scores of kinds of test examples, against counts added up here."""

from dataclasses import replace

import pytest

import results.breakdown as command
from elmo.common.files import read_json, write_json
from results.figures.drawing import Label
from results.figures.errors_removed import errors_removed
from results.publish import publish_runs
from results.records.collect import collect
from results.records.example_scores import ExamplesUnreadable, add_groups, groups_path, read_groups
from results.records.identity import Identity
from results.records.metric import Grouping, Metric, Ratio
from results.tables.fill import Selection, fill_all
from tests.results.making import make_record, run_report, save

F1 = Metric([[Ratio({"tp": 200}, {"tp": 2, "fp": 1, "fn": 1})]])
HASHES = {"train": "a" * 64, "dev": "b" * 64, "test": "c" * 64}
# (tp, fp, fn) of ten sentences, and a kind for each; the last belongs to none
GLOVE = [(1, 1, 0), (2, 0, 1), (0, 1, 1), (1, 0, 0), (3, 1, 1), (0, 0, 2), (1, 1, 1), (2, 2, 0), (1, 0, 1), (9, 0, 0)]
ELMO = [(1, 0, 0), (3, 0, 0), (1, 1, 0), (1, 0, 0), (3, 1, 1), (0, 0, 2), (1, 2, 1), (2, 0, 0), (2, 0, 0), (0, 9, 9)]
LENGTH = Grouping(("short", "long"), [0, 0, 0, 0, 1, 1, 1, 1, 1, None])
IDS = [f"test:{number}" for number in range(10)]


def f1(counts):
    tp, fp, fn = (sum(column) for column in zip(*counts, strict=True))
    return 200 * tp / (2 * tp + fp + fn)


def save_run(runs, features, counts, *, seed=1, fold=None, hashes=HASHES, variant=None):
    folds = None if fold is None else 2
    record = make_record(f1(counts), features=features, seed=seed, fold=fold, folds=folds, variant=variant)
    record = replace(record, fingerprinted={**record.fingerprinted, "data": hashes}, metrics={"f1": F1})
    return save(runs, record, [dict(zip(("tp", "fp", "fn"), own, strict=True)) for own in counts])


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    save_run(folder, "glove", GLOVE)
    save_run(folder, "elmo", ELMO)
    add_groups(folder, "ner", HASHES, IDS, {"length": LENGTH})
    return folder


def shown(capsys, *arguments):
    status = command.main(list(map(str, arguments)))
    captured = capsys.readouterr()
    lines = [line.replace(": ", "  ").split("  ") for line in captured.out.splitlines()]
    lines = [line for line in lines if line[0] in ("length", "entities")]
    return status, [[cell.strip() for cell in line if cell.strip()] for line in lines], captured.out


def test_each_kind_is_scored_by_its_own_examples(runs, capsys):
    status, lines, _ = shown(capsys, "--runs", runs)
    assert status == 0
    expected = []
    for name, chosen in (("short", slice(0, 4)), ("long", slice(4, 9))):
        first, second = f1(GLOVE[chosen]), f1(ELMO[chosen])
        count = str(len(GLOVE[chosen]))
        expected.append(["length", name, count, f"{first:.2f} (1)", f"{second:.2f} (1)", f"{second - first:+.2f}"])
    assert [[*line[:5], line[5].partition(",")[0]] for line in lines] == expected


def test_parts_of_a_test_set_have_lines_in_the_figure_that_its_title_does_not_count(runs):
    collection = collect([runs])
    (row,) = fill_all(collection, Selection()).rows
    parts = {"all but the last": "length: short, long", "long ones": "length: long", "none": "length: neither"}
    row = replace(row, spec=replace(row.spec, parts=parts))
    whole, both, long = command.with_parts([row], collection.files)
    assert (whole, both.part, long.part) == (row, "all but the last", "long ones")
    for part, chosen in ((both, slice(0, 9)), (long, slice(4, 9))):
        expected = [f1(GLOVE[chosen]), f1(ELMO[chosen])]
        assert [group.mean for group in part.groups] == pytest.approx(expected)
    figure = errors_removed([whole, both, long], ("glove", "elmo"))
    assert "F1, 9 test examples" in [mark.text for mark in figure.marks if isinstance(mark, Label)]
    assert figure.title == errors_removed([whole], ("glove", "elmo")).title


def test_a_table_names_the_vectors_of_its_own_runs(tmp_path, capsys):
    for data, vectors, variant in (("paper", "50d", {}), ("wnut17", "100d", {"features.words.vectors": "100d"})):
        for features, counts in (("glove", GLOVE), ("elmo", ELMO)):
            record = make_record(f1(counts), features=features, data=data, variant=variant)
            config = record.config | {"features": {"name": features, "words": {"vectors": vectors}}}
            made = replace(record, config=config, fingerprinted={"data": HASHES}, metrics={"f1": F1})
            save(tmp_path, made, [dict(zip(("tp", "fp", "fn"), own, strict=True)) for own in counts])
    add_groups(tmp_path, "ner", HASHES, IDS, {"length": LENGTH})
    _, _, out = shown(capsys, "--runs", tmp_path)
    headers = [line.split("  ") for line in out.splitlines() if line.startswith("test examples")]
    assert [[cell.strip() for cell in header if "GloVe" in cell] for header in headers] == [
        ["GloVe 50-d"],
        ["GloVe 100-d"],
    ]


def test_folds_are_joined(tmp_path, capsys):
    for fold, (start, end) in enumerate(((0, 5), (5, 10))):
        hashes = {**HASHES, "test": f"{fold}" * 64}
        for features, counts in (("glove", GLOVE), ("elmo", ELMO)):
            save_run(tmp_path, features, counts[start:end], fold=fold, hashes=hashes)
        add_groups(tmp_path, "ner", hashes, IDS[start:end], {"length": replace(LENGTH, of=LENGTH.of[start:end])})
    _, lines, _ = shown(capsys, "--runs", tmp_path)
    assert [line[1:4] for line in lines] == [
        ["short", "4", f"{f1(GLOVE[:4]):.2f} (1)"],
        ["long", "5", f"{f1(GLOVE[4:9]):.2f} (1)"],
    ]


def test_kinds_from_other_training_files_are_not_used(runs, capsys):
    entities = Grouping(("seen", "unseen"), [0] * 5 + [1] * 5, from_train=True)
    add_groups(runs, "ner", {**HASHES, "train": "d" * 64}, IDS, {"entities": entities})
    assert {line[0] for line in shown(capsys, "--runs", runs)[1]} == {"length"}
    add_groups(runs, "ner", HASHES, IDS, {"entities": entities})
    assert {line[0] for line in shown(capsys, "--runs", runs)[1]} == {"length", "entities"}


def test_kinds_from_all_of_training_are_not_those_of_a_share(tmp_path, capsys):
    for features, counts in (("glove", GLOVE), ("elmo", ELMO)):
        save_run(tmp_path, features, counts, variant={"train_fraction": 0.1})
    entities = Grouping(("seen", "unseen"), [0] * 5 + [1] * 5, from_train=True)
    add_groups(tmp_path, "ner", HASHES, IDS, {"length": LENGTH, "entities": entities})
    assert {line[0] for line in shown(capsys, "--runs", tmp_path)[1]} == {"length"}


def test_kinds_are_not_those_of_runs_that_read_the_files_otherwise(runs, capsys):
    variant = {"data.reader.ignore_labels": "[PER]"}
    for features, counts in (("glove", GLOVE), ("elmo", ELMO)):
        save_run(runs / "other", features, counts, variant=variant)
    assert [line[:2] for line in shown(capsys, "--runs", runs)[1]] == [["length", "short"], ["length", "long"]]
    assert shown(capsys, "--runs", runs / "other")[:2] == (1, [])


def test_rare_kinds_are_left_out(runs, capsys):
    of = [0] * 4 + [1] * 3 + [2] * 3
    add_groups(runs, "ner", HASHES, IDS, {"length": Grouping(("a", "b", "c"), of)})
    status, lines, out = shown(capsys, "--runs", runs)
    assert (status, lines) == (1, [])  # a single kind shows nothing
    assert "nothing to compare: only one kind of test examples (length: a) has 4 of them or more" in out
    assert "not known" not in out
    add_groups(runs, "ner", HASHES, IDS, {"length": Grouping(("a", "b", "c"), [0] * 3 + of[4:] + [None])})
    assert "nothing to compare: no kind of test examples has 4 of them or more" in shown(capsys, "--runs", runs)[2]


def test_nothing_to_show_is_explained(tmp_path, capsys):
    save_run(tmp_path / "one", "glove", GLOVE)
    status, _, out = shown(capsys, "--runs", tmp_path / "one")
    assert (status, out) == (
        1,
        "Notes:\n  no task has runs of both GloVe and + ELMo; --compare A B names other features\n",
    )
    save(tmp_path / "limited", replace(make_record(50.0), identity=Identity("paper", "ner", "glove", 1, {"limit": 3})))
    assert command.main(["--runs", str(tmp_path / "limited")]) == 1
    assert "note: limited runs left out: 1 (--include-limited shows them)" in capsys.readouterr().err


def test_runs_without_scores_of_examples(runs, capsys):
    for path in runs.rglob("examples.json.gz"):
        path.unlink()
    status, lines, out = shown(capsys, "--runs", runs)
    assert (status, lines) == (1, [])
    assert "the runs have no score for each test example (examples.json.gz), so kinds of examples cannot be" in out


def test_an_arm_with_other_counts_has_no_score_of_zero(runs, capsys):
    correct = Metric([[Ratio({"correct": 100})]])
    record = make_record(60.0, features="elmo")
    record = replace(record, fingerprinted={**record.fingerprinted, "data": HASHES}, metrics={"f1": correct})
    save(runs, record, [{"correct": int(i < 6)} for i in range(10)])
    status, lines, out = shown(capsys, "--runs", runs)
    assert (status, lines) == (1, [])
    assert "kinds of examples cannot be compared" in out


def test_a_kind_on_which_nothing_varies_has_no_interval(tmp_path, capsys):
    """All of the short sentences are wrong in one arm, and right in the other; the long ones have an interval."""
    save_run(tmp_path, "glove", [(0, 1, 1)] * 4 + GLOVE[4:])
    save_run(tmp_path, "elmo", [(1, 0, 0)] * 4 + ELMO[4:])
    add_groups(tmp_path, "ner", HASHES, IDS, {"length": LENGTH})
    _, (short, long), out = shown(capsys, "--runs", tmp_path)
    assert short[5:] == ["+100.00", "-", "100.0 %"]
    assert " to " in long[5]
    assert "95 % intervals and p: over paired test examples" in out


def test_runs_without_kinds_get_the_command(runs, capsys):
    groups_path(runs, "ner", HASHES["test"]).unlink()
    status, lines, out = shown(capsys, "--runs", runs)
    assert (status, lines) == (1, [])
    assert "python -m tasks.groups task=ner data=paper" in out


def test_a_damaged_file_is_reported(runs, capsys):
    path = groups_path(runs, "ner", HASHES["test"])
    content = read_json(path)
    content["groups"]["length"]["of"] = [0, 1]
    write_json(path, content)
    with pytest.raises(ExamplesUnreadable, match="expected 10 numbers, found 2"):
        read_groups(path)
    assert "expected 10 numbers, found 2. Delete the file" in shown(capsys, "--runs", runs)[2]


def test_the_report_shows_kinds_or_says_how_to_get_them(runs):
    page = run_report(runs)[1]
    gain = f1(ELMO[:4]) - f1(GLOVE[:4])
    assert f"{gain:+.1f}, " in page
    assert "short · 4" in page
    groups_path(runs, "ner", HASHES["test"]).unlink()
    assert "python -m tasks.groups task=ner data=paper" in run_report(runs)[1]


def test_publishing_copies_kinds_and_refuses_text(runs, tmp_path):
    published = tmp_path / "published"
    assert {line.split()[0] for line in publish_runs([runs], published)} == {"added"}
    copy = groups_path(published, "ner", HASHES["test"])
    assert read_groups(copy) == read_groups(groups_path(runs, "ner", HASHES["test"]))
    add_groups(published, "ner", HASHES, IDS, {"other": LENGTH})
    publish_runs([runs], published)
    assert set(read_groups(copy).groups) == {"length", "other"}

    add_groups(runs, "ner", HASHES, ["x" * 200, *IDS[1:]], {"length": LENGTH})
    (refused,) = [line for line in publish_runs([runs], published) if line.startswith("refused")]
    assert "found text" in refused
    assert list(read_groups(copy).ids) == IDS
