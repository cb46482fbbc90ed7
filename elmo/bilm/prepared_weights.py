"""A cache for converted weights, valid until the weights change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch import Tensor

Form = TypeVar("Form")


class Prepared(Generic[Form]):
    """Converted weights; converted again after the weights were changed, moved or replaced.

    Weights that are trained are converted in every call: torch does not count the steps of fused optimisers as changes,
    nor any changes of weights that were made in `torch.inference_mode`. Changes through `tensor.data` are not noticed.
    """

    def __init__(self) -> None:
        self._made: tuple[list[tuple[int, int]], Form] | None = None

    def of(self, weights: Sequence[Tensor], make: Callable[[], Form]) -> Form:
        """The converted weights, from the cache or from `make`."""
        if any(tensor.requires_grad or tensor.is_inference() for tensor in weights):
            return make()
        # torch counts changes in place in `_version`; another tensor has another address.
        state = [(tensor.data_ptr(), tensor._version) for tensor in weights]
        made = self._made
        if made is None or made[0] != state:
            made = self._made = state, make()
        return made[1]

    def __deepcopy__(self, memo: dict[int, object]) -> Prepared[Form]:
        return Prepared()

    def __reduce__(self) -> tuple[type[Prepared[Form]], tuple[()]]:
        return Prepared, ()
