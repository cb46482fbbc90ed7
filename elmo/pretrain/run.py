"""Pretraining run: builds the token store, trains, measures held-out perplexity, exports."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, cast

import torch
from rich.console import Console

from elmo.bilm.options import UNKNOWN_WORD
from elmo.common.device import choose_device
from elmo.common.errors import InputError
from elmo.common.experiment_log import start_wandb
from elmo.common.files import read_own_json, replacing
from elmo.common.progress import print_line
from elmo.pretrain.corpus.build import CorpusSettings, build_store
from elmo.pretrain.corpus.token_store import TokenStore
from elmo.pretrain.model.export import export
from elmo.pretrain.model.language_model import LanguageModel
from elmo.pretrain.model.output import load_model
from elmo.pretrain.training.card import Facts, card, hardware
from elmo.pretrain.training.checkpoint import CurveRow, RunFolder, alone_in
from elmo.pretrain.training.parallel import Workers, started
from elmo.pretrain.training.perplexity import Perplexity, perplexity
from elmo.pretrain.training.reading import Text, texts_of_store
from elmo.pretrain.training.settings import Settings
from elmo.pretrain.training.train import TrainingResult, check_perplexity, precision, train
from elmo.tokeniser import Tokenise


class Start(NamedTuple):
    """The initial model, the words that it predicts, and how text is tokenised."""

    model: LanguageModel
    vocabulary: list[str]
    tokenise: str


def pretrain(settings: Settings, command: list[str], console: Console) -> None:
    """Runs a pretraining from text to export; a finished run is left alone, an unfinished one continues.

    Args:
        settings: of the run.
        command: the command-line arguments, for the card.
        console: for progress.
    """
    if not settings.out:
        raise InputError("out: expected a folder for the run, found none; add out=DIR")
    if not settings.corpus:
        raise InputError("corpus: expected text files or folders, found none; add corpus=[FILE,FOLDER]")
    settings.budget.progress(0, 0, 0.0)  # raises early if no budget is set
    given = _given(settings)
    if given is None:
        settings.model.options(settings.input, [UNKNOWN_WORD])  # raises early if the shape is invalid
    device = choose_device(settings.device)
    with started(device.type == "cuda") as workers:
        shown = console if workers.first else Console(quiet=True)
        out = Path(settings.out)
        store = _store(settings, out, shown, workers)
        with alone_in(out) if workers.first else nullcontext():
            _pretrain(settings, given, store, command, shown, device, workers)


def _pretrain(
    settings: Settings,
    given: Start | None,
    store: TokenStore,
    command: list[str],
    console: Console,
    device: torch.device,
    workers: Workers,
) -> None:
    out = Path(settings.out)
    model, vocabulary, tokenise = given or _random(settings, store)
    model.to(device)
    parameters = sum(item.numel() for item in model.parameters())
    identity = settings.identity() | {"store": store.fingerprint, "processes": workers.world}
    space = 4 * parameters * 9  # two checkpoints of weights and both averages, and two exports
    folder = RunFolder(out, identity, space)
    if folder.finished:
        print_line(console, f"{out}: this run is finished; see {out / 'export' / settings.name / 'card.md'}")
        return
    train_text, heldout = texts_of_store(store, model.bilm.options.max_characters, vocabulary if given else None)
    if not len(train_text.sentences):
        raise InputError(f"{store.folder}: the corpus has no training sentence; give more text")
    before = _before(folder, model, heldout) if given and workers.first else None
    workers.wait()
    with _watching(settings, workers) as watch:
        outcome = train(
            model,
            train_text,
            heldout,
            settings.training,
            settings.budget,
            settings.seed,
            folder,
            console,
            workers,
            watch,
        )
    if workers.first:
        trained = _measured(model, heldout, precision(settings.training.precision, device))
        check_perplexity(trained, "the trained model")
        with folder.writing():
            target = export(model, vocabulary, tokenise, out / "export", settings.name)
        exported = _measured(load_model(target)[0].to(device), heldout)
        check_perplexity(exported, f"the exported files, {target}, in half precision")
        size = sum(item.numel() for item in model.bilm.parameters())
        facts = Facts(
            command,
            settings,
            store.header,
            len(vocabulary),
            size,
            outcome,
            hardware(device, workers.world),
            before,
            trained,
            exported,
        )
        with folder.writing(), replacing(target / "card.md") as partial:
            partial.write_text(card(facts), encoding="utf-8")
        folder.finish(facts.summary())
        _report(console, facts, outcome, target)
    workers.wait()


def _store(settings: Settings, out: Path, console: Console, workers: Workers) -> TokenStore:
    """The token store; the first process builds it, the others wait."""
    folder = Path(settings.store) if settings.store else out / "store"
    wanted = CorpusSettings(
        sources=list(settings.corpus),
        tokenise=cast(Tokenise, settings.tokenise),  # checked there
        vocabulary=settings.vocabulary,
        min_count=settings.min_count,
        heldout_fraction=settings.heldout_fraction,
        heldout_unit=settings.heldout_unit,
        seed=settings.seed,
        max_tokens=settings.max_tokens,
        workers=settings.workers,
    )
    if workers.first:
        build_store(wanted, folder, console)
    workers.wait()
    return TokenStore.open(folder, wanted.identity())


def _random(settings: Settings, store: TokenStore) -> Start:
    """A new model for the words of the store."""
    vocabulary = store.vocabulary()
    options = settings.model.options(settings.input, vocabulary)
    return Start(LanguageModel.random(options, len(vocabulary), settings.seed), vocabulary, settings.tokenise)


def _given(settings: Settings) -> Start | None:
    """The model to continue from, if `init` names one; loaded early, so that errors come before the text is read."""
    if settings.init is None:
        return None
    model, output = load_model(settings.init)
    if output.tokenise != settings.tokenise:
        raise InputError(
            f"init={settings.init} was trained with tokenise={output.tokenise}, this run has tokenise="
            f"{settings.tokenise}; use the same, or the words would not match"
        )
    return Start(model, output.vocabulary, output.tokenise)


def _before(folder: RunFolder, model: LanguageModel, heldout: Text) -> Perplexity | None:
    """Held-out perplexity of the given weights, stored for resumed runs, which start with other weights."""
    path = folder.path / "before.json"
    if path.exists():
        return Perplexity(**read_own_json(path))
    found = _measured(model, heldout)
    if found is not None:
        with folder.writing(), replacing(path) as partial:
            partial.write_text(json.dumps(asdict(found)) + "\n", encoding="utf-8")
    return found


def _measured(model: LanguageModel, heldout: Text, dtype: torch.dtype = torch.float32) -> Perplexity | None:
    return perplexity(model, heldout, dtype) if len(heldout.sentences) else None


@contextmanager
def _watching(settings: Settings, workers: Workers) -> Iterator[Callable[[CurveRow], None] | None]:
    """A function that sends the learning curve to Weights & Biases, or None."""
    if settings.wandb is None or not workers.first:
        yield None
        return
    with start_wandb(settings.wandb, Path(settings.out), settings.identity()) as run:
        yield lambda row: run.log({k: v for k, v in asdict(row).items() if v is not None}, step=row.step)


def _report(console: Console, facts: Facts, outcome: TrainingResult, target: Path) -> None:
    position = outcome.position
    lines = [
        f"{position.step:,} steps, {position.tokens:,} tokens, {position.seconds / 60:.1f} minutes, "
        f"{outcome.tokens_per_second:,.0f} tokens/s"
    ]
    measured = {"before training": facts.before, "trained": facts.trained, "exported files": facts.exported}
    lines += [f"{name}: {found}" for name, found in measured.items() if found is not None]
    for line in (*lines, f"biLM: {target}"):
        print_line(console, line)
    if facts.passes < 1:
        print_line(
            console,
            f"warning: this biLM read {facts.passes:.2%} of its text, less than one pass; do not judge from it what "
            "a biLM contributes to a task",
            style="yellow",
        )
