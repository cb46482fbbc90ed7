"""Makes an experiment of own data: split files, a dataset file, and a table of arms and seeds. Loads no torch."""

import csv
import hashlib
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.common.files import replacing, write_json
from tasks.compare.reading import OwnData, OwnExample

PARTS, FOLDS = 10, 5  # two of ten equal parts are the test set, the next one is dev
FEW = 1500  # examples; with fewer there is cross-validation: a fifth would be too small a test set to show anything
MOST = 200_000  # examples; of more, this many are drawn
DRAW = 20180215  # the seed of all splits
SPLITS = ("train", "dev", "test")
ARMS = {name: [f"features={name}"] for name in ("bag_of_words", "glove", "elmo", "elmo_layer0")}
# By task, and the number of examples up to which they hold: batch, epochs, rate, width of the head; in all arms.
SIZES: Mapping[str, Mapping[int, tuple[int, int, float, int]]] = {
    "classify": {FEW: (16, 12, 0.001, 48), 10_000: (32, 8, 0.001, 64), MOST: (64, 5, 0.001, 128)},
    "pairs": {FEW: (16, 12, 0.0005, 64), 10_000: (32, 8, 0.001, 64), MOST: (64, 5, 0.001, 128)},
    "ner": {FEW: (16, 10, 0.003, 64), 10_000: (32, 8, 0.003, 64), MOST: (64, 6, 0.003, 100)},
}
MOST_EPOCHS, SHOWN = 40, 5_000  # few examples are shown more often, so that there are steps enough
FURTHER = {
    "classify": ["task.dim={0}", "task.maxout=[{0}]", "task.maxout_dropout=[0.2]"],
    "pairs": ["task.dropout=0.2"],
    "ner": ["task.layers=1", "features.dropout=0.5"],
}
READERS = {"classify": ("text", "label"), "pairs": ("first", "second", "label"), "ner": ()}


@dataclass(frozen=True)
class Plan:
    """The runs of a comparison.

    Attributes:
        name: of the dataset; it has a hash of the content, so that changed data are other data.
        folder: of its files.
        data: the examples.
        folds: their number, or None for one test set.
        tested: the examples of the test set; with folds all.
        seeds: of each arm.
        arms: each with its overrides.
    """

    name: str
    folder: Path
    data: OwnData
    folds: int | None
    tested: Sequence[OwnExample]
    seeds: Sequence[int]
    arms: Mapping[str, Sequence[str]]

    @property
    def experiment(self) -> Path:
        """The file of the experiment."""
        return self.folder / "compare.toml"

    @property
    def runs(self) -> int:
        """The number of its runs."""
        return len(self.arms) * len(self.seeds) * (self.folds or 1)

    def overrides(self, kind: str = "") -> list[str]:
        """The overrides of all runs; of kind "-export" for the data of a predictor to take away."""
        task = self.data.task
        batch, epochs, rate, width = next(size for most, size in SIZES[task].items() if len(self.data.rows) <= most)
        places = [f"data={quoted(self.folder / f'{self.name}{kind}.yaml')}", f"data_dir={quoted(self.folder / 'data')}"]
        epochs = max(epochs, min(MOST_EPOCHS, SHOWN // len(self.data.rows)))
        sizes = f"trainer.batch_size={batch} trainer.epochs={epochs} trainer.lr={rate} task.hidden={width}"
        recipe = ["trainer.patience=null", *sizes.split()]
        return [f"task={task}", *places, *recipe, *(text.format(width) for text in FURTHER[task])]


def make_plan(
    data: OwnData, stem: str, runs_dir: Path, seeds: Sequence[int], further: Mapping[str, Sequence[str]] | None = None
) -> Plan:
    """Writes the files of a comparison; equal data give equal files.

    Args:
        data: the examples.
        stem: what the dataset's name starts with.
        runs_dir: the folder of all runs.
        seeds: of each arm.
        further: arms in addition to `ARMS`.
    """
    if len(data.rows) > MOST:
        data.said.append(f"{MOST:,} of the {len(data.rows):,} examples are used, drawn at random")
        data.rows = random.Random(DRAW).sample(data.rows, MOST)
    parts = parts_of(data.rows)
    content = json.dumps([data.columns, [[row.texts, row.label, row.tags] for row in data.rows]])
    short = re.sub("[^A-Za-z0-9]+", "-", stem).strip("-").lower()[:30]
    name = f"{short}-{hashlib.sha256(content.encode()).hexdigest()[:6]}"
    folder, folds = runs_dir / "compare" / name, FOLDS if len(data.rows) < FEW else None
    sets = {f"{fold}-": split_of(parts, [2 * fold, 2 * fold + 1], (2 * fold + 2) % PARTS) for fold in range(folds or 1)}
    sets["export-"] = split_of(parts, [0], 1)
    for prefix, splits in sets.items():
        for split, rows in splits.items():
            _write_rows(folder / "data" / _file(prefix, split, data), data, rows)
    for kind, prefix in {"": "{fold}-" if folds else "0-", "-export": "export-"}.items():
        files = {split: [_file(prefix, split, data)] for split in SPLITS}
        reader: dict[str, object] = dict(zip(READERS[data.task], data.columns, strict=data.task != "ner"))
        reader = reader or {"word_column": 0, "tag_column": 1}
        cross = {"folds": folds} if folds and not kind else {}
        write_json(folder / f"{name}{kind}.yaml", {"task": data.task, "splits": files, **cross, "reader": reader})
    tested = data.rows if folds else sets["0-"]["test"]
    plan = Plan(name, folder, data, folds, tested, seeds, {**ARMS, **(further or {})})
    write_experiment(plan)
    return plan


def write_experiment(plan: Plan) -> None:
    """Writes the experiment's file: its runs are those of python -m tasks.run -m experiment=FILE."""
    arms = "".join(f"{arm} = {json.dumps(overrides)}\n" for arm, overrides in plan.arms.items())
    row = f"title = {json.dumps(plan.name)}\noverrides = {json.dumps(plan.overrides())}\n"
    folds = f"folds = {plan.folds}\n" if plan.folds else ""
    titles = '\n[titles]\nelmo_own = "+ ELMo, tuned on your text"\n' if "elmo_own" in plan.arms else ""
    head = f'title = {json.dumps(plan.name)}\nseeds = {list(plan.seeds)}\ncompare = ["glove", "elmo"]\n'
    plan.experiment.write_text(f"{head}\n[arms]\n{arms}{titles}\n[[rows]]\n{row}{folds}", encoding="utf-8")


def parts_of(rows: Sequence[OwnExample], number: int = PARTS) -> list[list[OwnExample]]:
    """The examples in parts of nearly equal size and with nearly equal shares of the labels.

    Examples with equal texts are in one part; pairs also with an equal first text, unless many have it.
    """
    keys = [tuple(" ".join(text.lower().split()) for text in row.texts) for row in rows]
    alike = Counter(key[0] for key in keys).most_common(1)[0][1]
    groups: dict[object, list[OwnExample]] = defaultdict(list)
    for key, row in zip(keys, rows, strict=True):
        groups[key if row.tags or alike > len(rows) / number / 2 else key[0]].append(row)
    order = list(groups.values())
    random.Random(DRAW).shuffle(order)
    parts: list[list[OwnExample]] = [[] for _ in range(number)]
    counts = [Counter[str]() for _ in range(number)]
    for group in sorted(order, key=len, reverse=True):
        place = min(range(number), key=lambda it: (counts[it][group[0].label], len(parts[it])))
        parts[place] += group
        counts[place].update(row.label for row in group)
    return parts


def split_of(parts: Sequence[Sequence[OwnExample]], test: Sequence[int], dev: int) -> dict[str, list[OwnExample]]:
    """The splits where these parts are the test set, one is dev, and the others are to train on."""
    chosen = {dev: "dev", **dict.fromkeys(test, "test")}
    numbered = [(chosen.get(number, "train"), part) for number, part in enumerate(parts)]
    return {split: [row for name, part in numbered if name == split for row in part] for split in SPLITS}


def quoted(path: Path) -> str:
    """A path as the value of an override."""
    return "'" + str(path.absolute()).replace("'", r"\'") + "'"


def _file(prefix: str, split: str, data: OwnData) -> str:
    return f"{prefix}{split}.{'conll' if data.task == 'ner' else 'csv'}"


def _write_rows(path: Path, data: OwnData, rows: Sequence[OwnExample]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        if data.task == "ner":
            for row in rows:
                print(*map("\t".join, zip(row.texts, row.tags, strict=True)), "", sep="\n", file=file)
        else:
            csv.writer(file).writerows([data.columns, *([*row.texts, row.label] for row in rows)])
