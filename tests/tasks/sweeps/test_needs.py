"""What a sweep needs before its first run, and --plan, which prints it."""

import json
import re
from functools import cache
from types import SimpleNamespace

import datasets
import pytest
import requests

from elmo import download
from results.records.record import read_record
from tasks.data.datasets import _unreachable
from tasks.running.config import run_config, typed_config
from tasks.sweeps import runs as sweep_runs
from tests.tasks.making import SMALL

TINY = ["device=cpu", "limit=6", "trainer.epochs=1", "task.hidden=8", *SMALL]
FOLDED = "task: ner\nfolds: 3\nsplits: {train: ['{fold}.txt'], dev: ['{fold}.txt'], test: ['{fold}.txt']}\n"


@pytest.fixture
def sweep(command, tmp_path):
    def start(*words):
        return command("-m", "task=ner", f"runs_dir={tmp_path / 'runs'}", f"data_dir={tmp_path}", *TINY, *words)

    return start


@pytest.fixture
def no_transfer(monkeypatch):
    """Fails a test that downloads."""

    def fetch(url, *args):
        pytest.fail(f"downloads {url}")

    monkeypatch.setattr(download, "fetch", fetch)


def records(tmp_path):
    return [read_record(path) for path in (tmp_path / "runs").rglob("record.json")]


class TestBeforeTheFirstRun:
    def test_all_that_is_missing_in_one_message(self, sweep, tmp_path):
        (tmp_path / "file").touch()
        nowhere = tmp_path / "nowhere"
        code, out, err = sweep(
            *("features=elmo,glove", "data=mini,wnut17", "seed=1,2", f"store.path={tmp_path / 'file' / 'store'}"),
            *(f"features.elmo.weights={nowhere}", f"features.words.vectors={nowhere}.txt"),
        )
        assert (code, out) == (1, "")
        head, *lines = err.splitlines()
        assert head == "tasks.run: 8 of 8 runs lack what they need. Nothing was started:"
        for number, reason in enumerate(
            (
                rf"features\.|{nowhere}: no such weights file",
                rf"word vectors: '{nowhere}\.txt' is neither a file nor a name",
                rf"store\.path={tmp_path}/file/store: expected a folder to write to, found {tmp_path}/file, ",
                r"data=wnut17: the train split needs .* Put the files there",
            )
        ):
            assert len([line for line in lines if re.match(f"  ({reason})", line)]) == 1, number
        assert len(lines) == 4
        assert records(tmp_path) == []

    def test_runs_that_can_be_done_are_done_with_keep_going(self, sweep, tmp_path):
        words = ["features=glove", "data=mini,wnut17"]
        code, _, err = sweep(*words)
        assert code == 1
        assert "tasks.run: 1 of 2 runs lack what they need" in err
        assert err.endswith("\n--keep-going starts the others\n")
        assert records(tmp_path) == []
        code, _, err = sweep(*words, "--keep-going")
        assert code == 1
        assert "1 runs finished, 1 failed" in err
        assert [record.identity.data for record in records(tmp_path)] == ["mini"]

    def test_the_folds_of_a_dataset_are_one_line(self, sweep, tmp_path):
        (tmp_path / "own.yaml").write_text(FOLDED)
        (tmp_path / "1.txt").write_text("Yes O\n")
        code, _, err = sweep(f"data={tmp_path / 'own.yaml'}", "fold=0,1,2")
        assert code == 1
        assert "2 of 3 runs lack" in err
        assert err.count("data=own: the train split needs") == err.count(f"needs {tmp_path / '0.txt'}, which") == 1

    def test_a_device_that_is_not_there(self, sweep, monkeypatch):
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        code, _, err = sweep("seed=1,2", "device=cuda")
        assert code == 1
        assert err.count("torch finds no usable GPU here") == 1

    def test_what_is_published_is_downloaded_first(self, sweep, tmp_path, monkeypatch):
        urls = []

        def fetch(url, *args):
            urls.append(url)
            raise download.TransferError(f"{url}: no network")

        monkeypatch.setattr(download, "fetch", fetch)
        code, _, err = sweep("features=elmo", "features.elmo.weights=allennlp/small", "seed=1,2,3")
        assert code == 1
        assert len(urls) == len(set(urls)) == 2, "two servers"
        assert err.count("allennlp/small: could not be downloaded") == 1
        assert records(tmp_path) == []


class TestPlan:
    def test_nothing_is_missing(self, sweep, tmp_path):
        code, out, err = sweep("features=glove,elmo", "seed=1,2", "--plan")
        assert (code, err) == (0, "")
        assert out.startswith("runs       4: 0 have a record, 4 are to do, 1 at a time\ntime       not known: no equal")
        assert out.endswith("missing    nothing\n")
        assert not (tmp_path / "runs").exists()

    def test_the_time_of_equal_runs(self, sweep, tmp_path):
        assert sweep("features=glove", "seed=1")[0] == 0
        (path,) = (tmp_path / "runs").rglob("record.json")
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "seconds": 1800.0}))
        code, out, _ = sweep("features=glove,elmo", "seed=1,2,3", "--plan")
        assert code == 0
        lines = out.splitlines()
        assert lines[0] == "runs       6: 1 have a record, 5 are to do, 1 at a time"
        expected = (
            "time       about 60.0 min for 2 runs, as long as equal ones took on cpu; of the other 3 none is recorded"
        )
        assert lines[1] == expected
        assert re.match(rf"disk       about \S+ MB of records in {tmp_path / 'runs'}; ", lines[2])

    def test_downloads_are_named_and_not_made(self, sweep, no_transfer, tmp_path, monkeypatch):
        answer = SimpleNamespace(cache_dir=tmp_path / "no", info=SimpleNamespace(download_size=12_000_000))
        monkeypatch.setattr(datasets, "load_dataset_builder", lambda *args, **settings: answer)
        monkeypatch.setattr("tasks.data.datasets._unreachable", lambda: "")
        words = ["features=elmo", "features.elmo.weights=allennlp/original,allennlp/small", "data=paper", "seed=1,2"]
        code, out, _ = sweep(*words, "features.words.vectors=glove/6B.50d", "--plan")
        assert code == 0
        for line in (
            *("eriktks/conll2003, 12.0 MB", "allennlp/original, size not known", "allennlp/small, size not known"),
            "glove/6B.50d, 862.2 MB",
        ):
            assert out.count(f"download   {line}\n") == 1
        assert out.endswith("missing    nothing but what is downloaded before the first run\n")
        answer.cache_dir.mkdir()
        assert "conll2003" not in sweep(*words, "--plan")[1]

    def test_without_a_network_the_hub_is_tried_once(self, command, tmp_path, monkeypatch):
        """Its library would try again for 25 s."""
        tried, offline = [], []

        def refuse(url, timeout):
            tried.append(url)
            raise requests.ConnectionError("no network")

        def builder(path, *args, **settings):
            offline.append((path, datasets.config.HF_HUB_OFFLINE))
            raise ConnectionError(path)

        monkeypatch.setattr("tasks.data.datasets._unreachable", cache(_unreachable.__wrapped__))
        monkeypatch.setattr(requests, "head", refuse)
        monkeypatch.setattr(datasets, "load_dataset_builder", builder)
        code, out, _ = command(
            *("-m", "task=ner,snli", "data=paper", "features=glove", "device=cpu", "--plan"),
            *(f"data_dir={tmp_path}", f"runs_dir={tmp_path / 'runs'}"),
        )
        assert (code, len(tried)) == (1, 1)
        assert offline == [("eriktks/conll2003", True), ("stanfordnlp/snli", True)]
        for name in ("eng.train", "eng.testa", "eng.testb"):
            assert out.count(str(tmp_path / "conll2003" / name)) == 1
        assert out.count("no network") == 2

    def test_folds_and_seeds_are_composed_once(self, sweep, tmp_path, monkeypatch):
        (tmp_path / "own.yaml").write_text(FOLDED)
        (tmp_path / "1.txt").write_text("Yes O\n")
        found = []
        monkeypatch.setattr(sweep_runs, "run_config", lambda tree: found.append(run_config(tree)) or found[-1])
        code, out, _ = sweep(f"data={tmp_path / 'own.yaml'}", "fold=0,1,2,3", "seed=1,2", "--plan")
        assert (code, len(found)) == (1, 1)
        assert f"needs {tmp_path / '0.txt'}, " in out
        assert "fold=3 seed=2: fold: expected one of the folds 0 to 2 of data=own, found 3." in out
        made = found[0].numbered({"fold": 2, "seed": 2})
        again = typed_config([*TINY, "task=ner", f"data={tmp_path / 'own.yaml'}", "fold=2", "seed=2"])
        assert (made.data, made.resolved, made.variant) == (again.data, again.resolved, again.variant)

    def test_one_run_and_a_status_for_what_is_missing(self, command, tmp_path):
        words = ["task=ner", f"runs_dir={tmp_path / 'runs'}", f"data_dir={tmp_path}", "data=wnut17"]
        code, out, err = command(*words, "--plan")
        assert (code, err) == (1, "")
        assert out.startswith("runs       1: 0 have a record, 1 are to do\n")
        (missing,) = re.findall("^missing .*$", out, re.MULTILINE)
        files = {"train": "wnut17train.conll", "dev": "emerging.dev.conll", "test": "emerging.test.annotated"}
        for split, name in files.items():
            assert missing.count(f"the {split} split needs {tmp_path / 'ner' / 'wnut17' / name}") == 1
        assert not (tmp_path / "runs").exists()

    def test_absurd_words_are_shortened(self, command):
        for word in ("task", "features.elmo.weights", "trainer.lr", "device"):
            code, out, err = command(f"{word}={'a' * 10_000}", "features=elmo", "--plan")
            assert code == 1
            assert len(out + err) < 2000, word

    def test_a_run_that_is_rejected(self, sweep):
        code, out, _ = sweep("data=wnut17,ewt", "--plan")
        assert code == 1
        assert "missing    task=ner " in out
        assert "data=ewt: this task has no such dataset" in out
