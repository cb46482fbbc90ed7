"""Weights of sources, recased sentences and excluded texts: against counts by hand, never in held-out text."""

import hashlib
import random
from collections import Counter

import pytest

from elmo.common.errors import InputError
from elmo.pretrain.corpus.text import Excluded, find_sources
from elmo.tokeniser import tokenise
from tests.elmo.pretrain.corpus_text import build, contents, paragraph, spelled, write


@pytest.fixture
def texts(tmp_path):
    return write(tmp_path / "a.txt", range(200)), write(tmp_path / "b.txt", range(200, 400))


def of_file(sentence_list, numbers):
    """The sentences that only paragraphs of these numbers have: those with a word of their own."""
    own = {f"word{number}" for number in numbers}
    return Counter(s for s in sentence_list if own & set(s))


def own_numbers(store, side):
    """The numbers of the paragraphs of one side, from the words that only one paragraph has."""
    return [int(word[4:]) for sentence in spelled(store, side) for word in sentence if word.startswith("word")]


def counted(store):
    return dict(zip(store.words(), store.type_counts.tolist(), strict=True))


@pytest.mark.parametrize(
    ("unit", "digest", "fingerprint"),
    [
        ("paragraph", "57f8e3767119953a", "531a40c33721d05f"),
        ("document", "67a820982dcb2dfe", "13f34bf71a16ffcf"),
    ],
)
def test_a_store_without_these_settings_has_the_bytes_and_identity_from_before_them(
    tmp_path, unit, digest, fingerprint
):
    """The hashes were computed with the commit before weights existed, without the header, which has hashes now."""
    text = write(tmp_path / "a.txt", range(300))
    store = build(tmp_path / "store", f"{text}*1", vocabulary=60, heldout_unit=unit)
    content = b"".join(name.encode() + data for name, data in contents(store.folder).items() if name != "header.json")
    assert hashlib.sha256(content).hexdigest().startswith(digest)
    assert store.fingerprint.startswith(fingerprint)


def test_each_training_sentence_occurs_as_often_as_its_weight_says(tmp_path, texts):
    first, second = texts
    plain = build(tmp_path / "plain", first, second)
    mixed = build(tmp_path / "mixed", first, f"{second}*3")
    expected = of_file(spelled(plain, plain.train), range(200))
    assert of_file(spelled(mixed, mixed.train), range(200)) == expected
    expected = of_file(spelled(plain, plain.train), range(200, 400))
    assert of_file(spelled(mixed, mixed.train), range(200, 400)) == {s: 3 * n for s, n in expected.items()}
    assert spelled(mixed, mixed.heldout) == spelled(plain, plain.heldout)
    words = Counter(word for sentence in spelled(mixed, mixed.train) for word in sentence)
    assert counted(mixed) == {word: words[word] for word in counted(mixed)}  # with the copies
    assert mixed.header["sources"][1]["weight"] == 3
    assert "weight" not in mixed.header["sources"][0]


def test_a_fraction_of_a_copy_is_drawn_by_the_seed(tmp_path, texts):
    first, second = texts
    store = build(tmp_path / "store", f"{first}*0.25", f"{second}*2.5", heldout_fraction=0)
    found = spelled(store, store.train)
    few, many = of_file(found, range(200)), of_file(found, range(200, 400))
    assert set(few.values()) == {1}
    assert 30 < len(few) < 70  # of 200: 50 expected, standard deviation 6
    assert set(many.values()) == {2, 3}
    assert 70 < sum(n == 3 for n in many.values()) < 130  # of 200: 100 expected, standard deviation 7
    again = build(tmp_path / "again", f"{first}*0.25", f"{second}*2.5", heldout_fraction=0)
    assert contents(again.folder) == contents(store.folder)


def test_an_empty_file_does_not_shift_the_weights(tmp_path, texts):
    first, second = texts
    (tmp_path / "empty.txt").write_text("\n \n")
    plain = build(tmp_path / "plain", first, f"{second}*2")
    store = build(tmp_path / "store", tmp_path / "empty.txt", first, f"{second}*2")
    assert (store.folder / "train.tokens.bin").read_bytes() == (plain.folder / "train.tokens.bin").read_bytes()


def test_a_weight_that_leaves_no_sentence_is_refused_and_named(tmp_path, texts):
    with pytest.raises(InputError, match=r"a sentence to train on, found none of \d{3}: the weights of their"):
        build(tmp_path / "store", f"{texts[0]}*0.000001")
    assert not (tmp_path / "store").exists()


def test_another_weight_is_another_store(tmp_path, texts):
    first, second = texts
    store = build(tmp_path / "store", first, f"{second}*2")
    with pytest.raises(InputError, match=r"source 1, b.txt: '.*, weight 2' there, '.*, weight 3' asked for"):
        build(tmp_path / "store", first, f"{second}*3")
    assert build(tmp_path / "store", first, f"{second}*2.0").fingerprint == store.fingerprint
    assert build(tmp_path / "other", first, f"{second}*3").fingerprint != store.fingerprint


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["a.txt*0"], "expected a weight above 0"),
        (["a.txt*1.2.3"], "expected a weight above 0 .* found '1.2.3'"),
        (["a.txt*-2"], "expected a weight above 0 .* found '-2'"),
        (["a.txt*nan"], "expected a weight above 0 .* found 'nan'"),
        (["a.txt*1e9"], "expected a weight above 0 and at most 1,000 .* found '1e9'"),
        (["*.txt"], "found '.txt'. For all text files of a folder, name the folder"),
        (["a.txt", "a.txt*2"], "named twice, with weights 1 and 2"),
    ],
)
def test_weights_that_make_no_sense_are_refused(tmp_path, texts, entries, message):
    with pytest.raises(InputError, match=message):
        find_sources([tmp_path / entry for entry in entries])


def test_recased_sentences_are_upper_or_title_case_and_the_others_unchanged(tmp_path):
    text = write(tmp_path / "a.txt", range(1500))
    plain = build(tmp_path / "plain", text)
    store = build(tmp_path / "store", text, recase=0.3)
    assert spelled(store, store.heldout) == spelled(plain, plain.heldout)
    found = {"upper": 0, "title": 0}
    for before, after in zip(spelled(plain, plain.train), spelled(store, store.train), strict=True):
        if after == before:
            continue
        upper = tuple(word.upper() for word in before)
        assert after == upper or [a.lower() for a in after] == [b.lower() for b in before]
        if after == upper:
            found["upper"] += 1
            continue
        found["title"] += 1
        for old, new in zip(before, after, strict=True):
            assert new == (old if old in ("n't", "'s") else old.capitalize() if old.islower() else old)
    n = len(store.train)
    assert abs(found["upper"] / n - 0.2) < 4 * (0.2 * 0.8 / n) ** 0.5
    assert abs(found["title"] / n - 0.1) < 4 * (0.1 * 0.9 / n) ** 0.5
    assert store.header["counts"]["recased_sentences"] == sum(found.values())
    words = Counter(word for sentence in spelled(store, store.train) for word in sentence)
    assert counted(store) == {word: words[word] for word in counted(store)}
    assert "wasn" not in counted(store)
    assert {"N'T", "'S", "The", "THE"} <= set(words)
    assert store.fingerprint != plain.fingerprint


def test_a_word_does_not_become_a_special_one_by_recasing(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("".join(f"<unk> <s> straße -LRB- 1990s u{number}\n" for number in range(400)), encoding="utf-8")
    store = build(tmp_path / "store", text, tokenise="whitespace", recase=0.9)
    found = {word for sentence in spelled(store, store.train) for word in sentence if not word[1:].isdigit()}
    assert found == {"<unk>", "<s>", "straße", "Straße", "STRASSE", "-LRB-", "1990s", "1990S"}


def test_all_settings_together_hold_out_the_same_paragraphs(tmp_path, texts):
    """The held-out text of two files, when a third one, weights, recasing and an excluded text are added."""
    plain = build(tmp_path / "plain", *texts)
    more, taken = write(tmp_path / "c.txt", range(400, 500)), write(tmp_path / "taken.txt", range(450, 500))
    store = build(tmp_path / "store", f"{more}*2", f"{texts[0]}*1.5", texts[1], recase=0.2, exclude=[taken])
    held, found = own_numbers(plain, plain.heldout), own_numbers(store, store.heldout)
    assert len(held) > 20
    assert [number for number in found if number < 400] == held  # in the same order, too
    assert {number for number in found if number >= 400} <= {*range(400, 450)}
    assert store.header["counts"]["excluded_paragraphs"] == 50
    assert Counter(spelled(plain, plain.heldout)) <= Counter(spelled(store, store.heldout))


def test_excluded_paragraphs_are_left_out_although_the_excluded_text_is_tokenised(tmp_path):
    text = write(tmp_path / "a.txt", range(300))
    tokens = tmp_path / "taken.txt"  # a sentence per line, in capitals
    taken = [sentence for number in range(100, 150) for sentence in tokenise(paragraph(number))]
    tokens.write_text("".join(" ".join(sentence).upper() + "\n" for sentence in taken), encoding="utf-8")
    store = build(tmp_path / "store", text, exclude=[tokens])
    found = own_numbers(store, store.train) + own_numbers(store, store.heldout)
    assert sorted(found) == [*range(100), *range(150, 300)]
    assert store.header["counts"]["excluded_paragraphs"] == 50
    assert [item["name"] for item in store.header["exclude"]] == ["taken.txt"]
    with pytest.raises(InputError, match=r"other settings or sources:\n  excluded text 0, taken\.txt: "):
        build(tmp_path / "store", text)


def test_a_text_that_is_excluded_as_a_whole_is_refused_and_exclude_is_named(tmp_path):
    text = write(tmp_path / "a.txt", range(30))
    with pytest.raises(InputError, match=rf"exclude={text}: expected text .* of 30 paragraphs, 30 share 45 letters"):
        build(tmp_path / "store", text, exclude=[text])
    assert not (tmp_path / "store").exists()


def test_a_line_is_excluded_if_it_shares_45_letters_and_digits(tmp_path):
    """Against all windows of both texts; lines are pieces of the text with other spacing and punctuation."""
    draw = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyzé0123456789"
    files = ["".join(draw.choices(letters, k=2000)) for _ in range(2)]
    for number, content in enumerate(files):
        lines = [" , ".join(content[i : i + 9]) + " ." for i in range(0, len(content), 9)]
        (tmp_path / f"{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    excluded = Excluded(find_sources([tmp_path]))
    windows = {content[i : i + 45] for content in files for i in range(len(content) - 44)}
    hits = 0
    for _ in range(400):
        content, start = draw.choice(files), draw.randrange(1900)
        ends = ["".join(draw.choices(letters, k=draw.randrange(40))) for _ in range(2)]
        line = ends[0] + content[start : start + draw.randrange(38, 52)] + ends[1]
        expected = any(line[i : i + 45] in windows for i in range(len(line) - 44))
        hits += expected
        assert ("".join(c.upper() + draw.choice(("", "", " ", "-", "_", '"')) for c in line) in excluded) == expected
    assert 100 < hits < 300
    across = files[0][-30:] + files[1][:30]
    assert across not in excluded  # two files, not one text
