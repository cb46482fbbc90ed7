"""Reader of untrusted torch.save files: it returns tensors and plain values, and runs no code from the file.

torch.load(weights_only=True) reads neither pickles of protocol 4, which others write, nor objects of packages that are
not installed. So torch reads the file with an unpickler that imports nothing.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from pickle import BUILD, NEWOBJ, REDUCE, _Unpickler
from types import ModuleType
from typing import Any, BinaryIO, ClassVar

import torch
from torch._utils import _rebuild_tensor, _rebuild_tensor_v2

from elmo.common.errors import reworded
from elmo.common.files import UNREADABLE, require_file


@dataclass
class InertObject:
    """An object of a class that was neither imported nor called: the class's name and the object's attributes."""

    kind: str
    attributes: dict[str, Any] = field(default_factory=dict)


def _bytes(text: str, encoding: str) -> bytes:
    """Bytes, as pickles of protocol 2 have them."""
    if encoding != "latin1":
        raise ValueError("bytes in an encoding that pickles do not have")
    return text.encode("latin1")


# The result of a call of a function or class by its name in a pickle; any other call returns an `InertObject`.
_CALLS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    "collections.OrderedDict": lambda *_: {},
    "collections.defaultdict": lambda *_: {},
    "_codecs.encode": _bytes,
}


class _Reader(_Unpickler):
    """The values of a pickle, which imports nothing and calls nothing but `_CALLS`.

    It is Python's unpickler in Python, whose memory does not grow with a damaged number of a value, as that in C does.
    """

    stack: list[Any]
    dispatch: ClassVar[dict[int, Callable[..., None]]] = dict(_Unpickler.dispatch)
    dispatch[NEWOBJ[0]] = dispatch[REDUCE[0]]  # making an object is a call, too

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        """The substitute for a function or class; torch itself finds its kinds of storages."""
        name = f"{module}.{name}"
        return _CALLS.get(name) or (lambda *_: InertObject(name))

    def load_build(self) -> None:
        """Sets the attributes of an object; those of a dict are left out."""
        state = self.stack.pop()
        if isinstance(self.stack[-1], InertObject):
            self.stack[-1].attributes.update(state)

    dispatch[BUILD[0]] = load_build


class _InertPickle(ModuleType):
    """The substitute for the module pickle in torch.load."""

    Unpickler = _Reader

    def load(self, file: BinaryIO, **settings: Any) -> Any:  # noqa: ANN401
        """The value of the pickle at this place of the file."""
        return _Reader(file, **settings).load()


def read_torch_file(path: Path) -> Any:  # noqa: ANN401 (whatever was saved)
    """The value in a file of torch.save. Objects of other classes than torch's and Python's are `InertObject`s.

    Raises:
        InputError: the file is damaged, or has something that is neither a tensor nor a plain value.
    """
    require_file(path)
    content = io.BytesIO(path.read_bytes())  # unlike a file, makes no room for what a damaged length says
    expected = f"{path}: expected a file of torch.save, found another or a damaged one. Get it again"
    with reworded(UNREADABLE, lambda _: expected):
        return torch.load(content, "cpu", pickle_module=_InertPickle("inert"), weights_only=False)
