"""Files of torch.save in both containers and protocols, read without running what is in them."""

import sys
import types
import zipfile
from collections import OrderedDict

import pytest
import torch

from elmo.common.errors import InputError
from elmo.sources.torch_files import InertObject, read_torch_file


class Elsewhere:
    """A class of a package that is not installed where the file is read."""

    def __init__(self):
        self.items = [b"<unk>", "é".encode(), b"\x80\xff"]
        self.numbers = {b"a": 1, b"b": 2**40}
        self.more = (None, True, False, 0.5, -3, "text", ())


class Hostile:
    """Unpickling it writes a file."""

    def __reduce__(self):
        return (exec, ("open('owned', 'w').close()",))


@pytest.fixture
def elsewhere(monkeypatch):
    module = types.ModuleType("not_installed")
    module.Elsewhere = Elsewhere
    monkeypatch.setitem(sys.modules, "not_installed", module)
    monkeypatch.setattr(Elsewhere, "__module__", "not_installed")


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("as_zip", [True, False])
def test_formats(tmp_path, elsewhere, protocol, as_zip):
    whole = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    saved = {
        "state_dict": OrderedDict(a=whole, b=whole[1:3, ::2], c=whole.half().t(), d=torch.tensor([1, -2])),
        "parameter": torch.nn.Parameter(torch.ones(2, dtype=torch.float64)),
        "dictionary": Elsewhere(),
        "is_forward_lm": True,
    }
    path = tmp_path / "model.pt"
    torch.save(saved, path, pickle_protocol=protocol, _use_new_zipfile_serialization=as_zip)
    found = read_torch_file(path)
    assert found.keys() == saved.keys()
    for name, tensor in saved["state_dict"].items():
        assert torch.equal(found["state_dict"][name], tensor), name
        assert found["state_dict"][name].dtype == tensor.dtype
    assert torch.equal(found["parameter"], torch.ones(2, dtype=torch.float64))
    assert found["dictionary"] == InertObject("not_installed.Elsewhere", vars(saved["dictionary"]))
    assert found["is_forward_lm"] is True


@pytest.mark.parametrize("as_zip", [True, False])
def test_nothing_is_run(tmp_path, monkeypatch, as_zip):
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Hostile()}, "hostile.pt", _use_new_zipfile_serialization=as_zip)
    assert read_torch_file(tmp_path / "hostile.pt") == {"a": InertObject("__builtin__.exec")}
    assert not (tmp_path / "owned").exists()
    torch.load("hostile.pt", weights_only=False)
    assert (tmp_path / "owned").exists(), "the file is hostile indeed"


@pytest.mark.parametrize("as_zip", [True, False])
def test_damaged_and_other_files(tmp_path, as_zip):
    path = tmp_path / "model.pt"
    torch.save({"a": torch.zeros(100)}, path, _use_new_zipfile_serialization=as_zip)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], whole[:-200], b"", b"<html>", b"\x80\x02}q\x00."):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"model\.pt: expected a file of torch\.save, found"):
            read_torch_file(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "text")
    with pytest.raises(InputError, match=r"model\.pt: expected a file of torch\.save, found"):
        read_torch_file(path)


def test_any_byte_may_be_damaged(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"a": torch.zeros(9)}, path)
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 2):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            read_torch_file(path)  # dates and the like are not used
        except InputError:
            refused += 1
    assert len(whole) / 20 < refused < len(whole) / 2
