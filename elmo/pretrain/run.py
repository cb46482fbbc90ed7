"""Pretraining run: builds the token store, trains, measures on held-out text, exports."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console

from elmo.bilm.model import weights_hash
from elmo.bilm.options import UNKNOWN_WORD
from elmo.common.device import choose_device
from elmo.common.errors import InputError
from elmo.common.experiment_log import EventFile, check_project, start_wandb
from elmo.common.files import explain_full_disk, replacing, write_json
from elmo.common.processes import alone
from elmo.common.progress import Meter, print_line
from elmo.pretrain.corpus.build import build_store
from elmo.pretrain.corpus.token_store import CorpusSettings, TokenStore
from elmo.pretrain.model.export import (
    Output,
    export,
    find_output,
    load_model,
    load_output,
    rounding_errors,
    softmax_folder,
)
from elmo.pretrain.training.batches import Text, texts_of_store
from elmo.pretrain.training.card import ROUNDING_SENTENCES, card, hardware
from elmo.pretrain.training.checkpoint import CurveRow, RunFolder
from elmo.pretrain.training.objective import OBJECTIVES, Measured, Objective, TrainedModel
from elmo.pretrain.training.parallel import Workers, started
from elmo.pretrain.training.settings import Settings
from elmo.pretrain.training.train import check_finite, precision, train


class Start(NamedTuple):
    """The initial model, the words that it predicts, and how text is tokenised."""

    model: TrainedModel
    vocabulary: list[str]
    tokenise: str


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
    _require_place("out", Path(settings.out))
    if settings.wandb is not None:
        check_project(settings.wandb)
    if settings.store and not Path(settings.store).is_dir():  # a finished store is only read
        _require_place("store", Path(settings.store))
    given, words = _given(settings), _given_words(settings)
    if given is None:
        OBJECTIVES[settings.objective].options(settings, [UNKNOWN_WORD])  # raises early if the shape is invalid
    device = choose_device(settings.device)
    out = Path(settings.out)
    busy = f"{out}: another process is training in this folder; wait for it, or name another out=DIR"
    full = f"{out}: no room left on this disk. Make room and run again: it continues from the last checkpoint"
    with started(device.type == "cuda") as workers:
        shown = console if workers.first else Console(quiet=True)
        store = _store(settings, shown, workers)
        with alone(out / "lock", busy) if workers.first else nullcontext(), explain_full_disk(full):
            start = given or _random(settings, words or store.vocabulary())
            start.model.to(device)
            _pretrain(settings, start, store, command, shown, workers)


def _pretrain(
    settings: Settings, start: Start, store: TokenStore, command: list[str], console: Console, workers: Workers
) -> None:
    model, vocabulary, tokenise = start
    out, device = Path(settings.out), model.core.device
    objective = OBJECTIVES[settings.objective]
    kind = objective.measured.kind
    identity = settings.identity() | {"store": store.fingerprint, "processes": workers.world}
    identity |= _content(settings, start)
    # Two checkpoints of weights and both averages, and two exports, in single precision.
    folder = RunFolder(out, identity, 4 * 9 * _size(model))
    if (made := folder.made_with()) is not None:
        print_line(console, f"{out}: this run is finished; see {out / 'export' / made['name'] / 'card.md'}")
        asked = asdict(settings.export)
        if made.get("export", asked) != asked:
            warning = f"warning: its export has {made['export']}, not {asked}; python -m elmo.convert changes weights"
            print_line(console, warning, style="yellow")
        return
    given = vocabulary if settings.init or settings.vocabulary_of else None
    train_text, heldout = texts_of_store(store, model.core.encoder.options.max_characters, given)
    before = _before(folder, objective, model, heldout, console) if settings.init and workers.first else None
    workers.wait()
    with _watching(settings, workers) as watch:
        position = train(model, train_text, heldout, settings, folder, console, workers, watch)
    if workers.first:
        dtype = precision(settings.training.precision, device)
        trained = _measured(objective, model, heldout, console, kind, dtype)
        check_finite(trained, "the trained model")
        print_line(console, f"exporting to {out / 'export'}")
        chosen = settings.export
        target = export(model, vocabulary, tokenise, out / "export", settings.name, chosen.softmax_mb, chosen.weights)
        size = sum(file.stat().st_size for file in softmax_folder(target).iterdir()) / 1e6
        if chosen.softmax_mb is not None and size > chosen.softmax_mb:
            warning = f"warning: export.softmax_mb={chosen.softmax_mb:g}, but the output layer takes {size:.3g} MB"
            print_line(console, f"{warning}; a smaller vocabulary needs less", style="yellow")
        files = load_model(target)[0].to(device)
        exported = _measured(objective, files, heldout, console, f"{kind} of exported files")
        check_finite(exported, f"the exported files, {target}, in {chosen.weights}")
        measured = {"before": before, "trained": trained, "exported": exported}
        facts = {
            "command": command,
            "settings": asdict(settings),
            "sources": store.header["sources"],
            "exclude": store.header.get("exclude", []),
            "counts": store.header["counts"],
            "vocabulary": len(vocabulary),
            "parameters": _size(model.core),
            "hardware": hardware(device, workers.world),
            "position": asdict(position),
            "passes": position.tokens / train_text.predictions,
            "tokens_per_second": position.tokens_per_second,
            kind.replace(" ", "_"): {name: vars(found) for name, found in measured.items() if found is not None},
        }
        if chosen.weights == "int8":
            facts["rounding"] = rounding_errors(files.core, model.core, _sample(store))
        with replacing(target / "card.md") as partial:
            partial.write_text(card(facts), encoding="utf-8")
        folder.finish(facts)
        _report(console, facts, objective, target)
    workers.wait()


def _require_place(key: str, folder: Path) -> None:
    """Raises an InputError if a folder cannot be made or written: before the text is read, which may take long."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.lexists(path))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        found = "no permission to write" if there.is_dir() else "a file" if there.exists() else "a broken link"
        raise InputError(
            f"{key}={folder}: expected a folder to write to, found {found} at {there}; name another {key}=DIR"
        )


def _size(module: torch.nn.Module) -> int:
    return sum(item.numel() for item in module.parameters())


def _sample(store: TokenStore) -> list[list[str]]:
    """Sentences to measure layers on: held-out ones, or of the training text if there are none."""
    text = store.heldout if len(store.heldout) else store.train
    return [store.words(text[number]) for number in range(min(ROUNDING_SENTENCES, len(text)))]


def _store(settings: Settings, console: Console, workers: Workers) -> TokenStore:
    """The token store; the first process builds it, the others wait."""
    folder = Path(settings.store or Path(settings.out) / "store")
    shared = {name: value for name, value in vars(settings).items() if name in CorpusSettings.__dataclass_fields__}
    wanted = CorpusSettings(settings.corpus, **shared, recase=settings.training.recase)  # checked in every process
    built = build_store(wanted, folder, console) if workers.first else None
    workers.wait()
    return TokenStore.open(folder) if built is None else built


def _random(settings: Settings, vocabulary: list[str]) -> Start:
    """A new model that predicts these words."""
    return Start(OBJECTIVES[settings.objective].random(settings, vocabulary), vocabulary, settings.tokenise)


def _given_words(settings: Settings) -> list[str] | None:
    """The words that another model predicts, if `vocabulary_of` names one; loaded as early as `init`."""
    if settings.vocabulary_of is None:
        return None
    output = load_output(find_output(settings.vocabulary_of))
    _require_tokeniser(settings, "vocabulary_of", output)
    return output.vocabulary


def _given(settings: Settings) -> Start | None:
    """The model to continue from, if `init` names one; loaded early, so that errors come before the text is read."""
    if settings.init is None:
        return None
    model, output = load_model(settings.init)
    objective = OBJECTIVES[settings.objective]
    if not isinstance(model, objective.model):
        raise InputError(
            f"init={settings.init}: expected a {objective.title}, since objective={settings.objective}, found another "
            "model; name other weights, or the other objective"
        )
    _require_tokeniser(settings, "init", output)
    return Start(model, output.vocabulary, output.tokenise)


def _content(settings: Settings, start: Start) -> dict[str, str]:
    """The hash of what a run takes from `init` or `vocabulary_of`, since other files may replace those at its path."""
    words = "\n".join(start.vocabulary)
    if settings.init is not None:
        options = start.model.core.options.canonical()
        return {"init.sha256": weights_hash(start.model.state_dict(), f"{options}\n{words}")}
    return {} if settings.vocabulary_of is None else {"vocabulary_of.sha256": weights_hash({}, words)}


def _require_tokeniser(settings: Settings, key: str, output: Output) -> None:
    if output.tokenise != settings.tokenise:
        raise InputError(
            f"{key}={getattr(settings, key)} was trained with tokenise={output.tokenise}, this run has tokenise="
            f"{settings.tokenise}; use the same, or the words would not match"
        )


def _before(
    folder: RunFolder, objective: Objective, model: TrainedModel, heldout: Text, console: Console
) -> Measured | None:
    """The held-out value of the given weights, stored for resumed runs, which start with other weights."""
    if (found := folder.measured_before(objective.measured)) is None:
        found = _measured(objective, model, heldout, console, f"{objective.measured.kind} before training")
        if found is not None:
            write_json(folder.path / "before.json", vars(found))
    return found


def _measured(
    objective: Objective,
    model: TrainedModel,
    heldout: Text,
    console: Console,
    title: str,
    dtype: torch.dtype = torch.float32,
) -> Measured | None:
    """The value of held-out text, with progress: on a CPU, or with much held-out text, it takes minutes."""
    if not len(heldout.sentences):
        return None
    with Meter(console, title, heldout.predictions) as meter:
        return objective.measure(model, heldout, dtype, meter)


@contextmanager
def _watching(settings: Settings, workers: Workers) -> Iterator[Callable[[CurveRow], None] | None]:
    """A function that sends the learning curve to Weights & Biases and TensorBoard, or None."""
    senders: list[Callable[[dict[str, float], int], None]] = []
    with ExitStack() as logs:
        if settings.wandb is not None and workers.first:
            run = logs.enter_context(start_wandb(settings.wandb, Path(settings.out), settings.identity()))
            senders.append(lambda values, step: run.log(values, step=step))
        if settings.tensorboard and workers.first:
            folder = Path(settings.out) / "tensorboard"
            senders.append(logs.enter_context(closing(EventFile(folder, settings.identity()))).values)

        def send(row: CurveRow) -> None:
            for sender in senders:
                sender({name: value for name, value in row.columns().items() if value is not None}, row.step)

        yield send if senders else None


def _report(console: Console, facts: Mapping[str, Any], objective: Objective, target: Path) -> None:
    step, tokens, seconds = facts["position"].values()
    speed = f"{facts['tokens_per_second']:,.0f} tokens/s"
    print_line(console, f"{step:,} steps, {tokens:,} tokens, {seconds / 60:.1f} minutes, {speed}")
    names = {"before": "before training", "trained": "trained", "exported": "exported files"}
    for name, found in facts[objective.measured.kind.replace(" ", "_")].items():
        print_line(console, f"{names[name]}: {objective.measured(**found)}")
    print_line(console, f"{objective.title}: {target}")
    if facts["passes"] < 1:
        title, read = objective.title, f"{facts['passes']:.2%} of its text, less than one pass"
        warning = f"warning: this {title} read {read}; do not judge from it what a {title} contributes to a task"
        print_line(console, warning, style="yellow")
