"""Exit statuses and messages of commands."""

from pathlib import Path

from elmo.common.errors import exit_status


def test_a_missing_file_is_named_without_an_error_number(tmp_path, capsys):
    missing = tmp_path / "nowhere.txt"
    assert exit_status("tasks.predict", lambda: len(Path(missing).read_text(encoding="utf-8"))) == 1
    assert capsys.readouterr().err == f"tasks.predict: {missing}: No such file or directory. Check the path\n"
