"""results/ computes and shows from data alone: no task, arm or metric is named in its code."""

import re
import tomllib
from dataclasses import replace

import pytest

import results.report.__main__
import results.status
from results.experiments import TABLE1, load_experiment
from results.figures.drawing import PALETTE
from results.names import arm_title, default_pair, load_names, metric_of, settings_title, task_title
from results.records.metric import Metric, Ratio
from results.records.record import write_record
from results.records.typed_json import PAPER
from results.tables.rows import Group, arm_titles
from tests.results.making import make_record, run_table, save

KNOWN = ("ner", "sst5", "sst", "snli", "squad", "srl", "coref", "glove", "word2vec", "elmo_random", "gpt2", "bert")
MEASURES = ("f1", "accuracy", "em", "exact match")
WORD = re.compile(rf"(?<![a-z0-9])({'|'.join((*KNOWN, *MEASURES))})(?![a-z0-9])", re.IGNORECASE)
# The package, its cache and its modules have the name of an arm.
ARM = re.compile(r"(?<![a-z0-9])elmo(?!\.[a-z]|-[a-z]|_cache|[a-z0-9])|\.elmo(?![a-z0-9])", re.IGNORECASE)


def named(source):
    """The lines of a module, comments and docstrings included, that name a task, an arm or a metric."""
    lines = enumerate(source.splitlines(), start=1)
    return [(number, line.strip()) for number, line in lines if WORD.search(line) or ARM.search(line)]


def test_results_name_no_task_arm_or_metric(repository):
    files = sorted((repository / "results").rglob("*.py"))
    assert len(files) > 20
    found = [
        f"{path.relative_to(repository)}:{number}: {line}"
        for path in files
        for number, line in named(path.read_text(encoding="utf-8"))
    ]
    assert not found, "names belong to results/paper/*.toml, or to the record:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ('if metric == "f1":', True),
        ("WITH_ELMO = 1", True),
        ("paper.elmo_std", True),
        ('"""The gain of ELMo."""', True),
        ('STATIC = "word2vec"', True),
        ("# as in SQuAD", True),
        ("from elmo.common.files import read_json", False),
        ("pip install -e '.[joblib]'", False),
        ('os.environ.get("ELMO_CACHE")', False),
        ("the inner system remembers", False),
    ],
)
def test_the_search_sees_names_and_no_more(line, seen):
    assert bool(named(line)) is seen


def test_the_names_are_whole():
    """Every colour exists, and the default arms are known."""
    names = load_names()
    assert set(default_pair()) <= names.arms.keys()
    assert {arm.colour for arm in names.arms.values()} - {""} <= PALETTE.keys()
    content = tomllib.loads((PAPER / "names.toml").read_text(encoding="utf-8"))
    assert content["tasks"].keys() == names.tasks.keys()


@pytest.mark.parametrize("name", [TABLE1])
def test_the_arms_of_table_1_are_the_default_ones(name):
    """So that the paper's numbers, which are by the names of the default arms, stand next to their runs."""
    headline = load_experiment(name)
    assert headline.compare == default_pair()
    assert [f"features={arm}" in headline.arms[arm] for arm in headline.compare] == [True, True]


def test_settings_have_names_for_people():
    """A key that names.toml lacks shows its last part."""
    settings = {"trainer.epochs": "12", "features.elmo.places": "[input]", "task.char_filters": "8"}
    assert settings_title(settings) == "12 epochs, biLM at [input], char filters 8"
    vectors = {"features.words.vectors": "wink-100d", "features.elmo.weights": "medium"}
    assert settings_title(vectors) == "GloVe 100-d, biLM medium"
    assert settings_title({"features.words.vectors": "mine.txt"}) == "mine.txt"
    assert settings_title({}) == ""


@pytest.mark.parametrize(
    ("metric", "examples", "expected"),
    [
        ("f1", [{"tp": 2, "fp": 0, "fn": 3}, {"tp": 0, "fp": 1, "fn": 0}], None),
        ("f1", [{"f1": 40.0, "em": 0.0}, {"f1": 60.0, "em": 0.0}], 50),  # the mean of its column
        ("f1", [{"em": 1.0}], None),
    ],
)
def test_records_without_a_declaration(metric, examples, expected):
    found = metric_of(replace(make_record(metric=metric), metrics={}), examples[0])
    assert (found and found.of_examples(examples)) == expected


def test_a_declaration_wins_over_the_names():
    declared = Metric([[Ratio({"tp": 100}, {"tp": 1, "fn": 1})]])
    record = replace(make_record(metric="f1"), metrics={"f1": declared})
    assert metric_of(record, {"tp", "fp", "fn"}) is declared
    assert metric_of(record, {"f1"}) is None


class TestUsersOwn:
    """A task, two arms and a metric that results/ has never heard of."""

    HALVES = Metric([[Ratio({"hits": 100}, {"tries": 1})]], title="hit rate")

    @pytest.fixture
    def runs(self, tmp_path):
        for features, title, hits in (("mywords", "", (1, 2, 3)), ("mybilm", "My biLM", (3, 4, 4))):
            for seed in (1, 2):
                examples = [{"hits": hit + (seed - 1) * (i == 0), "tries": 5} for i, hit in enumerate(hits)]
                score = 100 * sum(example["hits"] for example in examples) / 15
                record = make_record(score, data="mine", task="toxicity", features=features, seed=seed, metric="hits")
                config = {
                    **record.config,
                    "task": {"title": "Toxicity"},
                    "features": {"name": features, "title": title},
                }
                record = replace(record, metrics={"hits": self.HALVES}, config=config)
                save(tmp_path, record, examples)
        return tmp_path

    def test_the_table_computes_their_gain_and_interval(self, capsys, runs):
        """By hand: 6 + 7 of 15 and 11 + 12 of 15 hits, so 33.33 points."""
        status, out, err = run_table(capsys, "--runs", runs, "--compare", "mywords", "mybilm", "--check", "--wide")
        assert (status, "nothing is wrong" in err) == (0, True)
        (line,) = [line for line in out.splitlines() if line.startswith("mine")]
        assert line.split()[:4] == ["mine", "Toxicity", "hit", "rate"]
        assert "43.33±4.71 (2)" in line
        assert "76.67±4.71 (2)" in line
        assert "+33.33" in line
        assert " to +" in line, "an interval, from the declared metric"

    def test_a_score_that_their_examples_contradict_is_reported(self, capsys, runs):
        path = next(runs.rglob("record.json"))
        record = results.records.record.read_record(path)
        write_record(path, replace(record, scores={"test": {"hits": record.score + 1}}))
        status, _, err = run_table(capsys, "--runs", runs, "--compare", "mywords", "mybilm", "--check")
        assert status == 1
        assert "which examples.json.gz gives, found" in err

    def test_the_report_shows_their_titles(self, runs, tmp_path):
        out = tmp_path / "report.html"
        arguments = ["--runs", str(runs), "--out", str(out), "--compare", "mywords", "mybilm"]
        assert results.report.__main__.main(arguments) == 0
        page = out.read_text()
        assert ">mine Toxicity<" in page
        assert re.findall(r"<button type=.button. disabled>(.*?)</button>", page)[1:3] == ["mywords", "My biLM"]

    def test_the_status_lists_them(self, capsys, runs):
        assert results.status.main(["--runs", str(runs)]) == 0
        assert "runs of no sweep: 4 of 4 done" in capsys.readouterr().out


def test_titles_by_data():
    assert task_title("paper", "ner") == "NER, CoNLL-2003"
    assert task_title("mini", "ner") == "mini NER"
    assert task_title("mine", "toxicity") == "mine toxicity"
    titled = replace(make_record(), config={"task": {"title": "Toxicity"}})
    assert task_title("mine", "toxicity", titled) == "mine Toxicity"


def test_the_title_of_an_arm_ends_with_its_size():
    record = replace(make_record(), config={"features": {"words": {"vectors": "glove/840B.300d"}}})
    assert arm_title("glove", record) == "GloVe 300-d"
    assert arm_title("glove") == "GloVe"
    groups = [Group("glove", {}, [run]) for run in (record, make_record())]
    assert arm_titles(["glove"], groups) == {"glove": "GloVe"}, "two sizes in one column"
    assert arm_title("elmo_random") == "untrained biLM (control)"
    assert arm_title("elmo features.elmo.layers=last") == "+ ELMo features.elmo.layers=last"


def test_the_table_says_what_a_control_shows(tmp_path, capsys):
    """Of the arms that are shown, and of no other."""
    shows = {
        name: arm["shows"]
        for name, arm in tomllib.loads((PAPER / "names.toml").read_text(encoding="utf-8"))["arms"].items()
        if "shows" in arm
    }
    assert set(shows) >= {"elmo_random", "elmo_matched", "elmo_shuffled", "elmo_layer0", "elmo_isolated"}
    for features in ("glove", "elmo", "elmo_layer0"):
        save(tmp_path, make_record(features=features))
    _, out, _ = run_table(capsys, "--wide", "--runs", tmp_path)
    text = " ".join(out.split())
    assert f"biLM without context (control): {shows.pop('elmo_layer0')}" in text
    assert not any(line in text for line in shows.values())
