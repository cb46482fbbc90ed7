"""Composes configs for tests in a third of the time.

Hydra reads and merges the same twenty files for each config, and a run is compared with the plain run of its names,
which many tests share. Settings, and the files of users, are read each time.
"""

import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import patch

from hydra._internal import config_loader_impl, defaults_list
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.defaults_list import Overrides
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.plugins.config_source import ConfigResult

from tasks.running import config

SHIPPED = {"pkg", "structured", "typed-file"}  # sources whose names have the same content throughout


@contextmanager
def composing_quickly() -> Iterator[None]:
    """For configs that are composed in the block, in this process."""
    with (
        shipped_files_are_read_once(),
        shipped_files_are_merged_once(),
        plain_runs_are_composed_once(),
        equal_settings_are_checked_once(),
    ):
        yield


@contextmanager
def shipped_files_are_read_once() -> Iterator[None]:
    source = SourcesRegistry.instance().resolve("pkg")
    read, files, nodes, create_map = source.load_config, {}, {}, defaults_list._create_interpolation_map

    def load_config(self, config_path):
        key = (self.provider, self.path, config_path)
        if key not in files:
            files[key] = pickle.dumps(read(self, config_path))
        return pickle.loads(files[key])  # noqa: S301 (faster than a deep copy)

    def load(self, config_path):
        node = self._load(config_path)
        if id(node) not in nodes:
            nodes[id(node)] = node, pickle.dumps(node)
        return pickle.loads(nodes[id(node)][1])  # noqa: S301

    def create_interpolation_map(overrides, defaults, self_added):  # needed by few lists, and made for all
        return create_map(overrides, defaults, self_added) if any(one.is_interpolation() for one in defaults) else None

    kept = patch.object(ConfigStore, "__deepcopy__", lambda store, _: store, create=True)  # each compose copies it
    with (
        patch.object(source, "load_config", load_config),
        patch.object(ConfigStore, "load", load),
        patch.object(defaults_list, "_create_interpolation_map", create_interpolation_map),
        kept,
    ):
        yield


@contextmanager
def shipped_files_are_merged_once() -> Iterator[None]:
    list_defaults = config_loader_impl.create_defaults_list
    merge, load = ConfigLoaderImpl._compose_config_from_defaults_list, ConfigLoaderImpl._load_single_config
    lists, trees, kept = {}, {}, set()

    def create_defaults_list(repo, config_name, overrides_list, prepend_hydra, skip_missing):
        typed = Overrides(repo, overrides_list)
        choices = [f"{key}={value!r}" for key, value in sorted(typed.override_choices.items())]
        choices += map(repr, [typed.append_group_defaults, typed.deletions])
        sources = [(source.scheme(), source.path) for source in repo.get_sources()]
        key = (config_name, *choices, skip_missing, *sources, *names(ConfigStore.instance().repo))
        if key not in lists:
            found = list_defaults(repo, config_name, overrides_list, prepend_hydra, skip_missing)
            if not {scheme for scheme, _ in sources} <= SHIPPED or any("." in choice for choice in choices):
                return found
            lists[key] = found
            kept.add(id(found.defaults))
        return replace(lists[key], config_overrides=typed.config_overrides)

    def compose(self, defaults, repo):
        if id(defaults) not in kept or not any(one.config_path == "schema" for one in defaults):  # of pretraining
            return merge(self, defaults, repo)
        if id(defaults) not in trees:
            paths, start, merged = [one.config_path for one in defaults], [], 0
            for last in ("schema", *(path for path in paths if path.startswith("logger/"))):  # behind it: a task's own
                end = paths.index(last) + 1
                key = repr(defaults[:end])
                if key not in trees:
                    trees[key] = pickle.dumps(merge(self, [*start, *defaults[merged:end]], repo))
                start, merged = [ConfigResult("", "", pickle.loads(trees[key]), {})], end  # noqa: S301
            trees[id(defaults)] = pickle.dumps(merge(self, [*start, *defaults[merged:]], repo))
        return pickle.loads(trees[id(defaults)])  # noqa: S301

    def load_single(self, default, repo):
        return default if isinstance(default, ConfigResult) else load(self, default, repo)

    with (
        patch.object(config_loader_impl, "create_defaults_list", create_defaults_list),
        patch.object(ConfigLoaderImpl, "_compose_config_from_defaults_list", compose),
        patch.object(ConfigLoaderImpl, "_load_single_config", load_single),
    ):
        yield


def names(store: Mapping) -> Iterator[str]:
    """What a test may add to Hydra's store, or take away."""
    for name, content in store.items():
        yield name
        if isinstance(content, dict):
            yield from names(content)


@contextmanager
def plain_runs_are_composed_once() -> Iterator[None]:
    settings_of = config._plain_settings
    kept = cache(lambda state, *names: settings_of(*names))

    def plain_settings(task, features, data):
        if "." in data:
            return settings_of(task, features, data)
        return dict(kept(state(), task, features, data))

    with patch.object(config, "_plain_settings", plain_settings):
        yield


@contextmanager
def equal_settings_are_checked_once() -> Iterator[None]:
    check, known = config._checked, {}

    def checked(kind, values, where):
        if not kind.__module__.startswith("tasks."):
            return check(kind, values, where)
        key = (kind, where, pickle.dumps(values))
        if key in known:
            return pickle.loads(known[key])  # noqa: S301
        datasets = pickle.dumps(values.get("datasets"))  # a task's, which take half of the time
        result = check(kind, {**values, "datasets": {}} if datasets in known else values, where)
        if datasets in known:
            result.datasets = pickle.loads(known[datasets])  # noqa: S301
        elif "datasets" in values:
            known[datasets] = pickle.dumps(result.datasets)
        known[key] = pickle.dumps(result)
        return result

    with patch.object(config, "_checked", checked):
        yield


def state() -> tuple:
    """What else decides a plain run: the YAML files of a user's folder, and the variables that configs read."""
    hydra = GlobalHydra.instance()
    path = hydra.config_loader().get_search_path().get_path() if hydra.is_initialized() else ()
    folders = [Path(part.path.removeprefix("file://")) for part in path if part.provider == "command-line"]
    files = [(file, file.stat().st_mtime_ns) for folder in folders for file in folder.rglob("*.yaml")]
    return (*files, *((key, value) for key, value in os.environ.items() if key.startswith("ELMO_")))
