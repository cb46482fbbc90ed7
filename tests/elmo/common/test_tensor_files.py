"""Tests of elmo.common.tensor_files."""

import os
import random
import re
import resource
import zipfile

import pytest
import torch

from elmo.common import tensor_files
from elmo.common.errors import InputError
from elmo.common.tensor_files import check_optimizer, check_tensors, read_tensors, write_tensors

CONTENT = {"name": "mine", "values": {"a": torch.arange(24.0).view(4, 6), "b": torch.tensor(7)}}
PARTS = {"name": str, "values": dict}


@pytest.fixture
def path(tmp_path):
    write_tensors(tmp_path / "it.pt", CONTENT)
    return tmp_path / "it.pt"


def read(path):
    return read_tensors(path, PARTS, "cpu", "Delete it")


def equal(content):
    values = content["values"]
    return content["name"] == "mine" and all(
        torch.equal(values[name], value) for name, value in CONTENT["values"].items()
    )


def test_what_was_written(path, tmp_path):
    assert equal(read(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("count", [1, 100_000])
def test_a_full_disk_names_the_file(tmp_path, count):
    """A limit on the size of files acts like one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, before[1]))
    try:
        with pytest.raises(OSError, match=rf"File too large: '{tmp_path}/it\.pt'"):
            write_tensors(tmp_path / "it.pt", {"values": torch.zeros(count)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def sealed(content, path):
    """Saves any content as `write_tensors` would."""
    torch.save(content, path)
    tensor_files._seal(path)


NO_HASH = (
    "expected the hash of its content at its end, found none: another program wrote it, or an earlier version of the "
    "suite. Delete it"
)


def test_a_file_without_a_hash_of_all_its_bytes_is_refused(path):
    """M10: anyone may have written it."""
    torch.save(CONTENT, path)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {NO_HASH}$"):
        read(path)


def test_a_flipped_bit_is_found_wherever_it_is(path):
    whole = path.read_bytes()
    chance = random.Random(1)
    messages = []
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError) as caught:
            read(path)
        messages.append(str(caught.value))
    damaged = "expected a file that this suite wrote, found one that is damaged. Delete it"
    assert set(messages) == {f"{path}: {damaged}", f"{path}: {NO_HASH}"}
    assert messages.count(f"{path}: {NO_HASH}") < 10, "in its mark alone"


@pytest.mark.parametrize("content", [b"", b"x", b"PK\x03\x04 cut short", bytes(999)])
def test_other_files(path, content):
    path.write_bytes(content)
    found = "one that is damaged" if content else "an empty file"
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*found {found}. Delete it$"):
        read(path)


def test_a_compressed_archive_is_none_of_ours(path, tmp_path):
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "new.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.namelist():
            new.writestr(member, old.read(member))
    tensor_files._seal(tmp_path / "new.pt")
    with pytest.raises(InputError, match="damaged"):
        read(tmp_path / "new.pt")


class Hostile:
    """Unpickling an instance creates a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        import os

        return os.mkdir, (str(self.folder),)


def test_code_in_a_file_is_refused_in_a_line(path, tmp_path):
    sealed({**CONTENT, "more": Hostile(tmp_path / "made")}, path)
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).count("\n") == 0
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"values": {}}, "expected a str as name, found nothing"),
        ({"name": "x", "values": [1]}, "expected a dict as values, found a list"),
        ([1, 2], "expected name, values, found a list"),
    ],
)
def test_parts_that_are_missing_or_of_another_type(path, content, told):
    sealed(content, path)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {told}. Delete it$"):
        read(path)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({"a": torch.zeros(1, 3)}, r"float32 of shape \(2, 3\), found float32 of shape \(1, 3\)"),
        ({"a": torch.zeros(3, 2)}, r"float32 of shape \(2, 3\), found float32 of shape \(3, 2\)"),
        ({"a": torch.zeros(2, 3).half()}, r"float32 of shape \(2, 3\), found float16 of shape \(2, 3\)"),
        ({"a": 1.0}, r"float32 of shape \(2, 3\), found a float"),
        ({}, r"float32 of shape \(2, 3\), found none"),
        ({"a": torch.zeros(2, 3), "b": torch.zeros(1)}, r"none, found float32 of shape \(1,\)"),
    ],
)
def test_tensors_fit_exactly_or_not_at_all(found, told):
    check_tensors({"a": torch.ones(2, 3)}, {"a": torch.zeros(2, 3)})
    with pytest.raises(InputError, match=rf"^the tensor [ab]: expected {told}$"):
        check_tensors(found, {"a": torch.zeros(2, 3)})


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.Adadelta])
def test_an_optimizer_s_state_has_the_shapes_of_its_parameters(kind):
    parameters = [torch.nn.Parameter(torch.ones(2, 3)), torch.nn.Parameter(torch.ones(()))]
    optimizer = kind(parameters)
    sum(parameter.sum() for parameter in parameters).backward()
    optimizer.step()
    state = optimizer.state_dict()
    check_optimizer(state, kind(parameters))
    name = next(name for name in state["state"][0] if name != "step")
    state["state"][0][name] = state["state"][0][name][:1]
    with pytest.raises(InputError, match=rf"^the tensor {name}: .* \(2, 3\), found .* \(1, 3\)$"):
        check_optimizer(state, kind(parameters))
    with pytest.raises(InputError, match="expected 1 parameters, found number 1"):
        check_optimizer(kind.state_dict(optimizer) | {"state": {1: {}}}, kind(parameters[:1]))


def test_a_device_is_not_read(tmp_path):
    (tmp_path / "checkpoint.pt").symlink_to(os.devnull)  # in place of a pipe, since reading it never blocks
    with pytest.raises(InputError, match=r"checkpoint\.pt: expected a file, found a folder, a pipe or a device"):
        read_tensors(tmp_path / "checkpoint.pt", {}, "cpu", "Delete it")
