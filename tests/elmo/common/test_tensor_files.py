"""Tests of elmo.common.tensor_files."""

import hashlib
import os
import random
import re
import resource
import zipfile

import pytest
import torch

from elmo.common.errors import InputError
from elmo.common.tensor_files import check_tensors, read_tensors, write_tensors

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


DAMAGED = "expected a file that this suite wrote, found one that is damaged, or of another program. Delete it"


def test_a_flipped_bit_is_found_wherever_it_is(path):
    whole = path.read_bytes()
    chance = random.Random(1)
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {DAMAGED}$"):
            read(path)


def test_a_file_of_another_program_is_refused(path):
    """M10: anyone may have written it."""
    torch.save(CONTENT, path)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: {DAMAGED}$"):
        read(path)


def test_a_file_of_an_earlier_version_is_read(path):
    """Its hash is the end of the archive's comment."""
    torch.save(CONTENT, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"sha256 " + bytes(32)
    content = path.read_bytes()[:-32]
    path.write_bytes(content + hashlib.sha256(content).digest())
    assert equal(read(path))


@pytest.mark.parametrize("content", [b"", b"x", b"PK\x03\x04 cut short", bytes(999)])
def test_other_files(path, content):
    path.write_bytes(content)
    found = "one that is damaged, or of another program" if content else "an empty file"
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: .*found {found}. Delete it$"):
        read(path)


class Hostile:
    """Unpickling an instance creates a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        import os

        return os.mkdir, (str(self.folder),)


def test_code_in_a_file_is_refused_in_a_line(path, tmp_path):
    write_tensors(path, {**CONTENT, "more": Hostile(tmp_path / "made")})
    with pytest.raises(InputError) as caught:
        read(path)
    assert str(caught.value).count("\n") == 0
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"values": {}}, "expected a str as name, found nothing"),
        ({"name": "x", "values": [1]}, "expected a dict as values, found a list"),
    ],
)
def test_parts_that_are_missing_or_of_another_type(path, content, told):
    write_tensors(path, content)
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


def test_a_device_is_not_read(tmp_path):
    (tmp_path / "checkpoint.pt").symlink_to(os.devnull)  # in place of a pipe, since reading it never blocks
    with pytest.raises(InputError, match=r"checkpoint\.pt: expected a file, found a folder, a pipe or a device"):
        read_tensors(tmp_path / "checkpoint.pt", {}, "cpu", "Delete it")
