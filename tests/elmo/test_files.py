import pytest
import torch

from elmo.device import choose_device
from elmo.errors import InputError
from elmo.files import replacing


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old", encoding="utf-8")
    with replacing(path) as partial:
        partial.write_text("new", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "old"
        assert partial.parent == path.parent
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


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
