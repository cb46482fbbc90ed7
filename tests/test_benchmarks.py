"""The benchmarks themselves: what they print, what they choose, and that an anchor computes what ours does."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from elmo import SIZES, random_bilm, save_bilm
from results.experiments import load_experiment
from results.records.collect import collect
from results.tables.fill import Selection, fill_all
from tasks.modules.crf import ConstrainedCrf
from tasks.modules.layers import BiRnn
from tests.benchmarks import __main__ as program
from tests.benchmarks import bilm, bilm_gpu, embed, epochs, grid, heads, representations, steps, store, text
from tests.benchmarks.measuring import anchor, rows, timing
from tests.benchmarks.measuring.rows import Measurement
from tests.benchmarks.measuring.timing import Rounds

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def tiny(monkeypatch):
    """Parts that take a moment."""
    monkeypatch.setattr(bilm, "QUICK", (bilm.Workload("tiny", 3, 2, 1),))
    monkeypatch.setattr(bilm, "PAIR", ("tiny", "tiny"))
    monkeypatch.setattr(store, "QUICK", store.Workload(6, 3, 1, ("float16",), 1))
    monkeypatch.setattr(heads, "RECURRENCES", [(nn.LSTM, 2, 4, 6, 3, 1), (nn.GRU, 2, 4, 6, 3, 2)])
    monkeypatch.setattr(heads, "HIGHWAYS", [(2, 4, 6, 3, 2)])
    monkeypatch.setattr(heads, "CONVOLUTIONS", [(4, 3, 5, 6)])
    monkeypatch.setattr(heads, "ATTENTIONS", [(2, 3, 4, 5)])
    monkeypatch.setattr(heads, "CHAINS", [(2, 4, 3)])
    monkeypatch.setattr(heads, "BUDGET", 0.0)
    monkeypatch.setattr(epochs, "BUDGET", 0.0)


def measured(capsys, *given):
    """What the program prints for machines."""
    assert program.main(given) == 0
    return json.loads(capsys.readouterr().out)["rows"]


def test_one_table_with_every_part_that_was_asked_for(tiny, capsys):
    assert program.main(["--only", "recurrence,bilm,crf,products"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["what", "size", "ours", "anchor", "ratio", "aim"]
    found = [row[0] for row in cells[2:]]
    # In the table's order, whatever the order on the command line.
    highways = ["highway LSTM", "highway LSTM, loop"]
    assert found[-8:] == ["CRF likelihood", "CRF decoding", "LSTM", "GRU", *highways, "character CNN", "attention"]
    # A stream is next to either anchor.
    streams = [*[f"{found[0]}, a stream"] * 2, *["biLM, in int8, a stream"] * 2]
    assert found[:-8][-7:] == ["biLM, in torch", "biLM, in int8", *streams, "biLM, in int8"]


def test_json_is_one_document_and_says_the_same(tiny, capsys, monkeypatch):
    monkeypatch.setenv("BENCH_FORMAT", "json")
    assert program.main(["--only", "crf"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [row["what"] for row in found["rows"]] == ["CRF likelihood", "CRF decoding"]
    assert all(row["unit"] == "CPU ms" and row["anchor_name"] == "pytorch-crf" for row in found["rows"])
    assert found["elapsed_seconds"] > 0
    assert "CRF likelihood" in printed.err  # how it goes is said elsewhere


def test_an_unknown_part_is_named_with_those_there_are(capsys):
    with pytest.raises(SystemExit):
        program.main(["--only", "bilm,crfs"])
    said = capsys.readouterr().err
    assert "'crfs'" in said
    assert "recurrence" in said


def test_a_part_without_its_data_leaves_the_others(tiny, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ELMO_DATA", str(tmp_path))
    assert program.main(["--only", "epochs,products", "--tasks", "snli=snli100k"]) == 1
    printed = capsys.readouterr()
    assert "attention" in printed.out  # which comes after
    assert "snli_1.0_train_100k.jsonl" in printed.err


def test_no_gpu_is_said_at_once(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        program.main(["--device", "cuda"])
    assert "no GPU" in capsys.readouterr().err


def test_tasks_have_data_of_their_own_or_the_one_for_all():
    options = program.arguments(["--only", "epochs", "--data", "paper", "--tasks", "ner,snli=snli100k", "--limit", "7"])
    given = [(measure.args[0], measure.args[1]) for _, measure in program.jobs(options)]
    assert given == [([("ner", "paper")], 7), ([("snli", "snli100k")], 7)]


def test_a_full_run_has_all_parts_a_quick_one_five():
    quick = [part for part, _ in program.jobs(program.arguments([]))]
    assert list(dict.fromkeys(quick)) == ["bilm", "store", "crf", "recurrence", "epochs"]
    full = {part for part, _ in program.jobs(program.arguments(["--full"]))}
    assert full == set(program.PARTS)


def test_rows_of_the_store(tiny, capsys, monkeypatch):
    monkeypatch.setenv("BENCH_FORMAT", "json")
    fill, cached, read, disk = measured(capsys, "--only", "store")
    assert (fill["what"], fill["anchor_name"]) == ("store, fill", anchor.NAME)
    assert (cached["what"], cached["anchor_name"]) == ("store, fill", anchor.CACHED)
    assert cached["ours"] == fill["ours"]
    assert (read["what"], read["anchor_name"]) == ("store, read", store.AGAIN)
    # float16, and layer 0 once: 5 halves of 128 values, and the index.
    assert disk["ours"] > 5 * 128 * 2
    assert disk["anchor"] == 3 * 256 * 4


def test_representations_have_the_sizes_of_the_published_ones(monkeypatch):
    monkeypatch.setattr(representations, "SENTENCES", 1)
    monkeypatch.setattr(representations, "FLAIR_UNITS", 8)
    monkeypatch.setattr(representations, "COVE_UNITS", 2)
    monkeypatch.setattr(representations, "GLOVE_840B", (10, 3))
    monkeypatch.setattr(representations, "TRANSFORMERS", {})
    found = {row.what.removeprefix("representation, "): row for row in representations.rows(CPU, full=False)}
    assert all(row.unit == "CPU ms/1,000 tokens" for row in found.values())
    experiment = load_experiment("representations")
    assert list(representations.ARMS) == list(experiment.costs)
    assert list(found) == [arm for arm in experiment.costs if arm not in ("bert", "mpnet")]
    for arm in found.keys() - {"cove", "flair", "flair_elmo"}:  # smaller here
        assert found[arm].shape.startswith(f"{experiment.costs[arm].parameters / 1e6:.1f} M parameters"), arm
    assert found["static_elmo"].ours > found["word2vec"].ours, "the sum of its parts"


def test_the_table_says_which_models_were_measured_with_random_weights():
    experiment = load_experiment("representations")
    trained = {*representations.STATIC, "small", "medium"}
    random = {arm for arm, parts in representations.ARMS.items() if parts[-1] not in trained}
    assert random == {"cove", "flair", "masked", "bert", "mpnet"}
    listed = experiment.note.split("random weights")[0]
    assert not [arm for arm in random if experiment.titles[arm].split("+ ")[-1] not in listed]


@pytest.mark.slow
def test_transformers_have_the_sizes_of_the_published_ones(tmp_path):
    pytest.importorskip("transformers")
    costs = load_experiment("representations").costs
    for name in representations.TRANSFORMERS:
        source = representations.save_transformer(tmp_path, name, ["play"])
        size = representations.size_of(source.model) + costs["glove"].parameters
        assert size / 1e6 == pytest.approx(costs[name].parameters / 1e6, abs=0.05)


def test_character_lms_have_the_size_of_flair_s(tmp_path):
    """Embeddings, input and recurrent weights, two biases; without the softmax."""
    assert representations.save_character_lm(tmp_path, "forward") == 275 * 100 + 4096 * (100 + 1024 + 2)


@pytest.mark.integration
def test_epochs_by_arm(tiny, capsys, monkeypatch):
    monkeypatch.setenv("BENCH_FORMAT", "json")
    glove, cold, warm = measured(capsys, "--only", "epochs", "--tasks", "ner", "--limit", "8")
    assert glove["anchor_name"] == epochs.LIBRARIES
    assert cold["anchor"] == warm["anchor"] == glove["ours"]
    assert cold["what"] == "epoch, ner mini, elmo, cold store"
    assert cold["ours"] > warm["ours"]  # it has to embed
    assert cold["ratio"] == pytest.approx(glove["ours"] / cold["ours"])


def test_ratios_are_medians_of_rounds_not_ratios_of_medians():
    rounds = Rounds({"ours": [1.0, 2.0, 4.0], "anchor": [2.0, 8.0, 4.0]})
    assert rounds.ratio("ours", "anchor") == 2.0  # of 2, 4 and 1
    assert rounds.median("anchor") == 4.0


def test_paths_run_in_turn_and_as_often_as_asked():
    ran = []
    paths = {"a": lambda: ran.append("a"), "b": lambda: ran.append("b")}
    found = timing.in_turn(paths, CPU, "letters", rounds=3)
    assert ran == ["a", "b"] * 3
    assert [len(seconds) for seconds in found.seconds.values()] == [3, 3]


def test_cpu_seconds_do_not_count_waiting():
    assert timing.seconds(lambda: time.sleep(0.2), CPU) < 0.1


def test_a_slow_anchor_is_doubted_where_its_speed_is_known(capsys):
    assert anchor.doubt(139.0, "Neoverse-N1")
    assert not anchor.doubt(141.0, "Neoverse-N1")
    assert not anchor.doubt(1.0, "some other")
    row = Measurement("biLM", "small", "tokens/CPU s", 1000.0, 139.0, anchor.NAME, 7.19, 7.0)
    assert row.cells()[4:] == ("7.19", ">= 7")
    doubted = row.doubted(anchor.doubt(139.0, "Neoverse-N1"))
    assert doubted.cells()[4:] == ("(7.19)", ">= 7")
    rows.show([doubted, doubted], CPU, 1.0)
    said = [line for line in capsys.readouterr().out.splitlines() if "do not count" in line]
    assert len(said) == 1
    assert "139" in said[0]
    assert "140" in said[0]


def test_doubts_about_the_anchor_at_size_small_hold_at_size_original(monkeypatch):
    def some_rows(work, device):
        yield Measurement(
            "biLM", work.size, "tokens/CPU s", 9.0, 100.0 if work.size == "small" else 50.0, anchor.NAME, 2.0
        )

    monkeypatch.setattr(bilm, "cpu_rows", some_rows)
    monkeypatch.setattr(bilm, "pair_row", lambda *_: Measurement("biLM", "pair", "tokens/CPU s", 9.0, 50.0))
    monkeypatch.setattr(bilm, "processor", lambda device: "Neoverse-N1")
    found = [(row.shape, "100" in row.doubt) for row in bilm.rows(CPU, full=False)]
    assert found == [("small", True), ("original", True), ("pair", False)]


def test_an_aim_for_seconds_is_shown_with_its_unit():
    assert Measurement("epoch", "", "s", 1.5, most=2.0).cells()[5] == "<= 2 s"


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_the_anchor_computes_what_the_bilm_does(size):
    model = random_bilm(size, seed=1)
    sentences = text.sentences(5)
    assert {len(sentence) for sentence in sentences} != {len(sentences[0])}
    torch.testing.assert_close(anchor.layers(model, sentences), model.layers(sentences), atol=5e-5, rtol=0)


@pytest.mark.parametrize("size", ["tiny", "small"])
def test_the_anchor_with_cached_words_computes_the_same(size):
    model = random_bilm(size, seed=1)
    sentences = text.sentences(5)
    cache = anchor.fill_cache(model, text.words(sentences))
    torch.testing.assert_close(anchor.layers(model, sentences, cache), model.layers(sentences), atol=5e-5, rtol=0)
    with pytest.raises(KeyError):  # it reads from the cache
        anchor.layers(model, [["notaword"]], cache)


def test_an_anchor_that_caches_words_pays_for_each_word_once_and_for_each_batch():
    rounds = Rounds({"ours": [1.0, 2.0], "cache": [3.0, 4.0], "from cache": [5.0, 6.0]})
    found = anchor.with_cache(rounds, 2 * (anchor.CHUNK - 3), 10.5)  # two chunks of words
    assert found.seconds[anchor.CACHED] == [2 * 3.0 + 10.5 * 5.0, 2 * 4.0 + 10.5 * 6.0]
    assert found.seconds["ours"] == [1.0, 2.0]


def test_words_come_again_as_often_as_in_running_text():
    stream = [sentence for seed in range(20) for sentence in text.sentences(64, seed)]
    assert len(text.words(stream)) / sum(map(len, stream)) == pytest.approx(0.27, abs=0.01)


def test_paths_of_a_gpu_agree_and_have_their_rows():
    found = list(bilm.gpu_rows(bilm.Workload("tiny", 3, 2, 1), CPU))
    aims = [(row.what, row.anchor_name, row.least_ratio) for row in found]
    assert ("biLM, clipped", bilm.CUDNN, 0.5) in aims
    assert ("biLM, clipped, own batches", anchor.NAME, 10.0) in aims
    assert ("biLM, clipped, own batches", anchor.CACHED, None) in aims


def test_a_path_that_computes_something_else_is_not_timed():
    model, other = random_bilm("tiny", seed=1), random_bilm("tiny", seed=2)
    bilm.agree({"same": model.layers}, model, text.sentences(2), 1e-4)
    with pytest.raises(SystemExit, match="other and AllenNLP's way differ"):
        bilm.agree({"other": other.layers}, model, text.sentences(2), 1e-4)


def test_int8_that_computes_something_else_is_not_timed():
    model, other = random_bilm("tiny", seed=1), random_bilm("tiny", seed=2).use_int8()
    bilm.nearly_agree(random_bilm("tiny", seed=1).use_int8(), model, text.sentences(2))
    with pytest.raises(SystemExit, match="int8 and float32 differ by"):
        bilm.nearly_agree(other, model, text.sentences(2))


def test_a_store_with_something_else_is_not_timed(tmp_path):
    model, other = random_bilm("tiny", seed=1), random_bilm("tiny", seed=2)
    shelf = store.open_shelf(tmp_path, model.fingerprint(), model.widths, "float32", 1.0)
    stored = store.cached(model, shelf, "float32")
    sentences = [("a", "word"), ("another",)]
    stored.prepare(sentences)
    store.agree(stored, model, sentences, "float32")
    with pytest.raises(SystemExit, match="differs"):
        store.agree(stored, other, sentences, "float32")


def test_highway_layers_are_compared_with_one_direction_of_an_lstm(monkeypatch):
    times = {"ours": [6.0, 6.0], "LSTM": [5.0, 5.0]}
    monkeypatch.setattr(heads, "in_turn", lambda *args: Rounds(times))
    row = heads.per_layer("", "", {}, layers=3, directions=2, device=CPU, full=False)
    assert (row.ours, row.anchor) == (2000.0, 2500.0)  # ms: three layers in 6 s, two directions in 5 s
    assert row.ratio == pytest.approx(2.5 / 2.0)


def test_heads_that_compute_something_else_are_not_timed():
    x = torch.randn(3, requires_grad=True)
    heads.agree(lambda: x * 2, lambda: x + x, [x])
    with pytest.raises(AssertionError):
        heads.agree(lambda: x * 2, lambda: x * 3, [x])
    with pytest.raises(AssertionError):  # equal values, other gradients
        heads.agree(lambda: x * 1, lambda: x.detach() + 0 * x, [x])


def test_heads_from_libraries_take_none_of_our_shortcuts(monkeypatch):
    def never(*given):
        raise AssertionError("this is ours")

    monkeypatch.setattr("tasks.modules.layers._Layer.apply", never)
    layer, crf = BiRnn(4, 3), ConstrainedCrf(["a", "b"], lambda first, second: True)
    x, lengths = torch.randn(2, 5, 4), torch.tensor([5, 3])
    mask = torch.arange(5) < lengths[:, None]
    scores, tags = torch.randn(2, 5, 2), torch.zeros(2, 5, dtype=torch.int64)
    ours = crf.log_likelihood(scores, tags, mask)
    with heads.from_libraries():
        assert layer(x, lengths).shape == (2, 5, 6)
        assert crf.log_likelihood(scores, tags, mask).grad_fn.name() != ours.grad_fn.name()
        assert [len(path) for path in crf.decode(scores, mask)] == [5, 3]
    with pytest.raises(AssertionError, match="ours"):
        layer(x, lengths)


def test_the_profile_of_a_step_times_all_its_parts(monkeypatch, capsys):
    for name in ("WARM_UP", "MEASURED", "PROFILED"):
        monkeypatch.setattr(steps, name, 1)
    steps.measure("ner", "mini", ["glove"], limit=8, device=CPU, details=False)
    host, synced, counted = capsys.readouterr().out.splitlines()
    for line, start in ((host, "ner glove host ms"), (synced, "synced ms")):
        words = line.split()
        assert " ".join(words[: -1 - len(steps.PARTS)]) == start
        assert all(float(word) > 0 for word in words[-1 - len(steps.PARTS) :])
    assert "launches" in counted


def test_all_paths_of_the_benchmark_for_a_gpu_give_the_layers_of_the_anchor(monkeypatch):
    """Also with clipped weights, whose layers differ: `batch_rows` ends the program for others."""
    monkeypatch.setattr(bilm_gpu, "ROUNDS", 1)
    clipped = random_bilm(replace(SIZES["tiny"], cell_clip=0.1, projection_clip=0.1), seed=1)
    unclipped = random_bilm(replace(SIZES["tiny"], cell_clip=None, projection_clip=None), seed=1)
    found = bilm_gpu.batch_rows("tiny", clipped, unclipped)
    assert len(found) == 4
    with pytest.raises(SystemExit, match="differs by"):
        bilm_gpu.batch_rows("tiny", unclipped, clipped)


@pytest.mark.processes
def test_make_bench_prints_nothing_but_json(tmp_path):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    # An environment that counts as installed, with this Python in it.
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    (tmp_path / ".installed").touch()
    command = ["make", "bench", f"VENV={tmp_path}", "BENCH=--only crf"]
    # As a user types it: below another make, such as the one that runs these tests, make tells of folders on stdout.
    typed = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=ROOT, env={**typed, "BENCH_FORMAT": "json"}, capture_output=True, text=True, check=True
    )
    assert [row["what"] for row in json.loads(done.stdout)["rows"]][:2] == ["CRF likelihood", "CRF decoding"]


@pytest.mark.processes
def test_elmo_embed_runs_as_a_user_runs_it(tmp_path):
    save_bilm(random_bilm("tiny", seed=1), tmp_path / "weights.safetensors")
    assert embed.embedding(tmp_path, text.sentences(2), CPU) > 0
    assert (tmp_path / "out.hdf5").exists()


def test_elmo_embed_is_measured_without_its_start(monkeypatch):
    monkeypatch.setattr(embed, "ANCHORED", 2)
    monkeypatch.setattr(embed, "embedding", lambda folder, sentences, device: 3.0 if len(sentences) == 1 else 5.0)
    row = embed.embed_row("tiny", 16, CPU)
    assert row.ours == sum(map(len, text.sentences(16))) / 2.0
    assert row.ratio == row.ours / row.anchor


def test_a_grid_of_records_is_one_that_runs_could_have_written(tmp_path):
    grid.write_grid(tmp_path, 80)
    summary = fill_all(collect([tmp_path]), Selection())
    assert [finding.text for finding in summary.findings if finding.wrong] == []
    groups = [group for row in [*summary.rows, *summary.others] for group in row.groups]
    assert [group.seeds for group in groups] == [[1, 2, 3, 4, 5]] * 16  # four tasks, two arms, two settings
    assert {group.label for group in groups} == {"", "trainer.lr=0.001"}
