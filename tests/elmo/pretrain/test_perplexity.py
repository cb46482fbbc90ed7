"""Perplexity compared with a word-by-word computation of its definition, and the command that prints it."""

import math
import random

import pytest
import torch

from elmo.common.errors import InputError
from elmo.pretrain import objective
from elmo.pretrain import perplexity as command
from elmo.pretrain.batches import text_of_words, texts_of_store
from elmo.pretrain.corpus.text import find_sources, shared
from elmo.pretrain.corpus.token_store import SPECIALS, CorpusSettings, build_store
from elmo.pretrain.export import Output, export, load_model
from elmo.pretrain.language_model import LanguageModel
from elmo.pretrain.measuring import read_text
from elmo.pretrain.objective import OBJECTIVES
from elmo.pretrain.settings import Model
from tests.elmo.pretrain.training_text import QUIET, TINY
from tests.elmo.sources.naive_masked import naive_lstm

VOCABULARY = [*SPECIALS, "we", "play", "chess", "."]
BILM = OBJECTIVES["joined"]
SENTENCES = [["we", "play", "chess", "."], ["we", "rest", "."], ["chess"]]


@pytest.fixture
def model():
    return LanguageModel.random(Model(**TINY).options("char", []), len(VOCABULARY), seed=9)


@pytest.fixture
def exported(model, tmp_path):
    return export(model.core, Output(model.output, VOCABULARY, "ptb"), tmp_path / "export", "tiny")


@torch.no_grad()
def naive(model, sentences, direction):
    total, count = 0.0, 0
    for sentence in sentences:
        words = sentence if direction == 0 else sentence[::-1]
        read = [("<S>", "</S>")[direction], *words]
        x = model.core.encoder.encode_words(read)
        lower, upper = model.core.directions[direction]
        first = naive_lstm(lower, x)
        second = naive_lstm(upper, first) + first
        for hidden, target in zip(second, [*words, "</S>"], strict=True):
            number = VOCABULARY.index(target) if target in VOCABULARY else VOCABULARY.index("<UNK>")
            scores = model.output.weight @ hidden + model.output.bias
            total += float(torch.log_softmax(scores, 0)[number])
            count += 1
    return math.exp(-total / count), count


def test_perplexity_equals_its_definition_word_by_word(model):
    found = BILM.measure(model, text_of_words(SENTENCES, VOCABULARY, 50))
    for direction, name in enumerate(("forward", "backward")):
        wanted, count = naive(model, SENTENCES, direction)
        assert found[name] == pytest.approx(wanted, rel=1e-5)
        assert found["tokens"] == count == 11
    assert found["unknown_rate"] == pytest.approx(1 / 8)
    assert text_of_words([["we", "<UNK>", "rest", "."]], VOCABULARY, 50).unknown_rate == 0.5
    assert BILM.figures({"forward": 2.0, "backward": 5.0}) == {"forward": "2.00", "backward": "5.00", "mean": "3.50"}


def test_perplexity_does_not_depend_on_the_batches(model, monkeypatch):
    text = text_of_words(SENTENCES * 7, VOCABULARY, 50)
    together = BILM.measure(model, text)
    monkeypatch.setattr(objective, "TOKENS_AT_ONCE", 5)
    assert BILM.measure(model, text) == pytest.approx(together, rel=1e-6)


def test_the_command_prints_value_and_terms(exported, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text("We rest. We play chess.\nchess\n", encoding="utf-8")
    assert command.main([str(text), "--weights", str(exported), "--device", "cpu"]) == 0
    printed, progress = capsys.readouterr()
    assert progress.splitlines()[-1].startswith("measuring: 100 %, 11 tokens")  # eight words, three ends
    model, _ = load_model(exported)
    split = [["We", "rest", "."], ["We", "play", "chess", "."], ["chess"]]
    assert printed.strip() == BILM.describe(BILM.measure(model, text_of_words(split, VOCABULARY, 50)))
    for term in ("full softmax", "zero state", "cased", "</S> predicted", "<UNK> predicted at 37.50%"):
        assert term in printed


def test_the_held_out_text_of_a_store_can_be_measured(exported, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"we play chess with person{i} .\n" for i in range(200)), encoding="utf-8")
    store = build_store(CorpusSettings([text], heldout_fraction=0.2, workers=1), tmp_path / "store", QUIET)
    model, output = load_model(exported)
    read = read_text(tmp_path / "store", output, None, 50)
    assert len(read.sentences) == len(store.heldout)
    first = [
        read.sentences.tokens[: read.sentences.offsets[1]].tolist(),
        [store.words()[number] for number in store.heldout[0]],
    ]
    assert (
        [VOCABULARY[i] if i < len(VOCABULARY) else None for i in first[0]][:3]
        == first[1][:3]
        == ["we", "play", "chess"]
    )
    _, heldout = texts_of_store(store, 50, VOCABULARY)
    assert BILM.measure(model, read) == BILM.measure(model, heldout)


@pytest.mark.parametrize(
    ("text", "extra", "message"),
    [
        (None, [], "no such file"),
        ("   \n", [], "no word"),
        ("words", ["--softmax", "nowhere"], "expected the output layer"),
        ("words", ["--weights", "medium"], "other weights. Shipped with an output layer: small"),
    ],
)
def test_unusable_input_is_reported(exported, tmp_path, capsys, text, extra, message):
    path = tmp_path / "text.txt"
    if text is not None:
        path.write_text(text)
    assert command.main([str(path), "--weights", str(exported), *extra]) == 1
    assert message in capsys.readouterr().err


def test_an_output_layer_of_another_width_is_refused(exported, tmp_path, capsys):
    wider = LanguageModel.random(Model(**(TINY | {"projection_dim": 12})).options("char", []), len(VOCABULARY), seed=9)
    softmax = Output(wider.output, VOCABULARY, "ptb")
    other = export(wider.core, softmax, tmp_path / "other", "wide").with_name("wide-softmax")
    text = tmp_path / "text.txt"
    text.write_text("we play chess .\n")
    assert command.main([str(text), "--weights", str(exported), "--softmax", str(other), "--device", "cpu"]) == 1
    said = capsys.readouterr().err
    assert "wide-softmax: an output layer of width 12, but the model in" in said
    assert "needs one of 8; name the output layer" in said


def test_a_text_without_sentences_is_refused(model):
    with pytest.raises(InputError, match="at least one word"):
        BILM.measure(model, text_of_words([], VOCABULARY, 50))


def test_lines_that_share_45_characters_with_a_corpus_are_found(tmp_path):
    draw = random.Random(3)
    words = ["chess", "play", "rest", "über", "包袱", "twelve", "of", "the"]
    corpus = [" ".join(draw.choices(words, k=30)) for _ in range(40)]
    lines = []
    for number in range(200):
        line, start = draw.choice(corpus), draw.randrange(60)
        lines.append(f"{number}{line[start : start + draw.randrange(40, 50)]}{number}")
    (tmp_path / "a.txt").write_text("\n".join(corpus[:20]) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n\n".join(corpus[20:]), encoding="utf-8")
    windows = {line[i : i + 45] for line in corpus for i in range(len(line) - 44)}
    expected = [any(line[i : i + 45] in windows for i in range(len(line) - 44)) for line in lines]
    assert 50 < sum(expected) < 150
    assert shared(lines, find_sources([tmp_path])) == expected


def test_a_token_store_takes_no_tokeniser(exported, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("we play chess . we rest .\n" * 3)
    build_store(CorpusSettings([tmp_path / "text.txt"], heldout_fraction=0, workers=1), tmp_path / "store", QUIET)
    given = [str(tmp_path / "store"), "--weights", str(exported), "--device", "cpu", "--tokenise", "ptb"]
    assert command.main(given) == 1
    assert "--tokenise needs a text, found a token store" in capsys.readouterr().err


def test_the_command_leaves_out_documents_that_were_seen(exported, tmp_path, capsys):
    seen = "we play chess . we rest . we play chess and then we rest again ."
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(f"What people say: {seen}\n")
    unseen = ["we rest .\n", *["we play .\n"] * 2, f"{seen}\n"]  # one line of three is a coincidence
    text = tmp_path / "text.txt"
    text.write_text("\n".join([unseen[0], *[f"chess .\n{seen}\n"] * 2, "".join(unseen[1:])]))
    given = ["--weights", str(exported), "--device", "cpu"]
    assert command.main([str(text), *given, "--unseen-in", str(corpus)]) == 0
    said, measured = capsys.readouterr().out.splitlines()
    assert said.startswith("2 of 4 documents count: fewer than 50% of their lines share 45 characters")
    text.write_text("".join(unseen))
    assert command.main([str(text), *given]) == 0
    assert capsys.readouterr().out.strip() == measured
    assert command.main([str(corpus), *given, "--unseen-in", str(corpus)]) == 1
    assert "no word in it that is unseen" in capsys.readouterr().err
