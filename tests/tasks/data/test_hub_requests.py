"""Requests to the hub that fail: what is printed, and when the hub is asked again."""

import re
from dataclasses import replace
from types import SimpleNamespace

import datasets
import pytest
import requests
from huggingface_hub import constants

from elmo.common.errors import InputError
from tasks.data.datasets import DataConfig, DataSource, HubConfig, _unreachable

CONFIG = DataConfig("mine", "ner", hub=HubConfig(path="owner/data"))


@pytest.fixture(autouse=True)
def hub(monkeypatch):
    """Whether the hub can be reached is asked again; the answer is what `reason` says."""
    state = SimpleNamespace(reason="", tried=0)

    def head(url, timeout):
        state.tried += 1
        if state.reason:
            raise requests.ConnectionError(state.reason)

    monkeypatch.setattr(requests, "head", head)
    _unreachable.cache_clear()
    yield state
    _unreachable.cache_clear()


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

    def test_a_sweep_without_data_names_each_file_once(self, asked, command, tmp_path):
        code, _, err = command(*self.SWEEP, f"data_dir={tmp_path}", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        assert set(asked) == {"eriktks/conll2003", "stanfordnlp/snli"}
        assert "tasks.run: 6 of 6 runs lack what they need. Nothing was started:\n  data=paper: the train split" in err
        assert (
            err.count(
                f"{tmp_path / 'conll2003' / 'eng.train'}, which is not there, nor on the hub as 'eriktks/conll2003'"
            )
            == 1
        )
        assert err.count("ConnectionError: no network); the dev split needs ") == 2
        assert err.count(". Put the files there, or name their folder with data_dir=") == 2
        assert list((tmp_path / "runs").rglob("record.json")) == []

    def test_a_sweep_that_keeps_going(self, asked, command, tmp_path):
        code, _, err = command(*self.SWEEP, "--keep-going", f"data_dir={tmp_path}", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        shortened = re.findall(r"^tasks\.run: task=(\w+) .* seed=3 .*: failed with the same error$", err, re.MULTILINE)
        assert shortened == ["ner", "snli"]
        assert "sweep  0 runs finished, 6 failed; the same command runs those again" in err

    def test_a_hub_that_cannot_be_reached_is_tried_once(self, hub, tmp_path, monkeypatch):
        """What the cache of its library has is still read."""
        offline = []

        def attempt(path, *args, **settings):
            offline.append((datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE))
            raise ConnectionError(path)

        hub.reason = "no network"
        monkeypatch.setattr(datasets, "load_dataset", attempt)
        for module in (datasets.config, constants):
            monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
        for name in ("a", "b"):
            with pytest.raises(InputError, match=rf"on the hub as '{name}' \(ConnectionError: no network\)"):
                DataSource(replace(CONFIG, hub=HubConfig(path=name)), tmp_path).fingerprint()
        assert (hub.tried, offline) == (1, [(True, True)] * 2)

    def test_files_that_were_added_are_read_at_once(self, asked, tmp_path):
        splits = {split: [f"{split}.txt"] for split in ("train", "dev", "test")}
        config = replace(CONFIG, splits=splits)
        with pytest.raises(InputError, match="no network"):
            DataSource(config, tmp_path).fingerprint()
        for split in splits:
            (tmp_path / f"{split}.txt").write_text("Yes O\n")
        assert set(DataSource(config, tmp_path).fingerprint()) == set(splits)
