"""Folders of Parquet shards: one for each input file, computed alone, so that with and without Ray it has equal bits.

A shard appears when it is complete, and its metadata says of what it was made and how.
"""

import json
import logging
import socket
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from glob import escape
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.console import Console

from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import load_bilm
from elmo.common.device import choose_device, torch_threads
from elmo.common.errors import InputError, reworded
from elmo.common.files import expanded, left_partials, require_same, sha256_of
from elmo.common.processes import locked
from elmo.common.progress import Meter
from elmo.embed.one_file import PARQUET, embed_file
from elmo.embed.settings import EmbedSettings

FORMAT = 2  # raise it when shards of equal settings change
SKIPPED = ("_", ".")  # readers of Parquet folders skip names that begin with one of these
LOCK, METADATA = "_lock", "elmo"
MOST_FAILURES_SHOWN = 10
MOST_DEATHS = 3  # of workers at one shard; Ray would try forever

Row = dict[str, Any]  # as Ray Data passes it


@dataclass(frozen=True)
class ShardsJob:
    """The settings that all shards of a folder share.

    Attributes:
        folder: where they go; on a disk that all workers share.
        weights: for `load_bilm`; a path is absolute.
        fingerprint: of the biLM.
        device: cpu or cuda.
        threads: of torch, since a product in more threads may add up in another order.
    """

    folder: Path
    weights: str
    fingerprint: str
    settings: EmbedSettings
    device: str
    threads: int

    def shard(self, name: str) -> Path:
        """The shard of the input of this name."""
        return self.folder / f"{name}{PARQUET}"

    def made_from(self, path: Path) -> dict[str, Any]:
        """The settings that decide the bits of a shard, by the names of the options."""
        here = {"format": FORMAT, "weights": self.fingerprint, "device": self.device, "threads": self.threads}
        return here | asdict(self.settings) | {"sha256 of the input": sha256_of(path)}


@dataclass
class ShardWriter:
    """Writes shards, one for each call, and loads the biLM once; with Ray Data an actor.

    Attributes:
        job: the options.
        loaded: the biLM of the job, if it is loaded already.
    """

    job: ShardsJob
    loaded: Bilm | None = None

    def __call__(self, row: Row) -> Row:
        """Writes the shard of an input; one that cannot be used does not stop the others.

        Args:
            row: its name and path.

        Returns:
            Its name, the number of tokens, and why it failed, or an empty text.
        """
        tokens, failure = 0, ""
        try:
            tokens = self._write(row["name"], Path(row["path"]))
        except (InputError, OSError) as error:  # OSError: such as a disk that this machine does not share
            failure = f"{error} (on {socket.gethostname()})"
        return {"name": row["name"], "tokens": tokens, "failure": failure}

    def _write(self, name: str, path: Path) -> int:
        job, shard = self.job, self.job.shard(name)
        deaths = len(left_partials(shard.parent, escape(shard.name)))
        if deaths >= MOST_DEATHS:
            raise InputError(
                f"{path}: {deaths} workers died while they embedded it, perhaps because memory ran out; see Ray's "
                "logs. Split the file, or name another folder and a smaller --batch-size"
            )
        metadata = {METADATA: json.dumps(job.made_from(path))}
        with torch_threads(job.threads):
            return embed_file(self._bilm, path, shard, job.settings, (name, metadata))

    @cached_property
    def _bilm(self) -> Bilm:
        job = self.job
        bilm = self.loaded or load_bilm(job.weights, job.settings.products)
        if bilm.fingerprint() != job.fingerprint:
            raise InputError(
                f"{job.weights}: other weights than where the command runs. Copy them there, or name a file on a disk "
                "that all machines share"
            )
        bilm.remember_words()  # for all shards
        return bilm.to(choose_device(job.device))


def find_inputs(patterns: Sequence[str]) -> dict[str, Path]:
    """The absolute paths of the files that paths and patterns name, by their names in the output, in that order.

    A file keeps its own name; one that a pattern finds keeps the folders that the pattern leaves open, such as
    "2020/a.txt" of "texts/*/*.txt".

    Raises:
        InputError: no file, a folder, two files of one name, or a name that readers of Parquet folders would skip.
    """
    inputs: dict[str, Path] = {}
    for pattern in patterns:
        for name, path in _named(expanded(pattern, "IN")):
            if inputs.setdefault(name, path) != path:
                raise InputError(
                    f"{path}: another input, {inputs[name]}, has the name {name!r}, too. Give both as one pattern in "
                    "quotes, such as 'texts/*/*.txt', and their folders become parts of their names"
                )
            if any(part.startswith(SKIPPED) for part in Path(name).parts):
                raise InputError(
                    f"{path}: programs that read Parquet folders skip names that begin with _ or a full stop, such as "
                    f"{name!r}. Rename the file"
                )
    return dict(sorted(inputs.items()))


def _named(pattern: Path) -> list[tuple[str, Path]]:
    """Names and absolute paths of the files that a path or pattern means."""
    if pattern.is_file():
        return [(pattern.name, pattern.absolute())]
    fixed = list(takewhile(lambda part: not any(mark in part for mark in "*?["), pattern.parts))
    start = Path(*fixed).absolute()
    rest = pattern.parts[len(fixed) :]
    files = [path for path in start.glob(str(Path(*rest))) if path.is_file()] if rest else []
    if not files:
        raise InputError(f"{pattern}: expected a file, or a pattern that fits files, such as 'texts/*.txt'; found none")
    return [(path.relative_to(start).as_posix(), path) for path in files]


def unfinished(job: ShardsJob, inputs: Mapping[str, Path]) -> dict[str, Path]:
    """The inputs whose shards are missing.

    Raises:
        InputError: a shard was made with other weights or options, from another content, or by another program.
    """
    from pyarrow.parquet import read_schema

    missing = {}
    for name, path in inputs.items():
        shard = job.shard(name)
        if not shard.exists():
            missing[name] = path
            continue
        try:
            there = dict(json.loads(read_schema(shard).metadata[METADATA.encode()]))
        except (OSError, ValueError, KeyError, TypeError) as error:  # TypeError: it has no metadata
            raise InputError(f"{shard}: expected a shard of this command, found another file. Delete it") from error
        require_same(shard, "options or input", there, job.made_from(path))
    return missing


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Creates the folder, keeps a second command out of it, and removes what killed workers leave there."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: expected a folder for shards, found a file. Name another")

    with locked(folder / LOCK, f"{folder}: another command writes shards there. Wait for it, or name another folder"):
        for path in left_partials(folder, f"**/*{PARQUET}"):
            path.unlink(missing_ok=True)
        yield


def write_shards(
    job: ShardsJob, inputs: Mapping[str, Path], bilm: Bilm, ray: tuple[str | None, int | None, float] | None
) -> int:
    """Writes the shards of these inputs and shows how far it is; returns the number of tokens.

    Args:
        job: the options.
        inputs: the files by their names.
        bilm: the biLM of the job.
        ray: None computes in this process; otherwise the last arguments of `shards_on_ray`.

    Raises:
        InputError: shards failed; the others are written.
    """
    for name in inputs:
        job.shard(name).parent.mkdir(parents=True, exist_ok=True)
    rows = [{"name": name, "path": str(path)} for name, path in inputs.items()]
    sizes = {name: path.stat().st_size for name, path in inputs.items()}
    if ray is None or not rows:
        results = (row for row in map(ShardWriter(job, bilm), rows))
    else:
        rows.sort(key=lambda row: -sizes[row["name"]])  # no long one at the end, on one worker
        results = shards_on_ray(job, rows, *ray)
    tokens, failures = 0, []
    with closing(results), Meter(Console(stderr=True), "elmo.embed", sum(sizes.values())) as meter:
        for result in results:
            tokens += result["tokens"]
            if result["failure"]:
                failures.append(f"\n  {result['failure']}")
            meter.advance(sizes[result["name"]], result["tokens"])
    if failures:
        shown = "".join(failures[:MOST_FAILURES_SHOWN]) + "\n  ..." * (len(failures) > MOST_FAILURES_SHOWN)
        raise InputError(
            f"{len(failures)} of {len(rows)} shards failed; the others are written, and the same command makes the "
            f"missing ones:{shown}"
        )
    return tokens


def shards_on_ray(
    job: ShardsJob, rows: Sequence[Row], address: str | None, workers: int | None, gpus: float
) -> Generator[Row, None, None]:
    """Writes shards on Ray Data, in workers that load the biLM once each, and yields results as they come.

    Args:
        job: the options.
        rows: name and path of each input.
        address: of a cluster; None is $RAY_ADDRESS, or a Ray on this machine for this command.
        workers: their number; None is as many as the cluster has room for.
        gpus: of each worker; may be a fraction.

    Raises:
        InputError: Ray is not installed, cannot be reached, or has no room for a worker.
    """
    remedy = "Ray needs an environment of its own: pip install -c constraints-ray.txt -e '.[glove,ray]'"
    with reworded(ImportError, lambda error: f"--engine ray: {error}. {remedy}"):
        import ray
        import ray.data
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    logging.getLogger("ray.data._internal.progress").setLevel(logging.ERROR)  # warns that there is no bar of its own
    failures = ConnectionError, RuntimeError, ValueError
    with reworded(failures, lambda error: f"--address: Ray cannot be started or joined: {error}"):
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        size = min(workers or room_for_workers(ray.cluster_resources(), job.threads, gpus), len(rows))
        # A block for each file: a worker that dies loses the one it works on, and Ray Data has it computed again.
        yield from (
            ray.data.from_items(list(rows), override_num_blocks=len(rows))
            .map(
                ShardWriter,
                fn_constructor_args=[job],
                num_cpus=job.threads,
                num_gpus=gpus,
                compute=ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1),  # none waits
            )
            .iter_rows()
        )
    finally:
        ray.shutdown()


def room_for_workers(resources: Mapping[str, float], cpus: int, gpus: float) -> int:
    """The number of workers that fit into the cluster; at least one, or an InputError."""
    there = {kind: resources.get(kind, 0) for kind in ("CPU", "GPU")}
    room = min(int(there[kind] // need) for kind, need in (("CPU", cpus), ("GPU", gpus)) if need)
    if room < 1:
        raise InputError(
            f"--engine ray: a worker needs {cpus} CPUs and {gpus:g} GPUs, the cluster has {there['CPU']:g} and "
            f"{there['GPU']:g}. Lower --threads or --gpus; --workers N waits for machines that join later"
        )
    return room
