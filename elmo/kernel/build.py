"""The compiled library: built from `bilm.c` by the machine's C compiler when it is first needed, and kept."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path

from elmo.files import replacing

SOURCE = Path(__file__).with_name("bilm.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fPIC", "-shared")
# How compilers are told to use all that this processor has; the first that works. Neither: what all of its kind have.
FOR_THIS_PROCESSOR = ("-march=native", "-mcpu=native", None)
SECONDS = 120.0  # a compiler that takes longer than this hangs


class NoKernelError(Exception):
    """There can be no compiled library here; the message says why."""


def default_folder() -> Path:
    """Where libraries are kept: in $ELMO_CACHE, or in the user's cache."""
    chosen = os.environ.get("ELMO_CACHE")
    return Path(chosen or "~/.cache/elmo-suite").expanduser() / "kernel"


def load_library(folder: Path) -> ctypes.CDLL:
    """The library, built if this folder has none for this source, compiler and processor.

    Raises:
        NoKernelError: there is no compiler, it fails, or the folder cannot be written.
    """
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        raise NoKernelError(f"no C compiler was found (looked for {', '.join(COMPILERS)})")
    try:
        path = folder / f"bilm-{_key(compiler)}.so"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            with replacing(path) as partial:  # two processes may both build it; either file is whole
                _compile(compiler, partial)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        raise NoKernelError(str(error)) from error


def _key(compiler: str) -> str:
    """What decides a library's instructions: the source, the flags, the compiler and the processor."""
    digest = hashlib.sha256(SOURCE.read_bytes())
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=SECONDS).stdout
    digest.update(repr((FLAGS, FOR_THIS_PROCESSOR, compiler, version, platform.machine(), _processor())).encode())
    return digest.hexdigest()[:24]


def _processor() -> list[str]:
    """What the system says of the processor's kind and instructions; a home folder may be shared by several."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [platform.processor()]
    wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
    return sorted({line for line in lines if line.startswith(wanted)})


def _compile(compiler: str, target: Path) -> None:
    said = ""
    for choice in FOR_THIS_PROCESSOR:
        command = [compiler, *FLAGS, *([choice] if choice else []), "-o", str(target), str(SOURCE), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode == 0:
            return
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        said = errors[0] if errors else f"exit status {done.returncode}"
    raise NoKernelError(f"{compiler} fails: {said}")
