"""Frozen weights in another form, made once and kept as long as the weights stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch import Tensor

Form = TypeVar("Form")


class Prepared(Generic[Form]):
    """What was made of some weights; it is made anew after they have changed, moved or been replaced.

    Changes through `tensor.data` are not seen: torch does not count them.
    """

    def __init__(self) -> None:
        self._made: tuple[list[tuple[int, int]], Form] | None = None

    def of(self, weights: Sequence[Tensor], make: Callable[[], Form]) -> Form:
        """The form of these weights, kept or made now."""
        # torch counts the changes of a tensor in place; one that took its place lies elsewhere.
        state = [(tensor.data_ptr(), tensor._version) for tensor in weights]
        made = self._made
        if made is None or made[0] != state:
            made = self._made = state, make()
        return made[1]

    def __deepcopy__(self, memo: dict[int, object]) -> Prepared[Form]:
        return Prepared()

    def __reduce__(self) -> tuple[type[Prepared[Form]], tuple[()]]:
        return Prepared, ()
