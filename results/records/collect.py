"""Collects records from folders, without duplicates, and reports problems as findings."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from results.records.identity import RECORD_NAME, differences, record_path
from results.records.record import RecordUnreadable, RunRecord, read_record

PUBLISHED = Path(__file__).parents[1] / "published"


@dataclass(frozen=True)
class Finding:
    """A message below the table; `wrong` if `--check` should fail because of it.

    Attributes:
        kind: "failed" run, "empty" cell (the text is the command that fills it), missing "seeds" of a cell (likewise),
            "unreadable" file, or "note".
        text: The message, on one line.
        wrong: Whether it must be fixed before the table can be trusted.
        row: The (data, task) it belongs to, if any.
    """

    kind: Literal["failed", "empty", "seeds", "unreadable", "note"]
    text: str
    wrong: bool
    row: tuple[str, str] | None = None


@dataclass(frozen=True)
class FoundRecord:
    """A record and the file it was read from."""

    path: Path
    record: RunRecord

    @property
    def runs_dir(self) -> Path:
        """The folder of runs that it is in."""
        return self.path.parents[: len(record_path(Path(), self.record.identity).parts)][-1]


@dataclass(frozen=True)
class Collection:
    """All records below some folders, and the findings about them."""

    found: Sequence[FoundRecord]
    findings: Sequence[Finding]


def collect(folders: Iterable[Path]) -> Collection:
    """All records below the folders, ordered by path, copies of one run counted once; a missing folder is empty."""
    found: list[FoundRecord] = []
    findings: list[Finding] = []
    paths = (path for folder in folders for path in folder.rglob(RECORD_NAME))
    files = {os.path.realpath(path): path for path in paths}  # folders may overlap
    for path in sorted(files.values()):
        try:
            found.append(FoundRecord(path, read_record(path)))
        except RecordUnreadable as error:
            findings.append(Finding("unreadable", str(error), wrong=True))
        except OSError as error:
            findings.append(Finding("unreadable", f"{path}: {error.strerror}", wrong=True))
    return Collection(_without_copies(found, findings), findings)


def _without_copies(found: Sequence[FoundRecord], findings: list[Finding]) -> list[FoundRecord]:
    """One of each (identity, fingerprint): records merge by copying folders, so copies are expected."""
    kept: dict[tuple[Path, str], FoundRecord] = {}
    for item in found:
        key = (record_path(Path(), item.record.identity), item.record.fingerprint)  # 1 and "1" name one run
        other = kept.setdefault(key, item)
        if other is item or item.record.status != "finished":
            continue
        if other.record.status != "finished":
            kept[key] = item  # failed in one folder, finished in the other
        elif unlike := differences(item.record.scores, other.record.scores):
            name, (here, there) = next(iter(unlike.items()))
            text = f"{item.path} and {other.path} are the same run with different scores, {name} {here} and {there}"
            text += "; only the second is counted"
            findings.append(Finding("note", text, wrong=True, row=item.record.identity.row))
    return list(kept.values())
