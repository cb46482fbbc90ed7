"""Every number of a result in a document is one of the published records or the paper's, as far as it is printed.

CONTRIBUTING says which numbers are results, and how to mark those without a record.
"""

import re
from itertools import chain
from pathlib import Path

import pytest

from results.names import load_names, load_paper, task_title
from results.tables.rows import MINI
from tests.results.making import make_record, save
from tests.results.publish.finished_runs import save_run
from tests.results.publish.quoted_documents import quoted_numbers
from tests.results.publish.quoted_values import Published, nearest

ROOT = Path(__file__).parents[3]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *(f"{folder}/README.md" for folder in ("elmo", "tasks", "results"))]
DOCUMENTS += ["CHANGELOG.md", "results/reading.md", "results/published/README.md"]
CONF = ("data", "experiment", "features", "sized", "task", "tuned")
CARDS = "On tasks"  # the chapter of a biLM's card that quotes results
KINDS = {
    "mean and deviation": "scores",
    "score": "scores",
    "range": "ranges",
    "score without and with": "pairs",
    "gain and interval": "gains",
    "gain": "gains",
    "share of errors and interval": "shares",
    "share of errors": "shares",
}


def names_of(data, task):
    """What a text may call a task on a data set: the parts of its title, such as "NER" and "WNUT-17"."""
    title = task_title(data, task)
    return [title] if data == MINI else [load_names().tasks[task].title, *title.split(", ")[1:]]


def named(text, rows):
    """The rows (data, task) that a text names; "NER" alone is the paper's."""
    found = set()
    for name in {name for row in rows for name in names_of(*row)} - {"dev"}:
        if re.search(rf"\b{re.escape(name)}", text):
            own = [row for row in rows if name in names_of(*row)]
            found |= set([row for row in own if row[0] in load_paper().comparable_data] or own)
    return found


def known_to(quoted, published):
    """What a number may be, by its form and by what the text around it names: tasks, data, seeds, metrics, "dev"."""
    block = quoted.block
    full_size = [row for row in published.rows if row[0] != MINI]
    rows = named(block.text, published.rows) or named(block.heading, published.rows) or full_size
    choices = [frozenset(), *([block.seeds] if block.seeds else [])]
    text = f"{block.columns} {block.text}".lower()
    intervals = "interval" in quoted.kind
    values = (published.values(*row, seeds, intervals) for seeds in choices for row in rows)
    of_kinds = (published.values_of_kinds(*row, intervals) for row in rows)  # last: these take longest to compute
    for value in chain(values, of_kinds):
        for own in getattr(value, KINDS[quoted.kind]):
            if all(word.lower() in text for word in own.words):
                yield own


def mistakes(path, text, published, section=""):
    """A line for each number that no record has."""
    found = []
    for quoted in quoted_numbers(path, text, section):
        if not any(quoted.is_rounded(own.numbers) for own in known_to(quoted, published)):
            closest = nearest(known_to(quoted, published), quoted.numbers)
            near = [(" ".join(f"{n:.2f}" for n in own.numbers), own.source) for own in closest]
            expected = "; ".join(f"{numbers} ({source})" for numbers, source in near)
            where = f"{path}, line {quoted.line}: {quoted.text}"
            found.append(f"{where}: expected a {quoted.kind} of the records, nearest: {expected}")
    return found


def test_the_documents_quote_what_the_records_say():
    files = dict.fromkeys([ROOT / name for name in DOCUMENTS], "")
    files |= {path: "" for folder in CONF for path in sorted((ROOT / "conf" / folder).glob("*.yaml"))}
    files |= dict.fromkeys((ROOT / "elmo" / "pretrained").glob("*/card.md"), CARDS)
    published = Published(ROOT / "results" / "published")
    found = []
    for path, section in files.items():
        found += mistakes(path.relative_to(ROOT), path.read_text(encoding="utf-8"), published, section)
    assert not found, "\n".join([f"{len(found)} numbers; CONTRIBUTING, Style, says what to do", *found])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """SST-5 with two seeds: 50 and 52 without, 60 and 63 with ELMo, 50 on dev. NER on WNUT-17: 40, with ELMo 70."""
    tmp_path = tmp_path_factory.mktemp("published")
    for seed, (glove, elmo) in enumerate([(50, 60), (52, 63)], start=1):
        save_run(tmp_path, glove, task="sst5", features="glove", seed=seed)
        save_run(tmp_path, elmo, task="sst5", features="elmo", seed=seed)
    save(tmp_path, make_record(40.0, data="wnut17", features="glove"))
    save(tmp_path, make_record(70.0, data="wnut17", features="elmo"))
    return Published(tmp_path)


RIGHT = [
    "SST-5: 51.00 -> 61.50, +10.50, 21.4 % of the errors.",
    "SST-5: 51.0 ± 1.4 and 61.50 ± 2.12; the seeds are between 60.00 and 63.00.",
    "SST-5, seed 2: 52.00 → 63.00, +11.0; dev is 50.00 for both.",
    "SST-5: the paper's 51.4 and 54.7 ± 0.5, 6.8 %, from 51.4 to 54.7; ours is +6.80 above.",
    "WNUT-17: 40.00, with ELMo 70.00, +30.0, 50 % of the errors.",
    "SST-5\n\n## WNUT-17\n\n| | test |\n|---|---|\n| glove | 40.00 |\n| elmo | 70.00 |\n",
    "SST-5: dropout 0.37, 13.6 M words, 24.0 minutes, perplexity 67.2, SLURM 22.05.8, `99.99`, 77 %, 2026-11-16.",
    "SST-5: a system of others has 77.70<!-- no record: others -->, 12.3 %<!-- no record: others -->.",
    "SST-5\n\n<!-- no record: perplexities -->\n\n| 99.9 |\n|---|\n| 99.8 |\n\n51.00 again\n",
    "<!-- table1 -->\n\n99.99\n\n<!-- /table1 -->\n",
]
WRONG = {
    "SST-5: 51.01.": ["51.01"],
    "SST-5, test: 50.00": ["50.00"],  # on dev
    "SST-5: 61.50 -> 51.00": ["61.50 -> 51.00"],
    "SST-5: 60.00 and 52.00": ["60.00", "52.00"],  # a single seed, which is not named
    "SST-5: 61.50 ± 2.13, between 60.00 and 62.00": ["61.50 ± 2.13", "between 60.00 and 62.00"],
    "SST-5: 21.4 % (1.0 to 2.0), 21.3 %": ["21.4 % (1.0 to 2.0", "21.3 %"],
    "SST-5: +10.6, -10.50": ["+10.6", "-10.50"],
    "SST-5: +10.50 (1.0 to 2.0)": ["+10.50 (1.0 to 2.0"],
    "SST-5: 40.00, 50 % of the errors": ["40.00", "50 %"],  # WNUT-17's
    "SST-5\n\n<!-- no record: others -->\n\n99.9\n\n99.8\n": ["99.8"],
}


@pytest.mark.parametrize("text", RIGHT)
def test_numbers_of_the_records_may_be_quoted(text, published):
    assert mistakes(Path("page.md"), text, published) == []


@pytest.mark.parametrize("text", WRONG)
def test_other_numbers_are_mistakes(text, published):
    found = mistakes(Path("page.md"), text, published)
    assert [line.split(": ")[1] for line in found] == WRONG[text]


def test_the_interval_of_a_gain_is_that_of_the_table(published):
    interval = published.rows["paper", "sst5"][0].interval
    text = f"SST-5: +10.50 ({interval.low:+.1f} to {interval.high:+.1f})"
    assert mistakes(Path("page.md"), text, published) == []
    assert len(mistakes(Path("page.md"), text.replace(f"{interval.high:+.1f}", "+99.9"), published)) == 1


def test_a_mistake_names_the_line_and_the_nearest_number(published):
    (line,) = mistakes(Path("page.md"), "# Top\n\nOn SST-5 it\nhas 61.60.\n", published)
    start = "page.md, line 4: 61.60: expected a score of the records, nearest: 61.50 2.12 (elmo, test accuracy); "
    assert line.startswith(start)


def test_comments_of_yaml_are_read_and_settings_are_not(published):
    text = "# SST-5 of the paper.\n# Ours: 61.50 and 99.10.\ntask: {seconds: 98.2}   # with 97.3\n"
    text += "# 96.4, no record\n# 95.5\n"
    found = mistakes(Path("a.yaml"), text, published)
    lines = {"line 2": "99.10", "line 3": "97.3", "line 5": "95.5"}  # only the line with the mark is left out
    assert [line.split(": ")[:2] for line in found] == [[f"a.yaml, {line}", number] for line, number in lines.items()]


def test_only_the_chapter_that_is_named_is_read(published):
    text = "# Card\n\n99.9\n\n## On tasks\n\nSST-5: 98.8\n\n## Text\n\n97.7\n"
    assert [line.split(": ")[1] for line in mistakes(Path("a.md"), text, published, CARDS)] == ["98.8"]
