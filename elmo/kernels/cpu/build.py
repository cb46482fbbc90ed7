"""Compiled libraries: each built from one C source by the machine's compiler when it is first needed, and kept.

A library is code, so it is only loaded from a folder that nobody else may write, and only if its content has the hash
in its name. Where there can be none torch computes alone, and the log says so, once however many sources there are.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from elmo.common.files import replacing

SWITCH = "ELMO_KERNEL"
SHARED = Path(__file__).with_name("panels.h")  # what sources may include
COMPILERS = ("cc", "gcc", "clang")
# On ARM gcc otherwise loads far ahead of use, and a product's sums no longer fit into the registers.
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-schedule-insns", "-fPIC", "-shared")
# How compilers are told to use all that this processor has; the first that works. Neither: what all of its kind have.
FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native", None)
SECONDS = 120.0  # a compiler that takes longer than this hangs

_log = logging.getLogger(__name__)
_loading = threading.Lock()


class NoKernelError(Exception):
    """There can be no compiled library here; the message says why."""


class UnusableFolderError(NoKernelError):
    """Libraries cannot be kept in this folder, or not safely; another one may do."""


def folders() -> Iterator[Path]:
    """Where libraries may be kept, the first choice first. Several people may share $ELMO_CACHE: a folder for each."""
    name = f"kernel-{os.geteuid()}"
    if chosen := os.environ.get("ELMO_CACHE"):
        yield Path(chosen).expanduser() / name
    with suppress(RuntimeError):  # some users have no home
        yield Path("~/.cache/elmo-suite").expanduser() / name


def library(source: Path) -> ctypes.CDLL | None:
    """The library of a source; None, and a line in the log, where there is none. ELMO_KERNEL=0 switches all off."""
    if os.environ.get(SWITCH) == "0":
        return None
    with _loading:  # several threads may be the first to ask, all at once
        return _load(source)


@cache
def _load(source: Path) -> ctypes.CDLL | None:
    try:
        for folder in folders():
            try:
                return load_library(source, folder)
            except UnusableFolderError as error:
                _say("compiled code is not kept there", str(error))
        with tempfile.TemporaryDirectory() as own:  # what is loaded stays loaded
            return load_library(source, Path(own))
    except (NoKernelError, OSError) as error:
        _say("nothing is compiled, torch computes alone, which is slower", str(error))
        return None


@cache
def _say(consequence: str, reason: str) -> None:
    _log.warning("%s: %s", consequence, reason)


def load_library(source: Path, folder: Path, *defines: str) -> ctypes.CDLL:
    """The library, built if this folder has none for this source, compiler and processor.

    Args:
        source: C.
        folder: where libraries are kept; it is made if it is missing.
        defines: the compiler's options next to those that all libraries have, such as -DLANES=8.

    Raises:
        UnusableFolderError: the folder belongs to somebody else, others may look into it, or it cannot be written.
        NoKernelError: there is no compiler, it fails, or the library in the folder is damaged.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoKernelError(f"no C compiler was found (looked for {', '.join(COMPILERS)})")
    try:
        name = f"{source.stem}-{_key(compiler, source, defines)}"
        with _private(folder) as inside:
            path = min(inside.glob(f"{name}-*.so"), default=None)
            if path is None:
                content = _built([compiler, *FLAGS, *defines, f"-I{SHARED.parent}"], source)
                path = inside / f"{name}-{_hash(content)}.so"
                with replacing(path) as partial:  # two processes may both build it; either file is whole
                    partial.write_bytes(content)
            elif path.stem != f"{name}-{_hash(path.read_bytes())}":  # a cut one would kill the process when it runs
                raise NoKernelError(f"{folder / path.name}: damaged; remove it, and it is built again")
            return ctypes.CDLL(str(path))
    except OSError as error:
        raise UnusableFolderError(f"{folder}: {error}") from error
    except subprocess.SubprocessError as error:
        raise NoKernelError(str(error)) from error


@contextmanager
def _private(folder: Path) -> Iterator[Path]:
    """A folder of the user's alone, made if it is missing, under a path that no renaming leads elsewhere."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise UnusableFolderError(
                f"{folder}: expected a folder of user {os.geteuid()} with mode 0700, found one of user "
                f"{found.st_uid} with mode {stat.S_IMODE(found.st_mode):04o}. Remove it, or set ELMO_CACHE"
            )
        # Who may write the folder above could put another folder here between this check and the loading.
        fixed = Path(f"/proc/self/fd/{handle}")
        yield fixed if fixed.exists() else folder
    finally:
        os.close(handle)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _key(compiler: str, source: Path, defines: Sequence[str] = ()) -> str:
    """What decides a library's instructions: the source, the flags, the compiler and the processor."""
    digest = hashlib.sha256(source.read_bytes() + SHARED.read_bytes())
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=SECONDS).stdout
    digest.update(
        repr((FLAGS, defines, FOR_THIS_PROCESSOR, compiler, version, platform.machine(), _processor())).encode()
    )
    return digest.hexdigest()[:24]


def _processor() -> list[str]:
    """What the system says of the processor's kind and instructions; a home folder may be shared by several."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [platform.processor()]
    wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    return sorted({line for line in lines if line.startswith(wanted)})


def _built(command: Sequence[str], source: Path) -> bytes:
    """The content of a library."""
    said = ""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "library.so"
        for choice in FOR_THIS_PROCESSOR:
            complete = [*command, *([choice] if choice else []), "-o", str(target), str(source), "-lm"]
            done = subprocess.run(complete, capture_output=True, text=True, timeout=SECONDS)
            if done.returncode == 0:
                return target.read_bytes()
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            said = errors[0] if errors else f"exit status {done.returncode}"
    raise NoKernelError(f"{command[0]} fails: {said}")
