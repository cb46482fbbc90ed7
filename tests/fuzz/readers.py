"""All readers."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.fuzz import of_elmo, of_results, of_tasks
from tests.fuzz.reading import Fuzzer, Reader

READERS = [*of_results.READERS, *of_tasks.READERS, *of_elmo.READERS]
MOST_OF_OTHERS = 20_000  # bytes of a file in place of another


def fuzzer_of(reader: Reader, folder: Path) -> Fuzzer:
    """A fuzzer of this reader, in an empty folder."""
    return Fuzzer(reader, folder, _good_files())


@cache
def _good_files() -> list[bytes]:
    """The beginning of one good file for each reader, equal each time."""
    found = []
    for reader in READERS:
        with TemporaryDirectory() as folder:
            found.append(reader.make(Path(folder))[0].read_bytes()[:MOST_OF_OTHERS])
    return found
