"""The article or document of each test example: a number among its scores, or sizes from `paper/units.toml`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

from results.records.example_scores import Example
from results.records.record import RunRecord
from results.records.typed_json import PAPER, read_toml

UNITS = PAPER / "units.toml"


@dataclass(frozen=True)
class _TestFile:
    """A test file by the hash in the records, and the sizes of its units in the order of its examples."""

    name: str
    sha256: str
    unit: str
    sizes: Sequence[int]


@dataclass(frozen=True)
class _Units:
    file: Sequence[_TestFile]


@cache
def _files() -> Mapping[str, _TestFile]:
    return {file.sha256: file for file in read_toml(_Units, UNITS).file}


def unit_numbers(record: RunRecord, examples: Sequence[Example], unit: str) -> list[float] | None:
    """The number of the unit of each example, or None if it is unknown or examples have no units.

    Args:
        record: The run.
        examples: The scores of its test examples.
        unit: The name of the units, such as "article"; empty if every example stands alone.
    """
    if not unit:
        return None
    with suppress(KeyError):
        return list(map(itemgetter(unit), examples))
    known = _files().get(str(record.data_hashes.get("test")))
    if known is None or known.unit != unit or sum(known.sizes) != len(examples):
        return None
    return [float(number) for number, size in enumerate(known.sizes) for _ in range(size)]
