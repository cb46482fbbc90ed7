"""Folders of Parquet shards: one for each input file, each computed alone, so that both engines give the same bits."""

from __future__ import annotations

import socket
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from glob import escape
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from elmo.bilm.fast import compiled
from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import load_bilm
from elmo.common.device import choose_device
from elmo.common.errors import InputError, excerpt
from elmo.common.files import expanded, left_partials, read_own_json, sha256_of, write_json
from elmo.common.processes import alone
from elmo.common.progress import Meter
from elmo.common.threads import torch_threads
from elmo.embed.one_file import PARQUET, EmbedSettings, embed_file

FORMAT = 1  # of the manifest; raise it when shards of equal settings change
# Readers of Parquet folders skip names that begin with one of these.
SKIPPED = ("_", ".")
MANIFEST, LOCK = "_manifest.json", "_lock"
SHARD = "shard"  # of an input in the manifest: the sha256 of its shard
NOTED_EVERY_S = 5.0  # a manifest of many shards takes long to write
MOST_FAILURES_SHOWN = 10
MOST_DEATHS = 3  # of workers at one shard; Ray would try forever


@dataclass(frozen=True)
class ShardsJob:
    """What all shards of a folder have in common.

    Attributes:
        folder: where they go; on a disk that all workers share.
        weights: for `load_bilm`; a path is absolute.
        options: for `load_bilm`.
        fingerprint: of the biLM.
        device: cpu or cuda.
        threads: of torch, since a product in more threads may add up in another order.
        arithmetic: see `arithmetic`.
    """

    folder: Path
    weights: str
    options: str | None
    fingerprint: str
    settings: EmbedSettings
    device: str
    threads: int
    arithmetic: str

    def identity(self) -> dict[str, Any]:
        """What decides the bits of a shard, next to its input; by the names of the options."""
        return {
            "format": FORMAT,
            "weights": self.fingerprint,
            **asdict(self.settings),
            "device": self.device,
            "threads": self.threads,
            "arithmetic": self.arithmetic,
        }


@dataclass(frozen=True)
class InputFile:
    """A file to embed.

    Attributes:
        name: of its shard without .parquet, and in the column `source`.
        path: absolute.
        sha256: of its content.
    """

    name: str
    path: Path
    sha256: str

    def shard(self, folder: Path) -> Path:
        """The file of its shard."""
        return folder / f"{self.name}{PARQUET}"


@dataclass(frozen=True)
class ShardResult:
    """What became of a shard: its tokens and its hash, or the reason why there is none."""

    name: str
    tokens: int
    sha256: str = ""
    failure: str | None = None


class ShardWriter:
    """Writes shards, one for each call, and loads the biLM once. Both engines use it.

    Args:
        job: the options.
        bilm: the biLM of the job, if it is loaded already.
    """

    def __init__(self, job: ShardsJob, bilm: Bilm | None = None) -> None:
        self._job = job
        self._loaded = bilm

    def __call__(self, file: InputFile) -> ShardResult:
        """Writes the shard of a file; input that cannot be used does not stop the others."""
        try:
            return ShardResult(file.name, self._write(file), sha256_of(file.shard(self._job.folder)))
        except InputError as error:
            return ShardResult(file.name, 0, failure=str(error))
        except OSError as error:  # such as a disk that this machine does not share
            return ShardResult(file.name, 0, failure=f"{error} (on {socket.gethostname()})")

    def _write(self, file: InputFile) -> int:
        job, here = self._job, socket.gethostname()
        if not (job.folder / MANIFEST).is_file():
            raise InputError(f"{job.folder}: no {MANIFEST} there on {here}. All machines must share this folder")
        found = sha256_of(file.path)
        if found != file.sha256:
            raise InputError(
                f"{file.path}: expected the sha256 {file.sha256[:12]}... of the start of this command, found "
                f"{found[:12]}... on {here}. The file has changed, or this machine has another one; run the command "
                "again"
            )
        shard = file.shard(job.folder)
        deaths = len(left_partials(shard.parent, escape(shard.name)))
        if deaths >= MOST_DEATHS:
            raise InputError(
                f"{file.path}: {deaths} workers died while they embedded it, perhaps because memory ran out; see Ray's "
                "logs. Split the file, or name another folder and a smaller --batch-size"
            )
        with torch_threads(job.threads):
            return embed_file(self._bilm, file.path, shard, job.settings, name=file.name, sha256=found, quiet=True)

    @cached_property
    def _bilm(self) -> Bilm:
        job = self._job
        bilm = self._loaded or load_bilm(job.weights, job.options)
        if bilm.fingerprint() != job.fingerprint:
            raise InputError(
                f"{job.weights}: other weights on {socket.gethostname()} than where the command runs. Copy them there, "
                "or name a file on a disk that all machines share"
            )
        here = arithmetic(job.device)
        if here != job.arithmetic:
            raise InputError(
                f"{socket.gethostname()}: computes with {here}, the command with {job.arithmetic}, which would change "
                "the last bits. Install the same torch and a C compiler, or set ELMO_KERNEL=0 on all machines"
            )
        bilm.remember_words()  # for all shards
        return bilm.to(choose_device(job.device))


def arithmetic(device: str) -> str:
    """What decides the last bits of layers, next to the kind of device: the version of torch, and C on a CPU."""
    kernels = "" if device == "cuda" else " and compiled C" if compiled() is not None else " alone"
    return f"torch {torch.__version__}{kernels}"


def find_inputs(patterns: Sequence[str]) -> list[InputFile]:
    """The files that paths and patterns name, in the order of their names.

    A file keeps its own name; one that a pattern finds keeps the folders that the pattern leaves open, such as
    "2020/a.txt" of "texts/*/*.txt".

    Raises:
        InputError: no file, a folder, two files of one name, or a name that readers of Parquet folders would skip.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        for name, path in _named(expanded(pattern, "IN")):
            if found.setdefault(name, path) != path:
                raise InputError(
                    f"{path}: another input, {found[name]}, has the name {name!r}, too. Give both as one pattern in "
                    "quotes, such as 'texts/*/*.txt', and their folders become parts of their names"
                )
            if any(part.startswith(SKIPPED) for part in Path(name).parts):
                raise InputError(
                    f"{path}: programs that read Parquet folders skip names that begin with _ or a full stop, such as "
                    f"{name!r}. Rename the file"
                )
    return [InputFile(name, path, sha256_of(path)) for name, path in sorted(found.items())]


def _named(pattern: Path) -> list[tuple[str, Path]]:
    """Names and absolute paths of the files that a path or pattern means."""
    if pattern.is_file():
        return [(pattern.name, pattern.absolute())]
    if pattern.is_dir():
        raise InputError(f"{pattern}: expected a file, found a folder. Name its files: '{pattern}/*.txt'")
    fixed = list(takewhile(lambda part: not any(mark in part for mark in "*?["), pattern.parts))
    if len(fixed) == len(pattern.parts):
        raise InputError(f"{pattern}: no such file. Check the path")
    start = Path(*fixed).absolute()
    files = [path for path in start.glob(str(Path(*pattern.parts[len(fixed) :]))) if path.is_file()]
    if not files:
        raise InputError(f"{pattern}: expected at least one file that fits this pattern, found none")
    return [(path.relative_to(start).as_posix(), path) for path in files]


def unfinished(job: ShardsJob, files: Iterable[InputFile]) -> list[InputFile]:
    """The files whose shards are missing; writes the manifest of the folder's content.

    A shard whose hash is not in the manifest is missing, too: the command was killed before it could note it.

    Call it under `working_in`.

    Raises:
        InputError: the folder was made with other weights or options, or from another content of a file, or a shard is
            not what was written.
    """
    inputs: dict[str, dict[str, str]] = {}
    if (job.folder / MANIFEST).exists():
        inputs = _inputs(job)
    elif any(job.folder.rglob(f"*{PARQUET}")):
        raise InputError(f"{job.folder}: Parquet files, but no {MANIFEST} with their options. Name another folder")
    missing = []
    for file in files:
        shard, before = file.shard(job.folder), inputs.get(file.name, {})
        entry = {"path": str(file.path), "sha256": file.sha256}
        if shard.exists() and before.get("sha256") != file.sha256:
            raise InputError(
                f"{file.path}: its content has changed since {shard} was made. Delete that shard to make it again, or "
                "name another folder"
            )
        if shard.exists() and SHARD in before:
            if sha256_of(shard) != before[SHARD]:
                raise InputError(f"{shard}: has changed since it was written. Delete it to make it again")
            entry[SHARD] = before[SHARD]
        else:
            shard.parent.mkdir(parents=True, exist_ok=True)
            missing.append(file)
        inputs[file.name] = entry
    write_json(job.folder / MANIFEST, {**job.identity(), "inputs": dict(sorted(inputs.items()))})
    return missing


def _inputs(job: ShardsJob) -> dict[str, dict[str, str]]:
    """The inputs in the manifest: of each its path and sha256, and the sha256 of its shard, if that is finished."""
    manifest = read_own_json(job.folder / MANIFEST)
    differ = [
        f"{name.replace('_', '-')} {manifest.get(name)!s:.80} there, {value} now"
        for name, value in job.identity().items()
        if manifest.get(name) != value
    ]
    if differ:
        raise InputError(
            f"{job.folder / MANIFEST}: its shards were made in another way: {'; '.join(differ)}. Give the same "
            "options, or name another folder"
        )
    inputs = manifest.get("inputs")
    if not isinstance(inputs, dict) or not all(isinstance(entry, dict) for entry in inputs.values()):
        raise InputError(
            f"{job.folder / MANIFEST}: expected its inputs with their hashes, found {excerpt(inputs)}. Delete the "
            "folder, or name another"
        )
    return inputs


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Creates the folder, keeps a second command out of it, and removes what killed workers leave there."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: expected a folder for shards, found a file. Name another")

    def tidy() -> None:
        for path in left_partials(folder, f"**/*{PARQUET}"):
            path.unlink(missing_ok=True)

    with alone(folder / LOCK, f"{folder}: another command writes shards there. Wait for it, or name another folder"):
        tidy()
        try:
            yield
        finally:
            tidy()


def follow(job: ShardsJob, results: Generator[ShardResult, None, None], files: Sequence[InputFile]) -> int:
    """Shows shards as they come and writes their hashes to the manifest; returns the number of tokens.

    Raises:
        InputError: shards failed; the others are written.
    """
    path = job.folder / MANIFEST
    manifest, last = read_own_json(path), time.monotonic()
    sizes = {file.name: file.path.stat().st_size for file in files}
    tokens, failures = 0, []
    try:
        with closing(results), Meter(Console(stderr=True), "elmo.embed", sum(sizes.values())) as meter:
            for result in results:
                tokens += result.tokens
                if result.failure is None:
                    manifest["inputs"][result.name][SHARD] = result.sha256
                else:
                    failures.append(result.failure)
                if time.monotonic() - last > NOTED_EVERY_S:
                    write_json(path, manifest)
                    last = time.monotonic()
                meter.advance(sizes[result.name], result.tokens)
    finally:
        write_json(path, manifest)
    if failures:
        shown = [*failures[:MOST_FAILURES_SHOWN], *(["..."] if len(failures) > MOST_FAILURES_SHOWN else [])]
        reasons = "".join(f"\n  {reason}" for reason in shown)
        raise InputError(
            f"{len(failures)} of {len(files)} shards failed; the others are written, and the same command makes the "
            f"missing ones:{reasons}"
        )
    return tokens
