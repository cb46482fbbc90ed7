"""Command-line options that choose runs, for the table, the breakdown and the report."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.common.errors import InputError, say_on_terminal
from results.experiments import TABLE1, load_experiment
from results.names import default_pair, load_names
from results.records.collect import PUBLISHED, Collection, collect
from results.records.printing import printable
from results.records.progress import DEFAULT_RUNS, add_runs, hydra_value
from results.tables.fill import Selection, arm_settings, fill_all
from results.tables.rows import Table


@dataclass(frozen=True)
class Chosen:
    """The chosen runs."""

    folders: Sequence[Path]
    collection: Collection
    selection: Selection
    experiment: str = ""  # whose runs these are, if only those were asked for

    @property
    def nothing(self) -> str:
        """The message if there is nothing to show."""
        places = ", ".join(f"{folder}{'' if folder.is_dir() else ' (no such folder)'}" for folder in self.folders)
        known = sorted({item.record.identity.data for item in self.collection.files})
        data = self.selection.data
        if not known and self.experiment:
            chosen = f"experiment={self.experiment}"
            return f"No runs of {chosen} in {places}. To make them:\n  python -m tasks.run -m {chosen}\n"
        if not known:
            return f"No records in {places}. To make the first one:\n  {load_names().first_run}\n"
        if data and not set(data) & set(known):
            others = f"there are records with data={','.join(known)}"
            return f"No records with data={','.join(data)} in {places}; {others}.\n"
        return f"Nothing to show from {places}.\n"

    def table(self) -> Table:
        """The rows of the runs.

        Raises:
            InputError: There are none.
        """
        table = fill_all(self.collection, self.selection)
        if not table.rows:
            findings = (f"{finding.kind}: {finding.text}" for finding in table.findings)
            raise InputError("\n".join([self.nothing.rstrip(), *findings]))
        return table


def add_choices(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which runs to show."""
    add_runs(parser)
    about = "the records in the suite's repository; alone, or added to --runs"
    parser.add_argument("--published", action="store_true", help=about)
    about = "only rows of these data, such as mini or paper"
    parser.add_argument("--data", metavar="NAME", action="append", default=[], help=about)
    about = "also runs with limit=N, marked in their settings"
    parser.add_argument("--include-limited", action="store_true", help=about)
    about = "the two features whose difference is the gain, B minus A; settings may follow, in quotes: "
    about += f"'FEATURES KEY=VALUE' (default: {' '.join(default_pair())})"
    parser.add_argument("--compare", nargs=2, metavar=("A", "B"), help=about)
    about = "with --compare: arms have the settings of the main table, such as its biLM, not the suite's defaults"
    parser.add_argument("--main", action="store_true", help=about)


def choose(options: argparse.Namespace) -> Chosen:
    """Reads the runs that the options choose.

    Raises:
        InputError: They have no runs of an arm to compare.
    """
    folders = folders_of(options)
    first, second = map(_in_order, options.compare or default_pair())
    collection = collect(folders)
    _check_compared(collection, (first, second))
    headline = None if options.compare and not options.main else load_experiment(TABLE1)
    return Chosen(folders, collection, Selection(options.data, options.include_limited, (first, second), headline))


def _in_order(name: str) -> str:
    """Features and settings, the settings in the order of records."""
    features, *settings = name.split() or [""]
    return " ".join([features, *sorted(settings)])


def folders_of(options: argparse.Namespace) -> list[Path]:
    """The folders to read.

    Raises:
        InputError: A folder is missing, or the suite was installed without its repository and the published records.
    """
    if options.published and not PUBLISHED.is_dir():
        raise InputError(
            f"--published: expected the suite's records in {PUBLISHED}, found no such folder. They are in its "
            "repository and not in the installed package: run the command in a clone"
        )
    for folder in options.runs:
        if not folder.is_dir():
            raise InputError(f"--runs {printable(str(folder))}: expected a folder, found none. KEY=VALUE stands first")
    folders = options.runs + ([PUBLISHED] if options.published else []) or [DEFAULT_RUNS]
    say_on_terminal(f"reading {', '.join(map(str, folders))}")
    return folders


def runs_dir_of(options: argparse.Namespace) -> list[str]:
    """The word of a suggested command for the folder of the runs, if one was given."""
    return [f"runs_dir={hydra_value(str(options.runs[0]))}"] if len(options.runs) == 1 else []


def _check_compared(collection: Collection, compared: tuple[str, str]) -> None:
    if compared[0] == compared[1]:
        raise InputError(f"--compare: expected two different features, found {compared[0]} twice")
    identities = [item.record.identity for item in collection.files]
    for name in compared:
        features, wanted = arm_settings(name)
        of_features = [identity.typed_variant for identity in identities if identity.features == features]
        if any(wanted.items() <= settings.items() for settings in of_features) or name in default_pair():
            continue
        if of_features:
            known = {f"{key}={value}" for settings in of_features for key, value in settings.items()} or {"no settings"}
            asked = f"{features} with {' '.join(name.split()[1:])}"
        else:
            known = {identity.features for identity in identities} | set(default_pair())
            asked = f"features={features}"
        raise InputError(f"--compare: no records of {asked}; there are {', '.join(sorted(known))}")
