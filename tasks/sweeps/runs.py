"""The runs that a command stands for: their configs, what they need and do not find, and the plan of --plan."""

import hashlib
import re
import shlex
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from elmo.common.device import choose_device
from elmo.common.errors import InputError, shortened
from elmo.common.files import duration, nearest_existing, require_writable, size_in_words
from elmo.download import DownloadNeeded, without_downloads
from results.experiments import Cell, as_typed, equal_runs, load_experiment, sweep_name
from results.records.identity import is_name
from results.records.progress import Manifest
from results.records.record import timestamp
from tasks.data.datasets import DataSource
from tasks.features.token_features import FrozenConfig, TransformerConfig
from tasks.running.config import Run, run_config
from tasks.running.schema import explain

NUMBER = re.compile(r"(seed|fold)=(\d+)")
USED = re.compile(r"\$\{[^}]*\b(seed|fold)\}")  # by another setting
MIXING = {field.name for field in fields(FrozenConfig)}  # settings of frozen layers that open nothing


def typed_words(config: DictConfig) -> list[str]:
    """The overrides of a sweep as typed, interpolations unresolved: one may need a variable that is not set."""
    words = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    assert isinstance(words, list)
    return words


def runs_in(config: DictConfig) -> list[list[str]]:
    """The runs of a sweep, each as its overrides: the cells of an experiment, or the product of what was typed."""
    if experiment := config.hydra.sweeper.experiment:
        return [cell.overrides for cell in experiment_cells(experiment, _parsed(typed_words(config)))]
    params = config.hydra.sweeper.get("params") or {}
    values = typed_values(_parsed([*(f"{key}={value}" for key, value in params.items()), *typed_words(config)]))
    return [list(map(as_typed, zip(values, chosen, strict=True))) for chosen in product(*values.values())]


def _parsed(arguments: list[str]) -> list[Override]:
    return OverridesParser.create(config_loader=GlobalHydra.instance().config_loader()).parse_overrides(arguments)


def experiment_cells(experiment: str, overrides: list[Override]) -> list[Cell]:
    """The different runs of an experiment.

    Raises:
        InputError: the experiment's file is wrong or has no runs, or no cell matches the overrides.
    """
    chosen = load_experiment(experiment).narrowed(typed_values(overrides))
    cells = [cell for cell in chosen.cells if not cell.row.published_only]
    if not cells:
        raise InputError(
            f"experiment={experiment}: expected runs, found published records only: "
            f"python -m results.table --published --experiment {experiment}"
        )
    # Two cells may show the same run.
    return list({tuple(sorted(cell.overrides)): cell for cell in cells}.values())


def typed_values(overrides: Iterable[Override]) -> dict[str, list[str]]:
    """Key -> the values that were typed for it."""
    values = dict[str, list[str]]()
    for override in overrides:
        key = override.get_key_element()
        if override.is_delete() and override.value() is None:
            values[key] = [""]
        elif not override.is_sweep_override():
            values[key] = [_plain(str(override.get_value_element_as_str()))]
        elif override.is_discrete_sweep():
            values[key] = list(map(_plain, override.sweep_string_iterator()))
        else:
            raise ConfigCompositionException(f"{override.input_line}: expected values, found a range without steps")
    return values


def _plain(value: str) -> str:
    """The value as it was typed, if it is an interpolation: Hydra escapes its characters."""
    plain = re.sub(r"\\(.)", r"\1", value)
    return plain if "${" in plain else value


@dataclass
class Composed:
    """The runs of a sweep by their overrides, and why others are refused, by theirs."""

    runs: dict[str, Run] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.runs) + len(self.refused)


def composed(config: DictConfig, runs: list[list[str]]) -> Composed:
    """Composes the runs of a sweep.

    Raises:
        Exception: one of `CONFIG_ERRORS`, or an AssertionError for a key below a null: a run cannot be composed.
    """
    known: dict[tuple[str, ...], Run] = {}  # one for all seeds and folds: composing takes half a second
    sweep = Composed()
    for overrides in runs:
        words = " ".join(overrides)
        numbers = {typed[1]: int(typed[2]) for typed in map(NUMBER.fullmatch, overrides) if typed}
        others = (*numbers, *(override for override in overrides if not NUMBER.fullmatch(override)))
        try:
            if others in known:
                sweep.runs[words] = known[others].numbered(numbers)
                continue
            tree = GlobalHydra.instance().config_loader().load_sweep_config(config, list(overrides))
        except InputError as error:  # the data have no such fold
            sweep.refused[words] = str(error)
            continue
        with open_dict(tree):
            del tree["hydra"]
        try:
            sweep.runs[words] = run_config(tree)
            if not USED.search(OmegaConf.to_yaml(tree)):
                known[others] = sweep.runs[words]
        except InputError as error:
            sweep.refused[words] = str(error)
        except OmegaConfBaseException as error:  # of an interpolation, such as a variable that is not set
            sweep.refused[words] = explain(error)
    return sweep


def manifest_of(config: DictConfig, sweep: Composed) -> Manifest:
    """The names of a sweep's runs, for `python -m results.status`."""
    identities = [run.identity for run in sweep.runs.values()]
    # Equal runs are the same sweep, also with another folder, device or launcher.
    digest = hashlib.sha256("\n".join(identity.title for identity in identities).encode()).hexdigest()[:8]
    folders = [source.path for source in config.hydra.runtime.config_sources if source.provider == "command-line"]
    config_dir = [word for folder in folders for word in ("--config-dir", folder)]
    return Manifest(
        name=sweep_name(config.hydra.runtime.choices.get("experiment") or f"sweep-{digest}"),
        command=shlex.join(["python", "-m", "tasks.run", "-m", *config_dir, *typed_words(config)]),
        runs=identities,
        refused=[f"{overrides}: {reason}" for overrides, reason in sweep.refused.items()],
        started_at=timestamp(),
    )


@dataclass(frozen=True)
class Needs:
    """The needs of runs that are not met.

    Attributes:
        missing: why -> the overrides of the runs that lack it.
        downloads: name -> bytes to download; None if their number is not known.
    """

    missing: Mapping[str, set[str]]
    downloads: Mapping[str, int | None]

    @property
    def lacking(self) -> set[str]:
        """The overrides of the runs that lack something."""
        return set().union(*self.missing.values())

    def message(self, total: int) -> str:
        """All that is missing, a line or block each; `total` is the number of runs."""
        head = f"{len(self.lacking)} of {total} runs lack what they need. Nothing was started:"
        return "\n".join([head, *(f"  {reason}".replace("\n", "\n    ") for reason in self.missing)])


def needs_of(sweep: Composed, here: bool, download: bool) -> Needs:
    """Looks once for each thing that the runs need.

    Args:
        sweep: the runs.
        here: whether they run on this machine, and so need its device.
        download: downloads what can be, so that it is there before the first run; otherwise it is listed.
    """
    looks: dict[Hashable, Callable[[], object]] = {}
    users = defaultdict[Hashable, set[str]](set)
    missing = defaultdict[str, set[str]](set)
    for overrides, reason in sweep.refused.items():
        missing[shortened(f"{overrides}: {reason}")].add(overrides)
    for overrides, run in sweep.runs.items():
        for key, look in _looks(run, here, download):
            looks.setdefault(key, look)
            users[key].add(overrides)
    downloads: dict[str, int | None] = {}
    first: dict[Hashable, str] = {}  # why files of a dataset are missing: one line for all of its folds
    with nullcontext() if download else without_downloads():
        for key, look in looks.items():
            try:
                look()
            except DownloadNeeded as error:
                downloads[error.name] = error.size
            except (InputError, OSError) as error:
                kind = key.dataset if isinstance(key, _Files) else key
                missing[first.setdefault(kind, shortened(str(error)))] |= users[key]
    return Needs(missing, downloads)


class _Files(NamedTuple):
    """The files of a dataset, or of one of its folds."""

    dataset: str
    data_dir: Path
    splits: str


def _looks(run: Run, here: bool, download: bool) -> Iterator[tuple[Hashable, Callable[[], object]]]:
    """The look-ups of what a run needs, by what is looked for."""
    data, features = run.data, run.features
    # Readers differ, and folds in their files; the rest is the same for all runs on the files of a dataset.
    whole = repr((data.name, data.documents, data.shipped, data.hub, None if data.folds else data.splits))
    yield _Files(whole, run.data_dir, repr(data.splits)), lambda: DataSource(data, run.data_dir).check_there(download)
    for other in run.also:
        further = DataSource(other.data, run.data_dir, used=("test",))
        yield (repr(other.data), run.data_dir), lambda further=further: further.check_there(download)  # type: ignore[misc]
    if features.words is not None:
        yield features.words.vectors, features.words.open_vectors
    for part in features.all_frozen().values():
        settings = {field.name: getattr(part, field.name) for field in fields(part) if field.name not in MIXING}
        yield repr(settings), lambda part=part: _open(part, download)  # type: ignore[misc]
    yield (features.name, features.elmo and features.elmo.weights), features.check_weights
    if here:
        yield ("device", run.device), lambda: choose_device(run.device)
    yield ("runs_dir", run.runs_dir), lambda: require_writable("runs_dir", run.runs_dir)
    if (store := run.store.folder()) is not None:
        yield ("store.path", store), lambda: require_writable("store.path", store)


def _open(part: FrozenConfig, download: bool) -> None:
    if not download and isinstance(part, TransformerConfig) and is_name("transformer", part.model):
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(part.model, "config.json"), str):
            raise DownloadNeeded(part.model, None)
    part.fingerprint()


def plan_lines(sweep: Composed, to_do: Collection[Path], needs: Needs, at_once: int | None) -> Iterator[str]:
    """The lines of a plan.

    Args:
        sweep: the runs.
        to_do: the records that are still to be written.
        needs: what they need and do not find.
        at_once: how many run at the same time; None if a cluster decides it.
    """
    left = [run for run in sweep.runs.values() if run.path.absolute() in to_do]
    together = f", {at_once} at a time" if len(left) > 1 and at_once else ""
    yield f"runs       {len(sweep)}: {len(sweep.runs) - len(left)} have a record, {len(left)} are to do{together}"
    equal = equal_runs({run.runs_dir for run in left}, [run.identity for run in left])
    times = [fmean(item.record.seconds or 0.0 for item in items) for items in equal if items]
    if times:
        environments = [item.record.environment for items in equal for item in items]
        devices = " and ".join(sorted({environment.device for environment in environments if environment is not None}))
        rest = f"; of the other {len(left) - len(times)} none is recorded" if len(times) < len(left) else ""
        about = f"about {duration(sum(times) / min(at_once or 1, len(times)))} for {len(times)} runs"
        yield f"time       {about}, as long as equal ones took on {devices}{rest}"
    elif left:
        yield "time       not known: no equal run is recorded here or published"
    for folder in sorted({run.runs_dir for run in left}):
        sizes = [sum(path.stat().st_size for path in items[0].path.parent.iterdir()) for items in equal if items]
        about = f"about {size_in_words(fmean(sizes) * len(left))} of records" if sizes else "records"
        yield f"disk       {about} in {folder}; {_free(folder)} free"
    for folder, most in sorted({(place, run.store.limit_gb) for run in left if (place := run.store.folder())}):
        yield f"disk       at most {most:g} GB of frozen layers in {folder} (store.limit_gb); {_free(folder)} free"
    for name, size in needs.downloads.items():
        yield f"download   {name}, {'size not known' if size is None else size_in_words(size)}"
    yield from (f"missing    {reason}" for reason in needs.missing)
    if not needs.missing:
        yield "missing    nothing" + " but what is downloaded before the first run" * bool(needs.downloads)


def _free(folder: Path) -> str:
    return size_in_words(shutil.disk_usage(nearest_existing(folder)).free)
