"""Pretraining run: builds the token store, trains, measures on held-out text, exports."""

from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from rich.console import Console

from elmo.bilm.model import weights_hash
from elmo.bilm.options import UNKNOWN_WORD
from elmo.common.device import choose_device
from elmo.common.errors import InputError
from elmo.common.files import replacing
from elmo.common.processes import locked
from elmo.common.progress import Meter, print_line
from elmo.pretrain.batches import texts_of_store
from elmo.pretrain.corpus.token_store import CorpusSettings, TextSettings, TokenStore, build_store
from elmo.pretrain.export import Output, card, export, find_output, hardware, load_model, load_output
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.objective import OBJECTIVES, Measured
from elmo.pretrain.settings import Settings
from elmo.pretrain.train import RunFolder, precision, require_finite, train


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
    width = model.core.encoder.options.max_characters
    train_text, heldout = texts_of_store(store, width, given.vocabulary or None)

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
