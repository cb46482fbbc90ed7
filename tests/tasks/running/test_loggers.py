"""logger=wandb: what it logs, and that its failure does not fail the run."""

import json
import re
import struct
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from elmo.common.progress import Reporter
from results.records.record import read_record
from tasks.running.loggers import Logger, advice
from tasks.running.schema import LoggerConfig
from tests.tasks.making import run_of
from tests.tasks.user import arguments, outcome, path_of, start

PLAIN = ["features.words.vectors=null"]
SETTINGS = ["trainer.epochs=3", "logger=wandb"]
VARIANT = {"trainer.epochs": 3}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder without a login, and no variable that points elsewhere."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("WANDB_API_KEY", "WANDB_CACHE_DIR", "WANDB_DIR", "WANDB_MODE", "NETRC", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return folder


def offline_records(file):
    """The records of a file that wandb writes offline: LevelDB's log format, after seven bytes of its own."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, whole = file.read_bytes(), 7, b""
    while at < len(content):
        room = 2**15 - at % 2**15
        if room < 7:  # too short for another header: filled up with zeros
            at += room
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)  # after a checksum
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # in one piece, or the last piece
            record = Record()
            record.ParseFromString(whole)
            yield record
            whole = b""


def read_offline(runs):
    """The content of the one offline file: the run, the rows of its history, its summary, its exit status."""
    (file,) = (runs / ".wandb").rglob("run-*.wandb")
    run, rows, summary, code = None, [], {}, None
    for record in offline_records(file):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
        elif kind == "history":
            items = record.history.item
            rows.append({item.key or item.nested_key[0]: json.loads(item.value_json) for item in items})
        elif kind == "summary":
            for item in record.summary.update:
                summary[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
        elif kind == "exit":
            code = record.exit.exit_code
    return run, rows, summary, code


@pytest.mark.integration
class TestOffline:
    def test_logs_the_curve_and_the_record_and_writes_nothing_elsewhere(self, place, command, tmp_path, home):
        runs = tmp_path / "runs"
        process = start(place, runs, *SETTINGS, "logger.mode=offline", "logger.project=mine", features="elmo_tiny")
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "warning: wandb" not in err
        (folder,) = re.findall(
            r"To send the runs to Weights & Biases: wandb sync (\S+)/offline-run-\*$", err, re.MULTILINE
        )
        assert len(list(Path(folder).glob("offline-run-*/run-*.wandb"))) == 1
        record = read_record(path_of(runs, "elmo_tiny", **VARIANT))
        run, rows, summary, code = read_offline(runs)
        assert (run.run_id, run.project, code) == (record.fingerprint[:16], "mine", 0)
        assert (run.display_name, run.run_group) == (
            "mine ner elmo_tiny seed 1 trainer.epochs=3",
            "mine ner elmo_tiny trainer.epochs=3",
        )
        assert set(run.tags) == {"mine", "ner", "elmo_tiny"}
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        assert config["trainer"]["epochs"] == 3
        assert len(rows) == len(record.epochs) == 3
        for row, epoch in zip(rows, record.epochs, strict=True):
            assert {key: row[key] for key in epoch} == epoch
        assert summary["scores"] == {split: dict(values) for split, values in record.scores.items()}
        assert (summary["status"], summary["fingerprint"]) == ("finished", record.fingerprint)
        files = [path.relative_to(home) for path in home.rglob("*") if path.is_file()]
        assert [path for path in files if "elmo-suite" not in path.parts] == []  # the suite's own cache may be there
        assert {entry.name for entry in runs.iterdir()} == {".wandb", "mine", "test_sets"}
        assert list((place.root / "elsewhere").iterdir()) == []

        code, _, _ = command(*arguments(place, tmp_path / "calm", "trainer.epochs=3", features="elmo_tiny"))
        assert code == 0
        calm = read_record(path_of(tmp_path / "calm", "elmo_tiny", **VARIANT))
        assert (outcome(calm), calm.fingerprint) == (outcome(record), record.fingerprint)

    @pytest.mark.processes
    def test_a_failed_run_is_marked_as_failed(self, place, tmp_path, home):
        process = start(place, tmp_path, *SETTINGS, "logger.mode=offline", "trainer.lr=1e30", "trainer.grad_norm=null")
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "warning: wandb" not in err
        _, _, summary, code = read_offline(tmp_path)
        assert code == 1
        assert summary["status"] == "failed"
        assert summary["error"]["type"] == "NonFiniteLoss"

    @pytest.mark.processes
    def test_warns_once_if_online_without_a_login(self, place, tmp_path, home):
        process = start(place, tmp_path, *SETTINGS)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert err.count("warning: wandb: UsageError: No API key configured") == 1
        assert "Traceback" not in err
        assert read_record(path_of(tmp_path, **VARIANT)).status == "finished"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            LoggerConfig("wandb", "offline"),
            "To send the runs to Weights & Biases: wandb sync 'my runs/.wandb/wandb'/offline-run-*",
        ),
        (LoggerConfig("wandb", "online"), ""),
        (LoggerConfig(), ""),
    ],
)
def test_a_sweep_ends_with_what_to_do_with_the_logs(config, expected):
    assert advice(config, Path("my runs")) == expected


@pytest.mark.integration
class TestFailures:
    def run(self, place, command, runs):
        code, _, err = command(*arguments(place, runs, *SETTINGS))
        assert code == 0, err
        record = read_record(path_of(runs, **VARIANT))
        assert (record.status, len(record.epochs)) == ("finished", 3)
        return err

    def test_writes_nothing_if_disabled(self, place, command, tmp_path, home):
        code, _, err = command(*arguments(place, tmp_path / "runs", *SETTINGS, "logger.mode=disabled"))
        assert code == 0
        assert "warning: wandb" not in err
        assert [path for path in (tmp_path / "runs" / ".wandb").rglob("*") if path.is_file()] == []

    def test_a_connection_that_breaks_during_the_run(self, place, command, tmp_path, home, monkeypatch):
        """The connection breaks in the second epoch; nothing is logged after that."""
        import wandb

        calls = []

        class Broken:
            def define_metric(self, *_, **__):
                calls.append("define")

            def log(self, values):
                calls.append(values["epoch"])
                if values["epoch"] == 2:
                    raise wandb.errors.CommError("the network is gone")

            def finish(self, exit_code):
                calls.append("finish")

        monkeypatch.setattr(wandb, "init", lambda **_: Broken())
        err = self.run(place, command, tmp_path)
        assert calls == ["define", 1, 2]
        assert err.count("wandb") == 1
        assert "warning: wandb: CommError: the network is gone; the run continues without it" in err

    def test_wandb_that_does_not_start(self, place, command, tmp_path, home, monkeypatch):
        import wandb

        def refuse(**_):
            raise KeyError("odd")

        monkeypatch.setattr(wandb, "init", refuse)
        assert "warning: wandb: KeyError: 'odd'; the run continues without it" in self.run(place, command, tmp_path)

    def test_wandb_that_is_not_installed(self, place, command, tmp_path, home, monkeypatch):
        monkeypatch.setitem(sys.modules, "wandb", None)
        assert "warning: wandb: ModuleNotFoundError: " in self.run(place, command, tmp_path)


def test_ctrl_c_passes_through(monkeypatch, tmp_path, home):
    import wandb

    def interrupt(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(wandb, "init", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Logger(run_of(*PLAIN, "logger=wandb", f"runs_dir={tmp_path}"), Reporter("t", quiet=True))


class TestNames:
    def test_seeds_share_a_group_and_a_run_keeps_its_id(self, monkeypatch, tmp_path):
        started = []
        monkeypatch.setattr("wandb.init", lambda **named: started.append(named) or MagicMock())
        asked = [[f"seed={seed}"] for seed in (1, 2)] + [["seed=1", "threads=2", "retry=failed"]]
        for words in asked:
            Logger(run_of(*PLAIN, "logger=wandb", f"runs_dir={tmp_path}", *words), Reporter("t", quiet=True))
        first, second, again = started
        assert first["group"] == second["group"] == "mini ner glove features.words.vectors=null"
        assert first["name"] != second["name"]
        assert first["id"] == again["id"] != second["id"]
        assert run_of(*PLAIN, "seed=1").fingerprint.startswith(first["id"])

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("logger.mode=sometimes", "logger.mode: expected online or offline or disabled, found 'sometimes'"),
            ("logger.name=paper", "logger.name: expected none or wandb, found 'paper'"),
            ("logger=paper", "logger=paper: no such choice. There are: none, wandb."),
        ],
    )
    def test_a_mistake_is_explained(self, command, tmp_path, setting, message):
        code, _, err = command(setting, f"runs_dir={tmp_path}")
        assert code == 1
        assert message in err
        assert "Traceback" not in err
