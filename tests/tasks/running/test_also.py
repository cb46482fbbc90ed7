"""Further test sets and confidences: what a run also writes, and that neither changes its score or its name."""

import gzip
import hashlib
import json
from dataclasses import replace

import pytest

from elmo.common.errors import InputError
from results.audit import audit
from results.records.collect import RecordFile
from results.records.example_scores import read_examples
from results.records.identity import CONFIDENCES_NAME, RECORD_NAME, also_name
from results.records.record import read_record, write_record
from tasks.running.config import typed_config
from tasks.running.experiment import run
from tasks.sweeps.runs import Composed
from tasks.sweeps.sweeper import nothing_left
from tests.tasks.making import ELMO, WORDS, change
from tests.tasks.user import outcome, sentences

SETTINGS = ["task=ner", *WORDS, "task.hidden=16", "task.dropout=0.2", "trainer.batch_size=4", "trainer.lr=0.02"]
SETTINGS += ["trainer.epochs=8", "device=cpu", "store.path=null"]
WNUT = "ner/wnut17/emerging.test.annotated"
BTC = "ner/btc/btc.test"
FILES = {
    "mine/train.txt": sentences(12, 0) + "Nordic B-MISC\nsings O\n\n",
    "mine/dev.txt": sentences(5, 3),
    "mine/test.txt": sentences(7, 5),
    BTC: sentences(9, 2),
    # The same sentences, with a product in the place of a place: it has no counterpart in `mine`.
    WNUT: sentences(9, 2).replace("PER", "person").replace("LOC", "product"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of data, with the test sets alone of btc and WNUT-17."""
    root = tmp_path_factory.mktemp("also")
    for name, content in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content.replace(" ", "\t"))
    splits = ", ".join(f"{split}: [mine/{split}.txt]" for split in ("train", "dev", "test"))
    (root / "mine.yaml").write_text(f"task: ner\nsplits: {{{splits}}}\n")
    return root


def config_of(place, runs, *more):
    return typed_config([*SETTINGS, f"data={place}/mine.yaml", f"data_dir={place}", f"runs_dir={place / runs}", *more])


@pytest.fixture(scope="module")
def plain(place):
    return run(config_of(place, "plain"))


@pytest.fixture(scope="module")
def ended(place):
    return run(config_of(place, "runs", "also=[btc,wnut17]", "confidences=true"))


@pytest.fixture
def found(ended):
    return RecordFile(ended.folder / RECORD_NAME, read_record(ended.folder / RECORD_NAME))


def test_score_name_and_fingerprint_stay_as_they_are(place, plain, found):
    before = read_record(plain.folder / RECORD_NAME)
    assert outcome(found.record) == outcome(before)
    assert found.record.scores["test"]["f1"] > 50, "something has been learned"
    assert (found.record.identity, found.record.fingerprint) == (before.identity, before.fingerprint)
    assert found.record.config == before.config
    for name in ("examples.json.gz", "predictions.jsonl.gz"):
        assert found.path.with_name(name).read_bytes() == (plain.folder / name).read_bytes()
    kept = {path.name for path in found.path.parent.iterdir()} - {path.name for path in plain.folder.iterdir()}
    assert kept == {"examples-btc.json.gz", "examples-wnut17.json.gz", CONFIDENCES_NAME}


def test_labels_are_replaced_and_those_without_counterpart_dropped(ended, found):
    """The model is right about people; the places of WNUT-17 are products, so what it says of places is wrong."""
    btc, wnut = found.record.also["btc"], found.record.also["wnut17"]
    assert btc.labels == {
        "gold": {"LOC": "LOC", "PER": "PER"},
        "predicted": {"LOC": "LOC", "MISC": None, "PER": "PER"},
    }
    assert wnut.labels["gold"] == {"person": "PER", "product": None}
    assert "test: expected 2,001 sentences as published, found 9" in btc.data["warnings"]
    predicted = ended.model.predict([{"tokens": words} for words in words_of(FILES[BTC])])
    labels = [entity["label"] for one in predicted for entity in one["entities"]]
    for name, own in found.record.also.items():
        scores = read_examples(found.path.with_name(also_name(name)), found.record.fingerprint)
        total = {key: sum(score[key] for score in scores) for key in ("tp", "fp", "fn")}
        assert total["tp"] + total["fn"] == (18 if name == "btc" else 9)
        assert total["tp"] + total["fp"] == labels.count("PER") + labels.count("LOC")
        assert own.scores["precision"] == pytest.approx(100 * total["tp"] / (total["tp"] + total["fp"]))
    assert wnut.scores["precision"] < btc.scores["precision"]


def words_of(columns):
    return [[line.split()[0] for line in block.splitlines()] for block in columns.strip().split("\n\n")]


def test_the_table_of_labels_is_printed(place, capsys):
    run(config_of(place, "printed", "also=[wnut17]", "limit=4", "trainer.epochs=1"))
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "also wnut17: f1 " in line]
    assert line.endswith("; gold labels: person as PER, product dropped; predicted labels: LOC as LOC, PER as PER"), (
        "MISC is not among the first four sentences"
    )


def test_the_files_are_among_the_inputs(place, found):
    inputs = {name: it for name, it in found.record.inputs.items() if name.startswith("data.also.")}
    expected = {f"data.also.btc/{BTC}": BTC, f"data.also.wnut17/{WNUT}": WNUT}
    assert inputs == {name: hashlib.sha256((place / file).read_bytes()).hexdigest() for name, file in expected.items()}


def test_confidences_are_those_of_the_predicted_entities(ended, found):
    lines = gzip.decompress(found.path.with_name(CONFIDENCES_NAME).read_bytes()).splitlines()
    header, dev, test = map(json.loads, lines)
    assert (header["fingerprint"], dev["split"], test["split"]) == (found.record.fingerprint, "dev", "test")
    scores = read_examples(found.path.with_name("examples.json.gz"), found.record.fingerprint)
    for parts, score in zip(test["examples"], scores, strict=True):
        assert (len(parts), sum(right for _, right in parts)) == (score["tp"] + score["fp"], score["tp"])
    shares = [share for parts in (*dev["examples"], *test["examples"]) for share, _ in parts]
    assert all(0 <= share <= 1 and round(share, 3) == share for share in shares)
    assert len(set(shares)) > 3
    packed = found.path.with_name(CONFIDENCES_NAME).read_bytes()
    assert packed[4:8] == bytes(4), "no time: equal runs write equal bytes"
    assert b"Bern" not in gzip.decompress(packed)


def test_a_run_that_is_done_says_what_it_did_not_keep(place, plain, capsys):
    again = run(config_of(place, "plain", "also=[btc]", "confidences=true"))
    assert again.status == "skipped"
    assert "is done already, and kept no confidences and no scores on btc" in capsys.readouterr().err


@pytest.mark.parametrize("arm", ["words", "elmo"])
def test_a_kept_model_scored_later_gives_what_training_gives(place, tmp_path, capsys, arm):
    """With words alone, then with ELMo from a store; the second time one further set of two, then the other."""
    more = ["also=[btc,wnut17]", "trainer.epochs=2", "keep_weights=true"]
    more += [] if arm == "words" else ["features=elmo", *ELMO, f"store.path={tmp_path}"]
    once = run(config_of(place, f"once-{arm}", *more))
    before = run(config_of(place, f"later-{arm}", *more, "also=[]"))
    weights = before.folder / "weights.pt"
    hashed = weights.read_bytes()
    for names in ("wnut17", "wnut17,btc"):
        config = config_of(place, f"later-{arm}", *more, f"also=[{names}]")
        assert not nothing_left(Composed({"": config})), "a sweep of finished runs starts this one"
        again = run(config)
        assert (again.status, again.scores) == ("skipped", before.scores)
        assert nothing_left(Composed({"": config}))
        assert "kept no" not in capsys.readouterr().err
    first, later = (read_record(ended.folder / RECORD_NAME) for ended in (once, before))
    assert later.also.keys() == {"btc", "wnut17"}
    own = ("seconds", "peak_memory_mb", "epochs", "started_at", "finished_at", "model")
    assert replace(later, **{name: getattr(first, name) for name in own}) == first
    names = sorted(path.name for path in once.folder.iterdir())
    assert names == sorted(path.name for path in before.folder.iterdir())
    for name in (name for name in names if name.startswith("examples")):
        assert (before.folder / name).read_bytes() == (once.folder / name).read_bytes()
    assert weights.read_bytes() == hashed
    assert [finding.text for finding in audit([RecordFile(before.folder / RECORD_NAME, later)])] == []


def test_an_edited_model_is_not_scored(place):
    kept = run(config_of(place, "edited", "trainer.epochs=1", "keep_weights=true"))
    record = (kept.folder / RECORD_NAME).read_bytes()
    change(kept.folder / "weights.pt", words=["other"])
    (kept.folder / RECORD_NAME).write_bytes(record)
    with pytest.raises(InputError, match=r"expected the weights of mine ner .* found others"):
        run(config_of(place, "edited", "trainer.epochs=1", "also=[btc]"))
    assert (kept.folder / RECORD_NAME).read_bytes() == record


def test_a_killed_run_may_go_on_with_further_test_sets(place, plain, monkeypatch):
    """What they hold changes nothing in training, so that a checkpoint without them is good."""
    with monkeypatch.context() as patched:
        patched.setattr("tasks.running.experiment.Trainer.answers", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(config_of(place, "killed"))
    ended = run(config_of(place, "killed", "also=[btc]", "retry=failed"))
    assert ended.scores == plain.scores
    assert read_record(ended.folder / RECORD_NAME).also.keys() == {"btc"}


def test_a_trial_reads_none_of_them(place, tmp_path):
    (tmp_path / "mine").symlink_to(place / "mine")  # and nothing else
    config = config_of(place, "trial", "trial=true", "also=[btc]", "confidences=true", f"data_dir={tmp_path}")
    ended = run(config)
    record = read_record(ended.folder / RECORD_NAME)
    assert (record.also, set(record.scores)) == ({}, {"dev"})
    assert not any(name.startswith("data.also.") for name in record.inputs)
    assert [path.name for path in ended.folder.iterdir()] == [RECORD_NAME]


class TestRefused:
    def test_a_missing_file_before_training(self, place):
        with pytest.raises(InputError, match=r"data=uner_ewt: the test split needs .*, which is not there"):
            run(config_of(place, "runs", "also=[uner_ewt]"))

    @pytest.mark.parametrize(
        ("name", "reason"),
        [("nothing", "data=nothing: no such choice"), ("litbank", "data=litbank is for task=coref, found task=ner")],
    )
    def test_a_dataset_of_another_task_or_none(self, place, name, reason):
        with pytest.raises(InputError, match=reason):
            config_of(place, "runs", f"also=[{name}]")

    def test_a_table_for_a_task_that_cannot_replace_labels(self, tmp_path):
        (tmp_path / "films.yaml").write_text(
            "task: sst5\nlabels: {positive: negative}\nsplits: {train: [a.txt], dev: [b.txt], test: [c.txt]}\n"
        )
        with pytest.raises(InputError, match=r"task=sst5 cannot replace labels, found one in data=.*films"):
            typed_config(["task=sst5", "data=mini", f"also=[{tmp_path}/films.yaml]"])

    def test_confidences_that_are_no_truth_value(self):
        with pytest.raises(InputError, match="confidences: expected true or false, found 2"):
            typed_config(["task=ner", "confidences=2"])


class TestAudit:
    def findings(self, found):
        return [finding.text for finding in audit([found])]

    def test_nothing_is_wrong_with_what_a_run_writes(self, found):
        assert self.findings(found) == []

    @pytest.fixture
    def copied(self, found, tmp_path):
        for path in found.path.parent.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
        return replace(found, path=tmp_path / RECORD_NAME)

    def test_scores_on_further_sets_follow_from_their_examples(self, copied):
        own = copied.record.also["btc"]
        other = {"btc": replace(own, scores={**own.scores, "f1": 99.0})}
        write_record(copied.path, replace(copied.record, also={**copied.record.also, **other}))
        (text,) = self.findings(replace(copied, record=read_record(copied.path)))
        assert (
            f"also.btc.scores.f1: expected {own.scores['f1']:.6g}, which examples-btc.json.gz gives, found 99" in text
        )

    def test_their_examples_may_not_be_missing(self, copied):
        copied.path.with_name(also_name("wnut17")).unlink()
        (text,) = self.findings(copied)
        assert "examples-wnut17.json.gz: expected scores, found none" in text
