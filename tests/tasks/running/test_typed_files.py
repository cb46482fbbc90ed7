"""data=PATH.yaml: accepted files, refused files, and that a file cannot run code."""

import re
from pathlib import Path

import pytest
from joblib import Parallel, delayed

from elmo.common.errors import InputError
from results.records.identity import Identity
from results.records.record import read_record
from tasks.running.config import typed_config
from tests.tasks.making import DRAWN_WORDS

PLAIN = "task: ner\nsplits: {train: [a.txt], dev: [b.txt], test: [c.txt]}\n"
SHIPPED = "task: ner\nshipped: true\nsplits: {train: [ner/train.txt], dev: [ner/dev.txt], test: [ner/test.txt]}\n"
SMALL = [*DRAWN_WORDS, "task.hidden=4", "limit=4", "trainer.epochs=1", "device=cpu"]
# What a config folder could do: Hydra calls the callback's _target_ before anything else.
CALLBACK = "{hydra: {callbacks: {evil: {_target_: os.mkdir, path: FILE}}}}\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into a folder that the command is called from."""
    monkeypatch.chdir(tmp_path)

    def write(content, name="mine.yaml"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content, encoding="utf-8")
        return name

    return write


@pytest.fixture
def kept_workers():
    """Processes of another folder that joblib keeps for its next use, as after a sweep in the same notebook."""
    settings = {"max_nbytes": None, "mmap_mode": "r", "prefer": "processes"}  # the launcher's: others get new processes
    found = Parallel(n_jobs=-1, **settings)(delayed(Path.cwd)() for _ in range(2))
    assert set(found) == {Path.cwd()}


class TestAccepted:
    @pytest.mark.parametrize("name", ["mine.yaml", "sub/mine.yaml", "../mine.yaml", "sub/it's mine.yaml"])
    def test_the_dataset_has_the_name_of_the_file(self, write, tmp_path, monkeypatch, name):
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        write(PLAIN, name)
        for path in (name, str(Path(name).absolute())):
            config = typed_config(["data='" + path.replace("'", r"\'") + "'"])
            assert (config.data.name, config.data.splits["test"]) == (Path(name).stem, ["c.txt"])
            assert config.variant == {}
            assert str(tmp_path) not in str(config.resolved), "where the file is cannot change a score"

    def test_a_name_in_the_file_wins(self, write):
        assert typed_config([f"data={write('name: ours' + chr(10) + PLAIN)}"]).data.name == "ours"

    def test_a_file_is_never_mistaken_for_a_dataset_of_the_suite(self, write):
        """Hydra alone reads conf/data/wnut17.yaml for data=wnut17.yaml."""
        write(f"name: ours\n{PLAIN}", "wnut17.yaml")
        assert typed_config(["data=wnut17.yaml"]).data.splits["test"] == ["c.txt"]

    def test_typed_settings_make_a_variant(self, write):
        write(f"{PLAIN}reader: {{comments: true}}\n")
        config = typed_config(["data=mine.yaml", "data.reader.comments=false", "+data.reader.ragged=true"])
        assert config.variant == {"data.reader.comments": False, "data.reader.ragged": True}

    @pytest.mark.processes
    def test_a_sweep_over_two_files(self, kept_workers, command, write, tmp_path):
        """Other processes read the files too, in the folder of this sweep."""
        write(SHIPPED, "a.yaml")
        write(SHIPPED, "b.yaml")
        sweep = ("-m", "data=a.yaml,b.yaml", "hydra/launcher=cores", f"runs_dir={tmp_path}", *SMALL)
        code, _, err = command(*sweep)
        assert code == 0, err
        variant = typed_config(["data=a.yaml", *SMALL]).variant
        paths = [tmp_path / Identity(data, "ner", "glove", 1, variant).path for data in ("a", "b")]
        first, second = (read_record(path) for path in paths)
        assert first.score == second.score
        assert "all 2 runs were done already" in command(*sweep)[2]


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (f"# @package _global_\n{CALLBACK}", "expected a dataset, found a line with @package"),
            (f"task: ner\n{CALLBACK.strip()[1:-1]}\n", "unknown key data.hydra."),
            (f"{PLAIN}_target_: builtins.open\n", "unknown key data._target_."),
            (f"{PLAIN}reader: {{_target_: builtins.open}}\n", "unknown key data.reader._target_."),
            (f"{PLAIN}defaults: [/hydra/callbacks: evil]\n", "unknown key data.defaults."),
            (f"{PLAIN}name: '${{oc.env:HOME}}'\n", "expected plain values, found '${oc.env:HOME}'"),
            (f"{PLAIN}expected: {{'${{oc.env:HOME}}': {{a: 1}}}}\n", "expected plain values, found '${oc.env:HOME}'"),
            (f"{PLAIN}name: !!python/object/apply:os.getcwd []\n", "expected YAML, found: could not determine"),
            (f"{PLAIN}split: {{}}\n", "unknown key data.split. Did you mean data.splits?"),
            ("task: ner\nsplits: [a, b]\n", "In 'data/mine.yaml'"),
            (f"{PLAIN}name: 2020-01-01\n", "data.name"),
            (f"{PLAIN}name: ???\n", "name: expected the dataset's name"),
            (f"{PLAIN}name: yes\n", "name: expected text, found True: YAML reads yes, no, on, off so. Put quotes"),
            (f"{PLAIN}name: {'x' * 300}\n", "the train split needs"),
            (f"{PLAIN}name: mini\n", "name: mini is a dataset of the suite"),
            ("splits: {train: [a.txt], dev: [b.txt], test: [c.txt]}\n", "expected `task`, the task that it is for"),
            ("task: ner\n", "needs a file in data.splits, which is not there"),
            ("task: ner\nreader: &a {x: &b [1]}\nexpected: {x: *b}\n", "of a dataset, found an alias"),
            ("- task\n", "expected keys and values, found list"),
            ("", "expected keys and values, found nothing"),
            ("task: [ner\n", "expected YAML, found: while parsing a flow sequence in mine.yaml, line 1"),
            ("a: " + "[" * 100_000, "of a dataset, found more than 10 levels"),
            ("\x00", "expected YAML, found: "),
        ],
    )
    def test_nothing_in_it_runs(self, command, write, tmp_path, content, expected):
        made = tmp_path / "made"
        write(content.replace("FILE", str(made)))
        code, _, err = command("data=mine.yaml", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        assert expected in err
        assert "Traceback" not in err
        assert not made.exists()
        assert not list(tmp_path.rglob("record.json"))

    @pytest.mark.integration
    def test_nothing_in_it_runs_in_a_sweep(self, command, write, tmp_path):
        made = tmp_path / "made"
        write(SHIPPED, "a.yaml")
        write(f"# @package _global_\n{CALLBACK.replace('FILE', str(made))}")
        code, _, err = command("-m", "data=a.yaml,mine.yaml", f"runs_dir={tmp_path / 'runs'}", *SMALL)
        assert code == 1
        assert "data=mine.yaml: expected a dataset, found a line with @package" in err
        assert "Traceback" not in err
        assert not made.exists()

    @pytest.mark.filterwarnings("ignore:Callback NoneType")  # what os.mkdir returns is no callback
    def test_a_config_folder_can_run_code(self, command, write, tmp_path):
        """The same attack works through --config-dir, which --help says is trusted like code."""
        made = tmp_path / "made"
        write(f"# @package _global_\n{CALLBACK.replace('FILE', str(made))}", "conf/data/mine.yaml")
        command("--config-dir", "conf", "data=mine", f"runs_dir={tmp_path / 'runs'}")
        assert made.exists()
        assert re.search(r"--config-dir DIR .* trusted like code", command("--help")[1])

    def test_no_file(self, write):
        with pytest.raises(InputError, match=r"data=mini\.yaml: expected a file, found none"):
            typed_config(["data=mini.yaml"])
