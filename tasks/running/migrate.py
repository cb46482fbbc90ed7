"""Migration of run records from schema 1 to schema 2, in place: python -m tasks.migrate RUNS_DIR ...

Schema 1 hashed the whole config, so any new setting orphaned every record. Schema 2 hashes the run's name, recipe
numbers and the content of data, vectors and weights. Scores, examples and curves do not change. A record that was
edited by hand is reported and left alone. Records of schema 2 are left alone too, so the command can be repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmo.common.errors import InputError
from elmo.common.files import read_json, write_json
from results.records.identity import EXAMPLES_NAME, RECORD_NAME, fingerprint, flattened
from results.records.record import RunRecord, write_record
from results.records.typed_json import decode
from tasks.running.config import NOT_IN_VARIANT, own_settings, task_named

FEATURE_PARTS = ("words", "characters", "elmo")  # of schema 1, all with recipe 1


def migrated(content: Mapping[str, Any]) -> RunRecord:
    """Converts the content of a record from schema 1 to schema 2.

    Raises:
        InputError: the content was edited: its fingerprint or its name does not match its config.
    """
    old = content["fingerprinted"]
    if fingerprint(old) != content["fingerprint"]:
        raise InputError("expected the fingerprint of what is under `fingerprinted`; was it edited by hand?")
    config, named = old["config"], content["identity"]
    _check_name(named, content["limit"], config)
    variant = {key: value for key, value in named["variant"].items() if not key.lstrip("~").startswith(NOT_IN_VARIANT)}
    parts = [part for part in FEATURE_PARTS if config["features"][part] is not None]
    own = own_settings(config, task_named(named["task"]))
    hashed = {
        "recipes": {"task": old["recipe"], **dict.fromkeys(parts, 1)},
        **{key: old[key] for key in ("data", "vectors", "weights")},
        **({"settings": own} if own else {}),
    }
    kept = {key: value for key, value in content.items() if key not in ("fingerprint", "limit", "schema")}
    identity = {**named, "variant": variant}
    record: RunRecord = decode(RunRecord, {**kept, "identity": identity, "fingerprinted": hashed, "config": config})
    return record


def _check_name(identity: Mapping[str, Any], limit: int | None, config: Mapping[str, Any]) -> None:
    """Raises an InputError if the name of a record of schema 1 does not match its hashed config."""
    variant, settings = identity["variant"], {"limit": None, "train_fraction": 1.0, **flattened(config)}
    names = {"seed": identity["seed"], "data.name": identity["data"], "features.name": identity["features"]}
    plain = {"limit": None, "train_fraction": 1.0}  # settings that the name must not omit
    if limit != settings["limit"]:
        raise InputError(f"limit: expected {settings['limit']!r}, as in fingerprinted.config, found {limit!r}")
    for key, value in {**names, **plain, **variant}.items():
        hashed = settings.get(key.removeprefix("~"), "absent")
        if isinstance(hashed, list):
            hashed = f"[{','.join(map(str, hashed))}]"  # as it is typed
        if hashed != ("absent" if key.startswith("~") else value):
            raise InputError(f"{key}: expected {hashed!r}, as in fingerprinted.config, found {value!r}")


def migrate(path: Path) -> bool:
    """Migrates one record and its examples; returns False if it is of schema 2 already.

    Raises:
        InputError: the record cannot be migrated; the message names file and reason.
    """
    try:
        content = read_json(path)
        if not isinstance(content, dict) or content.get("schema") != 1:
            return False
        record = migrated(content)
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: {error}. Restore the file from a copy, or delete its folder and run again"
        ) from error
    examples = path.with_name(EXAMPLES_NAME)
    if examples.exists():
        scores = read_json(examples)
        if not isinstance(scores, dict) or scores.get("fingerprint") not in (
            content["fingerprint"],
            record.fingerprint,
        ):
            raise InputError(f"{examples}: does not belong to the record next to it. Restore both from a copy")
        write_json(examples, {**scores, "fingerprint": record.fingerprint})
    write_record(path, record)  # last, so that the command can be repeated after a kill
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Migrates all records below the folders; the exit status is 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tasks.migrate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="RUNS_DIR", help="such as results/runs")
    done = failed = 0
    for folder in parser.parse_args(arguments).folders:
        if not folder.is_dir():
            parser.error(f"{folder}: no such folder")
        for path in sorted(folder.rglob(RECORD_NAME)):
            try:
                done += migrate(path)
            except InputError as error:
                failed += 1
                print(f"tasks.migrate: {error}", file=sys.stderr)
    print(f"{done} records migrated" + (f", {failed} left alone" if failed else ""))
    return 1 if failed else 0
