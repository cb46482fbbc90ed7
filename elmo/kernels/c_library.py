"""The compiled library: built from the C files of this folder with the local compiler on first use, and cached.

A library is code, so it is loaded only from a folder that no other user can write, and only if its content has the hash
in its name. If it cannot be built, torch is used, with one line in the log.
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

from elmo.common.device import processor
from elmo.common.files import replacing

SWITCH = "ELMO_KERNEL"
SOURCES = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
# -fno-schedule-insns: on ARM gcc otherwise loads values too early, and the sums of a product do not fit into registers.
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-schedule-insns", "-fPIC", "-shared")
# Flags for all instructions of this processor; the first that works is used. None: the baseline of the architecture.
FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native", None)
TIMEOUT_S = 120.0  # of a compiler

_log = logging.getLogger(__name__)
_loading = threading.Lock()


class NoKernelError(Exception):
    """No library can be compiled or loaded; the message contains the reason."""


class UnusableFolderError(NoKernelError):
    """Libraries cannot be kept safely in this folder; another one may work."""


def folders() -> Iterator[Path]:
    """Folders for libraries, in order of preference. Users may share $ELMO_CACHE, so each has a separate folder."""
    name = f"kernel-{os.geteuid()}"
    if chosen := os.environ.get("ELMO_CACHE"):
        yield Path(chosen).expanduser() / name
    with suppress(RuntimeError):  # some users have no home
        yield Path("~/.cache/elmo-suite").expanduser() / name


def library() -> ctypes.CDLL | None:
    """The library, or None, with a line in the log, if there is none or ELMO_KERNEL=0."""
    if os.environ.get(SWITCH) == "0":
        return None
    with _loading:  # several threads may call at once
        return _load()


@cache
def _load() -> ctypes.CDLL | None:
    try:
        for folder in folders():
            try:
                return load_library(folder)
            except UnusableFolderError as error:
                _log.warning("compiled code is not cached there: %s", error)
        with tempfile.TemporaryDirectory() as temporary:  # the library stays loaded after its file is removed
            return load_library(Path(temporary))
    except (NoKernelError, OSError) as error:
        _log.warning("no compiled code, torch is used, which is slower: %s", error)
        return None


def load_library(folder: Path, *defines: str) -> ctypes.CDLL:
    """The library, built if this folder has none for these sources, this compiler and processor.

    Args:
        folder: where libraries are cached; it is made if it is missing.
        defines: additional options for the compiler, such as -DLANES=8.

    Raises:
        UnusableFolderError: the folder belongs to another user, others have access, or it cannot be written.
        NoKernelError: there is no compiler, it fails, or the library in the folder is damaged.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoKernelError(f"no C compiler was found (looked for {', '.join(COMPILERS)})")
    try:
        name = f"elmo-{_cache_key(compiler, defines)}"
        with _open_private(folder) as inside:
            path = min(inside.glob(f"{name}-*.so"), default=None)
            if path is None:
                content = _compile([compiler, *FLAGS, *defines])
                path = inside / f"{name}-{_hash(content)}.so"
                with replacing(path) as partial:  # two processes may build it at once; both files are valid
                    partial.write_bytes(content)
            elif path.stem != f"{name}-{_hash(path.read_bytes())}":  # a truncated library would crash the process
                raise NoKernelError(f"{folder / path.name}: damaged; remove it, and it will be built again")
            return ctypes.CDLL(str(path))
    except OSError as error:
        raise UnusableFolderError(f"{folder}: {error}") from error
    except subprocess.SubprocessError as error:
        raise NoKernelError(str(error)) from error


@contextmanager
def _open_private(folder: Path) -> Iterator[Path]:
    """Makes a folder if it is missing, checks that only this user has access, and opens it by its descriptor."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise UnusableFolderError(
                f"{folder}: expected a folder of user {os.geteuid()} with mode 0700, found one of user "
                f"{found.st_uid} with mode {stat.S_IMODE(found.st_mode):04o}. Remove it, or set ELMO_CACHE"
            )
        # Through the descriptor: the path could lead to another folder after this check.
        fixed = Path(f"/proc/self/fd/{handle}")
        yield fixed if fixed.exists() else folder
    finally:
        os.close(handle)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


def _cache_key(compiler: str, defines: Sequence[str] = ()) -> str:
    """A hash of everything that a library depends on: the sources, the flags, the compiler and the processor."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]"))))
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=TIMEOUT_S).stdout
    digest.update(
        repr((FLAGS, defines, FOR_THIS_PROCESSOR, compiler, version, platform.machine(), processor())).encode()
    )
    return digest.hexdigest()[:24]


def _compile(command: Sequence[str]) -> bytes:
    """Compiles the library, and returns its content."""
    sources, problem = sorted(map(str, SOURCES.glob("*.c"))), ""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "library.so"
        for choice in FOR_THIS_PROCESSOR:
            complete = [*command, *([choice] if choice else []), "-o", str(target), *sources, "-lm"]
            done = subprocess.run(complete, capture_output=True, text=True, timeout=TIMEOUT_S)
            if done.returncode == 0:
                return target.read_bytes()
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            problem = errors[0] if errors else f"exit status {done.returncode}"
    raise NoKernelError(f"{command[0]} fails: {problem}")
