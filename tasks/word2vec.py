"""The command `python -m tasks.word2vec`: trains word2vec vectors. See `elmo.pretrain.word2vec`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path

from elmo.common.errors import InputError
from elmo.pretrain import word2vec
from tasks.batch import SPLITS
from tasks.data.datasets import DataSource
from tasks.running.config import typed_folds
from tasks.running.schema import group_options


def words_of_data(folder: Path) -> set[str]:
    """The words of every dataset in conf/ whose files are in the folder or shipped, as its task reads them.

    Raises:
        InputError: the folder has no dataset, or one cannot be read.
    """
    words, found = set[str](), list[str]()
    for task, data in product(group_options("task"), group_options("data")):
        try:
            run = typed_folds([f"task={task}", f"data={data}"])[0]  # the splits of any fold have all examples
            source = DataSource(replace(run.data, hub=None), folder)
            source.check_there(download=False)
        except InputError:  # a dataset of another task, or one that is not in the folder
            continue
        for split in SPLITS:
            for example in source.load(run.task, split).examples:
                words.update(chain.from_iterable(run.task.texts(example)))
        found += [f"{task} {data}"] * (not run.data.shipped)
    if not found:
        raise InputError(f"--data {folder}: expected the files of a dataset, as data_dir of tasks.run, found none")
    print(f"{len(words):,} words of the data: {', '.join(found)}", file=sys.stderr)
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    return word2vec.main(arguments, words_of_data)


if __name__ == "__main__":
    sys.exit(main())
