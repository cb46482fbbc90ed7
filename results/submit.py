"""Makes one bundle of your runs, to hand in for the board: `python -m results.submit`.

The bundle has the records and example scores of one source, and of the baseline with the same seeds, the source's code,
and what you state about it. It has no text of any data. It is written only if all runs are finished, and neither
`python -m results.audit` nor `python -m results.verify` finds anything in it. CONTRIBUTING.md goes through all steps.

example: python -m results.submit --source endings --title "Last letters" --text none --code endings.py endings.yaml
"""

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from elmo.common.errors import InputError, command_parser
from elmo.common.files import parse_json
from results.board.bundle import SUFFIX, Contents, pack
from results.names import default_pair
from results.records.collect import collect
from results.records.environment import known_commits
from results.records.identity import PREDICTIONS_NAME, RECORD_NAME
from results.records.printing import write
from results.records.progress import DEFAULT_RUNS, add_runs
from results.records.typed_json import decode
from results.verify import ROOT, check

STATED = {
    "title": "its name on the board",
    "text": "what it was trained on, in words",
    "parameters": "frozen parameters, tables of word vectors included",
    "milliseconds": "for 1,000 tokens",
    "measured": "where and how you measured the time",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Writes a bundle; returns the exit status."""
    parser = command_parser("results.submit", __doc__ or "")
    parser.add_argument("--source", metavar="NAME", required=True, help="the features of the runs")
    add_runs(parser)
    for name, about in STATED.items():
        parser.add_argument(f"--{name}", help=about)
    about = "Python and YAML of a source that does not come with the suite"
    parser.add_argument("--code", metavar="FILE", nargs="+", type=Path, default=[], help=about)
    about = "what of the test data is in the training text"
    parser.add_argument("--overlap", metavar="DATA/TASK=TEXT", action="append", default=[], help=about)
    parser.add_argument("--out", metavar="DIR", type=Path, default=Path(), help=f"for NAME{SUFFIX}; default: here")
    return parser.run(argv, _submit)


def _submit(options: argparse.Namespace) -> None:
    collection = collect(options.runs or [DEFAULT_RUNS])
    rows = {i.record.identity.row for i in collection.files if i.record.identity.features == options.source}
    arms = (options.source, default_pair()[0])
    files = [i for i in collection.files if i.record.identity.row in rows and i.record.identity.features in arms]
    if not rows:
        known = sorted({i.record.identity.features for i in collection.files})
        raise InputError(f"--source {options.source}: expected runs of it, found {known or 'none'}; see --runs DIR")
    tried = [i.record for i in files if i.record.trial and i.record.identity.features == options.source]
    stated = {name: value for name in STATED if (value := getattr(options, name)) is not None}
    stated["trials"] = Counter("/".join(record.identity.row) for record in tried)
    stated["overlaps"] = dict(typed.partition("=")[::2] for typed in options.overlap)
    try:
        manifest: Contents = decode(Contents, {"name": options.source, **stated})
    except ValueError as error:
        raise InputError(f"--{error}. Correct the option") from error
    if unreadable := [finding.text for finding in collection.findings if finding.wrong]:
        raise InputError("\n".join(unreadable))
    content = {f"code/{path.name}": path.read_bytes() for path in options.code}
    for item in (item for item in files if not item.record.trial):
        target, folder = (Path("runs") / item.record.identity.path).parent, item.path.parent
        for path in (folder / RECORD_NAME, *folder.glob("examples*.json.gz")):
            content[(target / path.name).as_posix()] = path.read_bytes()
        if item.record.shipped_data and (path := folder / PREDICTIONS_NAME).exists():
            first, *lines = map(parse_json, gzip.decompress(path.read_bytes()).splitlines())
            bare = [first, *({**line, "example": {}, "gold": {}} for line in lines)]
            text = "".join(f"{json.dumps(line)}\n" for line in bare)
            content[(target / path.name).as_posix()] = gzip.compress(text.encode(), mtime=0)
    with TemporaryDirectory() as temporary:
        made = Path(temporary) / f"{options.source}{SUFFIX}"
        pack(made, manifest, content)
        checked = check(made, known_commits(ROOT))
        (out := options.out / made.name).write_bytes(made.read_bytes())
    labels = ", ".join(f"{key} {label}" for key, label in checked.labels.items())
    write(f"{out}: {out.stat().st_size:,} bytes: {labels}\n", sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
