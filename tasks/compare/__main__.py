"""Says in a sentence what frozen contextual vectors add on your own labelled data.

The data are labelled texts, pairs of texts, or tagged words. GloVe, GloVe + ELMo, layer 0 of ELMo and a bag of words
are compared. It finds delimiter, columns and task, splits the data (equal texts stay together; below 1,500 examples by
cross-validation), trains a small head for each arm and seed, and continues where it was stopped. All runs are ordinary
ones: python -m results.table shows them.

Examples:
  python -m tasks.compare reviews.csv                          also .tsv, .jsonl, words and tags in columns
  python -m tasks.compare reviews.csv --columns review,stars   the columns of text and label; of pairs, three
  python -m tasks.compare texts/                               text files in a folder for each class
  python -m tasks.compare OWNER/NAME                           a dataset of the Hugging Face hub
  python -m tasks.compare reviews.csv --text mails/            also tunes the biLM on plain text of yours
  python -m tasks.compare reviews.csv --export model           also leaves a model for python -m tasks.predict
"""

import argparse
import hashlib
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from elmo.common.checks import at_least, within
from elmo.common.errors import InputError, command_parser
from elmo.common.files import duration, fitted, hashes_of, require_writable, size_in_words
from elmo.common.progress import Meter
from results.records.identity import RECORD_NAME
from results.records.printing import terminal_width
from tasks.compare.plan import Plan, make_plan, quoted
from tasks.compare.reading import read_own
from tasks.sweeps.launchers import sigterm_as_interrupt

LARGE = 1_000_000  # bytes of a file
POLL, ENDS_WITHIN = 0.5, 3.0  # seconds
LOG_LINES = 10
PASSES, MOST_TOKENS = 3, 2_000_000  # of the text to tune on
# As python -m tasks.text --help.
TUNING = "heldout_fraction=0.05 training.batch_tokens=2048 training.learning_rate=0.002"


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.compare", str(__doc__))
    parser.add_argument("source", metavar="FILE", help="a file, a folder, or the name of a dataset on the hub")
    about = "the columns of the text (or of both texts) and of the label; default: found by their names and values"
    parser.add_argument("--columns", type=lambda it: it.split(","), default=(), metavar="TEXT,LABEL", help=about)
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="runs of each arm; default: 3")
    parser.add_argument("--jobs", type=int, default=-1, metavar="N", help="runs at the same time; default: one a core")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), metavar="DIR", help="default: results/runs")
    about = "leave the best model there, for python -m tasks.predict DIR and tasks.load_model, with a card"
    parser.add_argument("--export", type=Path, metavar="DIR", help=about)
    about = "plain text (a file or a folder) to tune the biLM on first; one more arm"
    parser.add_argument("--text", type=Path, metavar="FOLDER", help=about)
    return parser.run(arguments, compare, "stopped; the same command continues from here")


@sigterm_as_interrupt()
def compare(options: argparse.Namespace) -> int:
    """Reads, runs and answers."""
    at_least(1, "--seeds", options.seeds)
    within("at least 1, or -1 for one a core", lambda jobs: jobs == -1 or jobs >= 1, "--jobs", options.jobs)
    if options.export:
        require_export_folder(options.export)
    started = time.monotonic()
    given = Path(options.source)
    if given.is_file() and given.stat().st_size > LARGE:  # it takes seconds
        say(f"{given}: reading {size_in_words(given.stat().st_size)}")
    data = read_own(options.source, options.columns)
    tuned = {"elmo_own": tuned_arm(options.text, options.runs)} if options.text else {}
    plan = make_plan(data, given.stem, options.runs, range(1, options.seeds + 1), tuned)
    kinds = {"classify": "labelled texts", "pairs": "pairs of texts", "ner": "sentences with tags"}
    named = ", ".join(data.labels[:6]) + ", ..." * (len(data.labels) > 6)
    say(f"{options.source}: {len(data.rows):,} {kinds[data.task]}, {len(data.labels)} labels: {named}")
    for line in data.said:
        say(f"  {line}")
    how = f"{plan.folds}-fold cross-validation" if plan.folds else f"{len(plan.tested):,} of them to test"
    say(f"{plan.runs} runs: {', '.join(plan.arms)}; {options.seeds} seeds; {how}. Copies of the data: {plan.folder}")
    sweep(plan, options.runs, options.jobs)
    from tasks.compare.answer import answer_of  # imported here: the first line must come soon

    answer = answer_of(plan, options.runs, cost_of(plan))
    (plan.folder / "answer.txt").write_text(answer.text, encoding="utf-8")
    (plan.folder / "figure.svg").write_text(answer.svg, encoding="utf-8")
    say(f"\n{answer.text}\nFigure: {plan.folder / 'figure.svg'}. Time: {duration(time.monotonic() - started)}")
    if options.export:
        from tasks.compare.export import export

        arm = export(plan, options.runs, options.export, answer)
        say(f"The model ({arm}): python -m tasks.predict {shlex.quote(str(options.export))} INPUT.csv --output csv")
    experiment, runs = shlex.quote(str(plan.experiment)), shlex.quote(str(options.runs))
    say(f"All records: python -m results.table --experiment {experiment} --runs {runs} --notes")
    return 0


def require_export_folder(folder: Path) -> None:
    """Raises an InputError unless the folder can be written to, and is new, empty or that of an earlier export."""
    require_writable("--export", folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / RECORD_NAME).exists():
        raise InputError(f"--export {folder}: expected a new folder or an earlier export, found other files")


def tuned_arm(text: Path, runs_dir: Path) -> list[str]:
    """The overrides that choose the biLM tuned on a text, here or in an earlier command.

    Raises:
        InputError: there is no text, or tuning failed.
    """
    files = sorted(path for path in (text, *text.rglob("*")) if path.is_file())
    words = sum(len(path.read_bytes().split()) for path in files)
    if not words:
        raise InputError(f"--text {text}: expected text files, found none. Check the path")
    out = runs_dir / "compare" / f"text-{hashlib.sha256(''.join(hashes_of(files).values()).encode()).hexdigest()[:6]}"
    settings = f"init=small name=own budget.tokens={min(PASSES * words, MOST_TOKENS)} {TUNING}".split()
    say(f"{text}: {words:,} words to tune the biLM on first")
    command = [sys.executable, "-m", "elmo.pretrain", f"corpus={quoted(text)}", f"out={quoted(out)}", *settings]
    if subprocess.run(command).returncode:
        raise InputError(f"--text {text}: the biLM was not tuned; the lines above say why")
    return ["features=elmo", f"features.elmo.weights={quoted(out / 'export' / 'own')}"]


def say(line: str) -> None:
    """Prints a line at once."""
    print(fitted(line, terminal_width()), flush=True)


def sweep(plan: Plan, runs_dir: Path, jobs: int) -> None:
    """Carries out the runs that are missing, with a progress bar.

    Raises:
        InputError: some failed; the message has the last lines of the log.
    """
    installed = find_spec("hydra_plugins") and find_spec("hydra_plugins.hydra_joblib_launcher")
    if jobs != 1 and not installed:
        say("one run at a time; for one a core: pip install hydra-joblib-launcher")
    launcher = ["hydra/launcher=cores", f"hydra.launcher.n_jobs={jobs}"] if jobs != 1 and installed else []
    words = ["-m", f"experiment={quoted(plan.experiment)}", f"runs_dir={quoted(runs_dir)}", "retry=failed", *launcher]
    log, done = plan.folder / "runs.log", 0
    with log.open("w", encoding="utf-8") as file, Meter(Console(stderr=True), "runs", plan.runs) as meter:
        process = subprocess.Popen([sys.executable, "-m", "tasks.run", *words], stdout=file, stderr=file)
        try:
            while process.poll() is None:
                time.sleep(POLL)
                before, done = done, len(list((runs_dir / plan.name).rglob("record.json")))
                meter.advance(done - before)
        finally:
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_WITHIN)  # after Ctrl-C, which the terminal sends to both, it ends by itself
            process.terminate()  # where only this process was stopped
            process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text(encoding="utf-8").splitlines()[-LOG_LINES:])
        raise InputError(f"some runs failed, and the same command runs those again. The end of {log}:\n{tail}")


def cost_of(plan: Plan) -> float:
    """Milliseconds in which one core computes ELMo's layers of an example."""
    import torch

    import elmo

    torch.set_num_threads(1)
    rows, bilm = plan.tested[:64], elmo.load_bilm("small")
    texts = [sentence for row in rows for text in row.texts for sentence in elmo.tokenise(text)]
    sentences = [row.texts for row in rows] if plan.data.task == "ner" else texts
    bilm.token_layers(sentences[:2])
    started = time.process_time()  # of one thread: other processes do not count
    bilm.token_layers(sentences)
    return 1000 * (time.process_time() - started) / len(rows)


if __name__ == "__main__":
    sys.exit(main())
