"""Held-out documents: whole ones are held out, by blank lines, by files, or in stretches of unmarked text."""

import pytest

from elmo.pretrain.corpus import token_store as corpus
from tests.elmo.pretrain.corpus_text import build, contents, spelled


def documents_in(text, side):
    """The documents of some sentences, by the first number in words that occur in one document only."""
    return {word.partition("x")[0] for words in spelled(text, side) for word in words if word.startswith("d")}


def marked(path, documents, paragraphs=7, end="\n"):
    text = [[f"d{i}x{j} is a word .\n" for j in range(paragraphs)] for i in documents]
    path.write_text("".join("".join(lines) + end for lines in text), encoding="utf-8")
    return path


def test_blank_lines_separate_documents_that_are_held_out_whole(tmp_path):
    text = marked(tmp_path / "a.txt", range(200))
    store = build(tmp_path / "store", text, heldout_unit="document", block_bytes=1024)
    held, trained = documents_in(store, store.heldout), documents_in(store, store.train)
    assert not held & trained
    assert len(held | trained) == 200
    assert 8 <= len(held) <= 35  # a tenth
    counts = store.header["counts"]
    assert (counts["documents"], counts["heldout_documents"]) == (200, len(held))
    assert counts["heldout_paragraphs"] == 7 * len(held)
    # The same ones next to other text.
    more = build(
        tmp_path / "more", marked(tmp_path / "b.txt", range(200, 300)), text, heldout_unit="document", block_bytes=1024
    )
    assert documents_in(more, more.heldout) & documents_in(store, store.train) == set()


@pytest.mark.parametrize("size", [1, 1024, 5000])  # bytes: one line, one block, several
@pytest.mark.parametrize("blank", ["\n", " \r\n", "\u3000\n", " " * 2500 + "\n"])
def test_a_blank_stretch_is_one_boundary_for_any_block_size(tmp_path, monkeypatch, blank, size):
    monkeypatch.setattr(corpus, "LONGEST_STRETCH", 50)
    stretch = blank * -(-size // len(blank.encode()))
    first = marked(tmp_path / "a.txt", range(20))
    unmarked = marked(tmp_path / "b.txt", range(20, 60), end="")  # 280 paragraphs of 540, cut into stretches of 5
    unmarked.write_text("\ufeff" + stretch + unmarked.read_text(), encoding="utf-8")
    last = marked(tmp_path / "c.txt", range(60, 65), paragraphs=24, end=stretch)  # in the middle and at the end
    stores = []
    for block_bytes in (1024, 1500, 1 << 20):
        folder = tmp_path / str(block_bytes)
        store = build(folder, first, unmarked, last, heldout_unit="document", block_bytes=block_bytes)
        assert store.header["counts"]["documents"] == 20 + 280 // 5 + 5
        stores.append({name: data for name, data in contents(folder).items() if name != "header.json"})
    assert stores[0] == stores[1] == stores[2]


def test_without_blank_lines_whole_files_are_held_out(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for i in range(60):
        marked(folder / f"{i}.txt", [i], end="")
    store = build(tmp_path / "store", folder, heldout_unit="document")
    held, trained = documents_in(store, store.heldout), documents_in(store, store.train)
    assert held
    assert not held & trained
    assert len(held | trained) == 60


def test_a_long_text_without_marks_is_held_out_in_stretches(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "LONGEST_STRETCH", 14)  # two documents, and nothing says where one ends
    text = marked(tmp_path / "a.txt", range(200), end="")
    store = build(tmp_path / "store", text, heldout_unit="document")
    held, trained = documents_in(store, store.heldout), documents_in(store, store.train)
    assert held
    assert not held & trained
    assert store.header["counts"]["documents"] == 100
    assert store.header["counts"]["stretch_paragraphs"] == 14


def test_a_short_text_without_marks_is_held_out_in_short_stretches(tmp_path):
    text = marked(tmp_path / "a.txt", range(100), end="")  # 700 paragraphs: 7 make a tenth of a tenth
    counts = build(tmp_path / "store", text, heldout_unit="document").header["counts"]
    assert (counts["documents"], counts["stretch_paragraphs"]) == (100, 7)
    assert counts["heldout_paragraphs"] == 7 * counts["heldout_documents"] > 0


def test_a_long_file_without_marks_is_cut_next_to_documents_that_stay_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "LONGEST_STRETCH", 50)
    short = marked(tmp_path / "a.txt", range(40))
    long = marked(tmp_path / "b.txt", range(40, 60), end="")  # 140 paragraphs of 420
    store = build(tmp_path / "store", short, long, heldout_unit="document", heldout_fraction=0.3)
    counts = store.header["counts"]
    assert (counts["documents"], counts["stretch_paragraphs"]) == (40 + -(-140 // 12), 12)
    whole = {f"d{i}" for i in range(40)}
    assert documents_in(store, store.heldout) & documents_in(store, store.train) & whole == set()


def test_at_least_one_document_is_held_out(tmp_path):
    store = build(
        tmp_path / "store", marked(tmp_path / "a.txt", range(30)), heldout_unit="document", heldout_fraction=1e-9
    )
    assert len(documents_in(store, store.heldout)) == 1
    assert len(documents_in(store, store.train)) == 29


def test_a_paragraph_of_a_held_out_document_is_removed_from_training_documents(tmp_path):
    folder = tmp_path / "text"
    folder.mkdir()
    for i in range(60):
        (folder / f"{i}.txt").write_text(f"d{i} is here .\nEach has this line .\n")
    store = build(tmp_path / "store", folder, heldout_unit="document", heldout_fraction=0.5)
    assert not set(spelled(store, store.heldout)) & set(spelled(store, store.train))
