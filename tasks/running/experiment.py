"""Carries out one run: builds the model, trains it, tests it once and writes its record."""

import math
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch

from elmo.common.device import forget_peak, own_device, peak_mb
from elmo.common.errors import InputError, excerpt, interrupts_kept, reworded
from elmo.common.files import plain_json
from elmo.common.progress import Reporter
from elmo.store.shelf import StoreUnusable
from results.records import example_scores
from results.records.environment import Environment, describe_environment
from results.records.identity import CONFIDENCES_NAME, EXAMPLES_NAME, PREDICTIONS_NAME, also_name, differences
from results.records.metric import Grouping
from results.records.progress import HeldLock, Owner, run_lock
from results.records.record import (
    FurtherTest,
    Mix,
    RunError,
    RunRecord,
    in_last_tenth,
    read_record,
    settings_of,
    timestamp,
    write_record,
)
from tasks.bag_of_words import BagOfWords
from tasks.data.datasets import common_labels, look_at
from tasks.features.token_features import TokenFeatures, features_recipes
from tasks.metrics import Scores
from tasks.modules.layers import kernels_for
from tasks.running.config import Run
from tasks.running.loggers import Logger
from tasks.running.predict import LoadedModel, check_recorded, predictor, restore, save_weights
from tasks.task import Split, Task
from tasks.training.trainer import FitsItself, FitState, TaskModel, Trainer

FEW_STEPS = 2  # warn if an epoch has no more steps than this
STEPS_ADVISED = 10
SAME_SCORE = 1e-9  # two scorers agree if their percentages differ by no more
LEAST_COVERAGE = 0.5  # warn if a smaller share of a split's words has a pretrained vector


@dataclass(frozen=True)
class Ended:
    """The end of a run.

    Attributes:
        status: "skipped" if it was done before, "elsewhere" if another process works on it, "failed before" if it
            failed in an earlier command and was not run again.
        text: its scores as readable text, or the type and the message of the error.
        title: the run's name; empty if it failed.
        folder: of its record.
        scores: by split and metric, in percent; also those of a run that was done before.
        model: the trained model, which predicts raw text. None if another process or an earlier one trained it
            (`tasks.load_model(folder)` loads it if it was kept), and for a task that fits itself.
    """

    status: Literal["finished", "skipped", "elsewhere", "failed", "failed before"]
    text: str = ""
    title: str = ""
    folder: Path | None = None
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    model: LoadedModel | None = None

    @property
    def failed(self) -> bool:
        """Whether it failed, now or before."""
        return self.status.startswith("failed")


def run(config: Run, in_sweep: bool = False, side_by_side: bool = False) -> Ended:
    """Carries out one run, unless it is done or has failed before, and writes its record; errors are raised.

    From Python, on the shipped data:

        from tasks.running.experiment import run
        from tasks.running.config import typed_config

        ended = run(typed_config(["task=ner", "features=elmo", "data=mini"]))
        print(ended.scores["test"]["f1"])
        print(ended.model.predict(["Ada Lind moved to Oslo."]))

    It sets the number of torch's threads in this process to `threads`, one by default.

    Args:
        config: the run.
        in_sweep: print warnings only; the sweep prints how the run ended.
        side_by_side: other runs may print at the same time.
    """
    config = replace(config)  # files may have changed since it was made
    torch.set_num_threads(config.threads)
    device = own_device(config.device)
    config.features.check_weights()
    reporter = Reporter(config.identity.title, brief=in_sweep, bars=not side_by_side)
    done = config.done()
    if done == "failed" or (done == "skip" and not config.left_behind):
        return _ended_before(config, reporter)
    with run_lock(config.path.parent) as lock:
        if not isinstance(lock, Owner):
            done = config.done()  # another process may have ended it before the lock
            if done == "run":
                return _Execution(config, device, reporter, lock).carry_out()
            config.checkpoint.unlink(missing_ok=True)  # left by a process killed after it wrote the record
            if done == "skip" and config.untested:
                _Execution(replace(config, also=config.untested), device, reporter, lock).test_kept()
        elif done == "run" or config.untested:  # otherwise that process is about to end
            reporter.warn(f"is running elsewhere: {lock}")
            return Ended("elsewhere")
        return _ended_before(config, reporter)


def _ended_before(config: Run, reporter: Reporter) -> Ended:
    """Reports that an earlier command did the run, or tried to."""
    record, folder = read_record(config.path), config.path.parent
    if record.error is not None:
        reason = record.error.last_line
        reporter.warn(f"failed before, and runs again with retry=failed: {reason}  {config.path}")
        return Ended("failed before", reason, folder=folder)
    files = config.keep_weights and config.weights, config.confidences and folder / CONFIDENCES_NAME
    lacking = [what for what, file in zip(("weights", "confidences"), files, strict=True) if file and not file.exists()]
    lacking += [f"scores on {other.data.name}" for other in config.also if other.data.name not in record.also]
    if lacking:
        reporter.warn(
            f"is done already, and kept no {' and no '.join(lacking)}: {config.path}. To get them, run it again with "
            f"another runs_dir=DIR, or delete {folder} first"
        )
    else:
        reporter.say(f"is done already: {config.path}")
    if changed := differences(settings_of(record), settings_of(replace(record, config=config.resolved))):
        values = "; ".join(f"{key} {there} there, {here} here" for key, (there, here) in changed.items())
        reporter.warn(
            f"warning: was done with other settings than now: {values}. A default was edited without a "
            "new recipe: take the edit back, raise the recipe, or use another runs_dir=DIR"
        )
    return Ended("skipped", folder=folder, scores=record.scores)


@dataclass
class _Execution:
    """A run under way and its results so far; if it fails, its record contains them."""

    run: Run
    device: torch.device
    reporter: Reporter
    lock: HeldLock
    data: dict[str, Any] = field(default_factory=dict)
    fit: FitState = field(default_factory=FitState)
    epochs_here: set[int] = field(default_factory=set)  # trained by this process, not before a kill
    dev: Scores = field(default_factory=Scores)
    test: Scores = field(default_factory=Scores)
    mixes: dict[str, Mix] = field(default_factory=dict)
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)
    groups: dict[str, Grouping] = field(default_factory=dict)
    predictions: list[dict[str, Any]] = field(default_factory=list)  # of the test examples, as they are kept
    judged: dict[str, list[list[tuple[float, bool]]]] = field(default_factory=dict)  # by split; see `Task.judged`
    also: dict[str, FurtherTest] = field(default_factory=dict)  # see `RunRecord.also`
    inputs: dict[str, str] = field(default_factory=dict)  # see `RunRecord.inputs`
    model: str | None = None  # the hash of the weights that were kept
    earlier: dict[Split, list[Any]] = field(default_factory=dict)  # the examples that were read

    def __post_init__(self) -> None:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        self.environment = describe_environment(name, self.run.threads, kernels_for(self.device))
        forget_peak(self.device)
        self.started_at, self.started = timestamp(), time.perf_counter()

    def record(self, error: Exception | None = None) -> RunRecord:
        """The record of the run, as finished or as failed."""
        run, fit = self.run, self.fit
        before = sum(epoch["seconds"] for epoch in fit.curve if epoch["epoch"] not in self.epochs_here)
        return RunRecord(
            status="failed" if error else "finished",
            identity=run.identity,
            fingerprinted=run.fingerprinted,
            config=run.resolved,
            metric=run.task.metric,
            metrics=run.task.metrics,
            folds=run.data.folds,
            scores={"dev": self.dev.values} | ({} if run.trial else {"test": self.test.values}),
            details=self.test.details,
            also=self.also,
            data=self.data,
            weights=_weights_note(run),
            coverage=self.coverage or None,
            mixes=self.mixes,
            epochs=fit.curve,
            at_limit=in_last_tenth(fit.best_epoch, run.trainer.epochs),
            seconds=round(before + time.perf_counter() - self.started, 3),
            peak_memory_mb=peak_mb(self.device),
            inputs=self.inputs,
            model=self.model,
            environment=self.environment,
            earlier=[Environment(**it) for it in fit.environments if Environment(**it) != self.environment],
            started_at=self.started_at,
            finished_at=timestamp(),
            error=RunError.of(error) if error else None,
        )

    def carry_out(self) -> Ended:
        """Trains, tests and writes the record, also if the run fails."""
        run, path, task = self.run, self.run.path, self.run.task
        self.lock.progress(0, run.trainer.epochs)
        with Logger(run, self.reporter) as logger:
            try:
                with interrupts_kept():
                    model = self.train_and_test(logger.epoch)
                    run.check_inputs(model.features, self.inputs)
                    self._write_results(model)
            except StoreUnusable:
                raise  # no failed record: the same run would succeed with another store
            except Exception as error:
                failed = self.record(error)
                write_record(path, failed)  # the table shows failures of any kind
                self.reporter.warn(f"failed, see {path}")
                logger.final(failed.summary())
                raise
            finished = self.record()
            write_record(path, finished)
            run.checkpoint.unlink(missing_ok=True)
            logger.final(finished.summary())
            self._write_groups()
        if finished.learned_nothing and run.limit is None:
            self.reporter.warn(
                "warning: the model learned nothing: it predicts one class for all test examples, or its score is 0. "
                "Try more epochs or smaller batches (trainer.epochs, trainer.patience, trainer.batch_size)"
            )
        scores = ", ".join(f"{split} {values[task.metric]:.2f}" for split, values in finished.scores.items())
        text = f"{task.metric}: {scores}  {finished.seconds:.0f} s"
        self.reporter.say(f"{text}  {path}")
        predicting = predictor(run, model, self.device)
        return Ended("finished", text, run.identity.title, path.parent, finished.scores, predicting)

    def train_and_test(self, log_epoch: Callable[[Mapping[str, Any]], None]) -> TaskModel:
        """The experiment itself; keeps its results step by step and returns the trained model."""
        run, task, reporter = self.run, self.run.task, self.reporter
        train, dev = self._load("train"), self._load("dev")
        model = self._untrained(train)
        trained = sum(parameter.numel() for parameter in model.trained().values())
        reporter.say(
            f"{len(train):,} + {len(dev):,} examples; {', '.join(features_recipes(run.features))}; "
            f"{trained:,} parameters to train; {self.device}"
        )
        if left_out := self._meet(model.features, {"train": train, "dev": dev}):
            reporter.warn(f"{left_out:,} sentences do not fit in the cache; their layers are computed in every epoch")

        def on_epoch(state: FitState) -> None:
            self.epochs_here.add(state.epoch)
            best = round(state.best_score, 4) if state.best_epoch else None
            self.lock.progress(state.epoch, run.trainer.epochs, best)
            log_epoch(state.curve[-1])

        # A run that was killed may go on with other further test sets.
        resuming = run.checkpoint, run.fingerprint, on_epoch, self.inputs, asdict(self.environment)
        self.inputs = {**self.inputs, **run.further_inputs}
        trainer = Trainer(task, run.trainer, run.seed, self.device, reporter, *resuming)
        if isinstance(model.head, BagOfWords):
            fitted = model.head.fit(train, dev)
        elif isinstance(task, FitsItself):
            fitted = task.fit(trainer, model, train, dev, self.fit)
        else:
            if run.limit is None and (few := _few_steps(trainer, train)):
                reporter.warn(f"warning: {few}")  # not with a limit, which is for quick tests
            fitted = trainer.fit(model, train, dev, self.fit).best_values
        if not isinstance(fitted, dict) or task.metric not in fitted:
            raise InputError(
                f"fit of task={task.name}: expected the scores on dev with {task.metric}, found {excerpt(fitted)}. "
                "Return trainer.evaluate(model, dev).values"
            )
        self.dev = Scores(fitted)
        self.mixes = {place: Mix(mix["layers"], mix["gamma"]) for place, mix in model.features.mix_weights().items()}  # type: ignore[arg-type]
        if run.trial:
            return model
        test = self._load("test")  # read once, after model selection
        self._meet(model.features, {"test": test})
        answers = trainer.answers(model, test)
        predictions = [prediction for prediction, _ in answers]
        self.test = task.score_test(test, predictions)
        self.predictions = [_kept(task, *pair) for pair in zip(test, predictions, strict=True)]
        if problem := _metric_problem(task, self.test):
            reporter.warn(f"warning: {problem}")
        self.groups = task.groups(test, train)
        if run.confidences:
            self.judged = {"dev": task.judged(dev, trainer.answers(model, dev)), "test": task.judged(test, answers)}
        for other in run.also:
            self._test_further(other, train, trainer, model)
        return model

    def test_kept(self) -> None:
        """Scores the kept model of a finished run on further test sets, and adds them to its record."""
        run, record = self.run, read_record(self.run.path)
        train = run.source.load(run.task, "train").examples
        model = self._untrained(train)
        check_recorded(run.weights)
        restore(run.weights, model)
        trainer = Trainer(run.task, run.trainer, run.seed, self.device, self.reporter)
        for other in run.also:
            self._test_further(other, train, trainer, model)
        run.check_inputs(model.features, {**self.inputs, **run.further_inputs})
        also, inputs = {**record.also, **self.also}, {**record.inputs, **run.further_inputs}
        coverage = {**(record.coverage or {}), **self.coverage} or None
        earlier = [*record.earlier, *([] if self.environment == record.environment else [self.environment])]
        write_record(run.path, replace(record, also=also, inputs=inputs, coverage=coverage, earlier=earlier))

    def _untrained(self, train: list[Any]) -> TaskModel:
        """The run's model before training."""
        run, task = self.run, self.run.task
        task.learn_labels(train)
        if run.keep_weights and type(task).learn_labels is not Task.learn_labels and "labels" not in vars(task):
            raise InputError(
                f"keep_weights=true: expected learn_labels() of task={task.name} to set self.labels, found none. "
                "Keep there what it learns, as a list of texts: a saved model needs it"
            )
        features = TokenFeatures(run.features, _sentences(task, train), run.seed, run.store)
        features.check_fingerprint(run.fingerprinted)
        self.inputs = run.inputs(features)
        return TaskModel.start(task, features, run.seed).to(self.device)

    def _load(self, split: Split) -> list[Any]:
        """The examples of a split, and notes about them."""
        task = self.run.task
        loaded = self.run.source.load(task, split)
        with reworded(TypeError, lambda error: f"counts() and notes() of task={task.name}: {error}"):
            facts = plain_json({**loaded.counts, **task.notes(loaded.examples)})  # as the record will have them
        shared, looks = look_at(task, split, loaded.examples, self.earlier)
        warnings = [*loaded.warnings, *(looks if self.run.limit is None else ())]  # a limit is for quick tests
        self.data[split] = {**facts, **shared, "warnings": warnings}
        for warning in warnings:
            self.reporter.warn(f"warning: {warning}")
        self.earlier[split] = loaded.examples
        return loaded.examples

    def _meet(self, features: TokenFeatures, splits: dict[str, list[Any]]) -> int:
        """Computes or finds the layers of these examples; the number of sentences that do not fit in the cache."""
        texts = {split: _sentences(self.run.task, examples) for split, examples in splits.items()}
        left_out = features.meet(chain.from_iterable(texts.values()), self.reporter)
        for split, text in texts.items():
            if covered := features.coverage(text):
                self.coverage[split] = covered
                if covered["with_vector"] < LEAST_COVERAGE * covered["words"]:
                    share = "of {words:,} words {with_vector:,} have a pretrained vector".format(**covered)
                    self.reporter.warn(f"warning: {split}: {share}; are these vectors of the data's language?")
        return left_out

    def _test_further(self, other: Run, train: list[Any], trainer: Trainer, model: TaskModel) -> None:
        """Scores the model on the test set of a further dataset, with labels that both datasets have."""
        labels, name = self.run.data.labels, other.data.name
        task = copy(self.run.task)  # with the labels that it has learned
        task.reader = other.task.reader
        loaded = self.run.further[name].load(task, "test")
        gold = common_labels(task.label_counts(loaded.examples), other.data.labels, labels)
        guessed = common_labels(task.label_counts(train), labels, other.data.labels)
        self._meet(model.features, {f"also.{name}": loaded.examples})
        predictions = trainer.predict(model, loaded.examples)
        scores = task.score_test(*task.relabelled(loaded.examples, predictions, gold, guessed))
        tables = {"gold": gold, "predicted": guessed}
        self.also[name] = FurtherTest(scores.values, {**loaded.counts, "warnings": loaded.warnings}, tables)
        example_scores.write_examples(self.run.path.with_name(also_name(name)), self.run.fingerprint, scores.examples)
        for warning in loaded.warnings:
            self.reporter.warn(f"warning: also {name}: {warning}")
        text = f"also {name}: {task.metric} {scores.values[task.metric]:.2f}"
        for kind, table in tables.items():
            counted = (f"{label} {f'as {it}' if it else 'dropped'}" for label, it in table.items())
            text += f"; {kind} labels: {', '.join(counted)}"
        self.reporter.say(text)

    def _write_results(self, model: TaskModel) -> None:
        """Writes the files next to the record, before it."""
        run, path = self.run, self.run.path
        if run.keep_weights:
            self.model = save_weights(run.weights, model, run, self.inputs)
        if not run.trial:
            example_scores.write_examples(path.with_name(EXAMPLES_NAME), run.fingerprint, self.test.examples)
            example_scores.write_predictions(path.with_name(PREDICTIONS_NAME), run.fingerprint, self.predictions)
        if run.confidences:
            example_scores.write_confidences(path.with_name(CONFIDENCES_NAME), run.fingerprint, self.judged)

    def _write_groups(self) -> None:
        """Writes the kinds of test examples, once for all runs on the whole of these data with its own reader."""
        run = self.run
        whole = run.limit is None and run.train_fraction == 1 and not example_scores.reads_otherwise(run.identity)
        names = [kept["id"] for kept in self.predictions]
        if not whole or not self.groups or len(self.test.examples) != len(names):
            return
        try:
            example_scores.add_groups(run.runs_dir, run.task.name, run.fingerprinted["data"], names, self.groups)
        except example_scores.ExamplesUnreadable as error:  # the run itself is done
            self.reporter.warn(f"warning: {error}")


def _sentences(task: Task[Any, Any], examples: list[Any]) -> list[tuple[str, ...]]:
    return list(chain.from_iterable(map(task.texts, examples)))


def _few_steps(trainer: Trainer, train: list[Any]) -> str | None:
    """A warning if batches are so large that training may stop before the model has learned anything."""
    steps, size = trainer.steps(train), trainer.config.batch_size
    if steps > FEW_STEPS or steps == len(train):
        return None
    return (
        f"steps in an epoch: {steps} ({len(train)} examples, trainer.batch_size={size}). The model may learn nothing "
        f"before training stops. Set a smaller one, such as trainer.batch_size={max(1, len(train) // STEPS_ADVISED)}"
    )


def _kept(task: Task[Any, Any], example: Any, prediction: Any) -> dict[str, Any]:  # noqa: ANN401
    """A test example with its gold and its predicted output; what both share, such as words, is there once."""
    shared = task.example_fields(example)
    gold, predicted = task.gold_fields(example), task.prediction_fields(example, prediction)
    outputs = [{key: value for key, value in fields_of.items() if key not in shared} for fields_of in (gold, predicted)]
    return {"id": example.id, "example": shared, "gold": outputs[0], "predicted": outputs[1]}


def _metric_problem(task: Task[Any, Any], scores: Scores) -> str | None:
    """Why tables cannot compute the main score from the test examples as the task declares it; None if they can."""
    metric = task.metrics.get(task.metric)
    if metric is None or not scores.examples:
        return None  # a task need not have these: its tables may have intervals over seeds alone
    score, reported = metric.of_examples(scores.examples), scores.values[task.metric]
    if score is None:
        return f"metrics of task={task.name}: expected {', '.join(metric.columns)} in the score of each test example"
    if not math.isclose(score, reported, abs_tol=SAME_SCORE):
        return (
            f"metrics of task={task.name}: {task.metric} of the test examples is {score:.4f} as declared, but score() "
            f"returns {reported:.4f}. Tables will report this: correct one of them, and give every example a score"
        )
    return None


def _weights_note(run: Run) -> dict[str, object] | None:
    elmo = run.features.elmo
    if elmo is None:
        return None
    name, sha256 = run.resolved["features"]["elmo"]["weights"], run.fingerprinted["weights"]
    control = {} if elmo.control is None else {"control": elmo.control, "draw": elmo.draw}
    return {"name": name, "untrained": elmo.untrained, **control, "sha256": sha256, "state": "zero"}
