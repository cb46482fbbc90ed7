"""Compiled libraries: each built from one C source by the machine's compiler when it is first needed, and kept.

Where there can be none torch computes alone, and the log says so, once however many sources there are.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from elmo.files import replacing

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


def default_folder() -> Path:
    """Where libraries are kept: in $ELMO_CACHE, or in the user's cache."""
    chosen = os.environ.get("ELMO_CACHE")
    return Path(chosen or "~/.cache/elmo-suite").expanduser() / "kernel"


def library(source: Path) -> ctypes.CDLL | None:
    """The library of a source; None, and a line in the log, where there is none. ELMO_KERNEL=0 switches all off."""
    if os.environ.get(SWITCH) == "0":
        return None
    with _loading:  # several threads may be the first to ask, all at once
        return _load(source)


@cache
def _load(source: Path) -> ctypes.CDLL | None:
    try:
        return load_library(source, default_folder())
    except NoKernelError as error:
        _say(str(error))
        return None


@cache
def _say(reason: str) -> None:
    _log.warning("nothing is compiled, torch computes alone, which is slower: %s", reason)


def load_library(source: Path, folder: Path, *defines: str) -> ctypes.CDLL:
    """The library, built if this folder has none for this source, compiler and processor.

    Args:
        source: C.
        folder: where libraries are kept.
        defines: the compiler's options beside those that all libraries have, such as -DLANES=8.

    Raises:
        NoKernelError: there is no compiler, it fails, or the folder cannot be written.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoKernelError(f"no C compiler was found (looked for {', '.join(COMPILERS)})")
    try:
        path = folder / f"{source.stem}-{_key(compiler, source, defines)}.so"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as partial:  # two processes may both build it; either file is whole
                _compile([compiler, *FLAGS, *defines, f"-I{SHARED.parent}"], source, partial)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        raise NoKernelError(str(error)) from error


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


def _compile(command: Sequence[str], source: Path, target: Path) -> None:
    said = ""
    for choice in FOR_THIS_PROCESSOR:
        complete = [*command, *([choice] if choice else []), "-o", str(target), str(source), "-lm"]
        done = subprocess.run(complete, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode == 0:
            return
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        said = errors[0] if errors else f"exit status {done.returncode}"
    raise NoKernelError(f"{command[0]} fails: {said}")
