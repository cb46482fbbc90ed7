"""Commands that repeat published runs, made from their records."""

import shlex
from collections.abc import Mapping, Sequence

from results.analysis.rows import Group
from results.records.collect import all_folds
from results.records.identity import FOLD
from results.records.record import RunRecord


def commands_of(groups: Sequence[Group]) -> list[str]:
    """The commands that repeat the groups' runs; arms with the same seeds and settings share one."""
    arms: dict[tuple[tuple[int, ...], tuple[str, ...]], list[str]] = {}
    for group in groups:
        seeds_under: dict[tuple[str, ...], list[int]] = {}  # seeds of one arm may have run on different devices
        for record in group.records:
            seeds_under.setdefault(tuple(_settings(record)), []).append(record.identity.seed)
        for typed, own in seeds_under.items():
            arms.setdefault((tuple(own), typed), []).append(group.records[0].identity.features)
    found = []
    for (seeds, settings), features in arms.items():
        identity = groups[0].records[0].identity
        several = len(seeds) > 1 or len(features) > 1 or any(word.startswith(f"{FOLD}=") for word in settings)
        sweep = " -m" if several else ""
        names = [f"task={identity.task}", f"data={identity.data}", f"features={','.join(features)}"]
        words = [*names, f"seed={','.join(map(str, seeds))}", *settings]
        found.append(f"python -m tasks.run{sweep} {' '.join(map(shlex.quote, words))}")
    return found


def commit_of(groups: Sequence[Group]) -> str:
    """The commits of the runs, as text, with the recipe if it is an older one."""
    commits = {(record.commit, group.old_recipe) for group in groups for record in group.runs}
    known = sorted(f"{commit[:10]}{f' ({recipe})' * bool(recipe)}" for commit, recipe in commits if commit)
    unknown = ["no commit recorded"] if any(commit is None for commit, _ in commits) else []
    return ", ".join([f"at {' and '.join(known)}"] * bool(known) + unknown)


def _settings(record: RunRecord) -> list[str]:
    """The settings of a run without arm and seed, including folds, device and threads."""
    data = record.settings("data")
    whole = record.folds if FOLD not in record.identity.variant else None  # else some, which the variant has
    settings = [all_folds(whole)] if whole else []
    settings += [f"{_typed(key, data)}={value}" for key, value in record.identity.typed_variant.items()]
    settings += [] if data.get("shipped", True) else ["data_dir=DIR"]
    if record.environment:
        settings += [f"threads={record.environment.threads}"] * (record.environment.threads != 1)
        settings += ["device=cpu" if record.environment.device == "cpu" else "device=cuda"]
    return settings


def _typed(key: str, data: Mapping[str, object]) -> str:
    """The key on the command line; datasets of a task's YAML are set under `datasets`."""
    if key.startswith("data.") and data.get("task") is None:
        return f"datasets.{data.get('name')}.{key.removeprefix('data.')}"
    return key
