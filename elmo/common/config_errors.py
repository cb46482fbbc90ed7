"""One-line explanations of Hydra and OmegaConf errors."""

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from traceback import walk_tb

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

CONFIG_ERRORS = (HydraException, OmegaConfBaseException, YAMLError)  # what composing a config raises


def explain(error: Exception, known_keys: Callable[[str], Iterable[str]], where: str = "") -> str:
    """Describes a config error: the key, what is wrong, and which keys or choices exist.

    Args:
        error: raised by Hydra, OmegaConf or their reader of YAML.
        known_keys: lists the keys below a parent such as "trainer"; "" is the root. It is used where the error does
            not name the dataclass that rejected the key.
        where: prefix of the keys that the error names, if only a part of the config was checked.
    """
    if isinstance(error, YAMLError):
        return f"expected YAML, found: {' '.join(str(error).split())}. Correct the file"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        # A name may be a path. Only Hydra's own groups, such as hydra/launcher, have two parts.
        *parts, name = error.missing_cfg_file.split("/", 2 if error.missing_cfg_file.startswith("hydra/") else 1)
        group, close = "/".join(parts), difflib.get_close_matches(name, error.options, n=1)
        hint = f" Did you mean {group}={close[0]}?" if close else ""
        return f"{group}={name}: no such choice.{hint} There are: {', '.join(sorted(error.options))}."
    texts = [str(error), str(error.__cause__ or "")]
    if isinstance(error, OverrideParseException):
        key, equals, value = error.override.partition("=")
        if not equals:
            return f"{key}: expected KEY=VALUE, found no value. --help shows the keys"
        escaped, unreadable = value.replace("'", r"\'"), f"{error.override}: Hydra cannot read this value as it is."
        if value.startswith("["):
            return f"{unreadable} Quote its items twice: \"{key}=['A','B']\""
        quoted = f"{key}='{escaped}'"
        # Double quotes are easier to read, but a shell does not leave these characters alone within them.
        in_quotes = shlex.quote(quoted) if re.search('["$`]', value) else f'"{quoted}"'
        return f"{unreadable} Quote it twice: {in_quotes}"
    if several := re.search(r"Ambiguous value for argument '([^'=]+)=([^']+)'", texts[0]):
        key, values = several.groups()
        return f"{key}={values}: expected one value. A list is {key}=[{values}]; a sweep over several needs -m"
    unknown, located = _named(r"(?:Could not override|Key) '([^']+)'", texts), _named(r"full_key: (\S+)", texts)
    place = _joined(where, located)
    if unset := re.search(r"Environment variable '([^']+)' not found", " ".join(texts)):
        reason = f"expected the environment variable {unset[1]}, found none. Set it: export {unset[1]}=VALUE"
        return ": ".join(filter(None, (place, reason)))
    if not unknown:
        noise = ("_type=", "full_key", "Error merging override")
        lines = [line for text in reversed(texts) for line in text.splitlines() if line]
        reason = "\n".join(dict.fromkeys(line for line in lines if not any(part in line for part in noise)))
        return ": ".join(filter(None, (place, reason)))
    name = _joined(where, located or unknown)
    parent, _, last = name.rpartition(".")
    # Hydra puts an error in a YAML file into one of its own. It is asked last: groups such as `size` are not its keys.
    known = sorted(_fields(error) or known_keys(parent) or _fields(error.__context__))
    close = difflib.get_close_matches(last, known, n=1)
    hint = f" Did you mean {_joined(parent, close[0])}?" if close else ""
    # Nothing is listed for an open mapping, such as a reader's settings. They are checked once the key is added.
    listed = f" Known there: {', '.join(known)}." if known else f" To add it, type +{name}=VALUE."
    return f"unknown key {name}.{hint}{listed}"


def explain_plain(error: Exception, typed: Sequence[str]) -> str | None:
    """Explains a plain error that Hydra raises, such as for a group that is null; returns None for any other error."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    if not modules[-1].startswith(("hydra.", "omegaconf.")):
        return None
    return (
        f"{' '.join(typed)}: {error}. A group cannot be null, and what is below a part that is null cannot be set; "
        "--cfg and --info print the settings of one run: drop -m"
    )


def _named(pattern: str, texts: Iterable[str]) -> str:
    """The match of a pattern's group in the first text that has one; empty if none has."""
    return next((match[1] for text in texts if (match := re.search(pattern, text))), "")


def _fields(error: BaseException | None) -> Iterable[str]:
    """The keys of the dataclass that an error names; none if it names none."""
    return getattr(getattr(error, "object_type", None), "__dataclass_fields__", ())


def _joined(parent: str, name: str) -> str:
    return ".".join(filter(None, (parent, name)))
