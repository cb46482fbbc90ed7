import json
import os
import signal
import subprocess
import sys
from functools import cache

import h5py
import numpy as np
import pytest
import torch

from elmo import load_bilm
from tests.elmo import naive
from tests.elmo.common.waiting import wait_for
from tests.elmo.embed.conftest import OPTIONS, TENSORS, run

LINES = [
    "The cat sat on the mat .",
    "either / or",
    "",
    "The cat sat on the mat .",  # a duplicate
    "x" * 50 + " " + "y" * 300 + " Donaudampfschifffahrtselektrizitätenhauptbetriebswerk",
    "😀 👩‍👩‍👧‍👦 !",
    "我 爱 自然 语言 处理 。",
    "   spaces \t and tabs  ",
    "</S> <S>",
    "",
    "one",
]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("".join(line + "\n" for line in LINES), encoding="utf-8")
    return path


def read(path):
    """The datasets of an output by line number, and its index."""
    with h5py.File(path) as file:
        index = json.loads(file["sentence_to_index"][0])
        return {int(name): file[name][...] for name in file if name != "sentence_to_index"}, index


@cache
def expected_layers(text):
    return naive.sentence_layers(TENSORS, OPTIONS, text.split())[0]


def test_every_kind_of_line(source, weights, tmp_path, capsys):
    assert run(source, tmp_path / "out.hdf5", weights) == 0
    layers, index = read(tmp_path / "out.hdf5")
    assert sorted(layers) == list(range(len(LINES)))
    for number, line in enumerate(LINES):
        assert layers[number].dtype == np.float32
        assert layers[number].shape == (3, len(line.split()), 12)
        np.testing.assert_allclose(layers[number], expected_layers(line), atol=2e-5)
    assert index == {" ".join(line.split()): str(LINES.index(line)) for line in LINES}
    assert f"{sum(len(line.split()) for line in LINES)} tokens" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.hdf5"]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_batch_size_changes_nothing(source, weights, tmp_path, size):
    run(source, tmp_path / "out.hdf5", weights, "--batch-size", str(size))
    layers, index = read(tmp_path / "out.hdf5")
    assert len(layers) == len(LINES)
    for number, line in enumerate(LINES):
        np.testing.assert_allclose(layers[number], expected_layers(line), atol=2e-5)
    assert index["The cat sat on the mat ."] == "0"


@pytest.mark.parametrize(
    ("choice", "reduce"),
    [("all", lambda x: x), ("last", lambda x: x[2:]), ("average", lambda x: x.mean(axis=0, keepdims=True))],
)
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 2e-5), ("float16", 4e-3)])
def test_layers_and_precision(source, weights, tmp_path, choice, reduce, precision, tolerance):
    run(source, tmp_path / "out.hdf5", weights, "--layers", choice, "--precision", precision)
    layers, _ = read(tmp_path / "out.hdf5")
    for number, line in enumerate(LINES):
        expected = reduce(expected_layers(line))
        assert layers[number].dtype == precision
        assert layers[number].shape == expected.shape
        np.testing.assert_allclose(layers[number].astype(np.float64), expected, atol=tolerance)


def test_int8_is_computed_in_int8_and_written_in_float32(source, tmp_path):
    run(source, tmp_path / "out.hdf5", "small", "--precision", "int8")
    rounded, exact = load_bilm("small", precision="int8"), load_bilm("small")
    for number, layers in read(tmp_path / "out.hdf5")[0].items():
        text = [LINES[number].split()]
        assert layers.dtype == np.float32
        assert np.array_equal(layers, rounded.token_layers(text).numpy())
        assert not text[0] or not np.array_equal(layers, exact.token_layers(text).numpy())


def test_a_very_long_line(weights, tmp_path):
    words = [f"w{i % 700}" for i in range(1200)]
    (tmp_path / "in.txt").write_text("short one\n" + " ".join(words) + "\nand another\n", encoding="utf-8")
    assert run(tmp_path / "in.txt", tmp_path / "out.hdf5", weights) == 0
    layers, _ = read(tmp_path / "out.hdf5")
    assert [layers[i].shape[1] for i in range(3)] == [2, 1200, 2]
    np.testing.assert_allclose(layers[1], expected_layers(" ".join(words)), atol=5e-5)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"\xef\xbb\xbffirst line\nsecond\n", ["first line", "second"]),  # a byte order mark
        (b"first line\r\n\r\nlast\r\n", ["first line", "", "last"]),
        (b"no newline\nat the end", ["no newline", "at the end"]),
        ("one line\u2028still \u00a0 the same\x0band\x0cagain\n".encode(), ["one line still the same and again"]),
        (b"", []),
        (b"\n", [""]),
    ],
)
def test_line_ends_and_byte_order_marks(weights, tmp_path, content, lines):
    (tmp_path / "in.txt").write_bytes(content)
    assert run(tmp_path / "in.txt", tmp_path / "out.hdf5", weights) == 0
    layers, index = read(tmp_path / "out.hdf5")
    assert index == {line: str(number) for number, line in enumerate(lines)}
    assert len(layers) == len(lines)
    for number, line in enumerate(lines):
        np.testing.assert_allclose(layers[number], expected_layers(line), atol=2e-5)


def test_carried_state_follows_the_order_of_the_file(source, weights, tmp_path):
    run(source, tmp_path / "out.hdf5", weights, "--state", "carried", "--batch-size", "2")
    layers, _ = read(tmp_path / "out.hdf5")
    rows = {}
    for number, line in enumerate(LINES):
        expected, rows[number % 2] = naive.sentence_layers(TENSORS, OPTIONS, line.split(), rows.get(number % 2))
        np.testing.assert_allclose(layers[number], expected, atol=2e-5)


def test_carried_state_equals_bilm_tf(reference, tmp_path):
    lists = json.loads((reference / "lm_embeddings_sentences.json").read_text(encoding="utf-8"))
    in_order = [sentence for batch in zip(*lists, strict=True) for sentence in batch]
    (tmp_path / "in.txt").write_text("\n".join(in_order), encoding="utf-8")
    options = ("--state", "carried", "--batch-size", "3", "--layers", "last")
    assert run(tmp_path / "in.txt", tmp_path / "out.hdf5", reference, *options) == 0
    layers, _ = read(tmp_path / "out.hdf5")
    assert len(layers) == 30
    for number, found in layers.items():
        with h5py.File(reference / f"lm_embeddings_{number % 3}.hdf5") as file:
            expected = np.concatenate(list(file[str(number // 3)][...]), axis=1)
        np.testing.assert_allclose(found[0], expected, atol=1e-5)


# Errors


@pytest.fixture
def failing(tmp_path, weights, capsys):
    """Runs a command that must fail: status 1, a message, and no files left."""

    def fail(source, target, *options, weights=weights):
        before = sorted(tmp_path.rglob("*"))
        assert run(source, target, weights, *options) == 1
        assert sorted(tmp_path.rglob("*")) == before
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("elmo.embed: ")
        assert printed.err.count("\n") == 1
        return printed.err

    return fail


def test_missing_input(failing, tmp_path):
    assert f"{tmp_path / 'none.txt'}: No such file or directory. Check the path" in failing(
        tmp_path / "none.txt", tmp_path / "out.hdf5"
    )
    assert "Is a directory" in failing(tmp_path, tmp_path / "out.hdf5")


def test_input_whose_only_line_ends_are_carriage_returns(failing, tmp_path):
    """It would be read as one sentence."""
    (tmp_path / "in.txt").write_bytes(b"one line\ranother line\r")
    message = (
        f"{tmp_path / 'in.txt'}, line 1: expected lines that end in LF or CRLF, found a carriage return within one"
    )
    assert message in failing(tmp_path / "in.txt", tmp_path / "out.hdf5")


def test_input_that_is_not_utf8(failing, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"fine\nalso fine\nca\xe9 not\n")
    assert f"{tmp_path / 'in.txt'}, line 3: expected UTF-8" in failing(tmp_path / "in.txt", tmp_path / "out.hdf5")


def test_input_that_can_be_read_only_once(failing, tmp_path):
    # os.devnull stands for a pipe, because it never blocks. Both are empty when read a second time.
    assert "expected a file" in failing(os.devnull, tmp_path / "out.hdf5")


def test_truncated_weights(failing, source, weights, tmp_path):
    content = (weights / "weights.hdf5").read_bytes()
    (tmp_path / "cut.hdf5").write_bytes(content[: len(content) // 2])
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS), encoding="utf-8")
    message = failing(source, tmp_path / "out.hdf5", weights=tmp_path / "cut.hdf5")
    assert f"{tmp_path / 'cut.hdf5'}: not a readable HDF5 file, perhaps cut short" in message


def test_missing_weights(failing, source, tmp_path):
    assert "no such weights" in failing(source, tmp_path / "out.hdf5", weights=tmp_path / "none.hdf5")


def test_options_of_another_bilm(failing, source, tmp_path):
    other = json.loads(json.dumps(OPTIONS))
    other["lstm"]["dim"] = 32
    model = naive.write_model(tmp_path / "model", OPTIONS, TENSORS)
    (tmp_path / "model" / "options.json").write_text(json.dumps(other), encoding="utf-8")
    message = failing(source, tmp_path / "out.hdf5", weights=model)
    assert "LSTMCell/W_0': expected shape (12, 128) by its options, found shape (12, 80)" in message


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/out.hdf5", "its folder does not exist"),
        ("folder", "expected the name of a file"),
        ("out.npy", "expected the name of a file that ends in .hdf5, .h5 or .parquet"),
        ("in.txt/out.hdf5", "Not a directory. Check the path"),
        ("n" * 300 + ".h5", "File name too long"),
        ("link.hdf5", "would overwrite"),
    ],
)
def test_output_that_cannot_be_written(failing, source, tmp_path, name, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.hdf5").symlink_to(source)
    message = failing(source, tmp_path / name)
    assert str(tmp_path / name) in message
    assert reason in message


def test_output_is_the_current_folder(failing, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "expected the name of a file" in failing(source, ".")


def test_output_folder_without_permission(failing, source, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write anywhere")
    assert "Permission denied" in failing(source, locked / "out.hdf5")


def with_bias(folder, value):
    """A biLM whose character encoder adds this value to its outputs."""
    tensors = dict(TENSORS)
    tensors["CNN_proj/b_proj"] = np.full_like(tensors["CNN_proj/b_proj"], value)
    return naive.write_model(folder, OPTIONS, tensors)


def test_weights_that_are_nan(source, tmp_path, capsys):
    assert run(source, tmp_path / "out.hdf5", with_bias(tmp_path, np.nan)) == 1
    assert "tensor 'CNN_proj/b_proj' holds NaN or infinite values" in capsys.readouterr().err
    assert not (tmp_path / "out.hdf5").exists()


def test_values_that_float16_cannot_hold(source, tmp_path, capsys):
    large = with_bias(tmp_path, 1e5)
    assert run(source, tmp_path / "out.hdf5", large, "--precision", "float16") == 1
    message = capsys.readouterr().err
    assert "float16 cannot hold, found values that reach " in message
    assert "Use precision float32" in message
    assert not (tmp_path / "out.hdf5").exists()
    assert run(source, tmp_path / "out.hdf5", large, "--precision", "float32") == 0


def test_cuda_without_a_gpu(failing, source, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "no usable GPU" in failing(source, tmp_path / "out.hdf5", "--device", "cuda")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_half_way_keeps_the_earlier_output(source, weights, tmp_path, monkeypatch, capsys, error):
    target = tmp_path / "out.hdf5"
    target.write_bytes(b"what was there before")
    create, created = h5py.Group.create_dataset, []

    def fails_late(*arguments, **keywords):
        created.append(arguments)
        if len(created) == 5:
            raise error
        return create(*arguments, **keywords)

    monkeypatch.setattr(h5py.Group, "create_dataset", fails_late)
    interrupted = isinstance(error, KeyboardInterrupt)
    assert run(source, target, weights) == (130 if interrupted else 1)
    assert target.read_bytes() == b"what was there before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.hdf5"]
    assert ("interrupted" if interrupted else "No space left") in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "-3", "many"])
def test_batch_size_below_one(source, weights, tmp_path, size, capsys):
    with pytest.raises(SystemExit) as raised:
        run(source, tmp_path / "out.hdf5", weights, "--batch-size", size)
    assert raised.value.code == 2
    assert "--batch-size" in capsys.readouterr().err


# As a command


def test_paths_from_the_current_folder(source, weights, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run("in.txt", "out.hdf5", weights, "--layers", "last") == 0
    printed = capsys.readouterr()
    assert (printed.out.partition(": ")[0], printed.err) == ("out.hdf5", "")
    layers, _ = read(tmp_path / "out.hdf5")
    np.testing.assert_allclose(layers[0], expected_layers(LINES[0])[2:], atol=2e-5)


@pytest.mark.integration
def test_ctrl_c(weights, tmp_path, repository):
    (tmp_path / "in.txt").write_text("a line that comes again and again\n" * 100_000, encoding="utf-8")
    (tmp_path / "out.hdf5").write_bytes(b"what was there before")
    # A background job of a shell ignores SIGINT, and so do its children: the first line restores the default.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from elmo.embed.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )

    def writes():
        return any(path.stat().st_size > 10_000 for path in tmp_path.glob("*.partial"))

    command = [sys.executable, "-c", program, "in.txt", "out.hdf5", "--weights", str(weights), "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: writes() or process.poll() is not None)
        assert process.poll() is None, "ended before it was interrupted"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert (process.returncode, errors) == (130, "elmo.embed: interrupted; nothing was written\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.hdf5"]
    assert (tmp_path / "out.hdf5").read_bytes() == b"what was there before"
