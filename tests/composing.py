"""Composes configs in a fifth of the time: the shipped YAML files that a test chooses are merged once a process.

Hydra reads and merges the same twenty files for each config; settings, and files of users, are still Hydra's work.
"""

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from hydra._internal import config_loader_impl
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.core_plugins.importlib_resources_config_source import ImportlibResourcesConfigSource
from hydra._internal.defaults_list import Overrides
from hydra.core.config_store import ConfigStore

SHIPPED = {"pkg", "structured", "typed-file"}  # sources whose names have the same content throughout


@contextmanager
def shipped_files_are_merged_once() -> Iterator[None]:
    """For configs that are composed in the block, in this process."""
    list_defaults = config_loader_impl.create_defaults_list
    merge = ConfigLoaderImpl._compose_config_from_defaults_list
    read = ImportlibResourcesConfigSource.load_config
    files, lists, trees, kept = {}, {}, {}, set()

    def load_config(self, config_path):
        key = (self.provider, self.path, config_path)
        if key not in files:
            files[key] = pickle.dumps(read(self, config_path))
        return pickle.loads(files[key])  # noqa: S301 (faster than a deep copy)

    def create_defaults_list(repo, config_name, overrides_list, prepend_hydra, skip_missing):
        settings = Overrides(repo, overrides_list).config_overrides
        choices = [one.input_line for one in overrides_list if not any(one is other for other in settings)]
        sources = [(source.scheme(), source.path) for source in repo.get_sources()]
        key = (config_name, *choices, skip_missing, *sources, *names(ConfigStore.instance().repo))
        if key not in lists:
            found = list_defaults(repo, config_name, overrides_list, prepend_hydra, skip_missing)
            if not {scheme for scheme, _ in sources} <= SHIPPED or any("." in choice for choice in choices):
                return found
            lists[key] = found
            kept.add(id(found.defaults))
        return replace(lists[key], config_overrides=settings)

    def compose(self, defaults, repo):
        if id(defaults) not in kept:
            return merge(self, defaults, repo)
        if id(defaults) not in trees:
            trees[id(defaults)] = pickle.dumps(merge(self, defaults, repo))
        return pickle.loads(trees[id(defaults)])  # noqa: S301

    with (
        patch.object(ImportlibResourcesConfigSource, "load_config", load_config),
        patch.object(config_loader_impl, "create_defaults_list", create_defaults_list),
        patch.object(ConfigLoaderImpl, "_compose_config_from_defaults_list", compose),
    ):
        yield


def names(store: Mapping) -> Iterator[str]:
    """What a test may add to Hydra's store, or take away."""
    for name, content in store.items():
        yield name
        if isinstance(content, dict):
            yield from names(content)
