"""What a sweep is made of: a small file that it writes when it starts, so that what is missing can be told."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from results.records.identity import Identity
from results.records.record import write_json
from results.records.run_lock import Process
from results.records.typed_json import decode, read_json

FOLDER = ".sweep"  # below runs_dir
SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """One sweep.

    Attributes:
        name: The experiment's, or one made from the command; the same command writes the same file again.
        command: What was typed.
        runs: All its runs, in their order.
        refused: Those that can never start, such as a dataset with another task's reader, each with the reason.
        started_at: ISO 8601, UTC.
        process: Who does the runs, or waits for those who do; None in lists of an older suite.
        schema: Version of this layout.
    """

    name: str
    command: str
    runs: Sequence[Identity]
    refused: Sequence[str] = field(default_factory=list)
    started_at: str = ""
    process: Process | None = None
    schema: int = SCHEMA


def write_manifest(runs_dir: Path, manifest: Manifest) -> None:
    """Writes it below the folder of the records, in one rename, as the list of this process."""
    own = replace(manifest, process=Process.of(os.getpid()))
    write_json(runs_dir / FOLDER / f"{manifest.name.replace('/', '%2F')}.json", asdict(own))


def read_manifests(runs_dir: Path) -> tuple[list[Manifest], list[str]]:
    """All sweeps that were started with this folder, oldest first, and a line for each file that is none."""
    found, problems = [], []
    for path in sorted((runs_dir / FOLDER).glob("*.json")):
        try:
            content = read_json(path)
            schema = content.get("schema") if isinstance(content, dict) else None
            if isinstance(schema, int) and schema > SCHEMA:
                raise ValueError(f"written with schema {schema}, this suite knows up to {SCHEMA}")
            found.append(decode(Manifest, content))
        except (ValueError, OSError) as error:
            problems.append(f"{path}: not the list of a sweep's runs: {error}. Start the sweep again, or delete it")
    return sorted(found, key=lambda manifest: (manifest.started_at, manifest.name)), problems
