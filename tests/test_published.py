"""Published tables: README and results/tables.md show the numbers of the records that come with the suite."""

import itertools
import json
import re
import shlex
import statistics
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from elmo.common.files import read_json
from results.audit import main as audit
from results.breakdown import break_down
from results.experiments import TABLE1, load_experiment, main_runs, only_cells
from results.names import load_names, old_recipe, recomputed, task_title
from results.publish import main as publish
from results.records.collect import collect
from results.records.example_scores import FOLDER, groups_above, read_examples, read_predictions
from results.records.identity import EXAMPLES_NAME, PREDICTIONS_NAME
from results.records.record import read_record, settings_of
from results.table import main as table
from results.tables.fill import Selection, fill_all
from results.tables.rows import Group, Row
from results.tables_page import readme_table
from tasks.command_line import group_options
from tasks.running.config import run_config
from tasks.running.schema import compose_config
from tasks.sweeps.runs import experiment_cells
from tests.results.making import make_record, with_config
from tests.tasks.making import run_of
from tests.tasks.mini.chance import chance

pytestmark = pytest.mark.usefixtures("published_files_are_read_once", "configs_are_composed_quickly")

ROOT = Path(__file__).parents[1]
PUBLISHED = ROOT / "results" / "published"
CARDS = "bilms"  # of biLMs that are not shipped
MINI = ("ner", "sst5", "snli", "squad", "srl", "coref")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SETTINGS = tomllib.loads((ROOT / "results" / "paper" / f"{TABLE1}.toml").read_text(encoding="utf-8"))


def examples_of(data, task, features):
    """For each seed the scores of its test examples, and one of the records; of plain runs."""
    found = []
    for item in collect([PUBLISHED / data / task / features]).files:
        if not item.record.identity.variant:
            found.append(read_examples(item.path.with_name(EXAMPLES_NAME), item.record.fingerprint))
            record = item.record
    return found, record


@pytest.mark.integration
def test_tables_and_figures_are_up_to_date(capsys):
    """`python -m results.publish` updates them."""
    status = publish(["--check"])
    assert (status, capsys.readouterr().out) == (0, "")


def test_the_audit_of_all_records_finds_nothing(capsys):
    """It computes every test score of each of them again."""
    status, out = audit(["--published"]), capsys.readouterr().out
    records = len(list(PUBLISHED.rglob("record.json")))
    assert (status, out.count("\n")) == (0, 1), out
    assert out.startswith(f"audit: {records:,} records")


def test_gains_and_errors_removed_agree_about_zero():
    """In every row of the tables, and on every kind of test examples."""
    found = collect([PUBLISHED])
    table = fill_all(found, Selection(headline=load_experiment("table1")))
    kinds = break_down(table.rows, found.files)[0]
    shown = [*table.rows, *table.others, *(kind.row for _, own in kinds for kind in own)]
    both = [(own.interval, own.cut_interval) for own in shown]
    known = [(gain, cut) for gain, cut in both if gain and cut]
    assert len(known) > 100
    assert [pair for pair in known if pair[0].sign != pair[1].sign] == []


def test_readme_shows_the_table_of_the_mini_suite_as_it_is_printed(capsys):
    blocks = re.findall(r"^```\w*\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (shown,) = [block for block in blocks if block.startswith("Test scores in percent")]
    assert table(["--published", "--data", "mini"]) == 0
    assert capsys.readouterr().out.strip() == shown.strip()


def first_table():
    """The lines of README's first table: header -> cell."""
    (block,) = re.findall(r"<!-- table1 -->\n(.*?)<!-- /table1 -->", README.replace("\u00a0", " "), re.DOTALL)
    headers, _, *lines = [line.strip("| ").split(" | ") for line in block.splitlines() if line.startswith("|")]
    return [dict(itertools.zip_longest(headers, map(str.strip, line), fillvalue="")) for line in lines]


def coreference_of_folds(files):
    """The mean of three F1 scores, each from counts that are added up over the documents of ten folds."""
    documents = [document for file in files for document in read_json(file)["scores"]]
    assert (len(files), len(documents)) == (10, 100)

    def f1(precise, predicted, recalled, gold):
        precision, recall = (
            sum(document[top] for document in documents) / sum(document[bottom] for document in documents)
            for top, bottom in ((precise, predicted), (recalled, gold))
        )
        return 200 * precision * recall / (precision + recall)

    muc = f1("links", "predicted_links", "links", "gold_links")
    b_cubed = f1("b_cubed_precision", "predicted_mentions", "b_cubed_recall", "gold_mentions")
    ceaf_e = f1("similarity", "predicted_chains", "similarity", "gold_chains")
    return statistics.fmean([muc, b_cubed, ceaf_e])


def at_the_limit(record):
    """Whether the best dev score was reached in the last tenth of the epochs that the run may have."""
    dev = [epoch[record["metric"]] for epoch in record["epochs"]]
    return (dev.index(max(dev)) + 1) / record["config"]["trainer"]["epochs"] > 0.9


def test_the_first_table_is_what_the_files_say():
    """Worked out from the JSON files alone, by their folders."""
    places = {path.parent.relative_to(PUBLISHED).parts[:2] for path in PUBLISHED.rglob("record.json")}
    folders = {task_title(data, task): (data, task) for data, task in places}
    lines = first_table()
    baseline, elmo = list(lines[0])[2:4]
    assert (baseline.split()[0], elmo) == ("GloVe", "+ ELMo")
    for line in lines:
        name = line["task"]
        epochs = [f"trainer.epochs={count}" for count in re.findall(r"(\d+) epochs", name)]
        plain = ", biLM small" in name  # a row without runs of Table 1's arms says so
        data, task = folders[max((title for title in folders if f"{name}, ".startswith(f"{title}, ")), key=len)]
        means = {}
        for column, features in ((baseline, "glove"), (elmo, "elmo")):
            own = [] if plain else [key for key in SETTINGS["arms"][features] if key.startswith("features.")]
            folder = PUBLISHED / data / task / features / ",".join(sorted([*own, *epochs]))
            records, folds = (
                [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob(f"{fold}seed-*/record.json")]
                for fold in ("", "fold-*/")
            )
            recipes = [record["fingerprinted"]["recipes"]["task"] for record in records]
            newest = [record for record, own in zip(records, recipes, strict=True) if own == max(recipes)]
            scores = [record["scores"]["test"][record["metric"]] for record in newest]
            seeds = {file.parent.name for file in folder.glob("fold-*/seed-*/record.json")}
            scores += [coreference_of_folds(sorted(folder.glob(f"fold-*/{seed}/examples.json.gz"))) for seed in seeds]
            shown = ""
            if scores:
                means[features] = statistics.fmean(scores)
                deviation = f"±{statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
                recipe = max(record["fingerprinted"]["recipes"]["task"] for record in [*newest, *folds])
                old = recipe < load_names().tasks[task].recipe
                mark = "°" * old + "§" * any(map(at_the_limit, [*newest, *folds]))
                shown = f"{means[features]:.2f}{deviation} ({len(scores)}){mark}"
            assert line[column] == shown, (name, column)
        gain = means["elmo"] - means["glove"]
        assert line["gain, 95 % interval"].startswith(f"{gain:+.2f}, ")
        assert (line["paper"] != "-") == (data == "paper")


@pytest.mark.integration
def test_the_command_shows_the_scores_of_readme(capsys):
    """Both mean Table 1's settings, not the suite's smaller defaults."""
    table(["--published"])
    shown = " ".join(capsys.readouterr().out.split())
    lines = first_table()
    assert len(lines) == 7
    for line in lines:
        cells = [line[name] for name in ("GloVe 100-d", "+ ELMo", "gain, 95 % interval", "paper")]
        assert " ".join(cells) in shown


def test_the_headline_does_not_depend_on_conf(tmp_path):
    """Its cells are found by what the records say: the same table without any default of today, in a bare process."""
    for package in ("results", "elmo"):
        (tmp_path / package).symlink_to(ROOT / package)
    for package in ("conf", "tasks"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError\n")
    command = [sys.executable, "-m", "results.table", "--published", "--experiment", TABLE1, "--format", "json"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, check=True)
    means = [row["arms"][arm]["mean"] for row in json.loads(done.stdout) for arm in ("glove", "elmo")]
    assert sorted(f"{own:.2f}" for own in means) == sorted(
        re.match(r"[\d.]+", line[arm]).group() for line in first_table() for arm in ("GloVe 100-d", "+ ELMo")
    )


def test_the_headline_stays_when_recipes_are_raised(monkeypatch):
    """Only marks are added to the scores of older recipes."""
    names = load_names()
    newer = {name: replace(task, recipe=99) for name, task in names.tasks.items()}
    monkeypatch.setattr("results.names.load_names", lambda: replace(names, tasks=newer))
    headline = load_experiment(TABLE1)
    shown = readme_table(fill_all(main_runs(collect([PUBLISHED])), Selection(headline=headline)))
    assert shown.count("°") == 2 * len(first_table()), "all rows are of an older recipe"
    assert shown.replace("°", "") in README.replace("°", "")


def test_the_commands_of_the_tables_name_the_published_runs():
    """Each command composed as `tasks.run` would, with its last arm and first seed; together they name all runs.

    All but those of other settings, whose commands the report has.

    Runs that only the tables of experiments show have the commands of these; others of them fill empty cells. Commands
    of an older recipe are for its commit: what is a default now may have been a setting there.
    """
    page = (ROOT / "results" / "tables.md").read_text(encoding="utf-8")
    commands, old = [], False
    for line in page.splitlines():
        old = " (recipe " in line if line.startswith("# ") else old
        if line.startswith("python -m tasks.run "):
            commands.append((shlex.split(line), old))
    records = collect([PUBLISHED])
    published = {item.record.identity.title for item in records.files}
    promised = set()
    for name in re.findall(r"`python -m tasks.run -m experiment=(\w+)`", page):
        for item in only_cells(records, load_experiment(name).cells).files:
            identity = item.record.identity
            promised.add((identity.data, identity.task, identity.features, identity.seed))
    for words, old in commands:
        if words[4].startswith("experiment="):
            continue
        settings = dict(word.split("=", 1) for word in words[3:] if word != "-m")
        arms, seeds = settings.pop("features").split(","), settings.pop("seed").split(",")
        for arm, seed in itertools.product(arms, seeds):
            promised.add((settings["data"], settings["task"], arm, int(seed)))
        overrides = [f"{key}={value.split(',')[0] if key == 'fold' else value}" for key, value in settings.items()]
        if old or settings["data"] not in group_options("data"):
            continue
        config = run_config(compose_config([*overrides, f"features={arms[-1]}", f"seed={seeds[0]}"]))
        assert config.identity.title in published
    main_table = fill_all(main_runs(records), Selection(headline=load_experiment(TABLE1)))
    groups = [group for row in main_table.others for group in row.groups]
    others = {(i.data, i.task, i.features, i.seed) for group in groups for i in (run.identity for run in group.runs)}
    published = {(i.data, i.task, i.features, i.seed) for i in (item.record.identity for item in records.files)}
    assert promised <= published <= promised | others


def printed_sweeps(page):
    """The words of each sweep of an experiment that a page prints."""
    printed = (ROOT / "results" / page).read_text(encoding="utf-8")
    return [shlex.split(command) for command in re.findall(r"python -m tasks.run -m experiment=[^`\n]*", printed)]


def test_sweeps_accept_the_printed_commands_of_experiments():
    """With values as Hydra hands them over, which are not always those that were typed: false becomes False."""
    lines = printed_sweeps("tables.md")
    assert len(lines) >= 10
    for words in lines:
        name = words[4].removeprefix("experiment=")
        assert experiment_cells(name, OverridesParser.create().parse_overrides(words[5:])), words


def test_every_published_run_has_its_examples_and_nothing_else():
    files = [path for path in PUBLISHED.glob("*/**/*") if path.is_file() and path.parent.name not in (FOLDER, CARDS)]
    further = {f"examples-{data}.json.gz" for data in ("btc", "uner_ewt", "wnut17")}
    assert {path.name for path in files} == {
        "record.json", EXAMPLES_NAME, PREDICTIONS_NAME, "confidences.jsonl.gz", *further
    }  # fmt: skip


def test_mini_runs_are_of_the_newest_recipes():
    """Full-size runs of an older recipe may stay: tables mark them."""
    found = [item.record for item in collect([PUBLISHED / "mini"]).files]
    old = [f"{record.identity.title}: {old_recipe(record)}" for record in found if old_recipe(record)]
    assert found
    assert not old, "A recipe was raised: republish mini (see CONTRIBUTING):\n" + "\n".join(old)


def test_only_predictions_on_our_own_text_are_published():
    found = sorted(PUBLISHED.rglob(PREDICTIONS_NAME))
    assert {path.relative_to(PUBLISHED).parts[0] for path in found} == {"mini"}
    assert all(read_record(path.with_name("record.json")).shipped_data for path in found)
    ours = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tasks" / "mini").glob("*/test.*"))
    words = {*re.split(r"[\s()]+", ours), "(", ")"}  # brackets of trees are no words
    for task in ("ner", "sst5", "srl", "coref"):
        path = PUBLISHED / "mini" / task / "elmo" / "seed-1" / PREDICTIONS_NAME
        kept = read_predictions(path, read_record(path.with_name("record.json")).fingerprint)
        assert {word for one in kept for word in one.example["tokens"]} <= words


@pytest.mark.parametrize(
    ("data", "task", "names"),
    [
        *(("mini", task, {"length", "casing"}) for task in MINI),
        ("paper", "ner", {"entities"}),
        ("wnut17", "ner", {"casing"}),
        ("paper", "sst5", {"length"}),
        ("standin", "snli", {"length"}),
        ("paper", "squad", {"question", "pretraining_text"}),
    ],
)
def test_kinds_of_test_examples_are_known(data, task, names):
    path = next((PUBLISHED / data / task / "glove").rglob("record.json"))
    record = read_record(path)
    known = groups_above(path, task, record.fingerprinted["data"])
    assert known.groups.keys() >= names
    assert len(known.ids) == len(read_examples(path.with_name(EXAMPLES_NAME), record.fingerprint))
    if "pretraining_text" in names:
        assert known.groups["pretraining_text"].of.count(1) == 4460  # as published/README.md says


@pytest.mark.parametrize("task", MINI)
def test_the_baseline_of_the_mini_suite_is_clearly_above_chance(task):
    """95 % of what other test examples and seeds might give is above what knows almost nothing."""
    glove, record = examples_of("mini", task, "glove")
    least = chance(task)
    assert len(glove) >= 3
    assert recomputed(record, least.examples) == pytest.approx(least.score)
    arms = {"chance": [least.examples] * len(glove), "glove": glove}  # chance is the same with every seed

    def scored(run):
        return replace(record, scores={"test": {record.metric: recomputed(record, run)}})

    groups = [Group(name, {}, list(map(scored, runs)), runs) for name, runs in arms.items()]
    assert Row("mini", task, groups, compared=("chance", "glove")).interval.low > 0


def test_more_epochs_raise_the_frozen_arm_on_dev_but_not_on_test():
    """The note of experiment=tuning says so."""
    experiment = load_experiment("tuning")
    assert "frozen is then higher on dev, but not on test" in experiment.note
    means = {}
    for row in experiment.rows:
        cells = [cell for cell in experiment.cells if (cell.row, cell.arm) == (row, "frozen")]
        folders = [PUBLISHED / "paper" / cells[0].named["task"] / "elmo"]
        records = [item.record for item in only_cells(collect(folders), cells).files]
        assert len(records) == len(experiment.seeds)
        for split in ("dev", "test"):
            means[row.title, split] = statistics.fmean(record.scores[split][record.metric] for record in records)
    for task, short in (("NER, CoNLL-2003", "20 epochs"), ("SST-5", "6 epochs")):
        assert means[f"{task}, whole recipe", "dev"] > means[f"{task}, {short}", "dev"]
        assert means[f"{task}, whole recipe", "test"] <= means[f"{task}, {short}", "test"]


@pytest.mark.parametrize("features", ["glove", "elmo"])
@pytest.mark.parametrize(
    ("task", "data"), [*((task, "mini") for task in MINI), ("pos_probe", "ewt"), ("wsd_probe", "paper")]
)
def test_published_records_have_every_setting_of_today(task, data, features):
    """A setting that was added without its default in introduced.toml would split old seeds from new ones."""
    now = run_of(f"task={task}", f"features={features}", f"data={data}", "seed=1").resolved
    today = {key for key in settings_of(with_config(make_record(), **now)) if not key.startswith("data.reader")}
    found = collect(sorted(PUBLISHED.glob(f"*/{task}/{features}"))).files
    assert found
    for item in found:
        assert today <= settings_of(item.record).keys(), item.path


@pytest.mark.parametrize("arm", ["glove", "elmo"])
@pytest.mark.parametrize(("task", "data"), [("ner", "paper"), ("ner", "wnut17"), ("sst5", "paper"), ("srl", "ewt")])
def test_the_dropout_of_a_recipe_is_the_best_of_the_trials(task, data, arm):
    """By the mean dev score of the published trials, worked out from the JSON files."""
    scores = defaultdict(list)
    for path in (PUBLISHED / data / task / arm).rglob("record.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["identity"]["variant"].get("trial"):
            scores[record["config"]["features"]["dropout"]].append(record["scores"]["dev"][record["metric"]])
    assert {len(own) for own in scores.values()} == {1 if task == "srl" else 3}
    assert len(scores) == 3
    best = max(scores, key=lambda value: statistics.fmean(scores[value]))
    assert run_of(f"task={task}", f"data={data}", f"features={arm}").features.dropout == best
