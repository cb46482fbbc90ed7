"""Exit statuses and messages of commands."""

from pathlib import Path

from elmo.common.errors import exit_status


def test_a_missing_file_is_named_without_an_error_number(tmp_path, capsys):
    missing = tmp_path / "nowhere.txt"
    assert exit_status("tasks.predict", lambda: len(Path(missing).read_text(encoding="utf-8"))) == 1
    assert capsys.readouterr().err == f"tasks.predict: {missing}: No such file or directory. Check the path\n"


def test_a_folder_in_place_of_a_file_is_named_without_an_error_number(tmp_path, capsys):
    assert exit_status("tasks.predict", lambda: len(tmp_path.read_text(encoding="utf-8"))) == 1
    assert capsys.readouterr().err == f"tasks.predict: {tmp_path}: expected a file, found a folder. Name a file in it\n"
