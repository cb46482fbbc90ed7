"""Reader of untrusted torch.save files: it returns tensors and plain values, and runs no code from the file.

torch.load(weights_only=True) reads neither pickles of protocol 4, which others write, nor objects of packages that are
not installed.
"""

from __future__ import annotations

import io
import mmap
import pickletools
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

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
_CONSTANTS = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING"),
}
_NEW: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": set,
    "EMPTY_TUPLE": tuple,
}


@dataclass
class InertObject:
    """An object of a class that was neither imported nor called: the class's name and the object's attributes."""

    kind: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Global:
    """The name of a class or function, module.NAME."""

    name: str


@dataclass
class _Storage:
    """The values of tensors; their bytes come after the pickle."""

    kind: torch.dtype
    content: bytes = b""


@dataclass(frozen=True)
class _View:
    """A tensor whose values are not read yet."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def tensor(self) -> Tensor:
        values = torch.frombuffer(bytearray(self.storage.content), dtype=self.storage.kind)
        return values.as_strided(self.size, self.stride, self.offset).clone()


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
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
        except UNREADABLE as error:
            raise InputError(
                f"{path}: expected a file of torch.save, found another or a damaged one. Get it again"
            ) from error


def _from_zip(file: BinaryIO) -> Any:  # noqa: ANN401
    """The value in the format that torch has written since 1.6."""
    storages: dict[str, _Storage] = {}
    with zipfile.ZipFile(file) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        value = _value(io.BytesIO(archive.read(pickled)), storages)
        for key, storage in storages.items():
            storage.content = archive.read(f"{pickled.removesuffix('.pkl')}/{key}")
    return _filled(value)


def _from_stream(file: BinaryIO) -> Any:  # noqa: ANN401
    """The value in the earlier format: a number, a version, the machine, the value, keys of storages, their content."""
    storages: dict[str, _Storage] = {}
    for _ in range(3):
        _value(file, {})
    value, keys = _value(file, storages), _value(file, {})
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        storages[key].content = file.read(count * storages[key].kind.itemsize)
    return _filled(value)


def _value(file: BinaryIO, storages: dict[str, _Storage]) -> Any:  # noqa: ANN401
    """The value of one pickle, by its instructions. None of them imports or calls anything."""
    stack: list[Any] = []
    marks: list[int] = []
    memory: dict[int, Any] = {}

    def since_mark() -> list[Any]:
        start = marks.pop()
        values = stack[start:]
        del stack[start:]
        return values

    argument: Any
    for instruction, argument, _ in pickletools.genops(file):
        match instruction.name:
            case "PROTO" | "FRAME":
                pass
            case "STOP":
                return stack.pop()
            case "MARK":
                marks.append(len(stack))
            case name if name in _CONSTANTS:
                stack.append(argument)
            case name if name in _NEW:
                stack.append(_NEW[name]())
            case "TUPLE":
                stack.append(tuple(since_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                count = int(name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "APPEND":
                item = stack.pop()
                stack[-1].append(item)
            case "APPENDS":
                items = since_mark()
                stack[-1].extend(items)
            case "ADDITEMS":
                items = since_mark()
                stack[-1].update(items)
            case "SETITEM":
                item = stack.pop()
                key = stack.pop()
                stack[-1][key] = item
            case "SETITEMS":
                items = since_mark()
                stack[-1].update(zip(items[::2], items[1::2], strict=True))
            case "BINPUT" | "LONG_BINPUT":
                memory[argument] = stack[-1]
            case "MEMOIZE":
                memory[len(memory)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memory[argument])
            case "GLOBAL":
                stack.append(_Global(argument.replace(" ", ".")))
            case "STACK_GLOBAL":
                name = stack.pop()
                stack.append(_Global(f"{stack.pop()}.{name}"))
            case "REDUCE" | "NEWOBJ":
                arguments = stack.pop()
                stack.append(_made(stack.pop().name, arguments))
            case "BUILD":
                state = stack.pop()
                if isinstance(stack[-1], InertObject):
                    stack[-1].attributes.update(state)
            case "BINPERSID":
                _, kind, key, *_ = stack.pop()
                stack.append(storages.setdefault(key, _Storage(_KINDS[kind.name])))
            case name:
                raise InputError(
                    f"expected tensors and plain values, found the pickle instruction {name}. Use another file"
                )
    raise ValueError("a pickle without an end")


def _made(name: str, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """The value of a call in the pickle."""
    if name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
        return _View(*arguments[:4])
    if name == "torch._utils._rebuild_parameter":
        return arguments[0]
    if name in ("collections.OrderedDict", "collections.defaultdict"):
        return {}
    if name == "_codecs.encode":  # bytes, in pickles of protocol 2
        text, encoding = arguments
        if encoding != "latin1":
            raise ValueError("bytes in an encoding that pickles do not have")
        return text.encode("latin1")
    return InertObject(name)


def _filled(value: Any) -> Any:  # noqa: ANN401
    """The value with tensors in place of views."""
    if isinstance(value, _View):
        return value.tensor()
    if isinstance(value, dict):
        return {key: _filled(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_filled(item) for item in value)
    if isinstance(value, InertObject):
        return InertObject(value.kind, _filled(value.attributes))
    return value
