"""Which published records have another fingerprint with the code on the path; as a command, for a copy of the code.

Content is not hashed but taken from the record: most of the data cannot be shipped.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from results.records.identity import shown
from results.records.record import read_record
from tasks.running.config import typed_config
from tasks.running.schema import compose_config


def differences(paths: Iterable[Path]) -> list[str]:
    """A line for each record whose fingerprint differs."""
    trees = cache(lambda *overrides: compose_config(overrides))  # plain runs come again and again, so no seed is typed
    lines = []
    with patch("tasks.running.config.compose_config", lambda overrides: trees(*overrides)):
        for path in paths:
            record = read_record(path)
            name, parts = record.identity, record.fingerprinted
            typed = [f"task={name.task}", f"features={name.features}", f"data='{name.data}'"]
            typed += [] if name.fold is None else [f"fold={name.fold}"]
            # Weights that were given by path are not here; their name is all that the identity has of them.
            absent = {key: value for key, value in name.variant.items() if key == "features.elmo.weights"}
            typed += [f"{key}={shown(value)}" for key, value in name.variant.items() if key not in absent]
            config = typed_config(typed)
            config = replace(config, seed=name.seed, variant={**config.variant, **absent})
            content = {key: parts[key] for key in ("vectors", "weights", "frozen", "transformer") if key in parts}
            with (
                patch("tasks.running.config.DataSource.fingerprint", return_value=dict(parts["data"])),
                patch("tasks.features.token_features.features_fingerprint", return_value=content),
            ):
                found = config.fingerprint
            if found != record.fingerprint:
                lines.append(f"{path} differs: {config.identity} {config.fingerprinted} {record.hashed}")
    return lines


if __name__ == "__main__":
    print(f"{len(sys.argv) - 1} records", *differences(map(Path, sys.argv[1:])), sep="\n")
