"""The engine `ray` of `python -m elmo.embed`: shards on Ray Data, in workers that load the biLM once each."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elmo.common.errors import InputError
from elmo.embed.shards import InputFile, ShardResult, ShardsJob, ShardWriter


class RayWorker:
    """An actor of Ray Data: rows are plain values there."""

    def __init__(self, job: ShardsJob) -> None:
        self._writer = ShardWriter(job)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Writes a shard."""
        return asdict(self._writer(InputFile(row["name"], Path(row["path"]), row["sha256"])))


def shards_on_ray(
    job: ShardsJob, files: Sequence[InputFile], address: str | None, workers: int | None, gpus: float
) -> Generator[ShardResult, None, None]:
    """The engine `ray`: writes the shards of these files and yields results as they come.

    Args:
        job: the options.
        files: to embed.
        address: of a cluster; None is $RAY_ADDRESS, or a Ray on this machine for this command.
        workers: their number; None is as many as the cluster has room for.
        gpus: of each worker; may be a fraction.

    Raises:
        InputError: Ray is not installed, cannot be reached, or has no room for a worker.
    """
    if not files:
        return
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InputError(
            f"--engine ray: {error}. Ray needs an environment of its own: "
            "pip install -c constraints-ray.txt -e '.[glove,ray]'"
        ) from error
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    logging.getLogger("ray.data._internal.progress").setLevel(logging.ERROR)  # warns that there is no bar of its own
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"--address: Ray cannot be started or joined: {error}") from error
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        by_size = sorted(files, key=lambda file: -file.path.stat().st_size)  # no long one at the end, on one worker
        rows = [{"name": file.name, "path": str(file.path), "sha256": file.sha256} for file in by_size]
        size = min(workers or _room(ray.cluster_resources(), job.threads, gpus), len(files))
        pool = ray.data.ActorPoolStrategy(size=size, max_tasks_in_flight_per_actor=1)  # none waits for a busy one
        # A block for each file: a worker that dies loses the one it works on, and Ray Data has it computed again.
        shards = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            RayWorker,
            fn_constructor_args=[job],
            num_cpus=job.threads,
            num_gpus=gpus,
            compute=pool,
        )
        for row in shards.iter_rows():
            yield ShardResult(**row)
    finally:
        ray.shutdown()


def _room(resources: dict[str, float], cpus: int, gpus: float) -> int:
    """How many workers fit into the cluster."""
    found = {"CPU": resources.get("CPU", 0), "GPU": resources.get("GPU", 0)}
    room = min(int(found[kind] // need) for kind, need in (("CPU", cpus), ("GPU", gpus)) if need)
    if room < 1:
        raise InputError(
            f"--engine ray: a worker needs {cpus} CPUs and {gpus:g} GPUs, the cluster has {found['CPU']:g} and "
            f"{found['GPU']:g}. Lower --threads or --gpus; --workers N waits for machines that join later"
        )
    return room
