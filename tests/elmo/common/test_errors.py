"""Exit statuses and messages of commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmo.common.errors import InputError, exit_status, interrupts_kept


def test_a_missing_file_is_named_without_an_error_number(tmp_path, capsys):
    missing = tmp_path / "nowhere.txt"
    assert exit_status("tasks.predict", lambda: len(Path(missing).read_text(encoding="utf-8"))) == 1
    assert capsys.readouterr().err == f"tasks.predict: {missing}: No such file or directory. Check the path\n"


def test_a_folder_in_place_of_a_file_is_named_without_an_error_number(tmp_path, capsys):
    assert exit_status("tasks.predict", lambda: len(tmp_path.read_text(encoding="utf-8"))) == 1
    assert capsys.readouterr().err == f"tasks.predict: {tmp_path}: Is a directory. Check the path\n"


COMMAND = """
import sys
from elmo.common.errors import command_parser, exit_status
command_parser("tasks.it", "It.").parse_args()
def work():
    {}
sys.exit(exit_status("tasks.it", work))
"""


def without_reader(*arguments):
    """Status and error output of Python with these arguments, whose standard output is a pipe that is closed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, *arguments],
            env=environment,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=600,
        )
    finally:
        os.close(writing)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("printed", ["'little'", "'much' * 100_000"])
def test_a_closed_pipe_ends_a_command_without_a_message(printed):
    assert without_reader("-c", COMMAND.format(f"print({printed})")) == (141, "")


def test_a_closed_pipe_ends_the_help_without_a_message():
    assert without_reader("-c", COMMAND.format("print()"), "--help") == (141, "")


@pytest.mark.parametrize("module", ["table", "status", "publish", "report", "breakdown", "examples"])
def test_commands_of_results_end_so(module, tmp_path):
    """Those that write to standard output when there is nothing to show; the others have help."""
    given = ["--runs", str(tmp_path)] if module in ("table", "status") else ["--help"]
    assert without_reader("-m", f"results.{module}", *given) == (141, "")


class Stopped(KeyboardInterrupt):
    """An interrupt of a kind of its own."""


def fail_in_cleanup(kind):
    """As libraries do that an interrupt reaches in the middle of their work: the last error hides its cause."""
    try:
        try:
            raise kind
        finally:
            raise AttributeError("half made")
    except AttributeError:
        raise RuntimeError("cannot close") from None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stopped])
def test_ctrl_c_is_kept_where_a_cleanup_fails(kind):
    with pytest.raises(KeyboardInterrupt) as caught, interrupts_kept():
        fail_in_cleanup(kind)
    assert caught.type is kind


def test_other_errors_stay_as_they_are():
    with pytest.raises(RuntimeError, match="cannot close"), interrupts_kept():
        fail_in_cleanup(ZeroDivisionError)


def test_a_command_ends_with_130_where_a_cleanup_fails(capsys):
    assert exit_status("module", lambda: fail_in_cleanup(KeyboardInterrupt)) == 130
    assert capsys.readouterr().err == "module: interrupted\n"


def test_a_word_longer_than_any_path_is_shortened(capsys):
    def fail():
        raise InputError(f"{'a' * 10_000}=1: unknown. {'/folder' * 50}/file is kept")

    assert exit_status("module", fail) == 1
    assert capsys.readouterr().err == f"module: {'a' * 80}... unknown. {'/folder' * 50}/file is kept\n"
