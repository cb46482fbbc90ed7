"""Overlap of SQuAD's test questions with a biLM's training text: python -m tasks.squad.overlap DEV.json TEXT..."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from elmo.common.errors import InputError, command_parser
from elmo.pretrain.corpus.text import WINDOW, find_sources, shared
from results.records.example_scores import add_groups
from results.records.metric import Grouping

SEEN = 0.5  # an article counts as seen from this share of its paragraphs on


def main(given: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser(
        "tasks.squad.overlap",
        f"How many paragraphs of a SQuAD file share {WINDOW} characters in a row with a text. After --groups,\n"
        "`python -m results.breakdown` and the report have scores on questions of clean and overlapping paragraphs.",
        "example: python -m tasks.squad.overlap dev-v1.1.json enwiki_2015_1.txt.xz --groups results/runs",
    )
    parser.add_argument("squad", metavar="DEV.json", type=Path, help="the SQuAD 1.1 file that runs were tested on")
    parser.add_argument("texts", metavar="TEXT", nargs="+", help=".txt, .gz or .xz files, or folders of them")
    parser.add_argument("--groups", metavar="RUNS", type=Path, help="keep it in RUNS/test_sets, for results.breakdown")
    return parser.run(given, _show)


def _show(options: argparse.Namespace) -> None:
    from tasks.data.datasets import hash_of_files  # torch takes a second, which --help should not need
    from tasks.squad.task import SquadReader, read_squad

    examples = read_squad(options.squad, "test", SquadReader())
    paragraphs = list(dict.fromkeys((e.passage.title, e.passage.context) for e in examples))
    if not paragraphs:
        raise InputError(f"{options.squad}: expected paragraphs with questions, found none. Is it a SQuAD file?")
    lines = [" ".join(context.split()) for _, context in paragraphs]
    overlaps = dict(zip(paragraphs, shared(lines, find_sources(options.texts)), strict=True))
    by_article: dict[str, list[bool]] = defaultdict(list)
    for (title, _), overlap in overlaps.items():
        by_article[title].append(overlap)
    seen = sum(fmean(article) >= SEEN for article in by_article.values())
    print(
        f"{sum(overlaps.values()):,} of {len(overlaps):,} paragraphs share {WINDOW} characters in a row with the text; "
        f"in {seen} of {len(by_article)} articles at least {SEEN:.0%} of the paragraphs do"
    )
    if options.groups:
        of = [0 if overlaps[e.passage.title, e.passage.context] else 1 for e in examples]
        groups = {"pretraining_text": Grouping(("overlaps", "clean"), of)}
        test = hash_of_files([options.squad])
        print(add_groups(options.groups, "squad", {"test": test}, [e.id for e in examples], groups))


if __name__ == "__main__":
    sys.exit(main())
