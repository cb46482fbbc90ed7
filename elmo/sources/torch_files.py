"""Reader of untrusted torch.save files: it returns tensors and plain values, and runs no code from the file.

torch.load(weights_only=True) reads neither pickles of protocol 4, which others write, nor objects of packages that are
not installed.
"""

from __future__ import annotations

import io
import mmap
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pickle import BUILD, NEWOBJ, REDUCE, _Unpickler
from typing import Any, BinaryIO, ClassVar, cast

import torch
from torch import Tensor

from elmo.common.errors import InputError
from elmo.common.files import UNREADABLE, require_file

_KINDS = {
    "torch.DoubleStorage": torch.float64,
    "torch.FloatStorage": torch.float32,
    "torch.HalfStorage": torch.float16,
    "torch.LongStorage": torch.int64,
}


@dataclass
class InertObject:
    """An object of a class that was neither imported nor called: the class's name and the object's attributes."""

    kind: str
    attributes: dict[str, Any] = field(default_factory=dict)


def _tensor(storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
    return storage.as_strided(size, stride, offset)


def _bytes(text: str, encoding: str) -> bytes:
    """Bytes, as pickles of protocol 2 have them."""
    if encoding != "latin1":
        raise ValueError("bytes in an encoding that pickles do not have")
    return text.encode("latin1")


_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    "collections.OrderedDict": lambda *_: {},
    "collections.defaultdict": lambda *_: {},
    "_codecs.encode": _bytes,
}
"""What a call of a function or class by its name in a pickle returns; any other call returns an `InertObject`."""


class _Reader(_Unpickler):
    """The values of a pickle, which imports nothing and calls nothing but `_CALLS`.

    It is Python's unpickler in Python, whose memory does not grow with a damaged number of a value, as that in C does.

    Args:
        file: read up to the end of the pickle.
        storages: the flat tensors that the pickle names, by key; their content comes after it.
    """

    stack: list[Any]
    dispatch: ClassVar[dict[int, Callable[..., None]]] = dict(_Unpickler.dispatch)
    dispatch[NEWOBJ[0]] = dispatch[REDUCE[0]]  # making an object is a call, too

    def __init__(self, file: BinaryIO, storages: dict[str, Tensor]) -> None:
        super().__init__(file)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        """The kind of a storage, or what is called in place of a function or class."""
        name = f"{module}.{name}"
        return _KINDS.get(name) or _CALLS.get(name) or (lambda *_: InertObject(name))

    def persistent_load(self, pid: Any) -> Tensor:  # noqa: ANN401
        """A storage."""
        _, kind, key, _, count, *_ = pid
        return self._storages.setdefault(key, torch.empty(count, dtype=kind))

    def load_build(self) -> None:
        """Sets the attributes of an object; those of a dict are left out."""
        state = self.stack.pop()
        if isinstance(self.stack[-1], InertObject):
            self.stack[-1].attributes.update(state)

    dispatch[BUILD[0]] = load_build


def read_torch_file(path: Path) -> Any:  # noqa: ANN401 (whatever was saved)
    """The value in a file of torch.save. Objects of other classes than torch's and Python's are `InertObject`s.

    Raises:
        InputError: the file is damaged, or has something that is neither a tensor nor a plain value.
    """
    require_file(path)
    with path.open("rb") as file:
        try:
            if zipfile.is_zipfile(file):
                return _from_zip(file)
            # Mapped: a file object makes room for what a damaged length says before it reads.
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _from_stream(cast(BinaryIO, mapped))
        except UNREADABLE as error:
            raise InputError(
                f"{path}: expected a file of torch.save, found another or a damaged one. Get it again"
            ) from error


def _from_zip(file: BinaryIO) -> Any:  # noqa: ANN401
    """The value in the format that torch has written since 1.6."""
    storages: dict[str, Tensor] = {}
    with zipfile.ZipFile(file) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        value = _Reader(io.BytesIO(archive.read(pickled)), storages).load()
        for key, storage in storages.items():
            _fill(storage, archive.read(f"{pickled.removesuffix('.pkl')}/{key}"))
    return value


def _from_stream(file: BinaryIO) -> Any:  # noqa: ANN401
    """The value in the earlier format: a number, a version, the machine, the value, keys of storages, their content."""
    storages: dict[str, Tensor] = {}
    *_, value, keys = (_Reader(file, storages).load() for _ in range(5))
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        _fill(storages[key], file.read(count * storages[key].itemsize))
    return value


def _fill(storage: Tensor, content: bytes) -> None:
    storage.copy_(torch.frombuffer(bytearray(content), dtype=storage.dtype))
