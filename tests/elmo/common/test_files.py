"""Tests of elmo.common.files."""

import json
import os
import sys

import numpy as np
import pytest
import torch

from elmo.common.device import choose_device
from elmo.common.errors import InputError
from elmo.common.files import expanded, parse_json, plain_json, read_own_json, replacing


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old", encoding="utf-8")
    with replacing(path) as partial:
        partial.write_text("new", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "old"
        assert partial.parent == path.parent
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match=r"pipe: expected the path of a file"), replacing(pipe) as partial:
        partial.touch()
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_file_whose_folder_is_not_there_is_named_instead_of_the_partial_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "no" / "out.txt") as partial:
        partial.touch()
    assert caught.value.filename == str(tmp_path / "no" / "out.txt")
    assert "its folder does not exist" in str(caught.value)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old", encoding="utf-8")

    def write():
        with replacing(path) as partial:
            partial.write_text("half", encoding="utf-8")
            raise error

    with pytest.raises(error):
        write()
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_names_the_file(tmp_path):
    def write():
        with replacing(tmp_path / "out.txt") as partial:
            partial.symlink_to("/dev/full")
            partial.write_text("some", encoding="utf-8")

    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/out\.txt'"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_the_first_error_is_the_one_that_is_told(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")

    def write():
        with replacing(tmp_path / "file" / "out.txt"):
            raise InputError("the reason")

    with pytest.raises(InputError, match="the reason"):
        write()


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="no usable GPU"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="one of auto, cpu, cuda, found 'tpu'"):
        choose_device("tpu")


def test_the_content_is_on_the_disk_before_the_name_is(tmp_path, monkeypatch):
    """Otherwise a loss of power may leave an empty file where a whole one stood."""
    steps, path = [], tmp_path / "x"
    fsync, replace = os.fsync, os.replace

    def seen_fsync(handle):
        fsync(handle)
        steps.append(("fsync", os.fstat(handle).st_size))

    def seen_replace(*paths):
        replace(*paths)
        steps.append(("replace", path.stat().st_size))

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "replace", seen_replace)
    with replacing(path) as partial:
        partial.write_bytes(b"whole")
    assert steps == [("fsync", 5), ("replace", 5)]


class TestJson:
    DEEP = "[" * 100_000 + "]" * 100_000

    def test_values_are_those_of_the_text(self):
        assert parse_json('{"a": [1, null]}') == {"a": [1, None]}

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (np.int64(3), "3"),
            (np.float32(0.5), "0.5"),
            (np.float64("nan"), "null"),
            (np.bool_(True), "true"),
            ((np.array([[1, 2]]), torch.tensor(4)), "[[[1, 2]], 4]"),
            ({np.int64(3): {"a": float("inf")}}, '{"3": {"a": null}}'),
        ],
    )
    def test_numbers_of_numpy_and_torch_are_plain(self, value, text):
        assert json.dumps(plain_json(value)) == text

    def test_a_matrix_of_many_labels_takes_no_call_for_each_number(self):
        calls = []
        sys.setprofile(lambda frame, event, _: calls.append(event) if event == "call" else None)
        try:
            plain_json([[0] * 300] * 300)
        finally:
            sys.setprofile(None)
        assert len(calls) < 2000, "not one for each of 90,000 numbers"

    def test_a_value_that_json_does_not_have_is_named(self):
        with pytest.raises(TypeError, match=r"^a\.b\[1\]: expected text, .* found set"):
            plain_json({"a": {"b": [1, {2}]}})

    @pytest.mark.parametrize("text", [DEEP, DEEP.encode(), '{"a":' + DEEP + "}", "", "{", "1" * 5000, "NaN"])
    def test_what_is_none_is_a_value_error(self, text):
        with pytest.raises(ValueError, match="at line 1"):
            parse_json(text)

    def test_a_file_is_named(self, tmp_path):
        (tmp_path / "a.json").write_text(self.DEEP)
        with pytest.raises(InputError, match=r"a\.json: expected a JSON object, found: recursion limit"):
            read_own_json(tmp_path / "a.json")
        (tmp_path / "a.json").write_text("[1]")
        with pytest.raises(InputError, match=r"a\.json: expected a JSON object, found: \[1\]\. Delete its folder"):
            read_own_json(tmp_path / "a.json")


class TestExpanded:
    def test_home(self, monkeypatch):
        monkeypatch.setenv("HOME", "/somewhere")
        assert str(expanded("~/x", "out")) == "/somewhere/x"
        assert str(expanded("a/~", "out")) == "a/~"

    def test_a_user_without_one(self):
        with pytest.raises(InputError, match="out=~nobodyhere/x: expected a home folder, but ~nobodyhere has none"):
            expanded("~nobodyhere/x", "out")
