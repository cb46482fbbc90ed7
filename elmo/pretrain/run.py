"""Pretraining run: builds the token store, trains from the last checkpoint, measures on held-out text, exports.

The batch of a step, its negatives and its dropout are functions of the seed and the step, so a killed and resumed run
takes the same steps as an uninterrupted one. On a CPU, with a budget in steps or tokens, the weights are bit-equal. A
GPU may sum in another order, and a budget in minutes depends on the clock.
"""

import csv
import math
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import TaskProgressColumn

from elmo.bilm.model import weights_hash
from elmo.bilm.options import UNKNOWN_WORD
from elmo.common.device import choose_device
from elmo.common.errors import InputError, naming
from elmo.common.files import read_own_json, replacing, require_same, write_json
from elmo.common.processes import ahead, locked
from elmo.common.progress import Meter, print_line, progress_bar
from elmo.common.tensor_files import check_tensors, read_tensors, write_tensors
from elmo.pretrain.batches import Text, texts_of_store
from elmo.pretrain.corpus.token_store import CorpusSettings, Sentences, TextSettings, TokenStore, build_store
from elmo.pretrain.export import Output, card, export, find_output, hardware, load_model, load_output
from elmo.pretrain.language_model import LanguageModel, TrainingLoss
from elmo.pretrain.objective import OBJECTIVES, Measured
from elmo.pretrain.settings import Settings, Training

PREPARED = 16  # steps prepared ahead
PREPARERS = 3  # threads that prepare them


class Given(NamedTuple):
    """The start of a run from another model: the model itself or None, the words it predicts, and a hash of both."""

    model: LanguageModel | None
    vocabulary: list[str]
    taken: dict[str, str]


def pretrain(settings: Settings, command: list[str], console: Console) -> None:
    """Runs a pretraining from text to export; a finished run is not changed, an unfinished one continues.

    Args:
        settings: of the run.
        command: the command-line arguments, for the card.
        console: for progress.
    """
    if not settings.out:
        raise InputError("out: expected a folder for the run, found none; add out=DIR")
    if not settings.corpus:
        raise InputError(
            "corpus: expected text files or folders, found none; add corpus=FILE, or 'corpus=[FILE,FOLDER]'"
        )
    settings.budget.progress(0, 0, 0.0)  # raises early if no budget is set
    given = _given(settings)  # loaded early, so that errors come before the text is read
    if given.model is None:
        settings.options([UNKNOWN_WORD])  # raises early if the shape is invalid
    device, out = choose_device(settings.device), Path(settings.out)
    out.mkdir(parents=True, exist_ok=True)  # fails early if it cannot be written, since reading text may take long
    shared = {name: getattr(settings, name) for name in TextSettings.__dataclass_fields__}
    wanted = CorpusSettings(settings.corpus, **shared, recase=settings.training.recase)
    store = build_store(wanted, settings.store or out / "store", console)
    busy = f"{out}: another process is training in this folder; wait for it, or name another out=DIR"
    with locked(out / "lock", busy):
        _pretrain(settings, given, store, device, command, console)


def _pretrain(
    settings: Settings, given: Given, store: TokenStore, device: torch.device, command: list[str], console: Console
) -> None:
    out, objective = Path(settings.out), OBJECTIVES[settings.objective]
    folder = RunFolder(out, settings.identity() | {"store": store.fingerprint} | given.taken)
    if (made := folder.made_with()) is not None:
        print_line(console, f"{out}: this run is finished; see {out / 'export' / made['name'] / 'card.md'}")
        if (weights := made.get("export", {}).get("weights", "float16")) != settings.export.weights:
            warning = f"warning: its weights are in {weights}, not {settings.export.weights}; elmo.convert changes them"
            print_line(console, warning, style="yellow")
        return
    vocabulary = given.vocabulary or store.words()[: store.vocabulary_size]
    model = given.model or LanguageModel.random(settings.options(vocabulary), len(vocabulary), settings.seed)
    model = model.to(device)
    train_text, heldout = texts_of_store(store, model.core.encoder.options.max_characters, given.vocabulary or None)

    def measure(model: LanguageModel, title: str, dtype: torch.dtype = torch.float32) -> Measured | None:
        """With progress: on a CPU, or with much held-out text, it takes minutes."""
        if not len(heldout.sentences):
            return None
        with Meter(console, f"{objective.kind} {title}".strip(), heldout.predictions) as meter:
            measured = objective.measure(model, heldout, dtype, meter)
        require_finite({f"the {objective.kind} {title or 'of the trained model'}": sum(measured.values())})
        return measured

    before = measure(model, "before training") if settings.init else None
    position = train(model, train_text, heldout, settings, folder, console)
    trained = measure(model, "", precision(settings.training.precision, device))
    print_line(console, f"exporting to {out / 'export'}")
    output = Output(model.output, vocabulary, settings.tokenise)
    target = export(model.core, output, out / "export", settings.name, settings.export.weights)
    exported = measure(load_model(target)[0].to(device), "of exported files")
    results = {"before": before, "trained": trained, "exported": exported}
    facts = {
        "command": command,
        "settings": asdict(settings),
        "sources": store.header["sources"],
        "exclude": store.header.get("exclude", []),
        "counts": store.header["counts"],
        "vocabulary": len(vocabulary),
        "parameters": sum(item.numel() for item in model.core.parameters()),
        "shape": model.core.options.to_json()[settings.network],
        "hardware": hardware(device),
        "position": asdict(position),
        "passes": position.tokens / train_text.predictions,
        "tokens_per_second": position.tokens_per_second,
        objective.kind.replace(" ", "_"): {name: values for name, values in results.items() if values},
    }
    with replacing(target / "card.md") as partial:
        partial.write_text(card(facts), encoding="utf-8")
    folder.finish(facts)
    spent = f"{position.step:,} steps, {position.tokens:,} tokens, {position.seconds / 60:.1f} minutes"
    print_line(console, f"{spent}, {position.tokens_per_second:,.0f} tokens/s")
    for name, values in results.items():
        if values:
            print_line(console, f"{name}: {objective.describe(values)}")
    print_line(console, f"{objective.title}: {target}")
    if facts["passes"] < 1:
        title, read = objective.title, f"{facts['passes']:.2%} of its text, less than one pass"
        warning = f"warning: this {title} read {read}; do not judge from it what a {title} contributes to a task"
        print_line(console, warning, style="yellow")


def _given(settings: Settings) -> Given:
    """The model that `init` names, or the words that the model predicts that `vocabulary_of` names, or nothing."""
    model: LanguageModel | None
    if settings.init is not None:
        key, (model, output) = "init", load_model(settings.init)
        wanted, has = (f"objective={one.objective} network={one.network}" for one in (settings, model.core.options))
        if wanted != has:
            raise InputError(
                f"init={settings.init}: expected a model of this run, {wanted}, found {has}; name other weights, or "
                "these settings"
            )
        # The content, since other files may replace those at its path.
        hashed = weights_hash(model.state_dict(), "\n".join([model.core.options.canonical(), *output.vocabulary]))
    elif settings.vocabulary_of is not None:
        key, model, output = "vocabulary_of", None, load_output(find_output(settings.vocabulary_of))
        hashed = weights_hash({}, "\n".join(output.vocabulary))
    else:
        return Given(None, [], {})
    if output.tokenise != settings.tokenise:
        raise InputError(
            f"{key}={getattr(settings, key)} was trained with tokenise={output.tokenise}, this run has tokenise="
            f"{settings.tokenise}; use the same, or the words would not match"
        )
    return Given(model, output.vocabulary, {f"{key}.sha256": hashed})


def learning_rate(training: Training, progress: float) -> float:
    """The learning rate at a fraction of the budget: it rises over the warm-up, then falls along a cosine."""
    if progress < training.warmup:
        return training.learning_rate * max(progress / training.warmup, 0.01)
    fall = min((progress - training.warmup) / (1 - training.warmup), 1.0)
    share = training.final_rate + (1 - training.final_rate) * (1 + math.cos(math.pi * fall)) / 2
    return training.learning_rate * share


def precision(name: str, device: torch.device) -> torch.dtype:
    """The type of all products: bfloat16 or float32; "auto" is the former on a GPU."""
    if name == "auto":
        name = "bfloat16" if device.type == "cuda" else "float32"
    return torch.bfloat16 if name == "bfloat16" else torch.float32


def train(
    model: LanguageModel, text: Text, heldout: Text | None, settings: Settings, folder: "RunFolder", console: Console
) -> "Position":
    """Trains a model to the end of its budget and leaves a checkpoint of the end in the run's folder.

    Args:
        model: on its device; the folder's checkpoint, if any, replaces its weights.
        text: to train on.
        heldout: for the objective's measure during training; None or no sentence measures nothing.
        settings: of the run.
        folder: of the run.
        console: for progress.
    """
    training, budget, seed = settings.training, settings.budget, settings.seed
    objective, device = OBJECTIVES[settings.objective], model.core.device
    dtype = precision(training.precision, device)
    betas, fused = (0.9, training.beta2), device.type == "cuda"
    optimiser = torch.optim.Adam(model.parameters(), lr=training.learning_rate, betas=betas, fused=fused)
    position = folder.load(model, optimiser)
    folder.keep_curve_until(position.step)
    batches = objective.batches(text, training.batch_tokens, seed, training.chosen)
    loss_of = TrainingLoss(model, text.spelling, training.negatives, training.dropout, dtype)
    sample = _first(heldout, training.evaluate_sentences) if heldout and len(heldout.sentences) else None
    losses: list[torch.Tensor] = []  # on the device, since the last row of the curve
    began, logged = time.monotonic() - position.seconds, replace(position)

    def due(every: int) -> bool:
        return every > 0 and position.step % every == 0

    progress = budget.progress(position.step, position.tokens, position.seconds)
    bar = progress_bar(console, TaskProgressColumn())
    bar.add_task("training", total=1.0)
    with ThreadPoolExecutor(PREPARERS) as pool, bar:
        made = ahead(pool, batches, count(position.step), PREPARED)
        while progress < 1:
            rate = learning_rate(training, progress)
            for group in optimiser.param_groups:
                group["lr"] = rate
            drawn = np.random.SeedSequence((seed, 2, position.step, 0)).generate_state(1, np.uint64)
            torch.manual_seed(int(drawn[0] >> 1))
            batch = next(made)
            optimiser.zero_grad()
            loss = loss_of(batch, float(np.random.default_rng((seed, 1, position.step)).random()))
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip_norm)
            optimiser.step()
            losses.append(loss.detach())
            position.step += 1
            position.tokens += batch.tokens
            position.seconds = time.monotonic() - began
            progress = budget.progress(position.step, position.tokens, position.seconds)
            last, evaluates, saves = progress >= 1, due(training.evaluate_every), due(training.checkpoint_every)
            if not (last or evaluates or saves or due(training.log_every)):
                continue
            recent = torch.stack(losses).tolist()  # waits for the device
            losses.clear()
            position.seconds = time.monotonic() - began
            require_finite({f"the loss at step {logged.step + i}": value for i, value in enumerate(recent)})
            measured = objective.measure(model, sample, dtype) if sample and (last or evaluates) else None
            if measured:
                what = f"the {objective.kind} of held-out text at step {position.step}"
                require_finite({what: sum(measured.values())})
            values = {name: measured[name] if measured else None for name in objective.columns}
            seconds = max(position.seconds - logged.seconds, 1e-9)
            row = asdict(position) | {"loss": sum(recent) / len(recent), "learning_rate": rate}
            row |= {"tokens_per_second": (position.tokens - logged.tokens) / seconds, **values}
            if last or saves:  # a step can make weights infinite although its loss is finite
                weights = model.named_parameters()
                require_finite({f"{name} after step {position.step}": weight for name, weight in weights})
            folder.log(row)
            state = f"step {row['step']:,}  loss {row['loss']:.3f}  {row['tokens_per_second']:,.0f} tokens/s"
            bar.update(bar.task_ids[0], completed=progress, description=state)
            if measured or last:
                held = f"  held-out {objective.brief(measured)}" if measured else ""
                print_line(console, f"{100 * min(progress, 1):5.1f} %  {state}  {position.seconds:,.0f} s{held}")
            if last or saves:
                folder.save(model, optimiser, position)
            logged = replace(position)
    return position


def _first(text: Text, n: int) -> Text:
    """The first n sentences of a text."""
    offsets = text.sentences.offsets[: n + 1]
    return replace(text, sentences=Sentences(text.sentences.tokens[: offsets[-1]], offsets))


def require_finite(values: Mapping[str, float | torch.Tensor | None]) -> None:
    """Raises an InputError for the first number, or tensor, that is or has NaN or infinity; keys say what it is."""
    for name, value in values.items():
        if not torch.as_tensor(value).isfinite().all():
            raise InputError(
                f"{name} is NaN or infinite: the training diverged, and this is not saved. Try a lower "
                "training.learning_rate or clip_norm, or a longer training.warmup, in another out=DIR"
            )


# A line of the learning curve: step, tokens (words and ends of sentences read), seconds of training over all
# resumptions, loss (the mean since the previous line, in nats; with sampled negatives it is below a full softmax's),
# learning_rate, tokens_per_second (since the previous line), and the objective's columns on held-out text, None if not
# measured at this step.
CurveRow = Mapping[str, Any]


@dataclass
class Position:
    """Progress of a run."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Over the whole run, including held-out perplexity."""
        return self.tokens / max(self.seconds, 1e-9)


class RunFolder:
    """Files of one run."""

    def __init__(self, path: Path, identity: Mapping[str, Any]) -> None:
        """Claims a folder for a run, or checks that it belongs to the same run.

        Args:
            path: the folder.
            identity: settings that decide the result; a folder with other ones is rejected.
        """
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        claim = path / "run.json"
        if claim.exists():
            require_same(path, "settings", read_own_json(claim), identity)
        write_json(claim, identity)

    def made_with(self) -> dict[str, Any] | None:
        """All settings of the run if it has ended and was exported; None otherwise."""
        path = self.path / "finished.json"
        return read_own_json(path).get("settings") if path.exists() else None

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Marks the run as finished."""
        write_json(self.path / "finished.json", summary)

    def save(self, model: LanguageModel, optimiser: torch.optim.Optimizer, position: Position) -> None:
        """Writes a checkpoint; the last one stays until the new one is complete."""
        content = {"model": model.state_dict(), "optimiser": optimiser.state_dict(), "position": asdict(position)}
        write_tensors(self.path / "checkpoint.pt", content)

    def load(self, model: LanguageModel, optimiser: torch.optim.Optimizer) -> Position:
        """Loads the last checkpoint into model and optimiser; without one, the position is the start of a run."""
        path = self.path / "checkpoint.pt"
        if not path.exists():
            return Position()
        remedy = "Delete it to train from the start, or name another out=DIR"
        content = read_tensors(path, {"model": dict, "optimiser": dict, "position": dict}, "cpu", remedy)
        with naming(path, remedy):
            check_tensors(content["model"], model.state_dict())
        model.load_state_dict(content["model"])
        optimiser.load_state_dict(content["optimiser"])
        return Position(**content["position"])

    def keep_curve_until(self, step: int) -> None:
        """Drops lines of the curve after a step, work that a killed run lost, and one that was cut off."""
        path = self.path / "curve.csv"
        if path.exists():
            header, *rows = path.read_bytes().splitlines(keepends=True) or [b""]
            steps = [row.partition(b",")[0] for row in rows]
            kept = [row for row, at in zip(rows, steps, strict=True) if at.isdigit() and int(at) <= step]
            with replacing(path) as partial:
                partial.write_bytes(header + b"".join(row for row in kept if row.endswith(b"\n")))

    def log(self, row: CurveRow) -> None:
        """Adds a line to curve.csv."""
        shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}
        with (self.path / "curve.csv").open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, shown)
            if not file.tell():
                writer.writeheader()
            writer.writerow(shown)
