"""The training loop: batches, optimisers, early stopping on dev, and a checkpoint after every epoch to resume from.

It works for all tasks. The test split is read only after training has ended.
"""

import inspect
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from elmo.common.checks import AtLeastOne, AtLeastZero, Fraction, NotNegative, Positive, check_ranges, one_of
from elmo.common.device import is_out_of_memory
from elmo.common.errors import InputError, naming
from elmo.common.progress import Reporter
from elmo.common.tensor_files import check_tensors, read_tensors, write_tensors
from tasks.bag_of_words import BagOfWords
from tasks.features.token_features import TokenFeatures, TunedGroup
from tasks.features.words import LocatedText
from tasks.metrics import Scores
from tasks.modules.seeding import drawing_from, initialise, named_seed
from tasks.task import Answer, Batch, FeatureBatch, Head, Task

PRECISIONS = ("float32", "bfloat16")
BATCHES = ("length", "random")
LENGTH_NOISE = 0.1  # relative noise on lengths before sorting, so that batches differ between epochs
START_AGAIN = "Delete it and run again with retry=failed: the run starts from its first epoch"


def _without_compiler(kind: type[Optimizer]) -> Callable[..., Optimizer]:
    """The same optimiser without torch's wrappers, which import its compiler: 1.5 CPU seconds that no run needs.

    Where a version of torch wraps methods in another way, they stay as they are.
    """
    names = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(inspect.unwrap(kind.step))})


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "adam": partial(_without_compiler(torch.optim.Adam), fused=True),  # one kernel on a GPU, half the time on a CPU
    # TensorFlow's constants, with which the paper's SQuAD models were trained. With torch's defaults (0.9, 1e-6) steps
    # stay large where gradients are small: the loss of SQuAD stayed almost constant after the third epoch.
    "adadelta": partial(_without_compiler(torch.optim.Adadelta), rho=0.95, eps=1e-8),
}


def plateau_schedule(optimizer: Optimizer, factor: float | None, patience: int) -> ReduceLROnPlateau:
    """Multiplies the learning rate by `factor` after more than `patience` epochs without a better score, if any."""
    waits = sys.maxsize if factor is None else patience
    return ReduceLROnPlateau(optimizer, mode="max", factor=factor or 0.5, patience=waits, threshold=0)


def parameter_groups(parameters: Iterable[nn.Parameter], tuned: Sequence[TunedGroup]) -> list[dict[str, Any]]:
    """The groups of an optimizer: all that has the trainer's rate, then the layers of tuned sources."""
    apart = {id(parameter) for group in tuned for parameter in group.parameters}
    shared = [parameter for parameter in parameters if id(parameter) not in apart]
    return [{"params": shared}, *({"params": list(group.parameters)} for group in tuned)]


def tune(optimizer: Optimizer, tuned: Sequence[TunedGroup], epoch: int, progress: float) -> None:
    """Sets the rates of tuned layers for a step, and drops the gradients of those that are still frozen.

    Args:
        optimizer: made from `parameter_groups`.
        tuned: the same groups.
        epoch: the current one, from 1.
        progress: the share of the run that is done.
    """
    for settings, group in zip(optimizer.param_groups[1:], tuned, strict=True):
        settings["lr"] = group.rate(progress)
        if group.frozen_in(epoch):
            for parameter in group.parameters:
                parameter.grad = None


def copied(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The current values of parameters by name."""
    return {name: value.detach().clone() for name, value in parameters.items()}


@torch.no_grad()
def overwrite(parameters: Mapping[str, Tensor], values: Mapping[str, Tensor]) -> None:
    """Sets parameters to the values of the same names."""
    for name, parameter in parameters.items():
        parameter.copy_(values[name])


class WeightAverage:
    """A moving average of parameters: with each step, decay * average + (1 - decay) * parameters.

    In the first steps the decay is (1 + steps) / (10 + steps) if that is less, as in TensorFlow, so that the initial
    weights fade quickly. torch.optim.swa_utils would copy the whole model, with the frozen biLM and its cache.

    Args:
        decay: the weight of the old average in a step; None keeps no average, and `applied` changes nothing.
        parameters: the parameters by name; the average starts as a copy.
    """

    def __init__(self, decay: float | None, parameters: Mapping[str, Tensor]) -> None:
        self.decay = decay
        self.steps = 0
        self._parameters = dict(parameters) if decay is not None else {}
        self.values = copied(self._parameters)

    def update(self) -> None:
        """Adds the current parameters to the average."""
        if self.decay is None:
            return
        self.steps += 1
        weight = 1 - min(self.decay, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.values.values()), list(self._parameters.values()), weight)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Sets the parameters to the average within the block, and restores them exactly after it."""
        current = copied(self._parameters)
        overwrite(self._parameters, self.values)
        try:
            yield
        finally:
            overwrite(self._parameters, current)

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"steps": self.steps, "values": self.values}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restores the state of a checkpoint."""
        self.steps = saved["steps"]
        self.values = copied(saved["values"])


@dataclass
class TrainerConfig:
    """Training settings; part of a task's recipe, the same for all arms.

    Attributes:
        epochs: maximum number of epochs.
        patience: epochs without a better dev score after which training stops; null for no early stopping.
        batch_size: maximum examples in a batch.
        eval_batch_size: the same where nothing is trained; null for `batch_size`. For training in small batches.
        batch_tokens: maximum padded tokens in a batch; bounds the memory.
        batches: length trains on batches of examples of similar length; random on examples of any length, with more
            padding.
        optimizer: adam or adadelta.
        eps: the optimizer's constant in its denominators; null for the one in `OPTIMIZERS`.
        grad_norm: gradients are scaled down to this norm; null for no clipping.
        grad_value: each gradient is cut to at most this size, after `grad_norm`; null for no cutting.
        plateau_factor: the learning rate is multiplied by it after more than `plateau_patience` epochs in a row without
            a better score; null for a constant rate.
        ema: decay of a moving average of the weights, which then predicts dev and test; null for no average.
        precision: bfloat16 computes the head in half precision on a GPU.
    """

    epochs: AtLeastOne = 75
    patience: AtLeastOne | None = 25
    batch_size: AtLeastOne = 64
    eval_batch_size: AtLeastOne | None = None
    batch_tokens: AtLeastOne = 8192
    batches: Annotated[str, partial(one_of, BATCHES)] = "length"
    optimizer: Annotated[str, partial(one_of, OPTIMIZERS)] = "adam"
    lr: Positive = 0.001
    eps: Positive | None = None
    weight_decay: NotNegative = 0.0
    grad_norm: Positive | None = 5.0
    grad_value: Positive | None = None
    plateau_factor: Fraction | None = None
    plateau_patience: AtLeastZero = 0
    ema: Fraction | None = None
    precision: Annotated[str, partial(one_of, PRECISIONS)] = "float32"


class TaskModel(nn.Module):
    """Features and a head: from sentences to a loss or predictions."""

    def __init__(self, features: TokenFeatures, head: Head) -> None:
        super().__init__()
        self.features = features
        self.head = head

    @classmethod
    def start(cls, task: Task[Any, Any], features: TokenFeatures, seed: int) -> "TaskModel":
        """The model before training; the seed alone decides its initial values."""
        with drawing_from(seed, "head"):  # for parameters that only their constructor draws
            head = task.build_head(features.widths) if any(features.widths.values()) else BagOfWords(task)
        initialise(head, seed, "head")
        return cls(features, head)

    def loss(self, batch: Batch, texts: Sequence[LocatedText] | None = None) -> Tensor:
        """The loss of a batch, including the features' penalty; `found` are its texts if already located."""
        vectors = self.features.vectors_of(self.features.find(batch.texts) if texts is None else texts)
        return self.head.loss(vectors, batch) + self.features.penalty()

    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that training changes."""
        return {name: parameter for name, parameter in self.named_parameters() if parameter.requires_grad}

    def kept(self) -> dict[str, Tensor]:
        """The tensors of checkpoints and saved models: trained parameters, and the head's buffers, as of BatchNorm."""
        parameters = dict(self.head.named_parameters(remove_duplicate=False))
        buffers = {f"head.{name}": held for name, held in self.head.state_dict().items() if name not in parameters}
        return {**self.trained(), **buffers}

    def restore(self, values: dict[str, Tensor]) -> None:
        """Sets what is kept to these values, after a check of names, types and shapes."""
        check_tensors(values, self.kept())
        overwrite(self.kept(), values)


class NonFiniteLoss(RuntimeError):  # noqa: N818
    """A NaN or infinite loss; the message names the batch."""


class OutOfMemory(RuntimeError):  # noqa: N818
    """A batch that does not fit into the device's memory; the message gives its size and the settings to change."""


@dataclass
class FitState:
    """The state of training after an epoch: what a checkpoint contains in addition to tensors.

    `environments` are those of the processes that trained it: more than one if it was resumed under another.
    """

    epoch: int = 0
    best_epoch: int = 0
    best_score: float = -math.inf
    best_values: dict[str, float] = field(default_factory=dict)
    curve: list[dict[str, float]] = field(default_factory=list)
    environments: list[dict[str, Any]] = field(default_factory=list)


def plan_batches(
    sizes: Sequence[int], max_examples: int, max_tokens: int, shuffle_seed: int | None = None, by_length: bool = True
) -> list[list[int]]:
    """Batches of example numbers, with every example exactly once.

    Memory depends on the number of padded tokens, so `max_tokens` limits the memory of a batch of long texts. A longer
    example is a batch by itself; it is not dropped.

    Args:
        sizes: tokens of each example.
        max_examples: maximum number of examples in a batch.
        max_tokens: maximum of examples times the longest of them.
        shuffle_seed: determines the batches and their order; None sorts by length alone.
        by_length: false draws the examples of a batch at random, if there is a seed. As many batches, unless more
            padding reaches `max_tokens` earlier.
    """
    if max_examples < 1 or max_tokens < 1:
        raise ValueError(f"batches need room for at least one example and token, found {max_examples}, {max_tokens}")
    draw = random.Random(shuffle_seed)
    order = list(range(len(sizes)))
    if shuffle_seed is None:
        order.sort(key=sizes.__getitem__)
    elif not by_length:
        draw.shuffle(order)
    else:
        blurred = [size * draw.uniform(1 - LENGTH_NOISE, 1 + LENGTH_NOISE) for size in sizes]
        draw.shuffle(order)  # breaks ties at random
        order.sort(key=blurred.__getitem__)
    batches: list[list[int]] = []
    batch: list[int] = []
    longest = 0
    for example in order:
        longest = max(longest, sizes[example])
        if batch and (len(batch) == max_examples or longest * (len(batch) + 1) > max_tokens):
            batches.append(batch)
            batch, longest = [], sizes[example]
        batch.append(example)
    if batch:
        batches.append(batch)
    if shuffle_seed is not None:
        draw.shuffle(batches)
    return batches


@dataclass
class Trainer:
    """Trains a model on a task.

    Attributes:
        task: collates and scores.
        config: the recipe.
        seed: determines the batches and the dropout of every epoch.
        device: the device of the model.
        reporter: shows the progress.
        checkpoint: file to resume from, if it exists, and to write after every epoch.
        fingerprint: of the run; a checkpoint with another fingerprint is not used.
        on_epoch: called after each epoch that is trained here.
        inputs: what the run reads; a checkpoint of other inputs is refused. See `RunRecord.inputs`.
        environment: of this process, as plain values; see `FitState.environments`.
    """

    task: Task[Any, Any]
    config: TrainerConfig
    seed: int
    device: torch.device
    reporter: Reporter
    checkpoint: Path | None = None
    fingerprint: str = ""
    on_epoch: Callable[[FitState], None] | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_ranges("trainer", self.config)

    def fit(
        self, model: TaskModel, train: Sequence[Any], dev: Sequence[Any], state: FitState | None = None
    ) -> FitState:
        """Trains until the epochs or the patience run out, then restores the weights that were best on dev.

        Batches and dropout of an epoch depend only on the seed and the epoch's number, so a resumed run ends exactly
        like one that was never stopped.

        Args:
            model: the model to train.
            train: examples to train on.
            dev: examples that select the epoch.
            state: updated after each epoch, so that a failed run still has its curve.
        """
        config, checkpoint = self.config, self.checkpoint
        state = state or FitState()
        parameters = model.trained()
        constants = {"lr": config.lr, "weight_decay": config.weight_decay}
        if config.eps is not None:
            constants["eps"] = config.eps
        groups = parameter_groups(parameters.values(), model.features.tuned_groups())
        optimizer = OPTIMIZERS[config.optimizer](groups, **constants)
        plateau = plateau_schedule(optimizer, config.plateau_factor, config.plateau_patience)
        average = WeightAverage(config.ema, parameters)
        best = copied(model.kept())
        saved = self._read_checkpoint()
        if saved is not None and checkpoint is not None:
            with naming(checkpoint, START_AGAIN):
                model.restore(saved["model"])
                check_tensors(saved["best"], best)
                check_tensors(saved["average"]["values"], average.values)
            optimizer.load_state_dict(saved["optimizer"])
            plateau.load_state_dict(saved["plateau"])
            average.load_state_dict(saved["average"])
            vars(state).update(saved["state"])
            best = saved["best"]
            self.reporter.say(f"continues after epoch {state.epoch}")
        if self.environment not in state.environments:
            state.environments.append(dict(self.environment))
        patience = math.inf if config.patience is None else config.patience
        while state.epoch < config.epochs and state.epoch - state.best_epoch < patience:
            started = time.perf_counter()
            epoch = state.epoch + 1
            torch.manual_seed(named_seed(self.seed, "epoch", epoch))
            loss = self._train_epoch(model, optimizer, average, train, state)
            with average.applied():
                scores = self.evaluate(model, dev).values
                score = scores[self.task.metric]
                if score > state.best_score:
                    state.best_epoch, state.best_score, state.best_values = epoch, score, scores
                    best = copied(model.kept())
            plateau.step(score)
            state.epoch = epoch
            seconds = time.perf_counter() - started
            rate = optimizer.param_groups[0]["lr"]
            state.curve.append({"epoch": epoch, "loss": loss, **scores, "lr": rate, "seconds": round(seconds, 3)})
            if checkpoint is not None:
                saved = {
                    "fingerprint": self.fingerprint,
                    "inputs": dict(self.inputs),
                    "state": vars(state),
                    "model": model.kept(),
                    "best": best,
                    "optimizer": optimizer.state_dict(),
                    "plateau": plateau.state_dict(),
                    "average": average.state_dict(),
                }
                write_tensors(checkpoint, saved)
            self.reporter.say(
                f"epoch {epoch}/{config.epochs}  loss {loss:.4f}  dev {self.task.metric} {score:.2f}"
                f"  best {state.best_score:.2f} (epoch {state.best_epoch})  {seconds:.1f} s"
            )
            if self.on_epoch is not None:
                self.on_epoch(state)
        model.restore(best)
        return state

    def _read_checkpoint(self) -> dict[str, Any] | None:
        """The contents of the checkpoint, or None if there is none or it belongs to a run with other settings.

        Raises:
            InputError: it is damaged, or the run then read other inputs.
        """
        path = self.checkpoint
        if path is None or not path.exists():
            return None
        tensors = ("model", "best", "optimizer", "plateau", "average")
        parts = {"fingerprint": str, "inputs": dict, **dict.fromkeys(("state", *tensors), dict)}
        saved = read_tensors(path, parts, self.device, START_AGAIN)
        if saved["fingerprint"] != self.fingerprint:
            return None
        there, here = saved["inputs"], self.inputs
        if changed := [name for name in {**there, **here} if there.get(name) != here.get(name)]:
            raise InputError(
                f"{path}: expected the state of a run on the same inputs, found other content of {', '.join(changed)}. "
                f"Put the old content back, or start over. {START_AGAIN}"
            )
        return saved

    def _train_epoch(
        self, model: TaskModel, optimizer: Optimizer, average: WeightAverage, train: Sequence[Any], state: FitState
    ) -> float:
        """The mean loss of the next epoch of training."""
        config, epoch = self.config, state.epoch + 1
        seed, by_length = named_seed(self.seed, "batches", epoch), config.batches == "length"
        plan = plan_batches(self._sizes(train), config.batch_size, config.batch_tokens, seed, by_length)
        model.train()
        losses: list[Tensor] = []
        trained, tuned = list(model.trained().values()), model.features.tuned_groups()
        best = f", best dev {self.task.metric} {state.best_score:.2f}" if state.best_epoch else ""
        tracked = self.reporter.track(plan, len(plan), f"epoch {epoch} of {config.epochs}{best}")
        for _, batch, texts in self._batches(model, train, tracked):
            with _explain_out_of_memory(batch, f"epoch {epoch}, step {len(losses) + 1}"):
                optimizer.zero_grad()
                with self._autocast():
                    loss = model.loss(batch, texts)
                loss.backward()  # type: ignore[no-untyped-call]
                tune(optimizer, tuned, epoch, (epoch - 1 + len(losses) / len(plan)) / config.epochs)
                if config.grad_norm is not None:
                    nn.utils.clip_grad_norm_(trained, config.grad_norm)
                if config.grad_value is not None:
                    nn.utils.clip_grad_value_(trained, config.grad_value)
                optimizer.step()
                average.update()
                losses.append(loss.detach())
        # Checked once per epoch: a check after every step would make a GPU wait for the CPU.
        values = torch.stack(losses).float().cpu()
        if not torch.isfinite(values).all():
            step = int((~torch.isfinite(values)).nonzero()[0])
            ids = ", ".join(self.task.collate([train[i] for i in plan[step]]).ids)
            raise NonFiniteLoss(
                f"epoch {epoch}, step {step + 1}: the loss is {values[step]:g}. The batch: {ids}. "
                "Try a lower trainer.lr or trainer.precision=float32, and look at those examples"
            )
        return float(values.mean())

    def steps(self, train: Sequence[Any]) -> int:
        """About how many steps an epoch has; training draws its batches at random, and may have one more or less."""
        return len(plan_batches(self._sizes(train), self.config.batch_size, self.config.batch_tokens))

    def _sizes(self, examples: Sequence[Any]) -> list[int]:
        return [self.task.size(example) for example in examples]

    def predict(self, model: TaskModel, examples: Sequence[Any]) -> list[Any]:
        """One prediction per example, in their order."""
        return self._decoded(model, examples, model.head.decode)

    def answers(self, model: TaskModel, examples: Sequence[Any]) -> list[Answer]:
        """One prediction per example, in their order, each with its probabilities if it has some."""
        return self._decoded(model, examples, model.head.decode_with_probabilities)

    def _decoded(
        self, model: TaskModel, examples: Sequence[Any], decode: Callable[[Sequence[FeatureBatch], Batch], list[Any]]
    ) -> list[Any]:
        predictions: list[Any] = [None] * len(examples)
        for numbers, batch, features in self.vectors(model, examples, "predicting"):
            with _explain_out_of_memory(batch, "predicting"), torch.no_grad(), self._autocast():
                decoded = decode(features, batch)
            if len(decoded) != len(numbers):
                raise InputError(
                    f"decode of {type(model.head).__name__}: expected one prediction for each of the {len(numbers)} "
                    f"examples of a batch, found {len(decoded)}"
                )
            for number, prediction in zip(numbers, decoded, strict=True):
                predictions[number] = prediction
        return predictions

    def vectors(
        self, model: TaskModel, examples: Sequence[Any], label: str
    ) -> Iterator[tuple[list[int], Batch, list[FeatureBatch]]]:
        """Example numbers, batch and features of all examples, in batches of similar sizes, without gradients.

        Args:
            model: is set to evaluation: no dropout.
            examples: the examples.
            label: shown with the progress.
        """
        most = self.config.eval_batch_size or self.config.batch_size
        plan = plan_batches(self._sizes(examples), most, self.config.batch_tokens)
        model.eval()
        for numbers, batch, texts in self._batches(model, examples, self.reporter.track(plan, len(plan), label)):
            with _explain_out_of_memory(batch, label), torch.no_grad(), self._autocast():
                features = model.features.vectors_of(texts)
            yield numbers, batch, features

    def _batches(
        self, model: TaskModel, examples: Sequence[Any], plan: Iterable[list[int]]
    ) -> Iterator[tuple[list[int], Batch, list[LocatedText]]]:
        """Example numbers, batch and its located texts; the next batch is located while one is in use."""
        current: tuple[list[int], Batch, list[LocatedText]] | None = None
        for numbers in plan:
            batch = self.task.collate([examples[i] for i in numbers])
            following = numbers, batch.to(self.device), model.features.find(batch.texts)
            if current is not None:
                yield current
            current = following
        if current is not None:
            yield current

    def evaluate(self, model: TaskModel, examples: Sequence[Any]) -> Scores:
        """The scores of the model's predictions, by the metric that selects epochs."""
        return self.task.score(examples, self.predict(model, examples))

    def _autocast(self) -> torch.autocast:
        wanted = self.config.precision == "bfloat16" and self.device.type == "cuda"
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=wanted)


@runtime_checkable
class FitsItself(Protocol):
    """A task that learns in another way than by gradient descent, such as a nearest-neighbour probe."""

    def fit(
        self, trainer: Trainer, model: TaskModel, train: Sequence[Any], dev: Sequence[Any], state: FitState
    ) -> dict[str, float]:
        """Fits the model to the training examples; returns its scores on dev.

        `trainer.vectors` gives the features of examples, `trainer.evaluate` the scores on dev. keep_weights=true keeps
        trained parameters only.

        Args:
            trainer: made from the run's settings.
            model: features and head.
            train: examples to learn from.
            dev: examples to select by.
            state: the trainer's progress; its curve goes into the record.
        """


@contextmanager
def _explain_out_of_memory(batch: Batch, when: str) -> Iterator[None]:
    """Replaces an out-of-memory error in the block by one with the size of the batch and the settings to change."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        longest = max(len(sentence) for text in batch.texts for sentence in text)
        raise OutOfMemory(
            f"{when}: out of memory with a batch of {len(batch.ids)} examples of up to {longest} tokens. "
            "Set a smaller trainer.batch_tokens or trainer.batch_size, or leave more of the memory to the model with "
            f"a smaller store.memory_gb. {error}"
        ) from error
