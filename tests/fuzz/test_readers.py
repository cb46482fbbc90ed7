"""Damaged files: a result, or one line with the file and a remedy. `python -m tests.fuzz --cases 9999` tries more."""

import random
import subprocess
import sys

import pytest

from elmo.common.errors import InputError
from tests.fuzz.damage import damaged
from tests.fuzz.readers import READERS, fuzzer_of
from tests.fuzz.reading import MEMORY, Fuzzer, Reader

CASES = 40  # of each reader


@pytest.mark.parametrize("reader", [reader for reader in READERS if not reader.apart], ids=str)
def test_damaged_files_are_explained(reader, tmp_path):
    fuzzer = fuzzer_of(reader, tmp_path)
    problems = {number: fuzzer.problem(number) for number in (None, *range(CASES))}
    assert {number: problem for number, problem in problems.items() if problem} == {}


@pytest.mark.processes
def test_libraries_that_may_end_the_process_do_not(repository):
    names = [reader.name for reader in READERS if reader.apart]
    command = [sys.executable, "-m", "tests.fuzz", "--cases", str(CASES), *names]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-1000:]


def _write(folder):
    (folder / "a.json").write_text('{"key": "value"}')
    return [folder / "a.json"]


def _raise(text):
    def read(path):
        if path.read_bytes() != b'{"key": "value"}':
            raise InputError(text.replace("PATH", str(path)))

    return read


def _loop(path):
    while True:
        pass


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (_raise("PATH: expected a key. Copy it again"), None),
        (_raise("a.json: expected a key. Copy it again"), "does not name the file"),
        (_raise("PATH: expected a key"), "names no remedy"),
        (_raise("PATH: expected\na key. Copy it again"), "has 2 lines"),
        (_raise("PATH: copy it" + "." * 1000), "has 1,009 characters"),
        (lambda path: {}["key"], "KeyError: 'key'"),
        (lambda path: bytearray(2 * MEMORY), "MemoryError"),
        (_loop, "TooSlow"),
    ],
)
def test_the_rule_finds_readers_that_break_it(tmp_path, monkeypatch, read, problem):
    monkeypatch.setattr("tests.fuzz.reading.SECONDS", 0.1)
    found = Fuzzer(Reader("a", _write, read), tmp_path, [b"other"]).problem(0)
    assert found is None if problem is None else problem in found


def test_damage_is_of_many_kinds_and_the_same_each_time():
    content = b'{"key": "value", "number": 17}'
    found = [damaged(content, random.Random(number), [b"other file"]) for number in range(300)]
    assert found == [damaged(content, random.Random(number), [b"other file"]) for number in range(300)]
    assert len(set(found)) > 200
    assert b"other file" in found
    assert any(content.startswith(one) for one in found)
    assert 1 in [sum(a != b for a, b in zip(one, content, strict=False)) for one in found if len(one) == len(content)]
