"""Profile of a training step by part: `python -m tests.benchmarks.steps [--device cuda] [--tasks ner=paper ...]`.

For each task and arm the trainer's loop runs over the same few batches three times: unchanged, for the true time of a
step and the host's time in its parts; with a synchronisation after each part, for the time of the part alone; and under
torch's profiler, for launches, synchronisations and, with --profile, the heaviest operations. Then dev is
predicted and scored. `batch` is collating and upload, `features` the vectors up to the head, `head` its forward pass,
`optimizer` clipping, step and moving average. Milliseconds are CPU time on a CPU, wall-clock time on a GPU.
"""

import argparse
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice

import torch
from torch.profiler import ProfilerActivity, profile

from elmo.common.errors import InputError
from elmo.common.progress import Reporter
from tasks.data.datasets import DataSource
from tasks.running.config import Run, typed_config
from tasks.training.trainer import OPTIMIZERS, FitState, Trainer, WeightAverage
from tests.tasks.making import model_of

PARTS = ("batch", "features", "head", "backward", "optimizer")
WARM_UP, MEASURED, PROFILED = 5, 20, 5  # steps
SYNCHRONISING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


class FirstFew(Reporter):
    """A silent reporter that gives the trainer only the first batches of its plan; None gives all."""

    few: int | None = None
    given = 0

    def __init__(self):
        super().__init__("", quiet=True)

    def track(self, items, total, what):
        self.given = total if self.few is None else min(self.few, total)
        return islice(items, self.given)


class Clock:
    """Seconds by part of a step."""

    def __init__(self, now: Callable[[], float], synchronise: Callable[[], None]):
        self.seconds: dict[str, float] = defaultdict(float)
        self._now, self._synchronise = now, synchronise
        self._last = now()

    def ends(self, part: str) -> None:
        self._synchronise()
        now = self._now()
        self.seconds[part] += now - self._last
        self._last = now


class Arm:
    """One arm of a task with its features in memory."""

    def __init__(self, config: Run, train: list, dev: list, device: torch.device):
        self.train, self.dev, self.device = train, dev, device
        # CPU time, since other processes may use the cores; on a GPU the wall clock, since the host waits.
        self.now = time.process_time if device.type == "cpu" else time.perf_counter
        task, recipe = config.task, config.trainer
        self.model = model_of(config, train, store=config.store).to(device)
        self.model.features.meet(chain.from_iterable(map(task.texts, [*train, *dev])))
        self.reporter = FirstFew()
        self.trainer = Trainer(task, recipe, 1, device, self.reporter)
        trained = self.model.trained()
        self.optimizer = OPTIMIZERS[recipe.optimizer](trained.values(), lr=recipe.lr, weight_decay=recipe.weight_decay)
        self.average = WeightAverage(recipe.ema, trained)

    def steps(self, count: int) -> float:
        """Milliseconds of a step of the trainer's loop."""
        self.reporter.few = count
        self.synchronise()
        started = self.now()
        self.trainer._train_epoch(self.model, self.optimizer, self.average, self.train, FitState())
        self.synchronise()
        return 1e3 * (self.now() - started) / self.reporter.given

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    @contextmanager
    def clocked(self, synchronised: bool) -> Iterator[Clock]:
        """In the block, the parts of the loop report to a clock when they end."""
        clock = Clock(self.now, self.synchronise if synchronised else lambda: None)
        features, head, backward = self.model.features, self.model.head, torch.Tensor.backward
        vectors_of, loss, update = features.vectors_of, head.loss, self.average.update

        def reporting(work: Callable, before: str | None, after: str | None) -> Callable:
            def working(*given, **named):
                if before:
                    clock.ends(before)
                result = work(*given, **named)
                if after:
                    clock.ends(after)
                return result

            return working

        features.vectors_of = reporting(vectors_of, "batch", "features")
        head.loss = reporting(loss, None, "head")
        torch.Tensor.backward = reporting(backward, None, "backward")
        self.average.update = reporting(update, None, "optimizer")
        try:
            yield clock
        finally:
            torch.Tensor.backward = backward
            del features.vectors_of, head.loss, self.average.update

    def parts(self, count: int, synchronised: bool) -> dict[str, float]:
        """Milliseconds of each part of a step."""
        with self.clocked(synchronised) as clock:
            self.steps(count)
        return {part: 1e3 * clock.seconds[part] / self.reporter.given for part in PARTS}

    def profiled(self) -> profile:
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (self.device.type == "cuda")
        with profile(activities=activities) as profiler:
            self.steps(PROFILED)
        return profiler

    def evaluation(self) -> tuple[float, float]:
        """Milliseconds for all of dev: to predict, and to score."""
        self.reporter.few = None
        started = self.now()
        predictions = self.trainer.predict(self.model, self.dev)
        predicted = self.now()
        self.trainer.task.score(self.dev, predictions)
        return 1e3 * (predicted - started), 1e3 * (self.now() - predicted)

    def peak_memory_gb(self) -> float:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) / 1e9
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def counts(profiler: profile) -> dict[str, float]:
    """Counts kernel launches (on a CPU: operations), synchronisations and copies of a step."""
    events = profiler.key_averages()

    def calls(wanted: Callable[[str], bool]) -> float:
        return sum(event.count for event in events if wanted(event.key)) / PROFILED

    kernels = calls(lambda name: name.startswith(("cudaLaunch", "cuLaunch", "cudaGraphLaunch")))
    return {
        "launches": kernels or calls(lambda name: name.startswith("aten::")),
        "synchronisations": calls(lambda name: name in SYNCHRONISING),
        "copies": calls(lambda name: name.startswith("cudaMemcpy")),
        "device ms": sum(event.self_device_time_total for event in events) / 1e3 / PROFILED,
    }


def heaviest(profiler: profile) -> None:
    """Prints the ten operations with the most host time, and the ten with the most device time."""
    for where, time_of in (
        ("host", lambda event: event.self_cpu_time_total),
        ("device", lambda event: event.self_device_time_total),
    ):
        events = sorted(profiler.key_averages(), key=time_of, reverse=True)[:10]
        for event in events:
            if time_of(event) > 0:
                print(
                    f"    {where:6s} {time_of(event) / 1e3 / PROFILED:8.3f} ms {event.count / PROFILED:7.1f} x  ",
                    end="",
                )
                print(event.key[:90])


def row(*cells: str | float) -> str:
    shown = [f"{cell:.2f}" if isinstance(cell, float) else cell for cell in cells]
    return f"{shown[0]:14s} {shown[1]:12s}" + "".join(f"{cell:>10s}" for cell in shown[2:])


def measure(task: str, data: str, arms: list[str], limit: int, device: torch.device, details: bool) -> None:
    """Prints the lines of one task."""
    loaded = None
    for name in arms:
        overrides = [f"task={task}", f"data={data}", f"features={name}", f"limit={limit or 'null'}"]
        config = typed_config(overrides)
        if loaded is None:
            source = DataSource(config.data, config.data_dir, config.limit)
            loaded = [source.load(config.task, split).examples for split in ("train", "dev")]
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        arm = Arm(config, *loaded, device)
        arm.steps(WARM_UP)
        arm.steps(MEASURED)
        alone = arm.steps(MEASURED)
        host, synchronised = arm.parts(MEASURED, False), arm.parts(MEASURED, True)
        title = f"{task} {name}"
        print(row(title, "host ms", *host.values(), alone), flush=True)
        print(row("", "synced ms", *synchronised.values(), sum(synchronised.values())))
        profiler = arm.profiled()
        arm.evaluation()
        predicting, scoring = arm.evaluation()
        shown = ", ".join(f"{value:.1f} {what}" for what, value in counts(profiler).items())
        print(
            f"{'':14s} a step: {shown}; {len(arm.dev):,} of dev: predict {predicting:.0f} ms, score {scoring:.0f} ms; "
            f"peak {arm.peak_memory_gb():.2f} GB",
            flush=True,
        )
        if details:
            heaviest(profiler)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.steps", description=__doc__)
    defaults = ["ner=paper", "sst5=paper", "snli=snli100k", "squad=paper"]
    parser.add_argument("--tasks", nargs="*", metavar="TASK=DATA", default=defaults)
    parser.add_argument("--arms", default="glove,elmo")
    parser.add_argument("--limit", type=int, default=2000, help="examples of each split (default: 2000; 0: all)")
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu (default) or cuda")
    parser.add_argument("--profile", action="store_true", help="name the heaviest operations")
    options = parser.parse_args()
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name(options.device) if options.device.type == "cuda" else "cpu"
    print(time.strftime("%Y-%m-%d"), f"torch {torch.__version__}, {name}, one thread")
    print(row("", "", *PARTS, "step"))
    for task, data in (pair.split("=") for pair in options.tasks):
        try:
            measure(task, data, options.arms.split(","), options.limit, options.device, options.profile)
        except InputError as error:
            raise SystemExit(f"{parser.prog}: {error}") from None


if __name__ == "__main__":
    main()
