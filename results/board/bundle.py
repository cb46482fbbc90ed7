"""Bundles: the runs of one source in one small .tar.gz, with a manifest that hashes each file; nothing is trusted.

manifest.json                            `Contents`
runs/DATA/TASK/FEATURES/seed-1/...       record.json, examples.json.gz, and predictions without any text of the data
code/...                                 Python and YAML of a source that does not come with the suite, to be read
"""

import gzip
import hashlib
import io
import json
import re
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat

from elmo.common.errors import InputError
from elmo.common.files import parse_json
from results.records.typed_json import decode

MANIFEST, SUFFIX = "manifest.json", ".tar.gz"
LARGEST, UNPACKED, MOST = 2 << 20, 64 << 20, 2000  # bytes of a bundle, bytes of its content, files
MADE_BY = "make the bundle again: python -m results.submit"
_PART = r"[\w@%+=~,-][\w@%+=~,.-]*"  # never starts with a dot
_OF_RUN = rf"runs/({_PART}/){{3,6}}(record\.json|predictions\.jsonl\.gz|examples(-{_PART})?\.json\.gz)"
_NAME = re.compile(rf"{MANIFEST}|code/{_PART}\.(py|yaml)|{_OF_RUN}", re.ASCII)
Text = Annotated[str, Field(min_length=1, max_length=300)]


@dataclass(frozen=True)
class Contents:
    """What a bundle says about itself.

    Attributes:
        name: The source, as `features=NAME`.
        title: Its displayed name.
        text: What it was trained on.
        files: Path of each other file -> its sha256.
        overlaps: DATA/TASK -> what of its test data is in the training text, as far as the submitter knows.
        trials: DATA/TASK -> the number of trial runs on dev before.
        parameters: Its frozen parameters.
        milliseconds: For 1,000 tokens; where and how this was measured is `measured`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=r"^\w[\w.+@-]{0,60}$")]
    title: Text
    text: Text
    files: Mapping[str, str] = field(default_factory=dict)
    overlaps: Mapping[str, Text] = field(default_factory=dict)
    trials: Mapping[str, NonNegativeInt] = field(default_factory=dict)
    parameters: NonNegativeInt | None = None
    milliseconds: PositiveFloat | None = None
    measured: Text = "not stated"


def pack(path: Path, manifest: Contents, content: Mapping[str, bytes]) -> None:
    """Writes a bundle; equal content, equal bytes."""
    hashes = {name: hashlib.sha256(content[name]).hexdigest() for name in sorted(content)}
    text = json.dumps(asdict(replace(manifest, files=hashes)), indent=1, ensure_ascii=False)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in {MANIFEST: text.encode(), **{name: content[name] for name in hashes}}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def unpack(path: Path, folder: Path) -> Contents:
    """Writes the files of a bundle to an empty folder.

    Raises:
        InputError: The bundle is not as `pack` makes it; the message says where.
    """
    content = _content(path)
    try:
        manifest: Contents = decode(Contents, parse_json(content.pop(MANIFEST, b"")))
    except ValueError as error:  # also no JSON, or none at all
        raise InputError(f"{path}: {MANIFEST}: {error}; {MADE_BY}") from error
    for name in sorted(content.keys() | manifest.files.keys()):
        digest = hashlib.sha256(content[name]).hexdigest() if name in content else "no such file"
        if digest != (stated := manifest.files.get(name, "no such file")):
            raise InputError(f"{path}: {name}: expected {stated:.20}, as in {MANIFEST}, found {digest:.20}; {MADE_BY}")
        if name.endswith(".gz"):
            _inflated(content[name], f"{path}: {name}")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content[name])
    return manifest


def _content(path: Path) -> dict[str, bytes]:
    """Name -> bytes of each file; no more than the limits is ever held."""
    if (size := path.stat().st_size) > LARGEST:
        raise InputError(f"{path}: expected at most {LARGEST:,} bytes, found {size:,}; hand in less data")
    content: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(_inflated(path.read_bytes(), str(path))), mode="r:") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() and not member.issparse() else None
                rules = {
                    "a plain file, found a link, a folder or a device": file is not None,
                    f"{MANIFEST}, a file of a run, or code, found another path": _NAME.fullmatch(member.name),
                    "each file once, found it twice": member.name.casefold() not in map(str.casefold, content),
                    f"at most {MOST:,} files, found more": len(content) < MOST,
                }
                for rule, holds in rules.items():
                    if not holds:
                        raise InputError(f"{path}: {member.name[:200]!r}: expected {rule}; {MADE_BY}")
                content[member.name] = file.read() if file else b""
    except tarfile.TarError as error:
        raise InputError(f"{path}: expected a {SUFFIX} file, found: {error}; {MADE_BY}") from error
    return content


def _inflated(packed: bytes, where: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            raw = file.read(UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{where}: expected a whole gzip file, found: {error}; {MADE_BY}") from error
    if len(raw) > UNPACKED:
        raise InputError(f"{where}: expected at most {UNPACKED:,} bytes unpacked, found more; hand in less data")
    return raw
