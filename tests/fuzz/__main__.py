"""python -m tests.fuzz [--cases N] [--first N] [NAME ...]: damages files, and prints what readers do wrong as JSON."""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.fuzz.readers import READERS, fuzzer_of


def main(given: list[str] | None = None) -> int:
    """The exit status: 1 if a reader breaks the rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="readers; default: all")
    parser.add_argument("--cases", type=int, default=100, help="of each reader")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    options = parser.parse_args(given)
    status = 0
    for reader in READERS:
        if options.names and reader.name not in options.names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            fuzzer = fuzzer_of(reader, Path(folder))
            for number in (None, *range(options.first, options.first + options.cases)):
                print(f"{reader.name} {number}", file=sys.stderr, flush=True)  # the last line, if the process dies
                if problem := fuzzer.problem(number):
                    status = 1
                    print(json.dumps([reader.name, number, problem], ensure_ascii=False), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
