"""The compiled library: built from the C files of this folder with the local compiler on first use, and cached.

A library is code, so it is kept in a folder that no other user can write. If it cannot be built, torch is used, with
one line in the log.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
import threading
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
    """No library can be compiled; the message contains the reason."""


def library() -> ctypes.CDLL | None:
    """The library, or None, with a line in the log, if there is none or ELMO_KERNEL=0."""
    if os.environ.get(SWITCH) == "0":
        return None
    with _loading:  # several threads may call at once
        return _load()


@cache
def _load() -> ctypes.CDLL | None:
    # Users may share $ELMO_CACHE, so each has a separate folder.
    folder = Path(os.environ.get("ELMO_CACHE") or "~/.cache/elmo-suite", f"kernel-{os.geteuid()}")
    try:
        if _is_private(folder):
            return load_library(folder.expanduser())
        _log.warning("compiled code is not cached in %s: expected a folder of this user with mode 0700", folder)
        with tempfile.TemporaryDirectory() as temporary:  # the library stays loaded after its file is removed
            return load_library(Path(temporary))
    except (NoKernelError, OSError, subprocess.SubprocessError) as error:
        _log.warning("no compiled code, torch is used, which is slower: %s", error)
        return None


def _is_private(folder: Path) -> bool:
    """Whether only this user has access to the folder, which is made if it is missing."""
    try:
        folder = folder.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()  # of a link, not of where it leads
    except (OSError, RuntimeError):  # some users have no home
        return False
    return state.st_uid == os.geteuid() and not state.st_mode & 0o077


def load_library(folder: Path, *defines: str) -> ctypes.CDLL:
    """The library, built if this folder has none for these sources, this compiler and processor.

    Args:
        folder: where libraries are cached.
        defines: additional options for the compiler, such as -DLANES=8.

    Raises:
        NoKernelError: there is no compiler, or it fails.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoKernelError(f"no C compiler was found (looked for {', '.join(COMPILERS)})")
    path = folder / f"elmo-{_cache_key(compiler, *defines)}.so"
    if not path.exists():
        with replacing(path) as partial:  # two processes may build it at once; both files are valid
            _compile([compiler, *FLAGS, *defines], partial)
    return ctypes.CDLL(str(path))


def _cache_key(compiler: str, *defines: str) -> str:
    """A hash of everything that a library depends on: the sources, the flags, the compiler and the processor."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.glob("*.[ch]"))))
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=TIMEOUT_S).stdout
    made_with = FLAGS, defines, FOR_THIS_PROCESSOR, compiler, version, platform.machine(), processor()
    digest.update(repr(made_with).encode())
    return digest.hexdigest()[:24]


def _compile(command: list[str], target: Path) -> None:
    sources, problem = sorted(map(str, SOURCES.glob("*.c"))), ""
    for choice in FOR_THIS_PROCESSOR:
        complete = [*command, *([choice] if choice else []), "-o", str(target), *sources, "-lm"]
        done = subprocess.run(complete, capture_output=True, text=True, timeout=TIMEOUT_S)
        if done.returncode == 0:
            return
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        problem = errors[0] if errors else f"exit status {done.returncode}"
    raise NoKernelError(f"{command[0]} fails: {problem}")
