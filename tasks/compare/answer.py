"""The answer of a comparison: a sentence, a small table and a figure, from the records of its runs."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from results.experiments import load_experiment
from results.figures.drawing import standalone_svg
from results.figures.errors_removed import errors_removed
from results.records.collect import collect
from results.tables.fill import fill
from results.tables.rows import Row
from results.tables.sheet import Column, sheet_of, shown_interval, shown_score
from results.tables.writers import as_text, parts_of
from tasks.compare.plan import DRAW, Plan
from tasks.compare.reading import OwnExample
from tasks.data.text import spans_of
from tasks.metrics import span_scores

UNITS = {"classify": ("texts", "text"), "pairs": ("pairs of texts", "pair"), "ner": ("sentences", "sentence")}
BASES = {"glove": "GloVe", "bag_of_words": "a bag of words"}
ELMO = "elmo"
NARROW_TERMINAL = 80  # columns
CONSTANT = 5  # tags, each tried for all words: with B for each word all spans have one word
CHANCE = 2.5  # standard errors above chance that the best of four arms must reach


@dataclass(frozen=True)
class OwnAnswer:
    """The answer of a comparison: a sentence, the same with a table, a figure, and the mean test score of each arm."""

    sentence: str
    text: str
    svg: str
    scores: Mapping[str, float]


def answer_of(plan: Plan, runs_dir: Path, milliseconds: float) -> OwnAnswer:
    """The answer from the records of a comparison; `milliseconds`: what ELMo costs for an example."""
    table = fill(collect([runs_dir / plan.name]), load_experiment(str(plan.experiment)))
    (row,) = table.rows
    scores = {group.features: group.mean for group in row.groups}
    sentence = _sentence(plan, row, scores, milliseconds)
    columns: list[Column] = [
        ("arm", "l", [table.titles[arm] for arm in scores]),
        (f"{row.metric_title()} in percent", "l", [shown_score(row.group(arm)) for arm in scores]),
    ]
    for base, name in BASES.items():
        columns.append((f"over {name}, 95 % interval", "l", [_over(row, base, arm) for arm in scores]))
    how = f"{plan.folds}-fold cross-validation" if plan.folds else f"{len(plan.tested):,} examples to test"
    text = as_text(parts_of(sheet_of(f"{plan.name}: {how}, mean±std (number of seeds)", columns), NARROW_TERMINAL))
    figure = errors_removed([row], table.compared)
    return OwnAnswer(sentence, f"{sentence}\n\n{text}", standalone_svg(figure) if figure else "", scores)


def _over(row: Row, base: str, arm: str) -> str:
    """The gain of an arm over another; nothing for itself."""
    pair = row.comparing(base, arm)
    ends = shown_interval(pair.interval)
    return "" if arm == base or pair.gain is None else f"{pair.gain:+.1f}{f' ({ends})' if ends else ''}"


def _sentence(plan: Plan, row: Row, scores: Mapping[str, float], milliseconds: float) -> str:
    """The conclusion from the intervals."""
    (units, unit), best = UNITS[plan.data.task], max(scores.values())
    on = f"On these {len(plan.data.rows):,} {units}"
    level, error, what = chance(plan)
    if best <= level + CHANCE * error:
        return (
            f"{on} no arm finds a signal in the labels: the best one reaches {best:.1f}, where {what} gives "
            f"{level:.1f}. So there is no difference that these data can show."
        )
    signs, gains = list[int](), list[str]()
    for base, name in BASES.items():
        pair = row.comparing(base, ELMO)
        signs.append(pair.interval.sign if pair.interval else 0)
        ends = shown_interval(pair.interval, sign="-")
        gains.append(f"{pair.gain or 0:+.1f}{' points' * (len(gains) == 0)} ({ends}) over {name}")
    bag = f"{gains[1]}{'' if signs[1] else ', which is no difference that these data can show'}"
    if not signs[0]:
        return f"{on} ELMo makes no difference to GloVe that these data can show: {gains[0]}. It is {bag}."
    verb = "adds" if signs[0] > 0 else "makes it worse:"
    without = row.comparing("elmo_layer0", ELMO).interval
    reached = f" These data do not show that context helps: the biLM without it reaches {scores['elmo_layer0']:.1f}."
    no_context = reached if signs[0] > 0 and without and without.sign <= 0 else ""
    return f"{on} ELMo {verb} {gains[0]} and {bag}; it costs {milliseconds:.1f} ms a {unit}.{no_context}"


def chance(plan: Plan) -> tuple[float, float, str]:
    """The score without any signal in percent, its standard error, and what reaches it.

    Of labels that is the most frequent one; of tags the most frequent one for each word, or the gold ones in another
    order.
    """
    if plan.data.task != "ner":
        ((label, most),) = Counter(row.label for row in plan.tested).most_common(1)
        level, size, what = most / len(plan.tested), len(plan.tested), f"always {label}"
    else:
        tags = [tag for row in plan.tested for tag in row.tags]
        frequent = [tag for tag, _ in Counter(tag for tag in tags if tag != "O").most_common(CONSTANT)]
        guesses = [random.Random(DRAW).sample(tags, len(tags)), *([tag] * len(tags) for tag in frequent)]
        level = max(_f1(plan.tested, guess) for guess in guesses)
        size, what = sum(len(spans_of(row.tags)) for row in plan.tested), "tagging without reading"
    return 100 * level, 100 * (level * (1 - level) / size) ** 0.5, what


def _f1(rows: Sequence[OwnExample], tags: Sequence[str]) -> float:
    """The F1 of tags for all words of these sentences."""
    rest = iter(tags)
    predicted = [spans_of(list(islice(rest, len(row.tags)))) for row in rows]
    return span_scores([spans_of(row.tags) for row in rows], predicted).values["f1"] / 100
