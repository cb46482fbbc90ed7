import hashlib
import json
import random
import sys
from dataclasses import replace

import numpy as np
import pytest

from elmo.pretrain.corpus.token_store import CorpusSettings, build_store
from elmo.pretrain.settings import Settings
from elmo.word_vectors import open_vectors
from results.records.record import read_record
from results.table import main as show_table
from tasks.features.token_features import TokenFeatures
from tasks.word2vec import main
from tests.elmo.pretrain.corpus_text import QUIET, write
from tests.tasks.making import run_of
from tests.tasks.user import arguments

DRINKS, MACHINES = ("tea", "coffee"), ("engine", "motor")
SMALL = ("--dim", "20", "--min-count", "1", "--sample", "0", "--workers", "1")


@pytest.fixture
def gensim():
    return pytest.importorskip("gensim", reason="needs pip install -e '.[word2vec]'")


@pytest.fixture
def text(tmp_path):
    """Sentences in which drinks have their places and machines have others; every third begins with its noun."""
    rng = random.Random(1)
    lines = []
    for _ in range(600):
        drink, machine = rng.choice(DRINKS), rng.choice(MACHINES)
        lines += [
            f"she poured hot {drink} into a {rng.choice(('cup', 'mug'))} at breakfast",
            f"the mechanic repaired an old {machine} with {rng.choice(('oil', 'tools'))} in his garage",
            f"{drink.title()} cools in the cup",
        ]
    path = tmp_path / "text.txt"
    path.write_text("\n".join(f"{line} number{i} ." for i, line in enumerate(lines)), encoding="utf-8")
    return path


def trained(*arguments):
    assert main([str(argument) for argument in arguments]) == 0


def words_of(path):
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    words = [line.split(" ", 1)[0] for line in lines]
    assert header.split()[0] == str(len(words))
    return words


def cosine(first, second):
    return float(first @ second / np.linalg.norm(first) / np.linalg.norm(second))


@pytest.mark.usefixtures("gensim")
class TestTraining:
    def test_words_of_like_contexts_end_close(self, text, tmp_path):
        trained(text, "--out", tmp_path / "v.txt", "--epochs", "5", *SMALL)
        vectors = open_vectors(str(tmp_path / "v.txt"))
        found = vectors.pick([*DRINKS, *MACHINES, "Tea", "unicorn"])
        assert vectors.dim == 20
        assert found.keys() == {*DRINKS, *MACHINES}, "lower-cased, as the tasks ask for them"
        for near in (DRINKS, MACHINES):
            together = cosine(found[near[0]], found[near[1]])
            apart = max(cosine(found[drink], found[machine]) for drink in DRINKS for machine in MACHINES)
            assert together > apart + 0.2

    def test_what_it_leaves(self, text, tmp_path, capsys):
        trained(text, "--out", tmp_path / "deep" / "v.txt", "--epochs", "1", *SMALL)
        assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["v.json", "v.txt"], "no store, no part"
        card = json.loads((tmp_path / "deep" / "v.json").read_text(encoding="utf-8"))
        assert card["vectors"]["sha256"] == hashlib.sha256((tmp_path / "deep" / "v.txt").read_bytes()).hexdigest()
        (source,) = card["text"]["sources"]
        assert source["sha256"] == hashlib.sha256(text.read_bytes()).hexdigest()
        assert (card["settings"]["dim"], card["settings"]["epochs"], card["settings"]["cased"]) == (20, 1, False)
        assert card["training"]["words"] == len(words_of(tmp_path / "deep" / "v.txt"))
        assert card["training"]["tokens_with_a_vector"] == card["text"]["counts"]["train_tokens"]
        err = capsys.readouterr().err
        assert "training: 100 %" in err
        assert "words of 20 numbers" in err

    def test_a_store_that_was_given_stays(self, text, tmp_path):
        store = tmp_path / "v.txt.store"  # what it would call one of its own
        build_store(CorpusSettings([text]), store, QUIET)
        trained(store, "--out", tmp_path / "v.txt", "--epochs", "1", *SMALL)
        assert (store / "header.json").is_file()

    def test_values_have_the_spread_that_was_asked_for(self, text, tmp_path):
        """And words are as near to each other as ever: skip-gram's own spread is another for every text."""
        near = {}
        for spread in (0.5, 2.0):
            trained(text, "--out", tmp_path / f"{spread}.txt", "--epochs", "1", *SMALL, "--spread", spread)
            vectors = open_vectors(str(tmp_path / f"{spread}.txt"))
            assert np.std(list(vectors.pick(words_of(tmp_path / f"{spread}.txt")).values())) == pytest.approx(
                spread, rel=1e-3
            )
            near[spread] = cosine(*vectors.pick(["tea", "engine"]).values())
        assert near[0.5] == pytest.approx(near[2.0], abs=1e-3)

    def test_rare_words_and_capitals(self, text, tmp_path):
        trained(text, "--out", tmp_path / "v.txt", "--epochs", "1", *SMALL, "--min-count", "5", "--cased")
        words = words_of(tmp_path / "v.txt")
        assert {"Tea", "tea"} <= set(words)
        assert not [word for word in words if word.startswith("number")], "each occurs once"

    def test_one_thread_repeats_itself_and_a_seed_does_not(self, text, tmp_path):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            trained(text, "--out", tmp_path / f"{name}.txt", "--epochs", "1", *SMALL, "--seed", seed)
        first, again, other = ((tmp_path / f"{name}.txt").read_bytes() for name in "abc")
        assert first == again
        assert first != other

    def test_held_out_text_is_not_seen(self, tmp_path):
        """Of text, the paragraphs that a pretraining with its own defaults holds out; of a store, the store's."""
        text = write(tmp_path / "text.txt", range(1500))
        plain = Settings()
        asked = CorpusSettings(
            [text], tokenise=plain.tokenise, heldout_fraction=plain.heldout_fraction, seed=plain.seed
        )
        bilms = build_store(asked, tmp_path / "store", QUIET)
        trained(text, "--out", tmp_path / "from_text.txt", "--epochs", "1", *SMALL)
        trained(tmp_path / "store", "--out", tmp_path / "from_store.txt", "--epochs", "1", *SMALL)
        numbers = {
            word for number in np.unique(bilms.heldout.tokens) if (word := bilms.words()[number]).startswith("word")
        }
        assert 1 <= len(numbers) <= 30
        for name in ("from_text", "from_store"):
            words = words_of(tmp_path / f"{name}.txt")
            assert {f"word{n}" for n in range(1500)} - set(words) == numbers
            card = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
            assert card["text"]["counts"]["train_tokens"] == len(bilms.train.tokens)
            assert card["text"]["settings"]["max_tokens"] == plain.max_tokens
        assert (tmp_path / "store" / "header.json").is_file(), "a store that was given stays"

    def test_too_little_text(self, tmp_path, capsys):
        (tmp_path / "text.txt").write_text("too little\n", encoding="utf-8")
        texts = (str(tmp_path / "text.txt"), "--heldout-fraction", "0")
        assert main([*texts, "--out", str(tmp_path / "v.txt")]) == 1
        assert "no word occurs 5 times" in capsys.readouterr().err
        assert not (tmp_path / "v.txt").exists()


class TestRefusals:
    def test_without_gensim_says_what_to_install_before_it_reads_anything(self, text, tmp_path, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "gensim", None)
        assert main([str(text), "--out", str(tmp_path / "out" / "v.txt")]) == 1
        assert (
            "needs gensim, which is not installed: in the checkout, pip install -e '.[word2vec]'"
            in capsys.readouterr().err
        )
        assert not (tmp_path / "out").exists()

    def test_what_is_said_about_vectors_never_takes_a_files_place(self, text, tmp_path, capsys):
        for suffix in (".json", ".bin", ".gz"):  # features would not read text of these names
            assert main([str(text), "--out", str(tmp_path / f"v{suffix}")]) == 1
            assert f"v{suffix}: expected a name such as v.txt" in capsys.readouterr().err
        (tmp_path / "v.json").write_text("mine", encoding="utf-8")
        assert main([str(text), "--out", str(tmp_path / "v.txt")]) == 1
        assert "v.json: exists already" in capsys.readouterr().err
        assert (tmp_path / "v.json").read_text(encoding="utf-8") == "mine"

    def test_vectors_that_are_there_are_left_alone(self, text, tmp_path, capsys):
        (tmp_path / "v.txt").write_text("mine 1 2\n", encoding="utf-8")
        assert main([str(text), "--out", str(tmp_path / "v.txt")]) == 1
        assert "exists already" in capsys.readouterr().err
        assert (tmp_path / "v.txt").read_text(encoding="utf-8") == "mine 1 2\n"

    @pytest.mark.parametrize(
        ("option", "expected"),
        [
            (("--epochs", "0"), "epochs: expected at least 1, found 0"),
            (("--min-count", "0"), "min_count: expected at least 1, found 0"),
            (("--spread", "0"), "spread: expected a positive number, found 0.0"),
            (("--sample", "1.5"), "sample: expected at least 0 and below 1, found 1.5"),
        ],
    )
    def test_settings_out_of_range(self, text, tmp_path, capsys, option, expected):
        assert main([str(text), "--out", str(tmp_path / "v.txt"), *option]) == 1
        assert expected in capsys.readouterr().err

    @pytest.mark.usefixtures("gensim")
    def test_text_that_is_not_there_and_a_store_among_others(self, text, tmp_path, capsys):
        assert main([str(tmp_path / "none.txt"), "--out", str(tmp_path / "v.txt")]) == 1
        assert "none.txt" in capsys.readouterr().err
        build_store(CorpusSettings([text]), tmp_path / "store", QUIET)
        assert main([str(tmp_path / "store"), str(text), "--out", str(tmp_path / "v.txt")]) == 1
        assert "expected it alone" in capsys.readouterr().err


class TestFeatures:
    @pytest.fixture
    def static(self, tmp_path, monkeypatch):
        """A file of 300-d vectors as the command writes it, and GloVe of 100-d."""
        glove = tmp_path / "glove.txt"
        glove.write_text("".join(f"{word} {' '.join(['0.5'] * 100)}\n" for word in ("in", "bern")))
        path = tmp_path / "static.txt"
        path.write_text(f"bern{' 2.0' * 300}\nin{' -1.5' * 300}\n")
        monkeypatch.setenv("ELMO_WORD2VEC", str(path))
        return path, f"features.words.vectors={glove}"

    def test_static_vectors_join_those_of_the_baseline(self, static):
        _, glove = static
        config = run_of("features=static", glove, "features.characters=null").features
        features = TokenFeatures(config, [("Bern", "in")], 1).eval()
        assert features.widths == {"input": 100 + 300, "hidden": 0, "output": 0}
        (found,) = features([("Bern", "in", "none")]).input
        assert found[:, 100:].unique(dim=1).squeeze(1).tolist() == [2.0, -1.5, 0.0], "looked up in lower case"
        assert found[0, :100].tolist() == [0.5] * 100

    def test_with_elmo_on_top_all_else_is_as_in_its_two_parts(self):
        static, joined, elmo = (
            run_of("task=sst5", "data=paper", f"features={arm}").features for arm in ("static", "elmo_static", "elmo")
        )
        assert replace(joined, name="elmo", title="", frozen={}) == elmo
        assert joined.frozen == static.frozen
        glove = run_of("task=sst5", "data=paper", "features=glove").features
        assert replace(static, name="glove", title="", frozen={}) == glove

    @pytest.mark.integration
    def test_a_record_has_the_hash_of_both_files(self, static, command, place, tmp_path):
        path, glove = static
        code, _, err = command(*arguments(place, tmp_path / "runs", glove, "trainer.epochs=1", features="static"))
        assert code == 0, err
        (found,) = (tmp_path / "runs").rglob("record.json")
        inputs = read_record(found).inputs
        hashes = {
            f"vectors/{name}": hashlib.sha256(file.read_bytes()).hexdigest()
            for name, file in (("word2vec", path), ("glove.txt", tmp_path / "glove.txt"))
        }
        assert hashes.items() <= inputs.items()

    @pytest.mark.parametrize("task", ["ner", "sst5", "snli", "squad", "srl", "coref"])
    def test_drawn_vectors_are_below_every_baseline(self, task):
        """As wide as asked, trained where GloVe is, and zero for a word that training lacks."""
        drawn, glove = (
            run_of(f"task={task}", f"features={arm}", "features.words.dim=100").features for arm in ("drawn", "glove")
        )
        assert replace(drawn, name="glove", title="", words=glove.words) == glove
        features = TokenFeatures(replace(drawn, characters=None), [("Bern", "in")], 1).eval()
        assert features.words.requires_grad == glove.words.trainable
        (found,) = features([("in", "none")]).input
        assert found.shape[1] == 100
        assert found[0].std() > 0
        assert not found[1].any()

    def test_untrained_vectors_name_the_command(self, command, tmp_path, monkeypatch):
        monkeypatch.setenv("ELMO_WORD2VEC", str(tmp_path / "none.txt"))
        code, _, err = command("task=ner", "features=word2vec", f"runs_dir={tmp_path / 'runs'}")
        assert code == 1
        assert f"{tmp_path / 'none.txt'} is not there: the command word2vec makes it once" in err
        assert "Traceback" not in err
        assert not (tmp_path / "runs").exists()

    @pytest.mark.integration
    def test_a_run_takes_them_and_the_table_compares_them(self, command, place, tmp_path, monkeypatch, capsys):
        path = tmp_path / "mine.txt"
        path.write_text("3 4\nsings 1 2 3 4\nin 5 6 7 8\nbern 0 0 1 1\n", encoding="utf-8")
        monkeypatch.setenv("ELMO_WORD2VEC", str(path))
        runs = tmp_path / "runs"
        for arm in ("word2vec", "elmo_tiny"):
            code, _, err = command(*arguments(place, runs, "trainer.epochs=1", features=arm))
            assert code == 0, err
        (found,) = runs.glob("mine/ner/word2vec/**/record.json")
        record = read_record(found)
        assert record.config["features"]["words"]["vectors"] == "word2vec"
        assert record.config["features"]["elmo"] is None
        assert record.fingerprinted["vectors"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert record.weights is None
        show_table(["--runs", str(runs), "--compare", "word2vec", "elmo_tiny", "--check"])
        shown = capsys.readouterr()
        header = next(line for line in shown.out.splitlines() if line.startswith("task"))
        assert header.split()[1:4] == ["word2vec", "elmo_tiny", "gain,"]
        assert "more than features" not in shown.out + shown.err, "other vectors are other features"
