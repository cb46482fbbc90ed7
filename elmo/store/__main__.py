"""Command line of the layer store: list and prune it (python -m elmo.store)."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import expanded
from elmo.store.shelf import ENTRIES, RECORD, ROWS, default_store, disk_bytes, shelves

DESCRIPTION = """\
List and prune the store of frozen layers.

  info          list the contents: one line for each kind (weights, width, precision), the last used first
  prune NAME    remove the kinds with these names
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message."""
    parser = command_parser("elmo.store", DESCRIPTION)
    parser.add_argument("command", choices=("info", "prune"))
    parser.add_argument("names", metavar="NAME", nargs="*", help="a kind to prune; info lists their names")
    parser.add_argument(
        "--store", metavar="DIR", type=Path, default=default_store(), help=f"the store (default: {default_store()})"
    )
    options = parser.parse_args(arguments)
    return exit_status("elmo.store", lambda: _run(options))


def _run(options: argparse.Namespace) -> None:
    store = expanded(options.store, "--store")
    if not store.is_dir():
        raise InputError(f"{store}: no store there yet; runs make it, or name one with --store or ELMO_STORE")
    folders = sorted(shelves(store), key=lambda folder: (folder / ROWS).stat().st_mtime, reverse=True)
    if options.command == "prune":
        _prune({folder.name: folder for folder in folders}, options.names)
        return
    print(f"{store}: {sum(map(disk_bytes, folders)) / 1e9:.3f} GB, {len(folders)} kinds of layers")
    for folder in folders:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime((folder / ROWS).stat().st_mtime))
        sentences = (folder / ENTRIES).stat().st_size // RECORD.size if (folder / ENTRIES).exists() else 0
        print(f"  {folder.name}  {disk_bytes(folder) / 1e9:.3f} GB, last used {used}, {sentences:,} sentences")


def _prune(folders: dict[str, Path], names: Sequence[str]) -> None:
    if not names or not folders.keys() >= set(names):
        raise InputError(f"prune: expected names that info lists, found {', '.join(names) or 'none'}")
    for name in names:
        print(f"  {name}  {disk_bytes(folders[name]) / 1e9:.3f} GB freed")
        # Renamed first, so that no process opens half of it. Processes that have it open keep their files.
        shutil.rmtree(folders[name].rename(folders[name].with_name(f"removed-{os.getpid()}-{name}")))


if __name__ == "__main__":
    sys.exit(main())
