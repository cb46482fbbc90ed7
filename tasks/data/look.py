"""A look at the data as a run reads them: texts in two splits, labels that training lacks, labels that hardly occur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from elmo.common.errors import excerpt
from tasks.batch import Sentence, Split
from tasks.task import Task

# Split -> the share of another split's examples whose texts may be in it, too. CoNLL-2003 has 6 % of the sentences of
# dev in train, short ones. Texts of dev help a model less than those of train: they only choose the epoch.
MOST_SHARED: dict[Split, float] = {"train": 0.1, "dev": 0.5}
FEW_EXAMPLES = 5  # of a label in train; from fewer a model hardly learns it
MOST_NAMED = 5


def look_at(
    task: Task[Any, Any], split: Split, examples: Sequence[Any], earlier: Mapping[Split, Sequence[Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Facts about a split for the record, and warnings.

    Two examples are equal if all their texts have the same words in the same order.

    Args:
        task: of the examples.
        split: read after those in `earlier`, first train and then dev.
        examples: those of the split.
        earlier: the examples of the splits before it.
    """
    facts, warnings = dict[str, Any](), list[str]()
    texts = _texts(task, examples)
    for other, known in earlier.items():
        count = sum(map(set(_texts(task, known)).__contains__, texts))
        share = count / len(texts)
        facts[f"also_in_{other}"] = {"examples": count, "share": round(share, 4)}
        if share > MOST_SHARED[other]:
            warnings.append(
                f"{split}: the texts of {count:,} of {len(texts):,} examples ({share:.0%}) are also in {other}. The "
                f"score says little about new texts: remove these from {other}"
            )
    labels = task.label_counts(examples)
    if split == "train":
        if few := [f"{excerpt(label)} ({count})" for label, count in labels.items() if count < FEW_EXAMPLES]:
            warnings.append(f"train: labels with fewer than {FEW_EXAMPLES} examples: {_listed(few)}")
        return facts, warnings
    trained = task.label_counts(earlier["train"])
    if new := [_new_label(label, count, trained) for label, count in labels.items() if label not in trained]:
        warnings.append(f"{split}: labels that train lacks, and that are never predicted: {_listed(new)}")
    if split == "dev" and (absent := [excerpt(label) for label in trained if label not in labels]):
        warnings.append(f"dev: lacks labels of train, so no epoch is chosen by them: {_listed(absent)}")
    return facts, warnings


def _texts(task: Task[Any, Any], examples: Sequence[Any]) -> list[tuple[Sentence, ...]]:
    return [tuple(map(tuple, task.texts(example))) for example in examples]


def _new_label(label: str, count: int, trained: Iterable[str]) -> str:
    """A label that train lacks, with one of train that differs in case alone, if there is one."""
    like_it = next((f"; train has {excerpt(own)}" for own in trained if own.casefold() == label.casefold()), "")
    return f"{excerpt(label)} ({count}{like_it})"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"{', '.join(names[:MOST_NAMED])}{more}"
