"""Requests to the hub that fail: what is printed, and when the hub is asked again."""

import logging
import re
from dataclasses import replace
from types import SimpleNamespace

import datasets
import pytest
from huggingface_hub import constants

from elmo.common.errors import InputError
from tasks.data.datasets import DataConfig, DataSource, HubConfig

CONFIG = DataConfig("mine", "ner", hub=HubConfig(path="owner/data"))


@pytest.fixture(autouse=True)
def no_request_has_failed(monkeypatch):
    monkeypatch.setattr("tasks.data.datasets._failed", {})


def test_the_attempts_of_the_hubs_library_are_not_printed(tmp_path, monkeypatch, caplog):
    def attempt(*args, **settings):
        for library in ("huggingface_hub.utils._http", "datasets.load"):
            logging.getLogger(library).warning("no answer")
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", attempt)
    with pytest.raises(InputError, match=r"'owner/data' \(ConnectionError: no network\)\. Put the files there"):
        DataSource(CONFIG, tmp_path).fingerprint()
    assert [record.name for record in caplog.records] == ["datasets.load"], "it may say that it uses its cache"
    logging.getLogger("huggingface_hub.utils._http").warning("later")
    assert caplog.messages[-1] == "later"


class TestAskingAgain:
    @pytest.fixture
    def asked(self, monkeypatch):
        """The datasets that the hub was asked for; without a network."""
        asked = []

        def attempt(path, *args, **settings):
            asked.append(path)
            raise ConnectionError("no network")

        monkeypatch.setattr(datasets, "load_dataset", attempt)
        return asked

    SWEEP = ("-m", "task=ner,snli", "data=paper", "features=glove", "seed=1,2,3", "device=cpu")

    def test_a_sweep_without_data_asks_once_for_each_dataset(self, asked, command, tmp_path):
        code, _, err = command(*self.SWEEP, f"data_dir={tmp_path}", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        assert asked == ["eriktks/conll2003", "stanfordnlp/snli"]
        assert "tasks.run: 6 of 6 runs lack what they need. Nothing was started:\n  data=paper: the train split" in err
        assert err.count(f"{tmp_path / 'conll2003' / 'eng.train'}, nor on the hub as 'eriktks/conll2003'") == 1
        assert err.count("ConnectionError: no network); the dev split needs ") == 2
        assert err.count(". Put the files there, or name their folder with data_dir=") == 2
        assert list((tmp_path / "runs").rglob("record.json")) == []

    def test_a_sweep_that_keeps_going_asks_as_often(self, asked, command, tmp_path):
        code, _, err = command(*self.SWEEP, "--keep-going", f"data_dir={tmp_path}", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        assert asked == ["eriktks/conll2003", "stanfordnlp/snli"]
        shortened = re.findall(r"^tasks\.run: task=(\w+) .* seed=3 .*: failed with the same error$", err, re.MULTILINE)
        assert shortened == ["ner", "snli"]
        assert "sweep  0 runs finished, 6 failed; the same command runs those again" in err

    def test_a_hub_that_cannot_be_reached_is_asked_for_one_dataset(self, tmp_path, monkeypatch):
        """What the cache of its library has is still read."""
        offline = []

        def attempt(path, *args, **settings):
            offline.append((datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE))
            raise ConnectionError(path)

        monkeypatch.setattr(datasets, "load_dataset", attempt)
        for module in (datasets.config, constants):
            monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
        for name, reason in (("a", "ConnectionError: a"), ("b", "not asked for 60 s after ConnectionError: a")):
            with pytest.raises(InputError, match=rf"on the hub as '{name}' \({reason}\)"):
                DataSource(replace(CONFIG, hub=HubConfig(path=name)), tmp_path).fingerprint()
        assert offline == [(False, False), (True, True)]
        assert (datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE) == (False, False)

    def test_after_a_pause_the_hub_is_asked_again(self, asked, tmp_path, monkeypatch):
        clock = iter([1000.0, 1000.0, 1027.0, 1086.0, 1088.0, 1088.0, 1115.0])  # requests fail at 1027 and 1115
        monkeypatch.setattr("tasks.data.datasets.time", SimpleNamespace(monotonic=clock.__next__))
        for words, requests in (
            (r"\(ConnectionError: no network\)", 1),
            (r"\(not asked again for 60 s after ConnectionError: no network\)", 1),
            (r"\(ConnectionError: no network\)", 2),
        ):
            with pytest.raises(InputError, match=words):
                DataSource(CONFIG, tmp_path).fingerprint()
            assert len(asked) == requests

    def test_files_that_were_added_are_read_at_once(self, asked, tmp_path):
        splits = {split: [f"{split}.txt"] for split in ("train", "dev", "test")}
        config = replace(CONFIG, splits=splits)
        with pytest.raises(InputError, match="no network"):
            DataSource(config, tmp_path).fingerprint()
        for split in splits:
            (tmp_path / f"{split}.txt").write_text("Yes O\n")
        assert set(DataSource(config, tmp_path).fingerprint()) == set(splits)
