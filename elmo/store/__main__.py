"""Command line of the layer store: list, verify and prune it (python -m elmo.store)."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import expanded
from elmo.store.index import ENTRIES
from elmo.store.opening import remove
from elmo.store.shelf import (
    ABOUT,
    FORMAT,
    ROWS,
    Shelf,
    ShelfDescription,
    StoreFull,
    default_store,
    disk_bytes,
    read_about,
    shelves,
)

DESCRIPTION = """\
Inspect, verify and prune the store of frozen layers.

  info     list the contents: one line for each kind (weights, state policy, precision), the last used first
  verify   check the checksum of every entry; the exit status is 1 if one is damaged. --drop removes damaged entries
  prune    remove whole kinds: all, one, those unused for some days, or the longest unused until the rest fits
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message or damage."""
    return exit_status("elmo.store", lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    store = expanded(options.store, "--store")
    if not store.is_dir():
        raise InputError(f"{store}: no store there yet; runs make it, or name one with --store or ELMO_STORE")
    if options.command == "info":
        return _info(store)
    if options.command == "verify":
        return _verify(store, options.drop)
    return _prune(store, _to_remove(store, options), options.dry_run)


def _info(store: Path) -> int:
    folders = _by_use(store)
    total = sum(map(disk_bytes, folders))
    print(f"{store}: {total / 1e9:.3f} GB, {len(folders)} kinds of layers")
    status = 0
    for folder in folders:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(_last_used(folder)))
        about, size = _readable(folder), disk_bytes(folder) / 1e9
        if about is None:
            print(f"  {folder.name}  {size:.3f} GB  last used {used}  of another version; prune --other-versions")
            continue
        try:
            with closing(Shelf(store, about)) as shelf:
                sentences, tokens = shelf.count()
        except (InputError, StoreFull) as error:
            status = _report_error(error)  # the others can still be read
            continue
        each = disk_bytes(folder) / tokens if tokens else 0
        print(
            f"  {folder.name}  {sentences:,} sentences, {tokens:,} tokens, {size:.3f} GB ({each:,.0f} bytes a token)  "
            f"last used {used}"
        )
    return status


def _verify(store: Path, drop: bool) -> int:
    damaged = status = 0
    for folder in _by_use(store):
        about = _readable(folder)
        if about is None:
            print(f"  {folder.name}  of another version, not read")
            continue
        try:
            with closing(Shelf(store, about)) as shelf:
                keys = shelf.damaged()
                sentences, _ = shelf.count()
                if drop:
                    shelf.drop(keys)
                unnamed = shelf.unnamed_bytes()
        except (InputError, StoreFull) as error:
            status = _report_error(error)  # the others can still be read
            continue
        print(f"  {folder.name}  {sentences:,} sentences, {len(keys):,} damaged{' and dropped' * bool(keys and drop)}")
        if unnamed:
            print(
                f"    {folder / ROWS}: {unnamed:,} bytes of layers that {folder / ENTRIES} does not name: entries were "
                f"dropped or lost. Runs embed their sentences again; prune --kind {folder.name} frees the room"
            )
        damaged += len(keys)
    if damaged and not drop:
        print("runs embed damaged entries again; verify --drop removes them now")
    return 1 if damaged and not drop else status


def _to_remove(store: Path, options: argparse.Namespace) -> list[Path]:
    folders = _by_use(store)
    if options.all:
        return folders
    if options.kind is not None:
        if options.kind not in (names := {folder.name: folder for folder in folders}):
            raise InputError(f"{store}: expected --kind to be a name that info lists, found {options.kind!r}")
        return [names[options.kind]]
    removed = [folder for folder in folders if options.other_versions and _readable(folder) is None]
    if options.days is not None:
        removed += [folder for folder in folders if time.time() - _last_used(folder) > options.days * 86_400]
    if options.to_gb is not None:
        kept = 0
        for folder in folders:
            kept += disk_bytes(folder)
            removed += [folder] if kept > options.to_gb * 1e9 else []
    return list(dict.fromkeys(removed))


def _prune(store: Path, folders: Sequence[Path], dry_run: bool) -> int:
    freed = sum(map(disk_bytes, folders))
    for folder in folders:
        print(f"  {folder.name}  {disk_bytes(folder) / 1e9:.3f} GB")
        if not dry_run:
            remove(folder)  # runs that read it keep their open files
    print(f"{store}: {'would free' if dry_run else 'freed'} {freed / 1e9:.3f} GB, {len(folders)} kinds of layers")
    return 0


def _by_use(store: Path) -> list[Path]:
    """The shelves, last used first."""
    return sorted(shelves(store), key=_last_used, reverse=True)


def _last_used(folder: Path) -> float:
    return (folder / ABOUT).stat().st_mtime


def _readable(folder: Path) -> ShelfDescription | None:
    """The description of a shelf, or None if this version cannot read it."""
    about = read_about(folder)
    return about if about is not None and about.format == FORMAT and about.folder == folder.name else None


def _report_error(error: Exception | str) -> int:
    """Prints what went wrong and returns the exit status."""
    print(f"elmo.store: {error}", file=sys.stderr)
    return 1


def _from_zero(text: str) -> float:
    """The number of an option; a negative one would remove everything, and NaN nothing."""
    with suppress(ValueError):
        if (number := float(text)) >= 0:
            return number
    raise argparse.ArgumentTypeError(f"expected a number from 0 on, found {text!r}")


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("elmo.store", DESCRIPTION)
    parser.add_argument(
        "--store", metavar="DIR", type=Path, default=default_store(), help=f"the store (default: {default_store()})"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    info, verify, prune = (commands.add_parser(name) for name in ("info", "verify", "prune"))
    for command in (info, verify, prune):  # --store may also come after the command
        command.add_argument("--store", metavar="DIR", type=Path, default=argparse.SUPPRESS, help="the store")
    verify.add_argument("--drop", action="store_true", help="remove damaged entries")
    which = prune.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="remove everything")
    which.add_argument("--kind", metavar="NAME", help="remove this one; info lists the names")
    which.add_argument("--days", metavar="N", type=_from_zero, help="remove what was not used for N days")
    which.add_argument(
        "--to-gb", metavar="N", type=_from_zero, help="remove the longest unused until at most N GB are left"
    )
    which.add_argument("--other-versions", action="store_true", help="remove what this version cannot read")
    prune.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
