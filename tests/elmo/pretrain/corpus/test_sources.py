"""Text files of a corpus: finding, reading in blocks, and errors with their place."""

import gzip
import lzma
import os
import shutil

import pytest

from elmo.common.errors import InputError
from elmo.pretrain.corpus.text import CONTINUES, NEW_DOCUMENT, NEW_FILE, TextLine, find_sources, read_blocks
from elmo.pretrain.run import pretrain
from tests.elmo.pretrain import training_text


def texts(*paths, block_bytes=1 << 20):
    return [line.text for block in read_blocks(find_sources(paths), block_bytes) for line in block.lines]


def test_files_and_folders_are_read_in_order_also_if_compressed(tmp_path):
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "b.txt").write_text("two\n")
    (folder / "deep" / "a.txt.gz").write_bytes(gzip.compress(b"three\n"))
    (folder / "a.TXT").write_text("one\n")
    (folder / "notes.md").write_text("not text to train on\n")
    single = tmp_path / "z.xz"
    single.write_bytes(lzma.compress(b"zero\nzero and a half"))
    assert texts(single, folder) == ["zero", "zero and a half", "one", "two", "three"]
    assert [source.name for source in find_sources([folder])] == ["a.TXT", "b.txt", "deep/a.txt.gz"]


def test_a_file_named_twice_is_read_once(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    assert texts(tmp_path / "a.txt", tmp_path) == ["one"]


def test_files_of_a_run_below_its_text_are_not_read(tmp_path):
    text = training_text.write(tmp_path, training_text.english(200))
    same = training_text.settings(text, tmp_path / "run", 1, store=str(tmp_path / "store"))
    same.corpus = [str(tmp_path)]
    pretrain(same, [], training_text.QUIET)
    shutil.move(tmp_path / "run" / "export" / "tiny-softmax", tmp_path / "copy-softmax")
    (tmp_path / "other.partial").mkdir()
    (tmp_path / "other.partial" / "half.txt").write_text("half\n")
    assert [path.name for path in tmp_path.rglob("*") if path.suffix in (".txt", ".gz")] != ["text.txt"]
    assert [source.name for source in find_sources([tmp_path])] == ["text.txt"]
    pretrain(same, [], training_text.QUIET)  # the same corpus as before, so the same run


def test_a_run_in_the_folder_of_its_text_finds_the_text_again(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "run.json").write_text("{}")
    assert texts(tmp_path) == ["one"]


def test_compressed_files_of_several_streams_are_read_to_the_end(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"three\n") + lzma.compress(b"four\n"))
    assert texts(tmp_path) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("block_bytes", [64, 100, 10_000])
def test_blocks_of_any_size_hold_whole_lines(tmp_path, block_bytes):
    expected = [f"line {i} x" + "x" * (i % 40) for i in range(200)]
    (tmp_path / "a.txt").write_text("\r\n".join(expected))
    assert texts(tmp_path, block_bytes=block_bytes) == expected


def test_a_byte_order_mark_is_removed(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    assert texts(tmp_path) == ["one", "two"]


def test_costs_add_up_to_the_size_of_the_files(tmp_path):
    (tmp_path / "a.txt").write_text("one two three\n" * 1000)
    (tmp_path / "b.xz").write_bytes(lzma.compress(b"one two three\n" * 1000))
    sources = find_sources([tmp_path])
    assert sum(block.cost for block in read_blocks(sources, 500)) == sum(source.size for source in sources)


def test_an_empty_list_of_sources_is_refused():
    with pytest.raises(InputError, match="no sources; name at least one"):
        find_sources([])


def test_a_missing_path_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: no such file or folder"):
        find_sources([tmp_path / "nowhere"])


def test_a_folder_without_text_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no \.txt, \.gz, \.xz file in this folder"):
        find_sources([tmp_path])


def test_an_unknown_extension_is_refused(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(
        InputError, match=r"a\.zip: another kind of file; expected a file with a name ending in \.txt, \.gz, \.xz"
    ):
        find_sources([tmp_path / "a.zip"])


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_truncated_file_is_reported(tmp_path, pack):
    path = tmp_path / ("a.gz" if pack is gzip.compress else "a.xz")
    path.write_bytes(pack(bytes(str(list(range(100_000))), "ascii"))[:-2000])
    with pytest.raises(InputError, match=rf"{path.name}, after line \d+: not a whole \{path.suffix} file"):
        texts(path)


@pytest.mark.parametrize("name", ["a.gz", "a.xz"])
def test_a_file_in_another_format_than_its_name_is_reported(tmp_path, name):
    (tmp_path / name).write_text("plain text, not packed at all\n")
    with pytest.raises(InputError, match=rf"{name}, after line 0: not a whole \{name[1:]} file"):
        texts(tmp_path / name)


def test_a_damaged_file_is_reported(tmp_path):
    data = bytearray(gzip.compress(bytes(str(list(range(10_000))), "ascii")))
    data[1000:1100] = b"\xff" * 100
    (tmp_path / "a.gz").write_bytes(data)
    with pytest.raises(InputError, match=r"a\.gz, after line 0: not a whole \.gz file"):
        texts(tmp_path)


def test_a_binary_file_is_reported(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\ntwo \0 three\n")
    with pytest.raises(InputError, match=r"a\.txt, line 2: a NUL byte.*expected UTF-8 text"):
        texts(tmp_path)


@pytest.mark.parametrize("block_bytes", [32, 1 << 20])
def test_invalid_utf8_is_reported_with_its_line(tmp_path, block_bytes):
    good = "gut genug für alle\n" * 5
    (tmp_path / "a.txt").write_bytes(good.encode() + b"Caf\xe9 au lait\n")
    place = r"a\.txt, line 6: .* 0xe9 in position 3: .*; expected UTF-8 text"
    with pytest.raises(InputError, match=place):
        texts(tmp_path, block_bytes=block_bytes)


def test_blocks_do_not_cut_characters(tmp_path):
    (tmp_path / "a.txt").write_text("包袱 包袱\n" * 100, encoding="utf-8")
    assert texts(tmp_path, block_bytes=20) == ["包袱 包袱"] * 100


def test_the_key_of_a_line_is_that_of_its_bytes_without_ascii_white_space():
    line = TextLine("  \u3000één \r\n", CONTINUES, 0)
    assert line.text == "één"
    assert line.key == TextLine("\u3000één", NEW_FILE, 1).key != TextLine("één", CONTINUES, 0).key


@pytest.mark.parametrize("block_bytes", [6, 7, 8, 9, 10, 11, 1000])
def test_blank_lines_and_files_begin_documents_for_any_block_size(tmp_path, block_bytes):
    (tmp_path / "a.txt").write_text("\na 1\na 2\n\nb 1\n \n\nc 1\nc 2\n\n")
    (tmp_path / "b.txt").write_text("d 1\n\n\ne 1\n")
    blocks = read_blocks(find_sources([tmp_path]), block_bytes)
    found = {line.text: line.place for block in blocks for line in block.lines}
    begins = {"a 1": NEW_FILE, "b 1": NEW_DOCUMENT, "c 1": NEW_DOCUMENT, "d 1": NEW_FILE, "e 1": NEW_DOCUMENT}
    assert found == dict.fromkeys(("a 2", "c 2"), CONTINUES) | begins


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(InputError, match=r"pipe\.txt: another kind of file; expected a file"):
        find_sources([tmp_path / "pipe.txt"])
