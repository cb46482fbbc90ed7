"""Copies finished runs to results/published and updates the tables made from them: `python -m results.publish`.

Copies record.json and examples.json.gz of finished runs to results/published, under the path that follows from the
run's name, with the scores on further test sets, the confidences that it kept, and the kinds of their test examples to
results/published/test_sets. Test predictions contain text: they are copied only of runs with seed 1 whose data come
with the suite (data=mini). Then it updates what is made from the records there: results/tables.md, its SVG figures,
and parts of README. Nothing else is copied.

It refuses failed runs, runs on limited data, runs of code that was not committed, tasks that do not come with the
suite, files that contain text or machine paths, runs in which python -m results.audit finds something, such as scores
that their own files contradict, two runs that contradict each other, and runs whose settings differ from the published
run of the same name; a run of a newer recipe of the task replaces one of an older recipe. All of this is checked before
anything is copied. It publishes the other runs all the same, and the exit status is 1. If the audit finds something in
the published records, nothing is copied or updated.

Examples:
  python -m results.publish --runs results/runs            all finished runs
  python -m results.publish --runs sweep/paper/TASK        some of them
  python -m results.publish                                only updates the tables and figures
  python -m results.publish --check                        status 1 if one of them is out of date; writes nothing

A record has a commit if the code ran from a checkout or from `git archive`; one without is refused.
"""

import argparse
import dataclasses
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Sequence, Set
from pathlib import Path

from elmo.common.errors import InputError, command_parser, say_on_terminal
from results.audit import audit
from results.names import load_names, recomputed
from results.records import example_scores
from results.records.collect import RecordFile, collect
from results.records.environment import known_commits
from results.records.identity import (
    CONFIDENCES_NAME,
    EXAMPLES_NAME,
    PREDICTIONS_NAME,
    RECORD_NAME,
    also_name,
    differences,
)
from results.records.printing import write
from results.records.record import RunRecord, write_record

ROOT = Path(__file__).parents[1]
LONGEST_NAME = 160  # characters: names of EWT's predicates have 123, a hash has 64
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')  # in JSON


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Publishes or checks; returns the exit status: 1 if a run was refused, a file is out of date or a record wrong."""
    parser = command_parser("results.publish", __doc__ or "")
    about = "folders with runs, such as results/runs; without the option, nothing is copied"
    parser.add_argument("--runs", metavar="DIR", nargs="+", action="extend", type=Path, default=[], help=about)
    parser.add_argument("--check", action="store_true", help="only report what is out of date")
    return parser.run(argv, lambda options: _publish(options, root))


def _publish(options: argparse.Namespace, root: Path) -> int:
    from results.tables_page import PUBLISHED, generated, read_if_there  # not for --help

    if options.check and options.runs:
        raise InputError("--check publishes nothing: do not give it --runs")
    if not (root / PUBLISHED).is_dir():
        raise InputError(
            f"expected a checkout of the suite, found no {PUBLISHED} in {root}: an installed package has no records. "
            "Run the command in a clone"
        )
    say_on_terminal(f"auditing {PUBLISHED}")
    collection, commits = collect([root / PUBLISHED]), known_commits(root)
    wrong = [finding.text for finding in collection.findings if finding.kind == "unreadable"]
    wrong += [finding.text for finding in audit(collection.files, commits)]
    if wrong:  # tables of these records would be wrong
        write("".join(f"{text}\n" for text in wrong).replace(f"{root}/", ""), sys.stdout)
        return 1
    lines = list[str]()
    if options.runs:
        lines = publish_runs(options.runs, root / PUBLISHED, collection.files, commits)
        write("".join(f"{line}\n" for line in lines), sys.stdout)
        collection = collect([root / PUBLISHED])
    files = generated(root, collection)
    stale = [path for path, text in files.items() if read_if_there(root / path) != text]
    if options.check:
        for path in stale:
            write(f"{path}: out of date; update it with: python -m results.publish\n", sys.stdout)
        return 1 if stale else 0
    for path in stale:
        if (text := files[path]) is None:
            (root / path).unlink()
        else:
            (root / path).write_text(text, encoding="utf-8")
        write(f"{'written' if text is not None else 'removed':9} {path}\n", sys.stdout)
    return 1 if any(line.startswith("refused") for line in lines) else 0


def publish_runs(
    folders: Sequence[Path], published: Path, there: Sequence[RecordFile] = (), commits: Set[str] | None = None
) -> list[str]:
    """Copies publishable runs from below the folders, all checked before the first; returns a line for each run.

    Args:
        folders: Folders with records anywhere below.
        published: The target folder; the path below it follows from a run's identity.
        there: The runs that are published.
        commits: Those that a run's code may have; None if they are not known.
    """
    collection = collect(folders)
    lines = [f"refused   {finding.text}" for finding in collection.findings if finding.kind == "unreadable"]
    for folder in folders:
        if next(folder.rglob(RECORD_NAME), None) is None:
            lines.append(f"refused   {folder}: expected a folder with runs, found no {RECORD_NAME} below it")
    old = {published / item.record.identity.path: item.record for item in there}
    runs = [(published / item.record.identity.path, item) for item in collection.files]
    named = Counter(target for target, item in runs if item.record.status == "finished")
    refusals = {
        item.path: _refusal(item)
        or _conflict(old.get(target), item.record, target)
        or (f"{named[target]} different runs have this name; publish only the right one" if named[target] > 1 else "")
        or next((finding.text for finding in collection.findings if str(item.path) in finding.text), "")
        for target, item in runs
    }
    passed = {target: item for target, item in runs if not refusals[item.path]}
    kept = [item for item in there if published / item.record.identity.path not in passed]
    for finding in reversed(audit(list(passed.values()), commits, kept)):
        refusals |= dict.fromkeys(finding.paths, finding.text)
    left = 0
    for target, item in runs:
        record, before = item.record, old.get(target)
        if refusal := refusals[item.path]:
            lines.append(f"refused   {record.identity.title}: {refusal}")
            continue
        if before == record:
            left += 1
        else:
            newer = f", recipe {before.recipe} -> {record.recipe}" if before and before.recipe < record.recipe else ""
            change = f"{before.score:.2f} -> " if before else ""
            kind = "replaced" if before else "added"
            lines.append(f"{kind:9} {record.identity.title}: {change}{record.metric} {record.score:.2f}{newer}")
            _copy(item, target, before)
        lines += _copy_groups(item, published)
    return [*dict.fromkeys(lines)] + [f"left      {left} that are there already"] * bool(left)


def _refusal(item: RecordFile) -> str:
    """Why a run may not be published, whatever the others are; empty if it may."""
    record = item.record
    if record.error is not None:
        return f"expected a finished run, found one that failed: {record.error.last_line}"
    if record.limit is not None:
        return f"expected the whole data, found limit={record.limit}"
    if record.environment and record.environment.dirty:
        return "expected committed code, found uncommitted changes (environment.dirty); commit them and run again"
    if (task := record.identity.task) not in load_names().tasks:
        known = ", ".join(load_names().tasks)
        return f"expected a task of the suite ({known}), found {task}; to add it, see CONTRIBUTING.md, Ship a task"
    for name in _examples_of(record):
        try:
            scores = example_scores.read_examples(item.path.with_name(name), record.fingerprint)
        except example_scores.ExamplesUnreadable as error:
            return str(error)
        if scores is None:
            return f"expected {name} next to the record, found none; without it there is no interval"
        if recomputed(record, scores) is None:
            return f"{name}: expected counts that give {record.metric}, found none"
        for key in sorted(set[str]().union(*scores)):
            if len(key) > LONGEST_NAME or any(map(str.isspace, key)):
                return f"{name}: expected names without spaces, found {key[:40]!r}"
    for text in map(json.loads, _TEXTS.findall(json.dumps(dataclasses.asdict(record)))):
        if len(text) > LONGEST_NAME or "\n" in text or text.startswith(("/", "~")) or text[1:3] == ":\\":
            return f"record.json: expected names and numbers, found a text or a path of one machine: {text[:40]!r}"
    return ""


def _conflict(there: RunRecord | None, here: RunRecord, target: Path) -> str:
    """Why the run cannot replace the published one of its name; empty if it is the same but for newer recipes."""
    unlike = differences(there.hashed, here.hashed) if there else {}
    newer = there and there.recipe < here.recipe and all(key.startswith("recipes.") for key in unlike)
    if there is None or not unlike or newer:
        return ""
    if there.recipe > here.recipe:
        return f"a run of this name with recipe {there.recipe} is published, and this run has recipe {here.recipe}"
    keys = ", ".join(unlike)
    return f"a run of this name made under other settings is published ({keys}); to replace it, delete {target.parent}"


def _examples_of(record: RunRecord) -> list[str]:
    """The names of the files with scores of single examples; a trial has none."""
    return [] if record.trial else [EXAMPLES_NAME, *map(also_name, record.also)]


def _copy(item: RecordFile, target: Path, before: RunRecord | None) -> None:
    """Copies a run to its record's path: files of numbers are written again, so that nothing else is in them."""
    record, folder = item.record, item.path.parent
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.resolve() != item.path.resolve():
        for name in (PREDICTIONS_NAME, CONFIDENCES_NAME, *(_examples_of(before) if before else ())):
            target.with_name(name).unlink(missing_ok=True)  # of the run that is replaced
        for name in _examples_of(record):
            scores = example_scores.read_examples(folder / name, record.fingerprint) or []
            example_scores.write_examples(target.with_name(name), record.fingerprint, scores)
        if confidences := example_scores.read_confidences(folder / CONFIDENCES_NAME, record.fingerprint):
            judged = {confidence.split: confidence.examples for confidence in confidences}
            example_scores.write_confidences(target.with_name(CONFIDENCES_NAME), record.fingerprint, judged)
        if record.shipped_data and record.identity.seed == 1 and (folder / PREDICTIONS_NAME).exists():
            shutil.copyfile(folder / PREDICTIONS_NAME, target.with_name(PREDICTIONS_NAME))
    write_record(target, record)  # last: a record implies that its examples are complete


def _copy_groups(item: RecordFile, published: Path) -> list[str]:
    """Copies the kinds of a run's test examples, if they are known; returns why not, if they cannot be copied."""
    try:
        known = example_scores.groups_above(item.path, item.record.identity.task, item.record.data_hashes)
    except example_scores.ExamplesUnreadable as error:
        return [f"refused   {error}"]
    if known is None:
        return []
    for text in (*known.ids, *known.groups, *(label for of in known.groups.values() for label in of.labels)):
        if len(text) > LONGEST_NAME or "\n" in text:
            task = item.record.identity.task
            return [f"refused   kinds of test examples of {task}: expected names, found text: {text[:40]!r}"]
    example_scores.merge_groups(published, known)
    return []


if __name__ == "__main__":
    sys.exit(main())
