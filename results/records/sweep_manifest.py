"""List of a sweep's runs: a small file written when the sweep starts, so that missing runs can be shown.

A single run leaves such a file without runs, if its command names configs or data: suggested commands need these.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

from filelock import FileLock, Timeout

from elmo.common.files import read_json, write_json
from results.records.identity import Identity
from results.records.run_lock import PATIENCE, is_locked
from results.records.typed_json import decode

FOLDER = ".sweep"  # below runs_dir
DEFAULT_RUNS = Path("results", "runs")  # of tasks.run, and of the commands that read runs
CONFIG_DIR, DATA, DATA_DIR = "--config-dir", "data=", "data_dir="
SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """One sweep.

    Attributes:
        name: The experiment's name, or one made from the command; the same command overwrites the file.
        command: The command line.
        runs: All runs in order; none for a single run.
        refused: Runs that can never start, such as a dataset with another task's reader, each with the reason.
        started_at: ISO 8601, UTC.
        schema: Version of this layout.
    """

    name: str
    command: str
    runs: Sequence[Identity]
    refused: Sequence[str] = field(default_factory=list)
    started_at: str = ""
    schema: int = SCHEMA


@dataclass(frozen=True)
class TypedPlaces:
    """Where a user has configs, data and runs, as typed; empty if not typed.

    Attributes:
        config_dir: The folder after --config-dir.
        data_dir: The folder of official files.
        datasets: The files of data=PATH.yaml, by their names without folder and ending.
        runs_dir: The folder of the runs.
    """

    config_dir: str = ""
    data_dir: str = ""
    datasets: Mapping[str, str] = field(default_factory=dict)
    runs_dir: str = ""

    def words(self, shipped: bool) -> list[str]:
        """The words of a command that finds them again, without the folder of data for shipped data."""
        configs = [CONFIG_DIR, self.config_dir] if self.config_dir else []
        data = [f"{DATA_DIR}{self.data_dir}"] if self.data_dir and not shipped else []
        return [*configs, *data, *([f"runs_dir={hydra_value(self.runs_dir)}"] if self.runs_dir else [])]


def hydra_value(text: str) -> str:
    """A value in quotes if Hydra needs them, as for letters that are not ASCII; the shell's quotes are not included."""
    escaped = text.replace("'", r"\'")
    return text if re.fullmatch(r"[\w/+.%@: -]*", text, re.ASCII) else f"'{escaped}'"


def typed_places(runs_dir: Path) -> TypedPlaces:
    """The configs and data in the commands of this folder; the latest command that names one counts."""
    config_dir = data_dir = ""
    datasets: dict[str, str] = {}
    for manifest in read_manifests(runs_dir)[0]:
        try:
            words = shlex.split(manifest.command)
        except ValueError:  # edited by hand: a quotation mark is missing
            continue
        config_dir = next((after for word, after in pairwise(words) if word == CONFIG_DIR), config_dir)
        data_dir = next((word.removeprefix(DATA_DIR) for word in words if word.startswith(DATA_DIR)), data_dir)
        typed = [name for word in words if word.startswith(DATA) for name in word.removeprefix(DATA).split(",")]
        plain = {name.strip("'\""): name for name in typed}  # the quotes are Hydra's
        datasets |= {Path(path).stem: name for path, name in plain.items() if path.endswith(".yaml")}
    return TypedPlaces(config_dir, data_dir, datasets)


def write_manifest(runs_dir: Path, manifest: Manifest) -> None:
    """Writes the list below the folder of records, in one rename."""
    write_json(_path(runs_dir, manifest), asdict(manifest))


@contextmanager
def at_work(runs_dir: Path, manifest: Manifest) -> Iterator[None]:
    """Keeps the list locked in the block: as long as the sweep may start runs."""
    lock = FileLock(_path(runs_dir, manifest), timeout=PATIENCE)
    with suppress(Timeout, OSError):  # a folder that cannot be written to
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def is_at_work(runs_dir: Path, manifest: Manifest) -> bool:
    """Whether a process may still start missing runs of the sweep."""
    path = _path(runs_dir, manifest)
    return path.exists() and is_locked(path)


def _path(runs_dir: Path, manifest: Manifest) -> Path:
    return runs_dir / FOLDER / f"{manifest.name.replace('/', '%2F')}.json"


def read_manifests(runs_dir: Path) -> tuple[list[Manifest], list[str]]:
    """All sweeps that were started with this folder, oldest first, and a line for each unreadable file."""
    found, problems = [], []
    for path in sorted((runs_dir / FOLDER).glob("*.json")):
        try:
            content = read_json(path)
            schema = content.get("schema") if isinstance(content, dict) else None
            if isinstance(schema, int) and schema > SCHEMA:
                raise ValueError(f"written with schema {schema}, this suite knows up to {SCHEMA}")
            found.append(decode(Manifest, content))
        except (ValueError, OSError) as error:
            problems.append(
                f"{path}: expected the list of a sweep's runs, found: {error}. Start the sweep again, or delete it"
            )
    return sorted(found, key=lambda manifest: (manifest.started_at, manifest.name)), problems
