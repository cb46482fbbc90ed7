"""Checks a bundle that somebody hands in: `python -m results.verify BUNDLE`.

Compares the records in it with each other (as `python -m results.audit` does), with their example scores and
predictions, and with the suite's own runs: hashes of data and vectors, counts of examples, gold labels, the recipe, the
baseline's score. Then it says for each row how far it is confirmed:

  self-reported   consistent, but nothing outside the bundle confirms it: a consistent forgery stays here
  recomputed      its scores follow from predictions and the suite's own gold labels; predictions may be invented, too
  rerun           --rerun has repeated a seed, and the score is the same or within the deviation between seeds

No code from a bundle is run, ever. --rerun needs a source that comes with the suite, or, with --source-dir, a folder
with its code that you have read; it writes what it finds for bundles of the board to results/board/reruns.json.
"""

import argparse
import hashlib
import os
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from itertools import starmap
from pathlib import Path
from tempfile import TemporaryDirectory

from elmo.common.errors import InputError, command_parser
from elmo.common.files import CONF, read_json, write_json
from results import stats
from results.audit import audit, counted
from results.board.bundle import MADE_BY, SUFFIX, Contents, unpack
from results.names import default_pair, metric_of, old_recipe
from results.records.collect import PUBLISHED, RecordFile, collect
from results.records.environment import known_commits
from results.records.example_scores import Example, Prediction, read_examples, read_predictions, write_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME, differences
from results.records.printing import write
from results.records.record import RunRecord, mapping_of, settings_of
from results.tables.fill import commands_of, groups_of, scored_runs
from results.tables.rows import Group, Row

ROOT = Path(__file__).parents[1]
RERUNS = ROOT / "results" / "board" / "reruns.json"  # sha256 of a bundle -> DATA/TASK -> what a repeated seed scored
UNLIKELY = 0.001  # p of a baseline that the suite's own does not explain
_REFERENCES = 3  # published runs whose examples are compared


@dataclass(frozen=True)
class Checked:
    """A bundle that was not refused: DATA/TASK -> the suite's baseline, the runs of its source; how far confirmed."""

    manifest: Contents
    sha256: str
    groups: Mapping[str, tuple[Group, Group]]
    labels: Mapping[str, str]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line for each row; returns the exit status: 1 if a bundle is refused."""
    parser = command_parser("results.verify", __doc__ or "")
    parser.add_argument("bundles", metavar="BUNDLE", nargs="+", type=Path)
    about = "repeat the first seed of these rows, or of all"
    parser.add_argument("--rerun", metavar="DATA/TASK", nargs="*", help=about)
    about = "with --rerun: the folder of the source's modules, with its YAML in configs/features; its code is run"
    parser.add_argument("--source-dir", metavar="DIR", type=Path, help=about)
    return parser.run(argv, _verify)


def check(path: Path, commits: Set[str] | None, published: Path = PUBLISHED) -> Checked:
    """Reads and checks a bundle.

    Args:
        path: The bundle.
        commits: Those that a run's code may have; None if they are not known.
        published: The suite's own records.

    Raises:
        InputError: It is refused; a line for each reason.
    """
    with TemporaryDirectory() as name:
        folder, rows, groups = Path(name), defaultdict[str, list[RecordFile]](list), dict[str, tuple[Group, Group]]()
        manifest, collection = unpack(path, folder), collect([folder / "runs"])
        for item in collection.files:
            rows["/".join(item.record.identity.row)].append(item)
        known = [item for item in _published(published) if "/".join(item.record.identity.row) in rows]
        faults = [finding.text for finding in collection.findings if finding.wrong]
        faults += [finding.text for finding in audit(collection.files, commits, known)]
        if not faults:  # all files can be read
            faults += [*_of_manifest(manifest, path, collection.files)]
            faults += [f"{i.path}: {fault}" for i in collection.files for fault in _of_run(i, folder / "runs", known)]
            for key, items in rows.items():
                faults += [f"runs/{key}: {fault}" for fault in _of_row(key, items, manifest.name, known, groups)]
            faults += [finding.text for finding in audit(collection.files)]  # now with gold labels
        if faults:
            raise InputError("\n".join(f"{path}: {fault}; {MADE_BY}".replace(f"{folder}/", "") for fault in faults))
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        repeated = read_json(RERUNS).get(sha256, {}) if RERUNS.exists() else {}
        labels = {key: "rerun" if key in repeated else _label(rows[key], manifest.name) for key in groups}
        return Checked(manifest, sha256, groups, labels)


@cache
def _published(folder: Path) -> Sequence[RecordFile]:
    finished = (item for item in collect([folder]).files if item.record.status == "finished")
    return [item for item in finished if not old_recipe(item.record)]


def _predictions(item: RecordFile) -> Sequence[Prediction]:
    return read_predictions(item.path.with_name(PREDICTIONS_NAME), item.record.fingerprint) or ()


_read_known = lru_cache(4)(read_predictions)  # each run of a row is compared with the same


def _references(record: RunRecord, known: Sequence[RecordFile]) -> list[RecordFile]:
    """The suite's runs of the baseline on the same data."""
    place = (*record.identity.row, record.identity.fold, default_pair()[0])
    its = [(item, item.record.identity) for item in known]
    return [item for item, name in its if (*name.row, name.fold, name.features) == place]


def _label(items: Sequence[RecordFile], source: str) -> str:
    """Recomputed if the predictions of each run of the source determine its main score."""
    for item in (item for item in items if item.record.identity.features == source):
        counts = [counted(one.gold, one.predicted) for one in _predictions(item)[:1]]
        if not any(counts) or metric_of(item.record, counts[0]) is None:
            return "self-reported"
    return "recomputed"


def _of_run(item: RecordFile, runs: Path, known: Sequence[RecordFile]) -> Iterator[str]:
    """What is wrong with one run, next to what an audit finds; gives its predictions the suite's gold labels."""
    record, references = item.record, _references(item.record, known)
    if not references:
        yield "expected a dataset, task and fold of which the suite publishes runs, found none"
        return
    whole = record.identity.features == default_pair()[0]
    facts, theirs = _facts([item, *references[:_REFERENCES]])
    ours = {**_fixed(record, whole), "path": str(item.path), **facts}
    place = {"path": str(runs / record.identity.path)}
    for other in references:
        unlike = differences({**_fixed(other.record, whole), **place, **theirs}, ours)
        if not unlike:
            break
    for key, (expected, found) in list(unlike.items())[:3]:
        yield f"{key}: expected {expected:.80}, found {found:.80}"
    for other in known:
        alike = record.epochs and other.record.epochs == record.epochs
        if alike and other.record.identity.features != record.identity.features:
            yield f"epochs: expected a curve of its own, found that of {other.record.identity.title}"
    if predictions := _predictions(item):
        same = (other for other in known if other.record.data_hashes == record.data_hashes)
        places = ((other.path.with_name(PREDICTIONS_NAME), other.record.fingerprint) for other in same)
        gold = next(filter(None, starmap(_read_known, places)), ())
        if [(one.id, one.example, one.gold) for one in predictions] != [(one.id, {}, {}) for one in gold]:
            yield f"{PREDICTIONS_NAME}: expected the suite's {len(gold)} examples in order, without text, found others"
            return
        whole_ones = [{**vars(g), "predicted": p.predicted} for g, p in zip(gold, predictions, strict=True)]
        write_predictions(item.path.with_name(PREDICTIONS_NAME), record.fingerprint, whole_ones)


def _of_row(
    key: str,
    items: Sequence[RecordFile],
    source: str,
    known: Sequence[RecordFile],
    groups: dict[str, tuple[Group, Group]],
) -> Iterator[str]:
    """Whether both arms have the same seeds, which can be averaged, and the baseline is the suite's; adds the group."""
    base, arms, of_arms = default_pair()[0], defaultdict[str, list[RecordFile]](list), dict[str, Group]()
    for item in items:
        arms[item.record.identity.features].append(item)
    seeds = {arm: sorted((i.record.identity.seed, i.record.identity.fold or 0) for i in arms[arm]) for arm in arms}
    if {*seeds} != {source, base} or seeds[source] != seeds[base]:
        yield f"expected {source} and {base} with equal seeds and folds, found {seeds}"
        return
    first = arms[base][0].record
    equal = [i for i in _references(first, known) if not differences(_fixed(i.record, True), _fixed(first, True))]
    for arm, runs in {**arms, "published": equal}.items():
        of_arm, differing = groups_of(joined := scored_runs(runs, []))
        of_arms |= {arm: replace(group, features=arm) for group in of_arm}  # noqa: B035
        if differing or any(run.incomplete for run in joined):
            yield f"{arm}: expected seeds that differ in nothing else, and all folds, found {differing or 'some folds'}"
    interval = Row(*first.identity.row, list(of_arms.values()), compared=("published", base)).interval
    if interval and interval.p < UNLIKELY:
        means = f"{of_arms['published'].mean:.2f}, found {of_arms[base].mean:.2f}, p {interval.p:.1g}"
        yield f"expected a baseline like the suite's, {means}; python -m results.diff shows what differs"
    if equal:
        groups[key] = (replace(of_arms["published"], features=base), of_arms[source])


def _of_manifest(manifest: Contents, path: Path, items: Sequence[RecordFile]) -> Iterator[str]:
    """Whether the manifest fits the runs, and the code is what they read."""
    rows, inside = {"/".join(item.record.identity.row) for item in items}, dict[str, str]()
    for name, digest in manifest.files.items():
        inside |= {name.removeprefix("code/"): digest} if name.startswith("code/") else {}
    read = {name: it for item in items for name, it in item.record.inputs.items() if "/module:" in name}
    lacking = [f"{name}, sha256 {digest:.12}" for name, digest in read.items() if digest not in inside.values()]
    if not files(CONF).joinpath("features", yaml := f"{manifest.name}.yaml").is_file() and yaml not in inside:
        lacking.append(yaml)
    yield from (f"code: expected {name}, which the runs read, found none; --code adds it" for name in lacking)
    if manifest.name == default_pair()[0]:
        yield f"manifest.json: expected a source to compare with the baseline, found {manifest.name} itself"
    if path.name != f"{manifest.name}{SUFFIX}" or not rows:
        yield f"expected runs in a file {manifest.name}{SUFFIX}, named after its source, found {len(items)} runs"
    for key in sorted({*manifest.overlaps, *manifest.trials} - rows):
        yield f"manifest.json: expected {', '.join(sorted(rows))}, the rows of its runs, found {key}"


def _fixed(record: RunRecord, whole: bool) -> dict[str, object]:
    """What must be as in the suite's own runs; of the baseline also its features, the `whole`."""
    read = ("data.train/", "data.dev/", "data.test/", *["vectors/"] * whole)
    counts = {split: mapping_of(values).items() for split, values in record.data.items()}
    return {
        "settings": {key: v for key, v in settings_of(record).items() if whole or not key.startswith("features.")},
        "inputs": {name: digest for name, digest in record.inputs.items() if name.startswith(read)},
        "counts": {split: {key: v for key, v in values if isinstance(v, int)} for split, values in counts.items()},
        "metrics": {name: asdict(metric) for name, metric in record.metrics.items()},
        "scores": [record.recipe, record.metric, *sorted(record.scores.get("test", {}))],
        "run": [record.status, bool(record.environment and record.environment.dirty), "settings" in record.inputs],
        "data": [record.data_hashes, record.fingerprinted.get("vectors") if whole else None],
    }


def _facts(items: Sequence[RecordFile]) -> list[dict[str, object]]:
    """What is known about the test examples of the first two runs, in which all but the first are equal."""
    runs = [read_examples(item.path.with_name(EXAMPLES_NAME), item.record.fingerprint) or [] for item in items]
    runs = [[{**one, "gold": one.get("tp", 0) + one.get("fn", 0)} for one in run] for run in runs]
    example_by_example = list(zip(*runs[1:], strict=True))
    same = [key for key in runs[1][0] if all(len({run[key] for run in one}) == 1 for one in example_by_example)]
    metric, several = metric_of(items[1].record, runs[1][0]), len(runs) > 2

    def of_example(one: Example) -> list[object]:
        possible = min(one.values()) >= 0 and (metric is None or (metric.of_examples([one]) or 0) < 100.001)
        return [possible, *(one.get(key) for key in same if several)]

    facts = [{str(number): [sorted(one), *of_example(one)] for number, one in enumerate(run)} for run in runs[:2]]
    return [{"examples": len(of_run), "example": of_run} for of_run in facts]


def _verify(options: argparse.Namespace) -> None:
    for path in options.bundles:
        checked, folder = check(path, known_commits(ROOT)), options.source_dir
        for key, label in checked.labels.items():
            if options.rerun is not None and (key in options.rerun or not options.rerun):
                if folder is None and any(name.startswith("code/") for name in checked.manifest.files):
                    expected = f"{path}: expected --source-dir DIR with its code, which you have read"
                    raise InputError(f"{expected}, found none")
                label = f"rerun, {_rerun(f'{path}: {key}', checked.groups[key][1], folder)}"
                if path.resolve().is_relative_to(RERUNS.parent):
                    known = read_json(RERUNS) if RERUNS.exists() else {}
                    known.setdefault(checked.sha256, {})[key] = label
                    write_json(RERUNS, known)
            write(f"{path}: {key}: {label}\n", sys.stdout)


def _rerun(where: str, group: Group, source_dir: Path | None) -> str:
    """Repeats the first run of a source; what it scored. Raises an InputError if that does not agree."""
    record, paths, spread = group.runs[0], [str(ROOT)], 0.0
    words = shlex.split(commands_of([Group(group.features, {}, [record])])[0])[3:]
    if source_dir:
        words, paths = [*words, "--config-dir", str(source_dir.absolute() / "configs")], [str(source_dir), *paths]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tasks.run", *words, f"runs_dir={folder}"]
        subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
        again = [item.record for item in collect([Path(folder)]).files if item.record.status == "finished"]
    # the hash of all settings differs if the suite has new ones since then, whose defaults `settings_of` knows
    ours, *theirs = ([one.fingerprint, settings_of(one), {**one.inputs, "settings": ""}] for one in (record, *again))
    if theirs != [ours]:
        raise InputError(f"{where}: expected one run with the same settings and inputs, found another or none")
    if group.std:  # on another machine, a run differs from itself as another seed does
        spread = stats.quantile(1 - stats.LEVEL / 2, len(group.scores) - 1) * group.std * 2**0.5
    score = again[0].score
    if abs(score - record.score) > spread + 1e-6:
        raise InputError(f"{where}: expected {record.score:.2f} within {spread:.2f}, found {score:.2f} when rerun")
    return f"seed {record.identity.seed}: {score:.2f}, stated {record.score:.2f}"


if __name__ == "__main__":
    sys.exit(main())
