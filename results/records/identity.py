"""Who a run is: the identity that names its folder and the fingerprint that says whether two runs are the same.

The identity is what a person would say ("NER on the mini data with ELMo, seed 1"); the path of a record is a pure
function of it. The fingerprint is the hash of everything that may change a score. The two differ on purpose: the same
identity with another fingerprint is how the suite notices that an old result no longer answers the question.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from results.records.printing import printable

Value = str | int | float | bool | None
Parts = Mapping[str, object]

RECORD_NAME = "record.json"
EXAMPLES_NAME = "examples.json"

_LONGEST_NAME = 120  # bytes; most file systems stop at 255, encrypted home folders at 143
# Made once: `json.dumps` makes one for each value, and a grid of runs has many.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Identity:
    """The name of a run: what was asked for, without anything that follows from it.

    Attributes:
        data: Name of the data configuration, such as "mini" or "paper".
        task: Name of the task, such as "ner".
        features: Name of the features configuration, such as "glove" or "elmo"; the arm of the comparison.
        seed: The run's seed.
        variant: Whatever else a user or a sweep changed, by the key they typed: `{"trainer.epochs": 2, "limit": 200}`.
            A key that they deleted is `~KEY`, with the value that it has otherwise. Empty for a plain run.
        fold: Which fold of a cross-validation the run tests on, or None.
    """

    data: str
    task: str
    features: str
    seed: int
    variant: Mapping[str, Value] = field(default_factory=dict)
    fold: int | None = None

    def hashed(self) -> dict[str, object]:
        """The identity as a fingerprint covers it; a field that a later version adds is left out where it is unset."""
        fold = {} if self.fold is None else {"fold": self.fold}
        names = {"data": self.data, "task": self.task, "features": self.features}
        return {**names, "seed": self.seed, "variant": dict(self.variant), **fold}

    @property
    def title(self) -> str:
        """The name as people say it, with the variant as it is typed: "mini ner elmo seed 1 limit=200"."""
        variant = (f"{key}={shown(value)}" for key, value in self.variant.items())
        fold = () if self.fold is None else (f"fold {self.fold}",)
        return printable(" ".join((self.data, self.task, self.features, *fold, f"seed {self.seed}", *variant)))


def record_path(runs_dir: Path, identity: Identity) -> Path:
    """The file that holds the record of this identity; the same for every process, machine and day.

    `runs/mini/ner/elmo/seed-1/record.json`, and with a variant
    `runs/mini/ner/elmo/limit=200,trainer.epochs=2/seed-1/record.json`.
    """
    variant = ",".join(f"{_escaped(key)}={_escaped(shown(value))}" for key, value in sorted(identity.variant.items()))
    names = [_escaped(identity.data), _escaped(identity.task), _escaped(identity.features)]
    names += [variant] if variant else []
    names += [] if identity.fold is None else [f"fold-{identity.fold}"]
    names += [f"seed-{identity.seed}"]
    return runs_dir.joinpath(*map(_shortened, names), RECORD_NAME)


def fingerprint(parts: Parts) -> str:
    """The sha256 (hex) of the parts as canonical JSON: key order and the process do not matter, any value does.

    Raises:
        TypeError: A value is not plain JSON; the message names its key.
    """
    try:
        canonical = _canonical(parts)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"fingerprint: expected plain JSON values (text, finite numbers, booleans, null, lists, mappings), "
            f"found {_not_plain(parts)}; convert it, or leave the key out"
        ) from error
    return hashlib.sha256(canonical.encode()).hexdigest()


def without_seed(parts: Parts) -> dict[str, object]:
    """The parts without the run's seed (`identity.seed`, and only that: other seeds are settings)."""
    identity = parts.get("identity")
    if not isinstance(identity, Mapping):
        return dict(parts)
    return {**parts, "identity": {key: value for key, value in identity.items() if key != "seed"}}


def differences(there: Parts, here: Parts) -> dict[str, tuple[str, str]]:
    """The keys in which the two differ, each with both values as text ("absent" where a side lacks the key)."""
    left, right = flattened(there), flattened(here)
    texts = {
        key: tuple(_canonical(side[key]) if key in side else "absent" for side in (left, right)) for key in left | right
    }
    return {key: (texts[key][0], texts[key][1]) for key in sorted(texts) if texts[key][0] != texts[key][1]}


def flattened(parts: Parts, prefix: str = "") -> dict[str, object]:
    """The leaves by dotted key, as a user would type them: `settings.trainer.lr` becomes `trainer.lr`."""
    leaves: dict[str, object] = {}
    for name, value in parts.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            leaves |= flattened(value, prefix="" if key == "settings" else f"{key}.")
        else:
            leaves[key] = value
    return leaves


def shown(value: object) -> str:
    """The value as it is typed on the command line; hashes cut to what a person can compare."""
    if isinstance(value, str):
        return value[:12] if _SHA256.fullmatch(value) else value
    return _canonical(value)


def _canonical(value: object) -> str:
    return _ENCODER.encode(value)


def _not_plain(parts: Parts) -> str:
    """The first leaf that JSON has no form for, in words."""
    for key, value in flattened(parts).items():
        try:
            _canonical(value)
        except (TypeError, ValueError):
            return f"{value!r} of type {type(value).__name__} at {key!r}"
    return "a key that is not text"


def _escaped(text: str) -> str:
    """One to one, so that two values never share a folder: bytes outside the harmless set become %XX."""
    harmless = re.compile(r"[A-Za-z0-9._+@-]")
    escaped = "".join(c if harmless.match(c) else "".join(f"%{byte:02X}" for byte in c.encode()) for c in text)
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped or "%"


def _shortened(name: str) -> str:
    """The name itself, or its readable start and a hash; "~" is never harmless, so the two cannot meet."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17]}~{digest}"
