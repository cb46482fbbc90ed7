"""Settings whose types say which values they may have: `hidden: Width = 200`."""

from __future__ import annotations

from functools import partial
from typing import Annotated, get_args, get_type_hints

from elmo.common import checks

Width = Annotated[int, checks.width]
Layers = Annotated[int, partial(checks.count, checks.MOST_LAYERS)]
AtLeastOne = Annotated[int, partial(checks.at_least, 1)]
AtLeastZero = Annotated[int, partial(checks.at_least, 0)]
NotNegative = Annotated[float, partial(checks.at_least, 0)]
Positive = Annotated[float, checks.positive]
Dropout = Annotated[float, checks.dropout]
Fraction = Annotated[float, checks.fraction]


def check_ranges(key: str, settings: object) -> None:
    """Raises an InputError for a field of a dataclass out of the range of its type; null passes where it is allowed.

    Args:
        key: where the settings are in the config, such as "trainer"; empty for its root.
        settings: the dataclass. Checks are called as those of `elmo.common.checks`, for each item of a list.
    """
    for name, kind in get_type_hints(type(settings), include_extras=True).items():
        value = getattr(settings, name)
        for part in (kind, *get_args(kind)):  # the type may be within a list, or next to None
            for check in getattr(part, "__metadata__", ()):
                for item in value if isinstance(value, list) else [value]:
                    if item is not None:
                        check(f"{key}.{name}" if key else name, item)
