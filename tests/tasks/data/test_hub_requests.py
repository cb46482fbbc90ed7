"""Requests to the hub that fail: what is printed."""

import logging

import datasets
import pytest

from elmo.common.errors import InputError
from tasks.data.datasets import DataConfig, DataSource, HubConfig

CONFIG = DataConfig("mine", "ner", hub=HubConfig(path="owner/data"))


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
