"""Summaries of records: which runs make a mean, gains, copies, failed runs and findings."""

import dataclasses
import shutil
import statistics

import pytest

from results.names import load_names
from results.records.collect import collect
from results.records.record import RunError, write_record
from results.tables.fill import Selection, fill_all
from tests.results.making import CLEAN, make_record, save


def summary_of(*folders, selection=None):
    return fill_all(collect(folders), selection or Selection())


def only_row(summary):
    (row,) = summary.rows
    return row


def labelled(summary):
    """The rows by their settings, as typed."""
    return {row.label: row for row in [*summary.rows, *summary.others]}


def texts(summary, kind, *, wrong=None):
    return [f.text for f in summary.findings if f.kind == kind and wrong in (None, f.wrong)]


def test_mean_and_sample_deviation(tmp_path):
    scores = [90.1, 90.4, 90.0, 90.2, 90.3]
    for seed, score in enumerate(scores, start=1):
        save(tmp_path, make_record(score, seed=seed))
    group = only_row(summary_of(tmp_path)).group("glove")
    assert (group.scores, group.seeds) == (scores, [1, 2, 3, 4, 5])
    assert group.mean == pytest.approx(90.2)
    # by hand: squares of -.1 .2 -.2 0 .1 sum to .1; / 4 = .025
    assert group.std == pytest.approx(0.025**0.5)
    assert group.std == pytest.approx(statistics.stdev(scores))


def test_gain_and_error_cut_from_unrounded_means(tmp_path):
    for seed, (glove, elmo) in enumerate([(90.149, 92.214), (90.143, 92.206)], start=1):
        save(tmp_path, make_record(glove, seed=seed))
        save(tmp_path, make_record(elmo, features="elmo", seed=seed))
    row = only_row(summary_of(tmp_path))
    # rounded first it would be 92.21 - 90.15 = 2.06
    assert row.gain == pytest.approx(92.210 - 90.146, abs=1e-9)
    assert row.error_cut == pytest.approx(100 * 2.064 / 9.854)


def test_no_gain_without_both_arms(tmp_path):
    save(tmp_path, make_record(92.0, features="elmo"))
    save(tmp_path, make_record(91.0, features="elmo_random"))
    row = only_row(summary_of(tmp_path))
    assert row.gain is None
    assert row.error_cut is None


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"lr": 0.002}, "trainer.lr=0.002"),
        ({"metric": "em"}, "metric=em"),
    ],
)
def test_runs_that_differ_in_more_than_the_seed_are_never_averaged(tmp_path, changed, name):
    save(tmp_path, make_record(90.0))
    save(tmp_path, make_record(92.0, features="elmo", seed=1))
    save(tmp_path, make_record(94.0, features="elmo", seed=2, **changed))
    summary = summary_of(tmp_path)
    row = only_row(summary)
    assert labelled(summary)[name].group("elmo").scores == [94.0]
    assert len(summary.others) == 2
    assert row.group("elmo") is None
    assert row.gain is None
    key = name.split("=")[0]
    assert texts(summary, "note", wrong=True) == [
        f"NER, CoNLL-2003, + ELMo: runs that differ in {key} are not averaged"
    ]


def test_only_runs_of_the_newest_recipe_make_a_mean(tmp_path):
    for seed, score, recipe in ((1, 90.0, 3), (2, 40.0, 1), (3, 92.0, 3), (4, 10.0, 2)):
        save(tmp_path, make_record(score, features="elmo", seed=seed, recipe=recipe))
    save(tmp_path / "earlier", make_record(20.0, features="elmo", seed=1, recipe=2))
    summary = summary_of(tmp_path)
    (group,) = only_row(summary).groups
    assert (group.features, group.label, group.mean) == ("elmo", "", 91.0)
    assert texts(summary, "note", wrong=True) == [
        "NER, CoNLL-2003, + ELMo: recipe 1 is left out (seed 2); the others have recipe 3",
        "NER, CoNLL-2003, + ELMo: recipe 2 is left out (seeds 1, 4); the others have recipe 3",
    ]


def test_values_that_read_alike_still_get_names_of_their_own(tmp_path):
    save(tmp_path, make_record(90.0, seed=1, lr=1))
    save(tmp_path, make_record(91.0, seed=2, lr="1"))
    assert len(labelled(summary_of(tmp_path))) == 2


def test_a_variant_is_a_column_of_its_own_and_leaves_the_plain_one_alone(tmp_path):
    save(tmp_path, make_record(90.0))
    save(tmp_path, make_record(92.0, features="elmo"))
    for seed in (1, 2):
        save(tmp_path, make_record(80.0 + seed, features="elmo", seed=seed, variant={"trainer.epochs": 2}))
    save(tmp_path, make_record(80.0, variant={"trainer.epochs": 2}))
    rows = labelled(summary_of(tmp_path))
    found = {label: [group.features for group in row.groups] for label, row in rows.items()}
    assert found == {"": ["glove", "elmo"], "trainer.epochs=2": ["glove", "elmo"]}
    assert rows[""].gain == pytest.approx(2.0)
    assert rows["trainer.epochs=2"].gain == pytest.approx(1.5)


def test_an_older_baseline_without_a_setting_is_no_match_for_runs_that_change_it(tmp_path):
    """Records that are older than a setting of the words do not have it; a baseline has no part `elmo` at all."""

    def saved(score, features, variant, words, elmo=None):
        record = make_record(score, features=features, variant=variant)
        config = {"name": features, "words": words, "elmo": elmo}
        save(tmp_path, dataclasses.replace(record, config={**record.config, "features": config}))

    casing = {"features.words.casing": True}
    saved(80.0, "glove", {}, {"dim": 50})
    saved(82.0, "glove", casing, {"dim": 50, "casing": True})
    saved(87.0, "elmo", {"features.elmo.l2": 1.0, **casing}, {"dim": 50, "casing": True}, {"l2": 1.0})
    rows = labelled(summary_of(tmp_path))
    assert rows["features.elmo.l2=1.0 features.words.casing=true"].gain == pytest.approx(5.0)


def test_copies_count_once(tmp_path):
    path = save(tmp_path / "a", make_record(90.0))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    summary = summary_of(tmp_path / "a", tmp_path / "b", tmp_path)
    assert only_row(summary).group("glove").scores == [90.0]
    assert texts(summary, "note", wrong=True) == []
    write_record(tmp_path / "b" / path.relative_to(tmp_path / "a"), make_record(91.0))
    summary = summary_of(tmp_path)
    assert only_row(summary).group("glove").scores == [90.0]
    (note,) = texts(summary, "note", wrong=True)
    assert "the same run with different scores, test.f1 91.0 and 90.0" in note


def test_copies_that_differ_on_dev_alone_are_reported(tmp_path):
    """The row of an experiment may show dev, or another metric than the main one."""
    save(tmp_path / "a", make_record(90.0, dev=80.0))
    save(tmp_path / "b", make_record(90.0, dev=85.0))
    (note,) = texts(summary_of(tmp_path), "note", wrong=True)
    assert "the same run with different scores, dev.f1 85.0 and 80.0; only the second is counted" in note


def test_a_finished_copy_outweighs_a_failed_one_in_either_order(tmp_path):
    failed = make_record(error=RunError("RuntimeError", "killed"))
    for names in (("a", "b"), ("b", "a")):
        runs = tmp_path / "".join(names)
        save(runs / names[0], failed)
        save(runs / names[1], make_record(90.0))
        summary = summary_of(runs)
        assert only_row(summary).group("glove").scores == [90.0]
        assert texts(summary, "failed") == []


def test_mixed_commits_and_uncommitted_changes_are_reported(tmp_path):
    other = dataclasses.replace(CLEAN, commit="b" * 40)
    for seed in (1, 3, 2, 4, 5, 6):
        save(tmp_path, make_record(90.0, seed=seed, environment=CLEAN if seed in (1, 3) else other))
    save(tmp_path, make_record(92.0, features="elmo", seed=1, environment=dataclasses.replace(CLEAN, dirty=True)))
    for seed in (8, 9, 7):
        dirty = dataclasses.replace(CLEAN, dirty=True)
        save(tmp_path, make_record(92.0, features="elmo_random", seed=seed, environment=dirty))
    assert texts(summary_of(tmp_path), "note", wrong=True) == [
        "NER, CoNLL-2003, GloVe: one mean over several commits: aaaaaaaaaa (seeds 1, 3), bbbbbbbbbb (seeds 2, 4, 5, 6)",
        "NER, CoNLL-2003, + ELMo: code with uncommitted changes (seed 1)",
        "NER, CoNLL-2003, untrained biLM (control): code with uncommitted changes (seeds 7 to 9)",
    ]


def test_other_word_vectors_and_weights_are_other_features(tmp_path):
    for features, vectors, weights in (("glove", "ab", None), ("elmo", "cd", "ef")):
        record = make_record(90.0, features=features)
        parts = {**record.fingerprinted, "vectors": vectors * 32, "weights": weights}
        save(tmp_path, dataclasses.replace(record, fingerprinted=parts))
    assert texts(summary_of(tmp_path), "note", wrong=True) == []


def test_only_listed_trainings_of_vectors_share_a_mean(tmp_path):
    first, second, *_ = load_names().trainings
    for seed, vectors in ((1, first), (2, second), (3, second)):
        record = make_record(90.0 + seed, features="word2vec", seed=seed)
        save(tmp_path, dataclasses.replace(record, fingerprinted={**record.fingerprinted, "vectors": vectors}))
    summary = summary_of(tmp_path)
    assert only_row(summary).group("word2vec").scores == [91.0, 92.0, 93.0]
    mixed = f"{first[:10]} (seed 1), {second[:10]} (seeds 2, 3)"
    (note,) = texts(summary, "note", wrong=True)
    assert note.endswith(f"word2vec: one mean over several trainings of the vectors: {mixed}")
    record = make_record(94.0, features="word2vec", seed=4)
    save(tmp_path, dataclasses.replace(record, fingerprinted={**record.fingerprinted, "vectors": "ab" * 32}))
    summary = summary_of(tmp_path)
    assert len(labelled(summary)) == 2
    assert any("runs that differ in vectors are not averaged" in text for text in texts(summary, "note", wrong=True))


@pytest.mark.parametrize(
    ("draw", "bilms", "averaged"), [(None, ("ab", "ab"), True), (1, ("ab", "ab"), False), (None, ("ab", "cd"), False)]
)
def test_a_control_that_is_drawn_by_the_seed_has_one_mean_over_its_draws(tmp_path, draw, bilms, averaged):
    """Its weights differ; those of a fixed draw may not, nor may the biLM that they are drawn from."""
    for seed, bilm in enumerate(bilms, 1):
        record = make_record(90.0 + seed, features="elmo_matched", seed=seed)
        features = {"name": "elmo_matched", "elmo": {"control": "matched", "draw": draw}}
        record = dataclasses.replace(
            record,
            config={**record.config, "features": features},
            fingerprinted={**record.fingerprinted, "weights": f"{seed:02}" * 32},
            inputs={"elmo/weights.safetensors": bilm * 32},
        )
        save(tmp_path, record)
    rows = summary_of(tmp_path).rows
    assert ([row.group("elmo_matched").scores for row in rows] == [[91.0, 92.0]]) == averaged


def test_limited_runs_are_shown_on_request_and_marked(tmp_path):
    save(tmp_path, make_record(90.0))
    save(tmp_path, make_record(50.0, seed=2, limit=200))  # even if its name does not say so
    save(tmp_path, make_record(51.0, seed=3, limit=200, variant={"limit": 200}))
    summary = summary_of(tmp_path)
    assert [group.scores for group in only_row(summary).groups] == [[90.0]]
    assert texts(summary, "note") == ["limited runs left out: 2 (--include-limited shows them)"]
    summary = summary_of(tmp_path, selection=Selection(include_limited=True))
    assert only_row(summary).group("glove").scores == [90.0]
    assert all(label.startswith("limit=200") for label in labelled(summary) if label)
    assert sorted(score for row in summary.others for score in row.groups[0].scores) == [50.0, 51.0]


def test_a_failed_run_is_reported_even_if_it_was_limited(tmp_path):
    save(tmp_path, make_record(features="elmo", seed=4, error=RunError("RuntimeError", "out of\n memory"), limit=9))
    (text,) = texts(summary_of(tmp_path), "failed", wrong=True)
    assert text.startswith("paper ner elmo seed 4 limit=9: RuntimeError: out of memory (")


def test_the_main_rows_alone_are_equal_to_those_of_the_whole_table(tmp_path):
    for seed, shift in ((1, 0.0), (2, 0.5)):
        for features, score in (("glove", 90.0), ("elmo", 92.0), ("elmo_layer0", 91.0)):
            save(tmp_path, make_record(score + shift, features=features, seed=seed))
            save(tmp_path, make_record(score - 5, features=features, seed=seed, variant={"trainer.epochs": 2}))
    save(tmp_path, make_record(features="elmo_layer0", seed=3, error=RunError("RuntimeError", "killed")))
    save(tmp_path, make_record(50.0, task="sst5", variant={"trainer.epochs": 2}))
    whole, main = (summary_of(tmp_path, selection=Selection(main_only=only)) for only in (False, True))
    assert [row.label for row in main.rows] == [row.label for row in whole.rows]
    assert main.rows[0].interval == whole.rows[0].interval
    assert [group.features for group in main.rows[0].groups] == ["glove", "elmo"]
    assert not main.others
    assert texts(main, "failed") == texts(whole, "failed") != []


def test_every_empty_cell_has_a_line(tmp_path):
    save(tmp_path, make_record(90.0, seed=3))
    save(tmp_path, make_record(60.0, task="sst5", features="elmo_random"))
    save(tmp_path, make_record(task="sst5", features="elmo", seed=2, error=RunError("RuntimeError", "x")))
    assert texts(summary_of(tmp_path), "empty", wrong=True) == [
        "NER, CoNLL-2003: no runs of elmo",
        "SST-5: no runs of glove",
        "SST-5: no runs of elmo",
    ]


def test_a_comparison_under_other_settings_needs_no_plain_runs(tmp_path):
    epochs = {"trainer.epochs": 2}
    save(tmp_path, make_record(90.0, variant=epochs))
    assert len(texts(summary_of(tmp_path), "empty")) == 1
    save(tmp_path, make_record(91.0, features="elmo", variant=epochs))
    assert texts(summary_of(tmp_path), "empty") == []
    save(tmp_path, make_record(90.0))
    assert texts(summary_of(tmp_path), "empty", wrong=True) == ["NER, CoNLL-2003: no runs of elmo"]


def test_rows_come_in_the_papers_order(tmp_path):
    for data, task in [("mini", "ner"), ("mini", "squad"), ("paper", "sst5"), ("paper", "snli"), ("mini", "chunking")]:
        save(tmp_path, make_record(50.0, data=data, task=task))
    rows = summary_of(tmp_path).rows
    assert [(row.data, row.task) for row in rows] == [
        ("paper", "snli"),
        ("paper", "sst5"),
        ("mini", "squad"),
        ("mini", "ner"),
        ("mini", "chunking"),
    ]
    assert [row.paper is not None for row in rows] == [True, True, False, False, False]


def test_only_the_asked_data_are_shown_and_judged(tmp_path):
    save(tmp_path, make_record(50.0, data="mini"))
    save(tmp_path, make_record(90.0, error=RunError("RuntimeError", "x")))
    summary = summary_of(tmp_path, selection=Selection(data=["mini"]))
    assert [row.data for row in summary.rows] == ["mini"]
    assert texts(summary, "failed") == []


def test_what_cannot_be_read_does_not_hide_the_rest(tmp_path):
    save(tmp_path, make_record(90.0))
    broken = save(tmp_path, make_record(91.0, seed=2))
    broken.write_text(broken.read_text()[:50])
    folder = tmp_path / "odd" / "record.json"
    folder.mkdir(parents=True)  # a folder of that name is no record
    summary = summary_of(tmp_path)
    assert only_row(summary).group("glove").scores == [90.0]
    (text,) = texts(summary, "unreadable", wrong=True)
    assert text.startswith(f"{broken}: ")
