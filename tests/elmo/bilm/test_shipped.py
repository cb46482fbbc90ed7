"""Tests of the shipped biLMs: their sizes, predictions of English, and the statements of their cards."""

import csv
import random
import re

import pytest
import torch
from huggingface_hub import ModelCard

from elmo import load_bilm
from elmo.embed.one_file import read_lines
from elmo.neighbours import nearest, uses_of
from elmo.pretrain.batches import text_of_words
from elmo.pretrain.export import load_model
from elmo.pretrain.objective import OBJECTIVES
from elmo.published import SHIPPED, shipped_names

TEXT = """
The mayor opened the new bridge on Monday and thanked the engineers who had worked on it for three years .
It was raining when the train left the station , but by noon the sky over the valley was clear .
Many species of birds fly south in autumn because food is hard to find in the winter .
In 1912 the company moved to a larger building near the harbour .
The results of the election will be announced next week .
""".strip().split("\n")


@pytest.fixture(scope="module")
def small():
    return load_bilm("small")


@pytest.fixture(scope="module")
def card_of():
    return lambda name: (SHIPPED / name / "card.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def card(card_of):
    return card_of("small")


def size(folder):
    return sum(path.stat().st_size for path in folder.rglob("*"))


def test_they_are_found_by_name_and_stay_small():
    assert shipped_names() == ["medium", "small"]
    assert size(SHIPPED / "small") <= 30_000_000
    assert size(SHIPPED / "small-softmax") <= 13_000_000
    assert size(SHIPPED) <= 75_000_000


def test_medium_is_as_its_card_says(card_of):
    medium = load_bilm("medium")
    words = [line.split() for line in TEXT]
    layers = medium.token_layers(words)
    assert layers.shape == (3, sum(map(len, words)), 512)
    assert torch.isfinite(layers).all()
    assert f"{sum(item.numel() for item in medium.parameters()):,} parameters" in card_of("medium")


@pytest.mark.parametrize("name", ["small", "medium"])
def test_a_hub_can_read_the_cards(card_of, name):
    card = ModelCard(card_of(name))
    assert (card.data.library_name, card.data.license, card.data.language) == ("elmo-benchmark", "apache-2.0", "en")
    assert "elmo" in card.data.tags
    assert card.text.startswith(f"# biLM {name}\n")


def test_its_layers_are_finite(small):
    layers = small.token_layers([line.split() for line in TEXT])
    assert layers.shape == (3, sum(len(line.split()) for line in TEXT), 256)
    assert torch.isfinite(layers).all()


def test_it_predicts_english_better_than_shuffled_words():
    model, output = load_model("small")
    assert len(output.vocabulary) > 100_000
    sentences = [line.split() for line in TEXT]
    shuffled = [random.Random(1).sample(words, len(words)) for words in sentences]
    found, mixed = (
        OBJECTIVES["joined"].measure(model, text_of_words(part, output.vocabulary, model.core.options.max_characters))
        for part in (sentences, shuffled)
    )
    assert found["unknown_rate"] == 0
    worst = max(found["forward"], found["backward"])
    assert worst < 150  # written for this test, and easier than an encyclopaedia
    assert min(mixed["forward"], mixed["backward"]) > 5 * worst


def test_sports_and_theatre_separate_as_the_card_says(small, card):
    lines = [line.words for line in read_lines(SHIPPED / "neighbours.txt")]
    for word, senses in {"play": [8, 16], "bank": [23, 30], "spring": [36, 40, 44]}.items():
        uses, vectors = uses_of(lines, word, small)
        sense = [sum(use.line > last for last in senses) for use in uses]
        first = [nearest(vectors[i], vectors, 1, leave_out=[i])[0][0] for i in range(len(uses))]
        same = sum(sense[i] == sense[j] for i, j in enumerate(first))
        (claimed,) = re.findall(rf"\| {word} \|.*?\| (\d+) of {len(uses)} \|", card)
        assert same == int(claimed)


@pytest.mark.parametrize("name", ["medium", "small"])
def test_the_card_agrees_with_the_curve(name, card_of):
    card = card_of(name)
    with (SHIPPED / name / "curve.csv").open(encoding="utf-8", newline="") as file:
        last = list(csv.DictReader(file))[-1]
    assert f"| steps | {int(last['step']):,} |" in card
    assert f"| tokens seen, </S> counted | {int(last['tokens']):,} |" in card
    assert f"| minutes | {float(last['seconds']) / 60:.1f} |" in card


def test_the_card_states_perplexity_on_unseen_articles_next_to_held_out_paragraphs(card):
    means = {
        row: float(re.search(rf"\| [^|\n]*{row}[^|\n]* \| [\d.]+ \| [\d.]+ \| ([\d.]+) \|", card)[1])
        for row in ("these files", "held-out paragraphs", "unseen articles")
    }
    assert means["these files"] == means["held-out paragraphs"]
    assert means["held-out paragraphs"] < means["unseen articles"]
    assert "elmo.pretrain.perplexity squad-dev.txt --weights small --unseen-in" in card
