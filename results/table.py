"""Finished runs as a table next to the paper's numbers: `python -m results.table`.

Shows the scores of finished runs: per task and data set the baseline, the arm that is compared with it, the gain with
its 95 % interval, and the paper's scores if the data are the paper's. Only runs that are equal except for the seed are
averaged, and there is no gain between arms whose word vectors have one name and different content. Runs on the folds of
a dataset count as one run for each seed, scored over all their examples.

Examples:
  python -m results.table                                      your own runs, in results/runs
  python -m results.table --published                          the runs behind the README's tables
  python -m results.table --runs sweep-a sweep-b               two folders together; copies count once
  python -m results.table --data paper --format tex > table1.tex
  python -m results.table --experiment table1 --format methods  a paragraph for a paper: data, seeds, recipe, versions
  python -m results.table --compare A B                        other features than the default two
  python -m results.table --compare A 'A trainer.lr=0.01'      any two settings of features
  python -m results.table --wide                               all columns, arms and settings
  python -m results.table --experiment table1                  its rows and arms, and what fills empty cells
  python -m results.table --experiment table1 seed=1 limit=40   some of its cells, run with a further setting
  python -m results.table --notes                              what each number rests on, and what is wrong with it

--check fails (status 1) if
  - a run failed, or a record cannot be read, or its name or hashes were edited by hand;
  - a row lacks runs of one of the two that are compared, or there are no records at all;
  - runs of one name were made under different settings or read different files, so that they cannot be averaged;
  - the two that are compared have word vectors of one name and different content, or different recipes;
  - one mean mixes commits or trainings of word vectors, or runs had uncommitted changes in code or configuration;
  - the two that are compared differ in more than their features;
  - two copies of one run have different scores, or python -m results.audit finds something in these runs, such as a
    score that is not what the run's own examples give, or a copied seed.
The reasons are written to stderr. Without --check the status is 0 for any runs.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace

from elmo.common.errors import InputError, command_parser
from results.audit import audit
from results.experiments import load_experiment, main_runs, only_cells, require_settings, values_of
from results.records.collect import Finding, RecordFile, collect
from results.records.printing import write
from results.tables.fill import fill_all
from results.tables.rows import Table
from results.tables.run_options import add_choices, choose, folders_of, runs_dir_of
from results.tables.sheet import note_line, sections_of, sheets_of
from results.tables.writers import LAYOUTS, MACHINE_FORMATS, methods_of, write_sheets

FORMATS = {**MACHINE_FORMATS, "methods": methods_of}


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; returns the exit status."""
    parser = command_parser("results.table", __doc__ or "")
    add_choices(parser)
    about = "the table of an experiment, such as table1, or of your own PATH.toml"
    parser.add_argument("--experiment", metavar="NAME", help=about)
    about = "of the experiment only these cells, such as seed=1"
    parser.add_argument("cells", nargs="*", metavar="KEY=VALUE", help=about)
    parser.add_argument("--format", choices=[*LAYOUTS, *FORMATS], default="text", help="default: text")
    about = "all columns, arms and settings (csv and json always have all)"
    parser.add_argument("--wide", action="store_true", help=about)
    parser.add_argument("--notes", action="store_true", help="all findings and explanations, not their number alone")
    parser.add_argument("--check", action="store_true", help="status 1 if there is a problem; see above")
    return parser.run(argv, lambda options: _show(parser, options))


def _show(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if options.experiment is not None:
        from results.report.board import filled, with_bundles  # not for the table of all records

        if options.data:
            parser.error("--data: not with --experiment; data=NAME after it chooses rows")
        experiment = load_experiment(options.experiment)
        if options.published:
            experiment = with_bundles(experiment)
        if folders := [typed for typed in options.cells if not re.match(r"[^=]+=|~.", typed)]:
            raise InputError(f"{folders[0]}: expected KEY=VALUE, such as seed=1. Folders come after --runs")
        experiment = experiment.narrowed(dict(map(values_of, options.cells)))
        if options.compare:
            experiment = experiment.comparing(*options.compare)
        collection = collect(folders_of(options))
        require_settings(experiment, collection.files)
        table = filled(collection, experiment, runs_dir_of(options))
        runs = only_cells(collection, experiment.cells).files
        _print(table, options)
        return _check(table.findings, runs) if options.check else 0
    if options.cells:
        parser.error(f"{' '.join(options.cells)}: expected --experiment NAME before keys that choose its cells")
    chosen = choose(options)
    collection = chosen.collection if options.data or options.compare else main_runs(chosen.collection)
    main_only = not (options.wide or options.check or options.format in FORMATS)
    table = fill_all(collection, replace(chosen.selection, main_only=main_only))
    if table.rows:
        _print(table, options)
    else:
        if options.format in FORMATS:
            write(FORMATS[options.format](table), sys.stdout, exact=True)
        notes = "".join(f"{finding.kind}: {finding.text}\n" for finding in table.findings)
        write(chosen.nothing + notes, sys.stderr if options.format in FORMATS else sys.stdout)
    no_rows = [] if table.rows else ["no rows"]
    runs = [item for item in chosen.collection.files if not options.data or item.record.identity.data in options.data]
    return _check(table.findings, runs, no_rows) if options.check else 0


def _print(table: Table, options: argparse.Namespace) -> None:
    """Prints a table with its notes; next to numbers for programs, these are written to stderr."""
    in_paper = options.format == "tex"
    sheets = sheets_of(table, options.wide, best=in_paper, cut=options.format == "text")
    notes = sections_of(table, sheets) if options.notes or in_paper else [("Notes", [note_line(table, sheets)])]
    if options.format in FORMATS:
        write(FORMATS[options.format](table), sys.stdout, exact=options.format in MACHINE_FORMATS)
        write("".join(f"{line}\n" for _, lines in notes for line in lines), sys.stderr)
    else:
        write_sheets(sheets, notes, options.format)


def _check(findings: Sequence[Finding], records: Sequence[RecordFile], others: Sequence[str] = ()) -> int:
    """Prints why the table cannot be trusted: findings about it, what an audit of its runs finds, and other reasons."""
    kinds = {"failed": "failed run", "empty": "empty cells", "unreadable": "not read", "note": "wrong"}
    wrong = [finding for finding in findings if finding.wrong]
    wrong += [Finding("note", finding.text, wrong=True) for finding in audit(records)]
    reasons = [*dict.fromkeys(f"{kinds[finding.kind]}: {finding.text}" for finding in wrong), *others]
    for reason in reasons:
        write(f"check: {reason}\n", sys.stderr)
    write(f"check: reasons to fail: {len(reasons)}\n" if reasons else "check: nothing is wrong\n", sys.stderr)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
