"""Command line of the layer store: list and prune it (python -m elmo.store)."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from elmo.common.errors import InputError, command_parser
from elmo.common.files import expanded


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message."""
    parser = command_parser("elmo.store", "List and prune the store of frozen layers.")
    commands = "list the kinds of layers (weights, width, precision), the last used first, or remove some of them"
    parser.add_argument("command", choices=("info", "prune"), help=commands)
    parser.add_argument("names", metavar="NAME", nargs="*", help="a kind to prune; info lists their names")
    place = expanded(os.environ.get("ELMO_STORE") or "~/.cache/elmo-suite/layers", "ELMO_STORE")
    parser.add_argument("--store", metavar="DIR", type=Path, default=place, help=f"the store (default: {place})")
    return parser.run(arguments, _run)


def _run(options: argparse.Namespace) -> None:
    from elmo.store.shelf import ENTRIES, RECORD, shelves  # numpy: not for --help

    store = expanded(options.store, "--store")
    if not store.is_dir():
        raise InputError(f"{store}: no store there yet; runs make it, or name one with --store or ELMO_STORE")
    sizes = shelves(store)
    if options.command == "prune":
        _prune(sizes, options.names)
        return
    print(f"{store}: {sizes.total() / 1e9:.3f} GB, {len(sizes)} kinds of layers")
    for folder in sorted(sizes, key=lambda folder: folder.stat().st_mtime, reverse=True):
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(folder.stat().st_mtime))
        sentences = (folder / ENTRIES).stat().st_size // RECORD.size if (folder / ENTRIES).exists() else 0
        print(f"  {folder.name}  {sizes[folder] / 1e9:.3f} GB, last used {used}, {sentences:,} sentences")


def _prune(sizes: Mapping[Path, int], names: Sequence[str]) -> None:
    folders = {folder.name: folder for folder in sizes}
    if not names or not folders.keys() >= set(names):
        raise InputError(f"prune: expected names that info lists, found {', '.join(names) or 'none'}")
    for folder in map(folders.__getitem__, names):
        print(f"  {folder.name}  {sizes[folder] / 1e9:.3f} GB freed")
        # Renamed first, so that no process opens half of it. Processes that have it open keep their files.
        shutil.rmtree(folder.rename(folder.with_name(f"removed-{os.getpid()}-{folder.name}")))


if __name__ == "__main__":
    sys.exit(main())
