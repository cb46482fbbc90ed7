"""Files that are typed by their paths: data=PATH.yaml, read so that an untrusted file cannot run code, and experiments.

Hydra imports and calls what a config names, so everything under conf/ and --config-dir is trusted like code. A dataset
file is not trusted: nothing in it is resolved, and all of it is put under `data`, where the schema defines every key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import yaml
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.errors import ConfigCompositionException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from elmo.common.files import CONF
from results.experiments import SUFFIX

DEEPEST = 10  # levels of nesting; a dataset has four


class TypedFiles(ConfigSource):
    """Hydra's config source for data=PATH.yaml and experiment=PATH.toml; names are in conf/ and --config-dir."""

    @staticmethod
    def scheme() -> str:  # noqa: D102
        return "typed-file"

    def is_config(self, config_path: str) -> bool:  # noqa: D102
        group, _, path = config_path.partition("/")
        return path.endswith({"data": ".yaml", "experiment": SUFFIX}.get(group, "/"))

    def load_config(self, config_path: str) -> ConfigResult:  # noqa: D102
        group, _, path = config_path.partition("/")
        if group == "data":
            content: dict[str, Any] = {"dataset_file": path, "data": read_dataset(path)}
        else:
            content = {"hydra": {"sweeper": {"experiment": path}}}
        return ConfigResult(self.provider, path, OmegaConf.create(content), header={"package": "_global_"})

    def is_group(self, config_path: str) -> bool:  # noqa: D102
        return False

    def available(self) -> bool:  # noqa: D102
        return True

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:  # noqa: D102
        return []


class SearchPath(SearchPathPlugin):
    """Puts typed files before all folders: Hydra would read data=mini.yaml from conf/data/mini.yaml."""

    config_dir: ClassVar[Path | None] = None  # a user's folder, outside of a command, whose --config-dir Hydra reads

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:  # noqa: D102
        search_path.prepend("tasks", f"{TypedFiles.scheme()}://")
        if self.config_dir is not None:
            search_path.append("command-line", f"file://{self.config_dir.absolute()}")


@contextmanager
def searching(folder: Path) -> Iterator[None]:
    """Lets Hydra find the configs of a user's folder, if it is initialised in the block."""
    before, SearchPath.config_dir = SearchPath.config_dir, folder
    try:
        yield
    finally:
        SearchPath.config_dir = before


def register() -> None:
    """Registers typed files with Hydra in this process."""
    Plugins.instance().register(TypedFiles)
    Plugins.instance().register(SearchPath)


def read_dataset(given: str) -> dict[str, Any]:
    """Reads a dataset file; `name` defaults to the file's name. Hydra checks keys and types.

    Raises:
        ConfigCompositionException: the file cannot be read, or contains what only a trusted config may contain.
    """
    path = Path(given).expanduser()
    if not path.is_file():
        raise _refused(given, f"expected a file, found none. A dataset by name is data={path.stem}")
    try:
        text = path.read_text(encoding="utf-8")
        _check_structure(given, text)
        values = yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        found = " ".join(str(error).replace('"<unicode string>"', path.name).split())
        raise _refused(given, f"expected YAML, found: {found}. Correct the file") from None
    if not isinstance(values, dict):
        found = "nothing" if values is None else type(values).__name__
        raise _refused(given, f"expected keys and values, found {found}. Correct the file")
    if re.search(r"^\s*#\s*@package", text, re.MULTILINE):
        raise _refused(given, "expected a dataset, found a line with @package. Remove it")
    for word in _texts(values):
        if "${" in word:
            raise _refused(given, f"expected plain values, found {word[:80]!r}. Write the value itself")
    if not values.get("task"):
        raise _refused(given, "expected `task`, the task that it is for, found none. Add it")
    name = values.setdefault("name", path.stem)
    if isinstance(name, bool):
        raise _refused(
            given, f"name: expected text, found {name}: YAML reads yes, no, on, off so. Put quotes around it"
        )
    if name in ("", "???"):
        raise _refused(given, f"name: expected the dataset's name, or none for the file's, found {name!r}. Correct it")
    if f"{name}.yaml" in [file.name for file in (files(CONF) / "data").iterdir()]:
        raise _refused(given, f"name: {name} is a dataset of the suite. Give yours another name")
    return values


def _check_structure(given: str, text: str) -> None:
    """Rejects aliases and deep nesting, which can fill all memory or take hours."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST or isinstance(event, yaml.AliasEvent):
            found = "an alias" if depth <= DEEPEST else f"more than {DEEPEST} levels"
            raise _refused(given, f"expected keys and values of a dataset, found {found}. Write it out")


def _texts(value: object) -> Iterator[str]:
    """All strings in a value, including keys."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _refused(given: str, reason: str) -> ConfigCompositionException:
    return ConfigCompositionException(f"data={given}: {reason}")
