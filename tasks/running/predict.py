"""Trained models: saved by a run with keep_weights=true, loaded, and applied by tasks.predict or tasks.load_model."""

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from elmo.common import checks
from elmo.common.device import choose_device, is_out_of_memory
from elmo.common.errors import InputError, excerpt, naming
from elmo.common.files import STYLES, UNDECODED, encoding_of, print_lines, raw_rows, sha256_of
from elmo.common.progress import Reporter
from elmo.common.tensor_files import read_tensors, write_tensors
from results.records.identity import BY_NAME_OR_PATH, RECORD_NAME, WEIGHTS_NAME, is_name
from results.records.record import read_record
from tasks.bag_of_words import BagOfWords
from tasks.command_line import INPUT_KINDS
from tasks.data.text import fields_of_line, json_object, raw_items
from tasks.features.token_features import TokenFeatures, features_fingerprint
from tasks.metrics import Scores
from tasks.running.config import Run, known_sources, recorded_config, task_named
from tasks.task import Task
from tasks.training.trainer import FitsItself, OutOfMemory, TaskModel, Trainer

PARTS = {
    **dict.fromkeys(("config", "paths", "features", "inputs", "trained"), dict),
    **{"task": str, "words": list, "labels": list},
}
RUN_AGAIN = "Delete the run's folder and run it again with keep_weights=true"

LINES_AT_ONCE = 1024
TOKENS_AT_ONCE = 1 << 20
LONGEST = 15_000  # tokens; a head that compares all of a text with each other needs 4 GB for them
DIGITS = 4  # of probabilities
RUNS_NAMED = 5  # at most, in a message
STANDARD_INPUT = Path("/dev/stdin")
REMEDY = "Correct them: python -m tasks.predict --help shows what each task reads"


def save_weights(path: Path, model: TaskModel, config: Run, inputs: Mapping[str, str] | None = None) -> str:
    """Writes the trained parameters with the words, labels and config that rebuild the rest of the model.

    Returns the sha256 of the file, for `RunRecord.model`; `inputs` are those of the record.

    The config names the task but not its class, which the loading program chooses. Unlike a record, the file keeps the
    paths of vectors and weights: it is for use on the same machine.
    """
    features = model.features.config
    given = {part: getattr(getattr(features, part), key, None) for part, key in BY_NAME_OR_PATH}
    paths = {part: it for part, it in given.items() if it and not is_name(part, it)}
    paths |= {
        f"frozen.{name}.{key}": value
        for name, part in features.frozen.items()
        for key, value in part.source.items()
        if value and isinstance(value, str) and Path(value).expanduser().exists()
    }
    settings = {key: value for key, value in config.resolved["task"].items() if key != "_target_"}
    saved = {
        "task": config.task.name,
        "config": {**config.resolved, "task": settings},
        "paths": {part: str(Path(it).expanduser().absolute()) for part, it in paths.items()},
        "features": features_fingerprint(features),
        "inputs": dict(inputs or {}),
        "words": list(model.features.training_words),
        "labels": list(config.task.labels),
        "trained": {name: value.detach().cpu() for name, value in model.kept().items()},
    }
    if isinstance(model.head, BagOfWords):
        saved |= {"grams": model.head.grams, "classes": model.head.labels}
    write_tensors(path, saved)
    return sha256_of(path)


def check_recorded(path: Path) -> None:
    """Raises an InputError unless weights are those that the record next to them names."""
    if not path.is_file():
        raise InputError(f"{path}: no such file. Weights are kept by a run with keep_weights=true")
    beside = path.with_name(RECORD_NAME)
    if not beside.is_file():
        raise InputError(f"{path}: expected the run's {beside.name} next to it, found none. Copy the whole folder")
    record = read_record(beside)
    if (digest := sha256_of(path)) != record.model:
        kept = f"sha256 {record.model[:12]}" if record.model else "none"
        raise InputError(
            f"{path}: expected the weights of {record.identity.title} ({kept} by its {beside.name}), found others: "
            f"sha256 {digest[:12]}. They were edited, or are those of another run or of an earlier version. {RUN_AGAIN}"
        )


def load_weights(path: Path, task: str | None = None, config_dir: Path | None = None) -> tuple[Run, TaskModel]:
    """Loads a run and its model.

    The file may be untrusted: nothing in it is executed. The task's class is found by its name, and the class of a
    source must be one that a YAML names, in both cases in conf/ or `config_dir`.

    Args:
        path: the file.
        task: the name of the expected task, if it matters; a model of another task is then an error.
        config_dir: a folder of further configs, trusted like code.
    """
    saved = {"grams": [], "classes": [], **read_tensors(path, PARTS, "cpu", RUN_AGAIN)}  # these: of a bag of words
    for name in ("words", "labels", "grams", "classes"):
        if not isinstance(saved[name], list) or not all(isinstance(text, str) for text in saved[name]):
            raise InputError(f"{path}: expected texts as {name}, found others. {RUN_AGAIN}")
    trained_on = saved["task"]
    if task not in (None, trained_on):
        raise InputError(f"{path}: expected a model of task={task}, found one of task={trained_on}")
    try:
        kind = task_named(trained_on, config_dir)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    with naming(path, RUN_AGAIN):
        config = recorded_config(saved["config"], kind)
    for part, key in BY_NAME_OR_PATH:
        settings, given = getattr(config.features, part), saved["paths"].get(part)
        if settings is not None and given is not None:
            setattr(settings, key, _existing(path, given))
    known = known_sources(config_dir) if config.features.frozen else set()
    for name, frozen in config.features.frozen.items():
        target = frozen.source["_target_"]
        if target not in known:
            raise InputError(
                f"{path}: features.frozen.{name}: expected a source that a YAML in conf/features names, found {target}."
                " A file must not decide what is imported. If you trust it, use --config-dir DIR, config_dir in Python,"
                " with a YAML in DIR/features that names it"
            )
        for key in frozen.source:
            if (given := saved["paths"].get(f"frozen.{name}.{key}")) is not None:
                frozen.source[key] = _existing(path, given)
    here = features_fingerprint(config.features)
    changed = [str(name) for name, value in saved["features"].items() if value != here.get(name)]
    if changed:
        raise InputError(f"{path}: {', '.join(changed)} differ from those that the model was trained with")
    config.task.labels = saved["labels"] or config.task.labels
    features = TokenFeatures(config.features, [tuple(saved["words"])], config.seed)
    features.check_fingerprint(here)
    model = TaskModel.start(config.task, features, config.seed)
    restore(path, model, saved)
    return config, model


def restore(path: Path, model: TaskModel, saved: Mapping[str, Any] | None = None) -> None:
    """Gives a model before training what a file, whose content may be known, has of it after training."""
    saved = saved or read_tensors(path, PARTS, "cpu", RUN_AGAIN)
    if isinstance(model.head, BagOfWords):
        model.head.expect(saved.get("grams", []), saved.get("classes", []))
    with naming(path, RUN_AGAIN):
        model.restore(saved["trained"])


def _existing(path: Path, given: object) -> str:
    """A path that the model's file names, or what lies next to that file under the same name."""
    name = Path(str(given)).name
    if name and (path.parent / name).exists():
        return str(path.parent / name)
    if not Path(str(given)).exists():
        raise InputError(
            f"{path}: the model was trained with {given}, which no longer exists. Put it back, or next to {path.name}"
        )
    return str(given)


@dataclass
class Asked:
    """An example to predict and its prediction, or the reason why it has none.

    Attributes:
        where: names it in messages: file and line.
        id: its name in the output.
        example: None if the input was wrong.
        prediction: in the form that the task scores.
        probabilities: of the task's `probability_labels`.
        error: why there is no prediction.
        kept: cells of the input that a table of predictions repeats.
    """

    where: str
    id: str
    example: Any = None
    prediction: Any = None
    probabilities: Sequence[float] = ()
    error: str = ""
    kept: Sequence[str] = ()


class LoadedModel:
    """The trained model of a run: it predicts raw text and examples.

    Attributes:
        task: the run's task; reads files and scores predictions.
        model: features and head.
    """

    def __init__(self, config: Run, model: TaskModel, device: torch.device) -> None:
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

    def decode(self, examples: Sequence[Any]) -> list[Any]:
        """One prediction for each example, in the form that the task scores."""
        self._meet(examples)
        return self._trainer.predict(self.model, examples)

    def predict(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        """One prediction for each item, as the fields of a JSON object; `error` if an item has none, such as "".

        Args:
            items: texts, mappings with the keys of a JSON object (see the command's help), or examples from `read`.
        """
        if isinstance(items, str):
            raise InputError(f"expected a list of texts, such as [{excerpt(items)}], found a text")
        raw = all(isinstance(item, str | Mapping) for item in items)
        wrong = [] if raw else [item for item in items if not hasattr(item, "id")]
        if wrong:
            raise InputError(
                f"expected texts, mappings, or examples from `read`, found {excerpt(wrong[0])}. A text that is in "
                'words already is {"tokens": [...]}'
            )
        asked = [
            self.ask(item, str(number)) if raw else Asked(item.id, item.id, item)
            for number, item in enumerate(items, start=1)
        ]
        self.answer(asked)
        return list(map(self.fields, asked))

    def ask(self, item: str | Mapping[str, Any], name: str, where: str = "", as_json: bool = False) -> Asked:
        """An item of raw input, which may be wrong.

        Args:
            item: a text, or a mapping with the keys of a JSON object or the columns of a table.
            name: the id, unless the item has one.
            where: names it in messages.
            as_json: whether the text is JSON.
        """
        asked = Asked(where, name)
        try:
            if isinstance(item, str) and not item.strip():
                raise ValueError("expected a text, found an empty line")
            if isinstance(item, str):
                item = json_object(item) if as_json else fields_of_line(item, self.task.raw_fields)
            columns = self.task.raw_columns().items()
            fields = {**item, **{key: item[column] for key, column in columns if column in item}}
            asked.id = name if fields.get("id") in (None, "") else str(fields["id"])
            example = self.task.from_raw(asked.id, fields)
            if not _has_words(self.task.texts(example)):
                raise ValueError("expected words, found none")
            asked.example, asked.id = example, example.id
        except InputError:
            raise
        except ValueError as error:
            asked.error = str(error)
        return asked

    def answer(self, asked: Sequence[Asked]) -> None:
        """Fills in the predictions, or why an example has none: the others have theirs."""
        for one in (one for one in asked if not one.error):
            if (tokens := max(map(len, self.task.texts(one.example)))) > LONGEST:
                one.error = f"expected a text of at most {LONGEST:,} tokens, found {tokens:,}. Split the text"
        if usable := [one for one in asked if not one.error]:
            self._decode(usable)

    def _decode(self, asked: Sequence[Asked]) -> None:
        """Predicts as many at once as there is memory for."""
        examples = [one.example for one in asked]
        try:
            self._meet(examples)
            for one, answer in zip(asked, self._trainer.answers(self.model, examples), strict=True):
                one.prediction, one.probabilities = answer
        except (RuntimeError, MemoryError) as error:
            if not isinstance(error, OutOfMemory) and not is_out_of_memory(error):
                raise
        else:
            return
        # Not in the `except`: the error holds what the memory is full of.
        if len(asked) > 1:
            self._decode(asked[: len(asked) // 2])
            self._decode(asked[len(asked) // 2 :])
        else:
            tokens = sum(map(len, self.task.texts(examples[0])))
            asked[0].error = f"out of memory with {tokens:,} tokens. Split the text, or use another --device"

    def _meet(self, examples: Sequence[Any]) -> None:
        self.model.features.meet(chain.from_iterable(map(self.task.texts, examples)), self._reporter)

    def fields(self, asked: Asked) -> dict[str, Any]:
        """The prediction as the fields of a JSON object."""
        if asked.error:
            return {"id": asked.id, "error": asked.error}
        shares = [round(share, DIGITS) for share in asked.probabilities]
        labels = self.task.probability_labels() if shares else ()
        known = {"probabilities": dict(zip(labels, shares, strict=True))} if labels else {}
        return {"id": asked.id, **self.task.prediction_fields(asked.example, asked.prediction), **known}

    def line(self, asked: Asked, output: str) -> str:
        """The prediction as text, empty if there is none, as a JSON object in a line, or as a row of a table."""
        if output == "csv":
            text = "" if asked.error else self.task.prediction_text(asked.example, asked.prediction).rstrip("\n")
            labels = self.task.probability_labels()
            shares: list[object] = [round(share, DIGITS) for share in asked.probabilities] or [""] * len(labels)
            return csv_line([*asked.kept, text, *shares])
        if output == "json":
            return json.dumps(self.fields(asked), ensure_ascii=False) + "\n"
        return "\n" if asked.error else self.task.prediction_text(asked.example, asked.prediction) + "\n"

    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Scores:
        """The scores of predictions for labelled examples, by the scorer of record."""
        return self.task.score_test(examples, predictions)


def csv_line(cells: Iterable[object]) -> str:
    """A row of CSV."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def _has_words(texts: Sequence[Sequence[str]]) -> bool:
    return bool(texts) and all(texts)


def load_model(
    run: str | Path, device: str = "auto", task: str | None = None, config_dir: str | Path | None = None
) -> LoadedModel:
    """The trained model of a run.

    Args:
        run: the folder of a run made with keep_weights=true, or one above it with no other such run.
        device: auto, cpu or cuda.
        task: the name of the expected task, if it matters.
        config_dir: a folder of configs, trusted like code, whose YAML names the run's own task or frozen layers.

    Raises:
        InputError: there is no model, it is not that of the run's record, cannot be used here, or is of another task.
    """
    if not Path(run).is_dir():
        what = "a file" if Path(run).exists() else "nothing"
        raise InputError(f"{run}: expected the folder of a run, found {what}. Check the path")
    path = _weights_below(Path(run))
    check_recorded(path)
    config, model = load_weights(path, task, None if config_dir is None else Path(config_dir))
    loaded = predictor(config, model, choose_device(device))
    if loaded is None:
        raise InputError(
            f"{run}: expected a model trained by gradient descent, found one of task={config.task.name}, which learns "
            "in another way; keep_weights=true keeps trained parameters only"
        )
    return loaded


def _weights_below(folder: Path) -> Path:
    """The only weights in a folder or below it."""
    path = folder / WEIGHTS_NAME
    paths = [] if path.is_file() else sorted(folder.rglob(WEIGHTS_NAME))
    if len(paths) > 1:
        names = [str(path.parent.relative_to(folder)) for path in paths[:RUNS_NAMED]]
        raise InputError(
            f"{folder}: expected one run with weights, found {len(paths)}: {', '.join(names)}"
            f"{', ...' * (len(paths) > RUNS_NAMED)}. Name the folder of one of them"
        )
    return paths[0] if paths else path


def predictor(config: Run, model: TaskModel, device: torch.device) -> LoadedModel | None:
    """The model of a run, ready to predict; None for a task that fits itself."""
    return None if isinstance(config.task, FitsItself) else LoadedModel(config, model, device)


def _asked(model: LoadedModel, source: Path, kind: str, scored: bool) -> Iterator[Asked]:
    """The questions of a file, or of standard input."""
    if kind == "data":
        yield from (Asked(example.id, example.id, example) for example in model.read(source, scored))
        return
    name = "standard input" if source == STANDARD_INPUT else source
    items = raw_items(source, kind, list(model.task.raw_columns().values()))
    for number, (line, item, cells, problem) in enumerate(items, start=1):
        where = f"{name}, line {line}"
        asked = Asked(where, str(number), error=problem)
        if not problem:
            asked = model.ask(item, str(number), where, as_json=kind == "json")
        asked.kept = cells
        yield asked


def _some_at_once(asked: Iterable[Asked], size: Callable[[Any], int]) -> Iterator[list[Asked]]:
    """Parts of a long input: their predictions appear while the rest is still read."""
    some: list[Asked] = []
    tokens = 0
    for one in asked:
        some.append(one)
        tokens += 0 if one.error else size(one.example)
        if len(some) == LINES_AT_ONCE or tokens >= TOKENS_AT_ONCE:
            yield some
            some, tokens = [], 0
    if some:
        yield some


def predict(options: argparse.Namespace) -> int:
    """Prints the predictions for an input; the exit status is 1 if some could not be made."""
    checks.count(checks.MOST_THREADS, "--threads", options.threads)
    torch.set_num_threads(options.threads)
    model = load_model(options.run, options.device, config_dir=options.config_dir)
    source = STANDARD_INPUT if options.source in (None, Path("-")) else options.source
    kind = options.input or INPUT_KINDS.get(source.suffix.lower(), "text")
    if options.output == "csv":
        if f".{kind}" not in STYLES or source == STANDARD_INPUT:
            raise InputError("--output csv: expected a file that ends in .csv or .tsv, found another input. Name one")
        _, header, _ = next(raw_rows(source, f".{kind}", tolerant=True), (1, [], ""))
        print(UNDECODED.sub("\ufffd", csv_line([*header, "prediction", *model.task.probability_labels()])), end="")
    if said := encoding_of(source)[1]:
        print(f"tasks.predict: {said}", file=sys.stderr)
    asked = _asked(model, source, kind, options.score)
    parts = [list(asked)] if kind == "data" else _some_at_once(asked, model.task.size)  # data: in the run's batches
    done, failed = 0, 0
    for some in parts:
        model.answer(some)
        print_lines(model.line(one, options.output) for one in some)
        wrong = [one for one in some if one.error]
        for one in wrong:
            print(f"tasks.predict: {one.where}: {one.error}", file=sys.stderr)
        done, failed = done + len(some), failed + len(wrong)
        if options.score and not wrong:
            values = model.score([one.example for one in some], [one.prediction for one in some]).values
            print(", ".join(f"{name} {value:.2f}" for name, value in values.items()), file=sys.stderr)
    if failed:
        print(f"tasks.predict: {failed:,} of {done:,} have no prediction. {REMEDY}", file=sys.stderr)
    return int(failed > 0)
