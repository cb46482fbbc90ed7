"""Overlap of SQuAD's test questions with a biLM's training text: python -m tasks.squad.overlap DEV.json TEXT..."""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo.common.errors import InputError, command_parser, exit_status
from elmo.common.files import sha256_of
from elmo.pretrain.corpus.overlap import WINDOW, shared
from elmo.pretrain.corpus.sources import find_sources
from results.analysis.interval import FEW_SEEDS, paired_intervals
from results.analysis.paper_scores import relative_error_cut
from results.breakdown.group_files import add_groups
from results.records.collect import collect
from results.records.example_scores import read_examples
from results.records.identity import EXAMPLES_NAME
from results.records.metric import Grouping
from results.tables.cells import MARK, shown_interval
from results.tables.run_options import PUBLISHED
from tasks.squad.data import SquadReader, read_squad

SEEN = 0.5  # an article counts as seen from this share of its paragraphs on


@dataclass(frozen=True)
class Question:
    """Where a question stands: the number of its article, and whether its paragraph overlaps with the text."""

    article: int
    overlaps: bool


def questions_of(path: Path, texts: Sequence[str]) -> tuple[list[Question], list[list[bool]]]:
    """The questions of a SQuAD file in its order, and for each article whether each paragraph overlaps.

    Args:
        path: A SQuAD 1.1 file.
        texts: Text files and folders that a biLM was trained on, one paragraph per line.
    """
    examples = read_squad(path, "test", SquadReader())
    paragraphs = list(dict.fromkeys((e.passage.title, e.passage.context) for e in examples))
    lines = [" ".join(context.split()) for _, context in paragraphs]
    found = dict(zip(paragraphs, shared(lines, find_sources(texts)), strict=True))
    by_article: dict[str, list[bool]] = defaultdict(list)
    for (title, _), overlaps in found.items():
        by_article[title].append(overlaps)
    numbers = {title: number for number, title in enumerate(by_article)}
    questions = [Question(numbers[e.passage.title], found[e.passage.title, e.passage.context]) for e in examples]
    return questions, list(by_article.values())


def scores_of(folders: Sequence[Path], questions: int, settings: str) -> dict[str, np.ndarray]:
    """Features -> F1 of each question, (seeds, questions), of the finished SQuAD runs with this many test questions.

    Args:
        folders: Folders of records.
        questions: The number of test questions.
        settings: The changed settings of the runs to take, as in tables; empty for plain runs.
    """
    runs: dict[str, list[list[float]]] = defaultdict(list)
    for item in collect(folders).found:
        record = item.record
        label = " ".join(f"{key}={value}" for key, value in sorted(record.identity.variant.items()))
        if (record.status, record.identity.task, label) != ("finished", "squad", settings):
            continue
        examples = read_examples(item.path.with_name(EXAMPLES_NAME), record.fingerprint)
        if examples and len(examples) == questions:
            runs[record.identity.features].append([example["f1"] for example in examples])
    return {features: np.array(own) for features, own in runs.items()}


def score_lines(
    scores: Mapping[str, np.ndarray], questions: Sequence[Question], compared: tuple[str, str]
) -> list[str]:
    """For clean and overlapping questions: F1 of both arms, the gain and the errors removed, with 95 % intervals."""
    first, second = (scores[features] for features in compared)
    overlaps = np.array([question.overlaps for question in questions])
    articles = np.array([question.article for question in questions])
    lines = []
    for name, chosen in (("clean", ~overlaps), ("overlapping", overlaps), ("all", np.ones_like(overlaps))):
        if not chosen.any():
            continue
        arms = [np.stack([arm, np.ones_like(arm)], axis=2)[:, chosen] for arm in (first, second)]
        means = [float(arm[..., 0].mean()) for arm in arms]
        found = paired_intervals(arms[0], arms[1], lambda sums: sums[..., 0] / sums[..., 1], articles[chosen].tolist())
        cut = relative_error_cut(*means)
        lines.append(
            f"{name}: {chosen.sum():,} questions of {len(set(articles[chosen].tolist()))} articles, "
            f"{compared[0]} {means[0]:.2f} ({len(first)}), {compared[1]} {means[1]:.2f} ({len(second)}), "
            f"gain {means[1] - means[0]:+.2f} ({shown_interval(found.gain, ' to ')})"
            + ("" if cut is None else f", errors removed {cut:.1f} % ({shown_interval(found.cut, ' to ', sign='-')})")
        )
    few = f"; {MARK} fewer than {FEW_SEEDS} seeds in an arm" * any(len(arm) < FEW_SEEDS for arm in (first, second))
    return [*lines, f"in brackets the number of seeds, and 95 % intervals over articles and seeds{few}"]


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser(
        "tasks.squad.overlap",
        f"How many paragraphs of a SQuAD file share {WINDOW} characters in a row with a text, and the scores of\n"
        "published or other runs on the questions of clean and overlapping paragraphs.",
        "example: python -m tasks.squad.overlap dev-v1.1.json enwiki_2015_1.txt.xz --published "
        "--settings trainer.epochs=12",
    )
    parser.add_argument("squad", metavar="DEV.json", type=Path, help="the SQuAD 1.1 file that runs were tested on")
    parser.add_argument("texts", metavar="TEXT", nargs="+", help=".txt, .gz or .xz files, or folders of them")
    parser.add_argument("--records", metavar="RUNS", type=Path, nargs="+", default=[], help="folders of records")
    parser.add_argument("--published", action="store_true", help="the records that come with the suite")
    parser.add_argument("--settings", metavar="KEY=VALUE", default="", help="of the runs; default: none, plain runs")
    parser.add_argument(
        "--groups",
        metavar="RUNS",
        type=Path,
        help="keep it in RUNS/test_sets, for results.breakdown and the report",
    )
    parser.add_argument("--compare", metavar="FEATURES", nargs=2, default=["glove", "elmo"], help="default: glove elmo")
    options = parser.parse_args(given)
    return exit_status("tasks.squad.overlap", lambda: print("\n".join(_report(options))))


def _report(options: argparse.Namespace) -> list[str]:
    questions, articles = questions_of(options.squad, options.texts)
    paragraphs = [overlaps for article in articles for overlaps in article]
    if not paragraphs:
        raise InputError(f"{options.squad}: expected paragraphs with questions, found none. Is it a SQuAD file?")
    touched, seen = sum(map(any, articles)), sum(sum(article) / len(article) >= SEEN for article in articles)
    lines = [
        f"{sum(paragraphs):,} of {len(paragraphs):,} paragraphs ({sum(paragraphs) / len(paragraphs):.1%}) share "
        f"{WINDOW} characters in a row with the text",
        f"{touched} of {len(articles)} articles have such a paragraph; in {seen} at least {SEEN:.0%} of them are",
    ]
    if options.groups:
        overlaps = Grouping(("overlaps", "clean"), [0 if question.overlaps else 1 for question in questions])
        test = hashlib.sha256(bytes.fromhex(sha256_of(options.squad))).hexdigest()  # as in records
        ids = [example.id for example in read_squad(options.squad, "test", SquadReader())]
        lines.append(str(add_groups(options.groups, "squad", {"test": test}, ids, {"pretraining_text": overlaps})))
    folders = [*options.records, *([PUBLISHED] if options.published else [])]
    if not folders:
        return lines
    scores = scores_of(folders, len(questions), options.settings)
    if missing := [features for features in options.compare if features not in scores]:
        raise InputError(
            f"expected finished SQuAD runs of features={', '.join(missing)} on these {len(questions):,} questions with "
            f"settings {options.settings or '(none)'!r}, found {', '.join(sorted(scores)) or 'none'}. See "
            "--settings; python -m results.table lists runs and settings"
        )
    first, second = options.compare
    return [*lines, *score_lines(scores, questions, (first, second))]


if __name__ == "__main__":
    sys.exit(main())
