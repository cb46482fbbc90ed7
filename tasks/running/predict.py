"""Predictions of a run that kept its weights: python -m tasks.predict RUN [INPUT], or tasks.load_model(RUN)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from elmo.common import checks
from elmo.common.device import CHOICES, choose_device
from elmo.common.errors import InputError, command_parser, excerpt, exit_status
from elmo.common.files import print_lines, utf8_lines
from elmo.common.progress import Reporter
from tasks.data.raw_text import fields_of_line
from tasks.data.text_files import json_object, parsed_lines
from tasks.interface import Scores, Task
from tasks.running.config import RunConfig
from tasks.running.saved_model import WEIGHTS_NAME, load_weights
from tasks.running.schema import add_config_dir
from tasks.training.trainer import TaskModel, Trainer

LINES_AT_ONCE = 1024  # predictions of a long input appear while the rest is still read
STANDARD_INPUT = Path("/dev/stdin")
REMEDY = "python -m tasks.predict --help shows what each task reads"

DESCRIPTION = """\
Apply the model of a run made with keep_weights=true. INPUT is a file, or standard input if there is none.

--input text   one example per line:
                 ner     a sentence                  srl    a sentence with *one* predicate between asterisks
                 sst5    a sentence                  coref  a document
                 snli    premise TAB hypothesis      squad  passage TAB question
                 classify  a text
               Text is split into words as `elmo.tokenise` does.
--input json   one JSON object per line, with the same texts:
                 ner, sst5, classify  {"text": ...} or {"tokens": [...]}
                 srl        {"text": ...} or {"tokens": [...], "predicate": 2}, counted from 0
                 coref      {"text": ...} or {"sentences": [[...], ...]}
                 snli       {"sentence1": ..., "sentence2": ...}
                 squad      {"context": ..., "question": ...}
               An "id" is kept; otherwise it is the number of the line. srl appends the predicate's position: ID:2.
--input data   a file of the task's format, read as the run's own data were. --score prints its scores.

--output text  ner, srl: words and tags in columns, and an empty line; sst5, snli, classify: the label;
               squad: the answer; coref: one chain per line, its mentions separated by " | ", and an empty line
--output json  one JSON object per example. Places are tokens, the end excluded; "characters" are those of the raw text.
"""
EXAMPLE = "example: echo 'Ada Lind lives in Oslo.' | python -m tasks.predict results/runs/mini/ner/elmo/seed-4"


class LoadedModel:
    """The trained model of a run: it predicts raw text and examples.

    Attributes:
        task: the run's task; reads files and scores predictions.
        model: features and head.
    """

    def __init__(self, config: RunConfig, model: TaskModel, device: torch.device) -> None:
        self.task: Task[Any, Any] = config.task
        self.model = model.to(device)
        self._reporter = Reporter(f"{self.task.name}: predicting", brief=True)
        self._trainer = Trainer(self.task, config.trainer, config.seed, device, self._reporter)

    def read(self, path: str | Path, labelled: bool = False) -> list[Any]:
        """The examples of a file of the task's format, read as the run's data were; those without words are left out.

        Args:
            path: the file.
            labelled: whether to keep only what can be scored.

        Raises:
            InputError: the file is not of the task's format, or nothing in it can be scored.
        """
        if not labelled:
            examples = self.task.read_unlabelled(Path(path))
            return [example for example in examples if _has_words(self.task.texts(example))]
        usable = [example for example in self.task.read(Path(path), "test") if self.task.usable(example)]
        if not usable:
            raise InputError(f"{path}: expected examples with labels, found none. Name a file that has some")
        return usable

    def examples(self, items: Sequence[str | Mapping[str, Any]], where: str = "input", first: int = 1) -> list[Any]:
        """Examples from raw input.

        Args:
            items: texts, or mappings with the keys of a JSON object; see the command's help.
            where: of these items, for error messages.
            first: the number of the first one.
        """
        if isinstance(items, str):
            raise InputError(f"expected a list of texts, such as [{excerpt(items)}], found a text")
        return [self._example(item, str(number), where) for number, item in enumerate(items, start=first)]

    def _example(self, item: str | Mapping[str, Any], name: str, where: str) -> Any:  # noqa: ANN401
        if isinstance(item, str) and not item.strip():
            raise InputError(f"{where}, line {name}: expected a text, found an empty line. Remove the line")
        try:
            fields = fields_of_line(item, self.task.raw_fields) if isinstance(item, str) else item
            given = fields.get("id")
            example = self.task.from_raw(name if given is None else str(given), fields)
            if not _has_words(self.task.texts(example)):
                raise ValueError("expected words, found none")
        except InputError:
            raise
        except ValueError as error:
            raise InputError(f"{where}, line {name}: {error}: {excerpt(item)}. {REMEDY}") from error
        return example

    def decode(self, examples: Sequence[Any]) -> list[Any]:
        """One prediction for each example, in the form that the task scores."""
        self.model.features.meet(chain.from_iterable(map(self.task.texts, examples)), self._reporter)
        return self._trainer.predict(self.model, examples)

    def predict(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        """One prediction for each item, as the fields of a JSON object.

        Args:
            items: texts or mappings, see `examples`; or examples from `read`.
        """
        raw = isinstance(items, str) or all(isinstance(item, str | Mapping) for item in items)
        wrong = [] if raw else [item for item in items if not hasattr(item, "id")]
        if wrong:
            raise InputError(
                f"expected texts, mappings, or examples from `read`, found {excerpt(wrong[0])}. A text that is in "
                'words already is {"tokens": [...]}'
            )
        examples = self.examples(items) if raw else items
        return [self._fields(*pair) for pair in zip(examples, self.decode(examples), strict=True)]

    def _fields(self, example: Any, prediction: Any) -> dict[str, Any]:  # noqa: ANN401
        return {"id": example.id, **self.task.prediction_fields(example, prediction)}

    def lines(self, examples: Sequence[Any], predictions: Sequence[Any], output: str) -> Iterator[str]:
        """The predictions as text, or each as a JSON object in a line."""
        for example, prediction in zip(examples, predictions, strict=True):
            if output == "json":
                yield json.dumps(self._fields(example, prediction), ensure_ascii=False) + "\n"
            else:
                yield self.task.prediction_text(example, prediction) + "\n"

    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Scores:
        """The scores of predictions for labelled examples, by the scorer of record."""
        return self.task.score_test(examples, predictions)


def _has_words(texts: Sequence[Sequence[str]]) -> bool:
    return bool(texts) and all(texts)


def load_model(
    run: str | Path, device: str = "auto", task: str | None = None, config_dir: str | Path | None = None
) -> LoadedModel:
    """The trained model of a run.

    Args:
        run: the folder of a run made with keep_weights=true.
        device: auto, cpu or cuda.
        task: the name of the expected task, if it matters.
        config_dir: a folder of configs, trusted like code, whose YAML names the run's own task or frozen layers.

    Raises:
        InputError: there is no model, it cannot be used here, or it is of another task.
    """
    if not Path(run).is_dir():
        found = "a file" if Path(run).exists() else "nothing"
        raise InputError(f"{run}: expected the folder of a run, found {found}. Check the path")
    if below := sorted(path.parent.name for path in Path(run).glob(f"*/{WEIGHTS_NAME}")):  # of seeds or folds
        raise InputError(f"{run}: expected the folder of one run, found those of {', '.join(below)}. Name one of them")
    config, model = load_weights(Path(run) / WEIGHTS_NAME, task, None if config_dir is None else Path(config_dir))
    loaded = predictor(config, model, choose_device(device))
    if loaded is None:
        raise InputError(
            f"{run}: expected a model trained by gradient descent, found one of task={config.task.name}, which learns "
            "in another way; keep_weights=true keeps trained parameters only"
        )
    return loaded


def predictor(config: RunConfig, model: TaskModel, device: torch.device) -> LoadedModel | None:
    """The model of a run, ready to predict; None for a task that is not trained by gradient descent."""
    return LoadedModel(config, model, device) if type(config.task).fit is Task.fit else None


def _raw(model: LoadedModel, path: Path, as_json: bool) -> Iterator[list[Any]]:
    """The examples of raw input, some lines at a time."""
    where = Path("standard input") if path == STANDARD_INPUT else path
    lines = utf8_lines(path)
    items: Iterator[str | dict[str, Any]] = (
        parsed_lines(lines, where, REMEDY, lambda _, line: json_object(line)) if as_json else lines
    )
    first = 1
    while some := list(islice(items, LINES_AT_ONCE)):
        yield model.examples(some, str(where), first)
        first += len(some)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("tasks.predict", DESCRIPTION, EXAMPLE)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a run made with keep_weights=true")
    parser.add_argument("source", metavar="INPUT", type=Path, nargs="?", help="default: standard input")
    parser.add_argument("--input", choices=("text", "json", "data"), default="text", help="default: text")
    parser.add_argument("--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--score", action="store_true", help="print the scores of labelled data on standard error")
    parser.add_argument("--device", choices=CHOICES, default="auto", help="default: a GPU if there is one")
    parser.add_argument("--threads", metavar="N", type=int, default=1, help="CPU threads; default: 1, as in runs")
    add_config_dir(parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = _parser()
    options = parser.parse_intermixed_args(arguments)
    if options.score and options.input != "data":
        parser.error("--score needs labels: use it with --input data")

    def work() -> None:
        checks.count(checks.MOST_THREADS, "--threads", options.threads)
        torch.set_num_threads(options.threads)
        model = load_model(options.run, options.device, config_dir=options.config_dir)
        source = options.source or STANDARD_INPUT
        data = options.input == "data"
        batches: Iterable[list[Any]] = (
            [model.read(source, options.score)] if data else _raw(model, source, options.input == "json")
        )
        for examples in batches:
            predictions = model.decode(examples)
            print_lines(model.lines(examples, predictions, options.output))
            if options.score:
                values = model.score(examples, predictions).values
                print(", ".join(f"{name} {value:.2f}" for name, value in values.items()), file=sys.stderr)

    return exit_status("tasks.predict", work)
