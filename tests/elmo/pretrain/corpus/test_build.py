"""Token stores built from text: content, order, vocabulary, held-out paragraphs, refused settings, full disks."""

# ruff: noqa: RUF001 - Chinese has its own comma
import errno
import io
import json
import re
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from rich.console import Console

from elmo.common.errors import InputError
from elmo.pretrain.corpus import token_store as corpus
from elmo.pretrain.corpus.token_store import DTYPES, SPECIALS, UNKNOWN, CorpusSettings, TokenStore, build_store
from elmo.tokeniser import tokenise
from tests.elmo.pretrain.corpus_text import build, contents, paragraph, spelled, write


def of_paragraphs(numbers):
    return [tuple(sentence) for number in numbers for sentence in tokenise(paragraph(number))]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write(tmp_path_factory.mktemp("text") / "a.txt", range(300))


@pytest.fixture(scope="module")
def store(text, tmp_path_factory):
    return build(tmp_path_factory.mktemp("made") / "store", text, vocabulary=60)


def test_the_store_has_every_sentence_once_unchanged(store):
    assert Counter(spelled(store, store.train) + spelled(store, store.heldout)) == Counter(of_paragraphs(range(300)))


def test_training_sentences_are_shuffled(store):
    found = spelled(store, store.train)
    order = {sentence: place for place, sentence in enumerate(of_paragraphs(range(300)))}
    places = np.array([order[sentence] for sentence in found])
    assert abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 0.15


def test_held_out_text_is_whole_paragraphs_outside_the_training_text(store):
    own_word = {f"word{number}": number for number in range(300)}
    held = {own_word[w] for sentence in spelled(store, store.heldout) for w in sentence if w in own_word}
    trained = {own_word[w] for sentence in spelled(store, store.train) for w in sentence if w in own_word}
    assert held | trained == set(range(300))
    assert not held & trained
    assert 15 <= len(held) <= 45
    assert Counter(spelled(store, store.heldout)) == Counter(of_paragraphs(held))
    assert store.header["counts"]["heldout_paragraphs"] == len(held)


def test_held_out_paragraphs_do_not_depend_on_order_or_other_text(tmp_path, store):
    first, second = write(tmp_path / "1.txt", range(150, 300)), write(tmp_path / "2.txt", range(150))
    swapped = build(tmp_path / "swapped", first, second)
    assert spelled(swapped, swapped.heldout) == spelled(store, store.heldout)  # even in the same order
    more = write(tmp_path / "3.txt", range(300, 400))
    larger = build(tmp_path / "larger", more, first, second)
    assert set(spelled(store, store.heldout)) <= set(spelled(larger, larger.heldout))


def test_paragraph_stores_keep_the_identity_from_before_heldout_unit():
    before = CorpusSettings([], heldout_unit="paragraph").identity()
    assert "heldout_unit" not in before
    assert CorpusSettings([]).identity() == before | {"heldout_unit": "document"}


def test_another_seed_changes_held_out_text_and_order(tmp_path, text, store):
    other = build(tmp_path / "store", text, vocabulary=60, seed=2)
    assert set(spelled(other, other.heldout)) != set(spelled(store, store.heldout))
    assert spelled(other, other.train) != spelled(store, store.train)


def test_seeds_that_share_their_held_out_text_train_on_none_of_it(tmp_path, text, store):
    other = build(tmp_path / "other", f"{text}*0.5", vocabulary=60, seed=2, heldout_seed=1)
    held = spelled(store, store.heldout)
    assert spelled(other, other.heldout) == held
    own = {sentence for sentence in held if sentence[0] == "It"}  # the last of a paragraph names its number
    assert own
    assert not own & set(spelled(other, other.train))
    drawn = build(tmp_path / "drawn", f"{text}*0.5", vocabulary=60)
    assert set(spelled(other, other.train)) != set(spelled(drawn, drawn.train))  # each seed draws its own half
    assert CorpusSettings([], seed=3, heldout_seed=3).identity() == CorpusSettings([], seed=3).identity()
    with pytest.raises(InputError, match="heldout_seed: expected at least 0, found -1"):
        CorpusSettings([], heldout_seed=-1)


def test_repeated_paragraphs_are_dropped_across_all_sources(tmp_path, text, store):
    again = tmp_path / "again.txt"
    numbers = [*range(50), *range(50), 299]
    again.write_text("".join(f"  {paragraph(number)} \n" for number in numbers), encoding="utf-8")
    both = build(tmp_path / "store", text, again, vocabulary=60)
    assert both.header["counts"]["duplicates"] == 101
    assert both.header["counts"]["paragraphs"] == 401
    for name in ("train.tokens.bin", "heldout.tokens.bin", "types.bytes.bin", "types.counts.bin"):
        assert (both.folder / name).read_bytes() == (store.folder / name).read_bytes()


def test_words_are_numbered_by_frequency_in_training_text_only(store):
    counts = Counter(word for sentence in spelled(store, store.train) for word in sentence)
    words = store.words()
    assert words[:3] == list(SPECIALS)
    assert [counts[word] for word in words[3:]] == store.type_counts[3:].tolist()
    trained = sorted(counts, key=lambda word: (-counts[word], word.encode()))
    assert words[3 : 3 + len(trained)] == trained
    only_heldout = {w for sentence in spelled(store, store.heldout) for w in sentence} - set(counts)
    assert only_heldout  # the words of their own of held-out paragraphs
    assert words[3 + len(trained) :] == sorted(only_heldout, key=str.encode)


def test_vocabulary_is_the_most_frequent_words_and_the_rest_is_counted_as_unknown(store):
    assert store.vocabulary_size == 63
    listed = (store.folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert listed == store.words()[: store.vocabulary_size] == store.words()[:63]
    for side, read in (("train", store.train), ("heldout", store.heldout)):
        unknown = [word not in listed for sentence in spelled(store, read) for word in sentence]
        assert any(unknown)
        assert store.header["counts"][f"{side}_unknown"] == pytest.approx(np.mean(unknown))


def test_the_vocabulary_excludes_rare_words_and_words_of_held_out_text_only(tmp_path, text):
    everything = build(tmp_path / "all", text, vocabulary=100_000)
    assert (everything.type_counts[3 : everything.vocabulary_size] > 0).all()
    assert (everything.type_counts[everything.vocabulary_size :] == 0).all()
    frequent = build(tmp_path / "frequent", text, vocabulary=100_000, min_count=5)
    assert frequent.type_counts[frequent.vocabulary_size - 1] >= 5 > frequent.type_counts[frequent.vocabulary_size]


def test_a_literal_unknown_mark_is_the_unknown_word(tmp_path):
    (tmp_path / "a.txt").write_text("a <UNK> b\nb a a\n")
    store = build(tmp_path / "store", tmp_path / "a.txt", tokenise="whitespace", heldout_fraction=0)
    assert Counter(store.train.tokens.tolist()) == {3: 3, 4: 2, UNKNOWN: 1}
    assert store.header["counts"]["train_unknown"] == pytest.approx(1 / 6)
    assert len(store.heldout) == 0


def test_long_sentences_are_cut_not_dropped(tmp_path):
    (tmp_path / "a.txt").write_text(" ".join(f"w{i}" for i in range(25)) + "\n")
    store = build(tmp_path / "store", tmp_path / "a.txt", tokenise="whitespace", heldout_fraction=0, max_tokens=10)
    assert sorted(len(sentence) for sentence in store.train) == [8, 8, 9]


def test_a_store_of_segmented_chinese(tmp_path):
    lines = ["他 打开 包袱 ， 里面 是 衣服 。", "相声 演员 抖 了 一个 包袱 ， 观众 都 笑 了 。", "她 背着 包袱 回家 。"]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    store = build(tmp_path / "store", tmp_path / "a.txt", tokenise="whitespace", heldout_fraction=0)
    assert {" ".join(words) for words in spelled(store, store.train)} == set(lines)
    assert set(store.words()[3:5]) == {"包袱", "。"}


@pytest.mark.integration
def test_the_number_of_workers_does_not_change_the_store(tmp_path, text, store):
    parallel = build(tmp_path / "store", text, vocabulary=60, workers=2)
    assert contents(parallel.folder) == contents(store.folder)


@pytest.mark.integration
def test_a_worker_starts_without_torch():
    """Its import takes longer than a block."""
    code = "import sys, elmo.pretrain.corpus.token_store; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.integration
def test_an_error_in_a_worker_names_file_line_and_byte(tmp_path, text):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(text.read_bytes() + b"caf\xe9\n")
    with pytest.raises(InputError, match=r"bad\.txt, line 301: .* 0xe9 in position 3: .*expected UTF-8 text"):
        build(tmp_path / "store", bad, workers=2)
    assert not (tmp_path / "store").exists()


def test_block_size_does_not_change_the_store(tmp_path, text, store):
    other = build(tmp_path / "store", text, vocabulary=60, block_bytes=1 << 20)
    theirs, ours = contents(other.folder), contents(store.folder)
    del theirs["header.json"], ours["header.json"]
    assert theirs == ours


def test_a_finished_store_is_opened_and_not_built_again(store, text, monkeypatch):
    monkeypatch.setattr(corpus, "make_shards", None)
    said = io.StringIO()
    settings = CorpusSettings(
        [text], vocabulary=60, heldout_fraction=0.1, heldout_unit="paragraph", block_bytes=4096, workers=2
    )
    again = build_store(settings, store.folder, Console(file=said, width=400))
    assert again.fingerprint == store.fingerprint
    assert "nothing to do" in said.getvalue()


def test_other_settings_are_refused_and_each_difference_is_listed(store, text):
    with pytest.raises(InputError) as error:
        build(store.folder, text, vocabulary=70, seed=3)
    assert "made with other settings or sources" in str(error.value)
    assert "vocabulary: 60 there, 70 asked for" in str(error.value)
    assert "seed: 1 there, 3 asked for" in str(error.value)
    assert "max_tokens" not in str(error.value)


def test_changed_sources_are_refused(store, tmp_path):
    changed = write(tmp_path / "a.txt", range(301))
    with pytest.raises(
        InputError, match=r"made with other settings or sources:\n  source 0, a\.txt: 'sha256 \w+, weight 1' there"
    ):
        build(store.folder, changed, vocabulary=60)


def test_a_folder_that_is_no_store_is_not_touched(tmp_path, text):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"no header\.json here"):
        build(tmp_path / "precious", text)
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["thesis.tex"]


def test_a_corpus_without_words_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("\n  \n")
    with pytest.raises(InputError, match="holds no words"):
        build(tmp_path / "store", tmp_path / "a.txt")
    assert not (tmp_path / "store").exists()


def test_files_of_the_same_name_are_distinguished(tmp_path):
    for name, numbers in (("a", range(100)), ("b", range(100, 200))):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "text.txt", numbers)
    one, two = tmp_path / "a" / "text.txt", tmp_path / "b" / "text.txt"
    build(tmp_path / "store", two)
    with pytest.raises(InputError, match=r"(?s)made with other settings or sources:.*source 1, text\.txt: None there"):
        build(tmp_path / "store", one, two)
    assert len(build(tmp_path / "store", two).header["sources"]) == 1


def test_too_little_text_to_hold_some_out_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("One line.\n")
    with pytest.raises(InputError, match=r"No paragraph is left.* of 1 different paragraphs.*or 0 to hold out nothing"):
        build(tmp_path / "store", tmp_path / "a.txt", heldout_fraction=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenise": "moses"}, r"tokenise: expected ptb or whitespace, found 'moses'"),
        ({"vocabulary": 0}, r"vocabulary: expected at least 1, found 0"),
        ({"heldout_fraction": 1.0}, r"heldout_fraction: expected at least 0 and below 1, found 1\.0"),
        ({"heldout_unit": "line"}, r"heldout_unit: expected document or paragraph, found 'line'"),
        ({"max_tokens": 1}, r"max_tokens: expected at least 2, found 1"),
        ({"workers": 0}, r"workers: expected at least 1, found 0"),
    ],
)
def test_corpus_settings_out_of_range_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        CorpusSettings(sources=["a.txt"], **change)


def full_disk(*args, **kwargs):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("module", "step"), [(corpus, "make_shards"), (corpus, "merge")])
def test_a_full_disk_leaves_no_unfinished_files(tmp_path, text, store, monkeypatch, module, step):
    with monkeypatch.context() as patch:
        patch.setattr(module, step, full_disk)
        with pytest.raises(OSError, match="No space left on device"):
            build(tmp_path / "store", text, vocabulary=60)
    assert not (tmp_path / "store").exists()
    assert not (tmp_path / "store.partial").exists()
    assert contents(build(tmp_path / "store", text, vocabulary=60).folder) == contents(store.folder)


@pytest.fixture
def copy(tmp_path, store):
    return shutil.copytree(store.folder, tmp_path / "copy")


@pytest.mark.parametrize("name", DTYPES)
def test_a_changed_file_of_a_store_is_reported(copy, name):
    """The lengths stay: a store of zeros would be trained on."""
    path = copy / name
    path.write_bytes(bytes(path.stat().st_size))
    expected = rf"{re.escape(name)}: has changed since it was written, so the store is damaged; delete the folder"
    with pytest.raises(InputError, match=expected):
        TokenStore.open(copy)
    path.unlink()
    with pytest.raises(InputError, match=rf"{re.escape(name)}: is missing, so the store is damaged; delete the folder"):
        TokenStore.open(copy)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 99}, "expected a token store of version 1, found another file"),
        ({"format": "other"}, "expected a token store of version 1, found another file"),
        ({"counts": {"vocabulary_size": 7}}, "has changed since it was written; delete the folder"),
        ({"files": {}}, "has changed since it was written; delete the folder"),
        ("{", "expected a JSON object"),
        ("[]", "expected a JSON object"),
    ],
)
def test_a_changed_header_is_reported(copy, content, message):
    header = json.loads((copy / "header.json").read_text())
    (copy / "header.json").write_text(content if isinstance(content, str) else json.dumps(header | content))
    with pytest.raises(InputError, match=rf"header\.json: .*{message}"):
        TokenStore.open(copy)


def test_sentences_are_memory_mapped(store):
    assert isinstance(store.train.tokens, np.memmap)
    assert len(store.train) == store.header["counts"]["train_sentences"]
    with pytest.raises(IndexError):
        store.train[len(store.train)]


def test_without_a_terminal_progress_is_one_line_per_tenth(tmp_path, text):
    said = io.StringIO()
    settings = CorpusSettings([text], heldout_fraction=0.1, block_bytes=1024, workers=1)
    build_store(settings, tmp_path / "store", Console(file=said, width=400))
    lines = said.getvalue().splitlines()
    assert len([line for line in lines if line.startswith("tokenising: ") and "tokens/s" in line]) == 10
    assert "different words" in lines[-1]


def test_repeated_paragraphs_are_counted(tmp_path, text):
    said = io.StringIO()
    (tmp_path / "twice.txt").write_bytes(2 * text.read_bytes())
    for source, end in (
        (text, r"and [\d.]+%\.\n"),
        (tmp_path / "twice.txt", ", 300 repeated paragraphs left out\\.\n"),
    ):
        build_store(CorpusSettings([source], workers=1), tmp_path / source.stem, Console(file=said, width=400))
        assert re.search(rf"{end}$", said.getvalue())


def test_mix_is_one_to_one_and_gives_fixed_values():
    numbers = np.arange(100_000, dtype=np.uint64)
    assert len(np.unique(corpus.splitmix(numbers, 1))) == 100_000
    assert not np.array_equal(corpus.splitmix(numbers, 1), corpus.splitmix(numbers, 2))
    assert corpus.splitmix(np.array([0, 1], np.uint64), 0).tolist() == [7905728728188956330, 8037428539430452699]
