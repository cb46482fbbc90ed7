"""The whole command, on generated data of five kinds; each run is small."""

import os
import random
import re
import signal as signals
import subprocess

import pytest

from elmo import random_bilm, save_bilm
from tasks.compare import plan as plans
from tasks.compare.__main__ import main
from tests.tasks.making import DRAWN_WORDS

pytestmark = [pytest.mark.processes]
SIZE = 120
GOOD, BAD = ["fine", "lovely", "great", "warm"], ["poor", "awful", "dull", "cold"]
NOUNS = ["film", "play", "book", "song", "meal", "town", "house", "room"]


def texts(count=SIZE, shuffled=False):
    draw = random.Random(5)
    rows = []
    for number in range(count):
        words = draw.choice(GOOD if number % 2 else BAD), draw.choice(NOUNS), draw.choice(NOUNS)
        rows.append((f"A {words[0]} {words[1]} and {words[2]}, number {number}.", "yes" if number % 2 else "no"))
    labels = [label for _, label in rows]
    if shuffled:
        draw.shuffle(labels)
    return [(text, label) for (text, _), label in zip(rows, labels, strict=True)]


def signal(folder):
    return write(folder / "texts.csv", ["review,stars", *(f'"{text}",{label}' for text, label in texts())])


def shuffled(folder):
    return write(folder / "mixed.csv", ["review,stars", *(f'"{text}",{label}' for text, label in texts(shuffled=True))])


def pairs(folder):
    draw, rows = random.Random(5), []
    for number in range(SIZE):
        first = draw.choice(NOUNS)
        second = first if number % 2 else draw.choice([noun for noun in NOUNS if noun != first])
        rows.append(f"the {first} {number}\ta {second} here\t{'same' if number % 2 else 'other'}")
    return write(folder / "pairs.tsv", ["text1\ttext2\tlabel", *rows])


def tags(folder):
    draw, lines = random.Random(5), []
    for number in range(SIZE):
        name = draw.choice(["Ada", "Bo", "Cid", "Dora"])
        lines += [f"{name} B-PER", "saw O", f"{draw.choice(NOUNS)} O", f"{number} O", ""]
    return write(folder / "tags.conll", lines)


def by_folder(folder):
    for number, (text, label) in enumerate(texts()):
        (folder / "classes" / label).mkdir(parents=True, exist_ok=True)
        (folder / "classes" / label / f"{number}.txt").write_text(text)
    return folder / "classes"


def without_plugins(name):
    """As importlib.util.find_spec where the suite was installed without extras."""
    if "." in name:
        raise ModuleNotFoundError(name)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture(autouse=True)
def small_and_quick(monkeypatch):
    """One test set, two epochs, and arms that need nothing from outside."""
    tiny = ["features.elmo.untrained=true", "features.elmo.weights=tiny"]
    arms = {"bag_of_words": [], "glove": DRAWN_WORDS, "elmo": [*DRAWN_WORDS, *tiny]}
    arms["elmo_layer0"] = arms["elmo"]
    monkeypatch.setattr(plans, "ARMS", {arm: [f"features={arm}", *own] for arm, own in arms.items()})
    monkeypatch.setattr(plans, "SIZES", {task: {1000: (16, 2, 0.01, 8)} for task in plans.SIZES})
    monkeypatch.setattr(plans, "FEW", 10)
    monkeypatch.setattr(plans, "SHOWN", 0)


@pytest.mark.parametrize("kind", [signal, shuffled, pairs, tags, by_folder])
def test_the_command_answers(tmp_path, capsys, kind):
    source = kind(tmp_path)
    words = [str(source), "--seeds", "1", "--jobs", "1", "--runs", str(tmp_path / "my runs")]
    assert main(words) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert out.startswith(f"{source}: {SIZE} ")
    assert f"--runs '{tmp_path / 'my runs'}' --notes" in out  # a command to copy
    sentence = next(line for line in out.splitlines() if line.startswith(f"On these {SIZE} "))
    assert ("no arm finds a signal" in sentence) == (kind is shuffled)
    bag = float(re.search(r"bag of words +([\d.]+)", out)[1])
    assert bag < 80 if kind is shuffled else bag > 90
    records = {path: path.read_bytes() for path in (tmp_path / "my runs").rglob("record.json")}
    assert len(records) == 4
    assert main(words) == 0  # nothing runs again
    assert {path: path.read_bytes() for path in (tmp_path / "my runs").rglob("record.json")} == records


def test_text_of_ones_own_is_one_more_arm(tmp_path, capsys, monkeypatch):
    """The biLM that is tuned on it; here any other one."""
    save_bilm(random_bilm("tiny", 5), tmp_path / "own" / "weights.safetensors")
    arm = ["features=elmo", *DRAWN_WORDS, f"features.elmo.weights='{tmp_path / 'own'}'"]
    monkeypatch.setattr("tasks.compare.__main__.tuned_arm", lambda text, runs_dir: arm)
    words = [str(signal(tmp_path)), "--text", "any", "--seeds", "1", "--jobs", "1", "--runs", str(tmp_path / "runs")]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "5 runs: bag_of_words, glove, elmo, elmo_layer0, elmo_own; 1 seeds" in out
    assert re.search(r"^\+ ELMo, tuned( on)? +[\d.]+.*\n(on )?your text", out, re.MULTILINE)  # wrapped at 80 columns


def test_no_text_to_tune_on(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main([str(signal(tmp_path)), "--text", str(tmp_path / "empty")]) == 1
    assert "expected text files, found none" in capsys.readouterr().err


def test_failed_runs_are_said(tmp_path, capsys, monkeypatch):
    broken = {arm: [f"features={arm}", "features.words.vectors=nowhere.txt"] for arm in ("glove", "elmo")}
    monkeypatch.setattr(plans, "ARMS", broken)
    monkeypatch.setattr("tasks.compare.__main__.find_spec", without_plugins)
    assert main([str(signal(tmp_path)), "--seeds", "1", "--runs", str(tmp_path / "runs")]) == 1
    out, error = capsys.readouterr()
    assert "one run at a time" in out
    assert "some runs failed, and the same command runs those again" in error
    assert "nowhere.txt" in error


def test_equal_texts_are_said_before_the_first_run(tmp_path, capsys):
    lines = ["review,stars", *(f"The same text.,{label}" for _, label in texts())]
    assert main([str(write(tmp_path / "x.csv", lines)), "--runs", str(tmp_path / "runs")]) == 1
    expected = "tasks.compare: expected at least 40 distinct texts, 5 of each label, found 1. Add more\n"
    assert capsys.readouterr() == ("", expected)
    assert not (tmp_path / "runs").exists()


def test_seeds_are_needed(tmp_path, capsys):
    assert main([str(signal(tmp_path)), "--seeds", "0", "--runs", str(tmp_path / "runs")]) == 1
    assert capsys.readouterr().err == "tasks.compare: --seeds: expected at least 1, found 0\n"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("jobs", [-5, 0])
def test_runs_at_once_are_counted_or_one_a_core(tmp_path, capsys, jobs):
    assert main([str(signal(tmp_path)), "--jobs", str(jobs), "--runs", str(tmp_path / "runs")]) == 1
    expected = f"tasks.compare: --jobs: expected at least 1, or -1 for one a core, found {jobs}\n"
    assert capsys.readouterr().err == expected
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("", "--export {}: expected a new folder or an earlier export, found other files"),
        ("texts.csv", "--export={}/texts.csv: expected a folder to write to, found {}/texts.csv, which is none"),
        ("texts.csv/model", "--export={}/texts.csv/model: expected a folder to write to, found {}/texts.csv, which"),
    ],
)
def test_a_folder_that_cannot_take_the_model_is_said_before_the_first_run(tmp_path, capsys, export, expected):
    source = signal(tmp_path)
    assert main([str(source), "--export", f"{tmp_path}/{export}", "--runs", str(tmp_path / "runs")]) == 1
    assert capsys.readouterr().err.startswith(f"tasks.compare: {expected.replace('{}', str(tmp_path))}")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("number", [signals.SIGTERM, signals.SIGINT])
def test_a_stop_of_the_command_alone_ends_its_runs(tmp_path, capsys, monkeypatch, number):
    started, start = [], subprocess.Popen
    handler = signals.signal(signals.SIGINT, signals.default_int_handler)  # a shell's background jobs ignore it

    def sleep(command, **options):
        started.append(start(["sleep", "600"]))
        return started[0]

    monkeypatch.setattr("tasks.compare.__main__.subprocess.Popen", sleep)
    monkeypatch.setattr("tasks.compare.__main__.ENDS_WITHIN", 0.1)
    monkeypatch.setattr("tasks.compare.__main__.Meter.advance", lambda meter, done: os.kill(os.getpid(), number))
    try:
        assert main([str(signal(tmp_path)), "--jobs", "1", "--runs", str(tmp_path / "runs")]) == 130
    finally:
        signals.signal(signals.SIGINT, handler)
    assert capsys.readouterr().err.endswith("tasks.compare: stopped; the same command continues from here\n")
    assert started[0].returncode == -signals.SIGTERM
