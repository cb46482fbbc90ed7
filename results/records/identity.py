"""Identity and fingerprint of a run.

The identity is the run's name (data, task, features, seed, changed settings), and determines the path of its record.
The fingerprint is the hash of everything that may change a score. If a record has the same identity but another
fingerprint, it was made under other settings. Records have a name of weights or vectors unchanged, and of a path only
its last part: the fingerprint has the hash of the content.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from elmo.bilm.options import SIZES
from elmo.published import PUBLISHED, VECTOR_NAMES, shipped_names
from results.records.printing import printable
from results.records.typed_json import read_toml

# Part and key of the settings of features that are names or paths.
BY_NAME_OR_PATH = tuple(read_toml(dict[str, str], "by_name_or_path.toml").items())
SOURCE = re.compile(r"features\.frozen\.\w+\.source\.")  # what a source is made from
_HUB_NAME = re.compile(r"[\w.-]*\w(/[\w.-]+)?")  # MODEL or OWNER/MODEL


def is_name(part: str, given: str, anywhere: bool = False) -> bool:
    """Whether this is a name of weights or vectors; a folder of that name comes first, unless `anywhere`."""
    if part == "transformer":
        return _HUB_NAME.fullmatch(given) is not None and (anywhere or not Path(given).exists())
    if given not in VECTOR_NAMES and (given in PUBLISHED or given in shipped_names()):
        return anywhere or not Path(given).exists()  # as in elmo.bilm.weight_files.find_weights
    return given in SIZES or given in VECTOR_NAMES


def without_folder(part: str, given: str, anywhere: bool = False) -> str:
    """The name in a record of the weights or vectors of a part of features.

    A path that ends like a name gets a "./", so that a user's biLM in a folder called small is not confused with the
    shipped one.

    Args:
        part: the part of the features.
        given: the name or path.
        anywhere: treat a name as one, even if a folder of that name is in the working directory.
    """
    last = Path(given).name
    if is_name(part, given, anywhere):
        return given
    return f"./{last}" if is_name(part, last, anywhere=True) else last


def last_of_path(value: object) -> object:
    """An absolute path as its last part; any other value as it is."""
    return Path(value).name if isinstance(value, str) and value.startswith(("/", "~")) else value


def recorded(key: str, typed: str) -> str:
    """The value in a record of a setting that was typed, such as the path of weights."""
    for part, name in BY_NAME_OR_PATH:
        if key == f"features.{part}.{name}":
            return without_folder(part, typed)
    if SOURCE.match(key):  # ${oc.env:NAME} may be an absolute path
        return Path(typed).name if typed.startswith("${") else str(last_of_path(typed))
    return typed


Value = str | int | float | bool | None
Parts = Mapping[str, object]

RECORD_NAME = "record.json"
EXAMPLES_NAME = "examples.json.gz"
PREDICTIONS_NAME = "predictions.jsonl.gz"  # text of the data: published only where they come with the suite
CONFIDENCES_NAME = "confidences.jsonl.gz"  # numbers alone
CHECKPOINT_NAME = "checkpoint.pt"  # the state after the last epoch; removed when the run ends
WEIGHTS_NAME = "weights.pt"  # the trained model, of a run with keep_weights=true
FOLD = "fold"  # the key of `Identity.fold`

_LONGEST_NAME = 120  # bytes; most file systems stop at 255, encrypted home folders at 143
# Created once: `json.dumps` creates an encoder for each value, and a grid of runs has many.
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Identity:
    """The name of a run: what was requested, without anything that follows from it.

    Attributes:
        data: Name of the data configuration, such as "mini" or "paper".
        task: Name of the task.
        features: Name of the features configuration: the arm of the comparison.
        seed: The run's seed.
        variant: All other changed settings, by the key that was typed: `{"trainer.epochs": 2, "limit": 200}`. A deleted
            key is `~KEY`, with its default value. Empty for a plain run.
        fold: The cross-validation fold that the run tests on, or None.
    """

    data: str
    task: str
    features: str
    seed: int
    variant: Mapping[str, Value] = field(default_factory=dict)
    fold: int | None = None

    def hashed(self) -> dict[str, object]:
        """The identity as the fingerprint covers it; fields added by later versions are left out if unset."""
        fold = {} if self.fold is None else {"fold": self.fold}
        names = {"data": self.data, "task": self.task, "features": self.features}
        return {**names, "seed": self.seed, "variant": dict(self.variant), **fold}

    @property
    def row(self) -> tuple[str, str]:
        """The row of the results table that it belongs to: data and task."""
        return self.data, self.task

    @property
    def title(self) -> str:
        """The name for display, with the variant as typed: "mini TASK FEATURES seed 1 limit=200"."""
        variant = (f"{key}={shown(value)}" for key, value in self.variant.items())
        named = f"{self.features}{self.in_fold}"
        return printable(" ".join((self.data, self.task, named, f"seed {self.seed}", *variant)))

    @property
    def typed_variant(self) -> dict[str, str]:
        """The variant with its values as typed, in the order of the keys."""
        return {key: shown(value) for key, value in sorted(self.variant.items())}

    @property
    def path(self) -> Path:
        """The file for the record, below a folder of runs.

        `mini/TASK/FEATURES/seed-1/record.json`, and with a variant
        `mini/TASK/FEATURES/limit=200,trainer.epochs=2/seed-1/record.json`.
        """
        variant = ",".join(f"{_escaped(key)}={_escaped(value)}" for key, value in self.typed_variant.items())
        fold = "" if self.fold is None else f"fold-{self.fold}"
        names = [*map(_escaped, (self.data, self.task, self.features)), variant, fold, f"seed-{self.seed}"]
        return Path(*map(_shortened, filter(None, names)), RECORD_NAME)

    @property
    def in_fold(self) -> str:
        """The fold for display, with a space before it; empty without one."""
        return "" if self.fold is None else f" fold {self.fold}"


def also_name(data: str) -> str:
    """The file, next to the record, for the scores of single examples of a further test set, `RunRecord.also`."""
    return f"examples-{_shortened(_escaped(data))}.json.gz"


def fingerprint(parts: Parts) -> str:
    """The sha256 (hex) of the parts as canonical JSON; the order of keys does not matter.

    Raises:
        TypeError: A value is not plain JSON.
    """
    return hashlib.sha256(_canonical(parts).encode()).hexdigest()


def settings_hash(config: Parts) -> str:
    """The sha256 of a resolved config without seed and fold: `settings` in `RunRecord.inputs`."""
    return fingerprint({key: value for key, value in config.items() if key not in ("seed", FOLD)})


def differences(there: Parts, here: Parts) -> dict[str, tuple[str, str]]:
    """The keys in which the two differ, each with both values as text ("absent" if a side lacks the key)."""
    left, right = ({key: _canonical(value) for key, value in flattened(side).items()} for side in (there, here))
    unequal = (key for key in sorted(left | right) if left.get(key) != right.get(key))
    return {key: (left.get(key, "absent"), right.get(key, "absent")) for key in unequal}


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


def looked_up(config: Parts, key: str) -> object:
    """The value of a dotted key, or ... where the config has none."""
    value: object = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return ...
        value = value[part]
    return value


def shown(value: object) -> str:
    """The value as typed on the command line; hashes are shortened."""
    if isinstance(value, str):
        return value[:12] if _SHA256.fullmatch(value) else value
    return _canonical(value)


def same_value(key: str, typed: str, value: object) -> bool:
    """Whether the value of a setting in a record, or another typed one, is what was typed for it."""
    normal = _normal(f"[{','.join(map(_text, value))}]" if isinstance(value, list) else _text(value))
    return normal == _normal(typed) or normal == _normal(recorded(key, typed.strip("'\"")))


def _text(value: object) -> str:
    return _canonical(value) if value is None or isinstance(value, bool) else str(value)


def _normal(text: str) -> str:
    """A value without what does not matter: quotes, spaces in lists, how a number or a boolean is written."""
    text = text.strip().strip("'\"")
    if text.startswith("[") and text.endswith("]"):
        return f"[{','.join(map(_normal, text[1:-1].split(',')))}]"
    try:
        return str(float(text))
    except ValueError:
        return text.lower() if text.lower() in ("true", "false", "null") else text


def _escaped(text: str) -> str:
    """Escapes bytes outside the harmless set as %XX; one to one, so that two values never share a folder."""
    escaped = re.sub(r"[^A-Za-z0-9._+@-]", lambda c: "".join(f"%{byte:02X}" for byte in c[0].encode()), text)
    return f"%2E{escaped[1:]}" if escaped.startswith(".") else escaped or "%"


def _shortened(name: str) -> str:
    """The name, or its start and a hash if it is too long; "~" is not in the harmless set, so the two never clash."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return f"{name[: _LONGEST_NAME - 17]}~{digest}"
