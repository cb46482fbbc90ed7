"""Carries out one run: builds the model, trains it, tests it once and writes its record."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import torch

from elmo.common.device import own_device
from elmo.common.errors import InputError, excerpt, interrupts_kept
from elmo.common.files import plain_json
from elmo.common.progress import Reporter
from elmo.store.shelf import StoreUnusable
from results.records.environment import Environment, describe_environment
from results.records.example_scores import write_confidences, write_examples, write_predictions
from results.records.group_files import GroupsUnreadable, add_groups, reads_otherwise
from results.records.identity import CONFIDENCES_NAME, EXAMPLES_NAME, PREDICTIONS_NAME, also_name
from results.records.metric import Grouping
from results.records.record import (
    FurtherTest,
    Mix,
    RunError,
    RunRecord,
    decide,
    in_last_tenth,
    prepare_folder,
    read_record,
    timestamp,
    write_record,
)
from results.records.run_lock import HeldLock, Owner, run_lock
from tasks.batch import Split
from tasks.data.datasets import common_labels, look_at
from tasks.features.token_features import TokenFeatures, features_recipes
from tasks.metrics import SAME_SCORE, Scores
from tasks.modules.recurrence import kernels_for
from tasks.running.config import RunConfig
from tasks.running.loggers import Logger
from tasks.running.plan import RunPlan
from tasks.running.predict import LoadedModel, predictor
from tasks.running.saved_model import WEIGHTS_NAME, save_weights
from tasks.task import Task
from tasks.training.peak_memory import forget_peak, peak_mb
from tasks.training.trainer import FitsItself, FitState, TaskModel, Trainer

FEW_STEPS = 2  # warn if an epoch has no more steps than this
STEPS_ADVISED = 10
LEAST_COVERAGE = 0.5  # warn if a smaller share of a split's words has a pretrained vector


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Attributes:
        status: "skipped" if it was done before, "elsewhere" if another process works on it, "failed before" if it
            failed in an earlier command and was not run again.
        text: its scores as readable text, or the type and the message of the error.
        title: the run's name; empty if it failed.
        folder: of its record.
        scores: by split and metric, in percent; also those of a run that was done before.
        model: the trained model, which predicts raw text. None if another process or an earlier one trained it
            (`tasks.load_model(folder)` loads it if it was kept), and for a task that does not train by gradients.
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


@dataclass
class RunOutcome:
    """Results of a run so far; if the run fails, its record contains them."""

    data: dict[str, Any] = field(default_factory=dict)
    fit: FitState = field(default_factory=FitState)
    epochs_here: set[int] = field(default_factory=set)  # trained by this process, not before a kill
    dev: Scores = field(default_factory=Scores)
    test: Scores = field(default_factory=Scores)
    mixes: dict[str, Mix] = field(default_factory=dict)
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)
    tested: list[str] = field(default_factory=list)  # names of the test examples
    groups: dict[str, Grouping] = field(default_factory=dict)
    predictions: list[dict[str, Any]] = field(default_factory=list)  # of the test examples, as they are kept
    judged: dict[str, list[list[tuple[float, bool]]]] = field(default_factory=dict)  # by split; see `Task.judged`
    also: dict[str, FurtherTest] = field(default_factory=dict)  # see `RunRecord.also`
    also_examples: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)  # see `RunRecord.inputs`
    model: str | None = None  # the hash of the weights that were kept


def run(config: RunConfig, in_sweep: bool = False, side_by_side: bool = False) -> Ended:
    """Carries out one run, unless it is done or has failed before, and writes its record; errors are raised.

    From Python, on the shipped data:

        from tasks.run import run
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
    torch.set_num_threads(config.threads)
    device = own_device(config.device)
    config.features.check_weights()
    plan = RunPlan.of(config)
    reporter = Reporter(plan.title, brief=in_sweep, bars=not side_by_side)
    done = decide(plan.path, plan.hashed)
    if (done == "skip" and not plan.left_behind) or (done == "failed" and not config.retry_failed):
        return _ended_before(plan, done, reporter)
    prepare_folder(plan.path)
    with run_lock(plan.path.parent, plan.title) as lock:
        if isinstance(lock, Owner):
            if done == "skip":  # that process is about to end
                return _ended_before(plan, done, reporter)
            reporter.warn(f"is running elsewhere: {lock}")
            return Ended("elsewhere")
        done = decide(plan.path, plan.hashed)  # another process may have ended it before the lock
        if done == "skip" or (done == "failed" and not config.retry_failed):
            plan.checkpoint.unlink(missing_ok=True)  # left by a process killed after it wrote the record
            return _ended_before(plan, done, reporter)
        return _carry_out(plan, lock, device, reporter)


def _ended_before(plan: RunPlan, done: Literal["run", "skip", "failed"], reporter: Reporter) -> Ended:
    """Reports that an earlier command did the run, or tried to."""
    if done == "skip":
        record = read_record(plan.path)
        if lacking := _not_kept(plan.config, record, plan.path.parent):
            reporter.warn(
                f"is done already, and kept no {' and no '.join(lacking)}: {plan.path}. To get them, run it again with "
                f"another runs_dir=DIR, or delete {plan.path.parent} first"
            )
        else:
            reporter.say(f"is done already: {plan.path}")
        if changed := plan.changed_settings(record):
            reporter.warn(
                f"warning: was done with other settings than now: {'; '.join(changed)}. A default was edited without a "
                "new recipe: take the edit back, raise the recipe, or use another runs_dir=DIR"
            )
        return Ended("skipped", folder=plan.path.parent, scores=record.scores)
    error = read_record(plan.path).error
    reason = error.last_line if error else ""
    reporter.warn(f"failed before, and runs again with retry=failed: {reason}  {plan.path}")
    return Ended("failed before", reason, folder=plan.path.parent)


def _not_kept(config: RunConfig, record: RunRecord, folder: Path) -> list[str]:
    """What is asked for now, and was not when the run was done."""
    files = {"weights": (config.keep_weights, WEIGHTS_NAME), "confidences": (config.confidences, CONFIDENCES_NAME)}
    missing = [what for what, (asked, name) in files.items() if asked and not (folder / name).exists()]
    return missing + [f"scores on {other.data.name}" for other in config.also if other.data.name not in record.also]


def _carry_out(plan: RunPlan, lock: HeldLock, device: torch.device, reporter: Reporter) -> Ended:
    """Trains, tests and writes the record, also if the run fails."""
    config, path, task = plan.config, plan.path, plan.config.task
    outcome = RunOutcome()
    environment = describe_environment(_device_name(device), config.threads, kernels_for(device))
    forget_peak(device)
    started_at, started = timestamp(), time.perf_counter()

    def record(error: Exception | None = None) -> RunRecord:
        before = sum(epoch["seconds"] for epoch in outcome.fit.curve if epoch["epoch"] not in outcome.epochs_here)
        return RunRecord(
            status="failed" if error else "finished",
            identity=plan.identity,
            fingerprinted=plan.parts,
            config=config.resolved,
            metric=task.metric,
            metrics=task.metrics,
            folds=config.data.folds,
            scores={"dev": outcome.dev.values} | ({} if config.trial else {"test": outcome.test.values}),
            details=outcome.test.details,
            also=outcome.also,
            data=outcome.data,
            weights=_weights_note(config, plan.parts),
            coverage=outcome.coverage or None,
            mixes=outcome.mixes,
            epochs=outcome.fit.curve,
            at_limit=in_last_tenth(outcome.fit.best_epoch, config.trainer.epochs),
            seconds=round(before + time.perf_counter() - started, 3),
            peak_memory_mb=peak_mb(device),
            inputs=outcome.inputs,
            model=outcome.model,
            environment=environment,
            earlier=[Environment(**it) for it in outcome.fit.environments if Environment(**it) != environment],
            started_at=started_at,
            finished_at=timestamp(),
            error=RunError.of(error) if error else None,
        )

    def on_epoch(state: FitState) -> None:
        outcome.epochs_here.add(state.epoch)
        best = round(state.best_score, 4) if state.best_epoch else None
        lock.progress(state.epoch, config.trainer.epochs, best)
        logger.epoch(state.curve[-1])

    lock.progress(0, config.trainer.epochs)
    with Logger(config.logger, plan.logged, reporter) as logger:
        try:
            with interrupts_kept():
                model = train_and_test(plan, device, reporter, outcome, on_epoch, environment)
                plan.check_inputs(model.features, outcome.inputs)
                if config.keep_weights:
                    outcome.model = save_weights(path.with_name(WEIGHTS_NAME), model, config, outcome.inputs)
                if not config.trial:
                    write_examples(path.with_name(EXAMPLES_NAME), plan.fingerprint, outcome.test.examples)
                    write_predictions(path.with_name(PREDICTIONS_NAME), plan.fingerprint, outcome.predictions)
                for name, examples in outcome.also_examples.items():
                    write_examples(path.with_name(also_name(name)), plan.fingerprint, examples)
                if config.confidences:
                    write_confidences(path.with_name(CONFIDENCES_NAME), plan.fingerprint, outcome.judged)
        except StoreUnusable:
            raise  # no failed record: the same run would succeed with another store
        except Exception as error:
            failed = record(error)
            write_record(path, failed)  # the table shows failures of any kind
            reporter.warn(f"failed, see {path}")
            logger.final(failed.summary())
            raise
        finished = record()
        write_record(path, finished)
        plan.checkpoint.unlink(missing_ok=True)
        logger.final(finished.summary())
        _write_groups(plan, outcome, reporter)
    if finished.learned_nothing and config.limit is None:
        reporter.warn(
            "warning: the model learned nothing: it predicts one class for all test examples, or its score is 0. Try "
            "more epochs or smaller batches (trainer.epochs, trainer.patience, trainer.batch_size)"
        )
    scores = ", ".join(f"{split} {values[task.metric]:.2f}" for split, values in finished.scores.items())
    text = f"{task.metric}: {scores}  {finished.seconds:.0f} s"
    reporter.say(f"{text}  {path}")
    return Ended("finished", text, plan.title, path.parent, finished.scores, predictor(config, model, device))


def train_and_test(
    plan: RunPlan,
    device: torch.device,
    reporter: Reporter,
    outcome: RunOutcome,
    on_epoch: Callable[[FitState], None],
    environment: Environment,
) -> TaskModel:
    """The experiment itself; fills in `outcome` step by step and returns the trained model."""
    config, task = plan.config, plan.config.task

    earlier: dict[Split, list[Any]] = {}

    def load(split: Split) -> list[Any]:
        loaded = plan.source.load(task, split)
        try:  # before training: a record can have no other values
            facts = plain_json({**loaded.counts, **task.notes(loaded.examples)})
        except TypeError as error:
            raise InputError(f"counts() and notes() of task={task.name}: {error}") from error
        shared, found = look_at(task, split, loaded.examples, earlier)
        warnings = [*loaded.warnings, *(found if config.limit is None else ())]  # a limit is for quick tests
        outcome.data[split] = {**facts, **shared, "warnings": warnings}
        for warning in warnings:
            reporter.warn(f"warning: {warning}")
        earlier[split] = loaded.examples
        return loaded.examples

    def sentences(examples: list[Any]) -> list[tuple[str, ...]]:
        return list(chain.from_iterable(map(task.texts, examples)))

    train, dev = load("train"), load("dev")
    task.learn_labels(train)
    if config.keep_weights and type(task).learn_labels is not Task.learn_labels and "labels" not in vars(task):
        raise InputError(
            f"keep_weights=true: expected learn_labels() of task={task.name} to set self.labels, found none. "
            "Keep there what it learns, as a list of texts: a saved model needs it"
        )
    features = TokenFeatures(config.features, sentences(train), config.seed, config.store)
    features.check_fingerprint(plan.parts)
    outcome.inputs = plan.inputs(features)
    model = TaskModel.start(task, features, config.seed).to(device)
    trained = sum(parameter.numel() for parameter in model.trained().values())
    reporter.say(
        f"{len(train):,} + {len(dev):,} examples; {', '.join(features_recipes(config.features))}; "
        f"{trained:,} parameters to train, {model.count_frozen():,} frozen; {device}"
    )

    def meet(splits: dict[str, list[Any]]) -> int:
        texts = {split: sentences(examples) for split, examples in splits.items()}
        left_out = features.meet(chain.from_iterable(texts.values()), reporter)
        for split, text in texts.items():
            if covered := features.coverage(text):
                outcome.coverage[split] = covered
                if covered["with_vector"] < LEAST_COVERAGE * covered["words"]:
                    share = "of {words:,} words {with_vector:,} have a pretrained vector".format(**covered)
                    reporter.warn(f"warning: {split}: {share}; are these vectors of the data's language?")
        return left_out

    if left_out := meet({"train": train, "dev": dev}):
        reporter.warn(f"{left_out:,} sentences do not fit in the cache; their layers are computed in every epoch")
    # A run that was killed may go on with other further test sets.
    resuming = plan.checkpoint, plan.fingerprint, on_epoch, outcome.inputs, asdict(environment)
    outcome.inputs = {**outcome.inputs, **plan.further_inputs}
    trainer = Trainer(task, config.trainer, config.seed, device, reporter, *resuming)
    if config.limit is None and not isinstance(task, FitsItself) and (few := _few_steps(trainer, train)):
        reporter.warn(f"warning: {few}")  # not with a limit, which is for quick tests
    if isinstance(task, FitsItself):
        fitted = task.fit(trainer, model, train, dev, outcome.fit)
    else:
        fitted = trainer.fit(model, train, dev, outcome.fit).best_values
    if not isinstance(fitted, dict) or task.metric not in fitted:
        raise InputError(
            f"fit of task={task.name}: expected the scores on dev with {task.metric}, found {excerpt(fitted)}. Return "
            "trainer.evaluate(model, dev).values"
        )
    outcome.dev = Scores(fitted)
    outcome.mixes = {place: Mix(mix["layers"], mix["gamma"]) for place, mix in features.mix_weights().items()}  # type: ignore[arg-type]

    if config.trial:
        return model
    test = load("test")  # read once, after model selection
    meet({"test": test})
    answers = trainer.answers(model, test)
    predictions = [prediction for prediction, _ in answers]
    outcome.test = task.score_test(test, predictions)
    outcome.predictions = [_kept(task, *pair) for pair in zip(test, predictions, strict=True)]
    if problem := _metric_problem(task, outcome.test):
        reporter.warn(f"warning: {problem}")
    outcome.tested, outcome.groups = [example.id for example in test], task.groups(test, train)
    if config.confidences:
        outcome.judged = {"dev": task.judged(dev, trainer.answers(model, dev)), "test": task.judged(test, answers)}

    def predict(split: str, examples: list[Any]) -> list[Any]:
        meet({split: examples})
        return trainer.predict(model, examples)

    for other in config.also:
        _test_further(plan, other, train, predict, outcome, reporter)
    return model


def _test_further(
    plan: RunPlan,
    other: RunConfig,
    train: list[Any],
    predict: Callable[[str, list[Any]], list[Any]],
    outcome: RunOutcome,
    reporter: Reporter,
) -> None:
    """Scores the model on the test set of a further dataset, with labels that both datasets have."""
    own, name = plan.config, other.data.name
    task = copy(own.task)  # with the labels that it has learned
    task.reader = other.task.reader
    loaded = plan.also[name].load(task, "test")
    gold = common_labels(task.label_counts(loaded.examples), other.data.labels, own.data.labels)
    guessed = common_labels(task.label_counts(train), own.data.labels, other.data.labels)
    predictions = predict(f"also.{name}", loaded.examples)
    scores = task.score_test(*task.relabelled(loaded.examples, predictions, gold, guessed))
    tables = {"gold": gold, "predicted": guessed}
    outcome.also[name] = FurtherTest(scores.values, {**loaded.counts, "warnings": loaded.warnings}, tables)
    outcome.also_examples[name] = scores.examples
    for warning in loaded.warnings:
        reporter.warn(f"warning: also {name}: {warning}")
    shown = [
        f"; {kind} labels: " + ", ".join(f"{label} {f'as {it}' if it else 'dropped'}" for label, it in table.items())
        for kind, table in tables.items()
    ]
    reporter.say(f"also {name}: {task.metric} {scores.values[task.metric]:.2f}{''.join(shown)}")


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
    outputs = [{key: value for key, value in own.items() if key not in shared} for own in (gold, predicted)]
    return {"id": example.id, "example": shared, "gold": outputs[0], "predicted": outputs[1]}


def _write_groups(plan: RunPlan, outcome: RunOutcome, reporter: Reporter) -> None:
    """Writes the kinds of test examples, once for all runs on the whole of these data with the dataset's own reader."""
    whole = plan.config.limit is None and plan.config.train_fraction == 1 and not reads_otherwise(plan.identity)
    if not whole or not outcome.groups or len(outcome.test.examples) != len(outcome.tested):
        return
    try:
        add_groups(plan.config.runs_dir, plan.identity.task, plan.parts["data"], outcome.tested, outcome.groups)
    except GroupsUnreadable as error:  # the run itself is done
        reporter.warn(f"warning: {error}")


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


def _weights_note(config: RunConfig, parts: dict[str, Any]) -> dict[str, object] | None:
    elmo = config.features.elmo
    if elmo is None:
        return None
    name = config.resolved["features"]["elmo"]["weights"]
    control = {} if elmo.control is None else {"control": elmo.control, "draw": elmo.draw}
    return {"name": name, "untrained": elmo.untrained, **control, "sha256": parts["weights"], "state": "zero"}


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
