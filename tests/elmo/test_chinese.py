"""Chinese characters, of three bytes each, from text to vectors: tokens keep them, and sixteen fit in a word."""

import pytest
import torch

from elmo import SIZES, neighbours, random_bilm
from elmo.bilm.sentences import WORD_END, WORD_START, spell
from elmo.tokeniser import tokenise

# ruff: noqa: RUF001 - Chinese has its own comma
LINE = "我们 下午 打 篮球 ， 晚上 看 戏 。"
FITTING = "一二三四五六七八九十百千万亿兆京"  # sixteen characters, all different


def test_tokens_are_the_words_of_segmented_text():
    assert tokenise(LINE, "whitespace") == [LINE.split()]


def test_no_character_is_lost_where_text_is_not_segmented():
    text = "我们下午打篮球，晚上看戏。"
    assert "".join(token for sentence in tokenise(text) for token in sentence) == text


@pytest.mark.parametrize("length", range(1, len(FITTING) + 1))
def test_a_word_of_up_to_sixteen_characters_is_spelled_whole(length):
    start, *middle, end = spell(FITTING[:length])
    assert (start, end) == (WORD_START, WORD_END)
    assert bytes(middle).decode("utf-8") == FITTING[:length]


@pytest.mark.parametrize("max_characters", [20, 50])
def test_what_does_not_fit_is_cut_and_nothing_before_it_changes(max_characters):
    fitting = (max_characters - 2) // 3
    spelled = spell(FITTING * 2, max_characters)
    assert len(spelled) == max_characters
    assert bytes(spelled[1 : 1 + 3 * fitting]).decode("utf-8") == (FITTING * 2)[:fitting]


def test_the_encoder_tells_words_apart_by_each_of_sixteen_characters_and_by_no_later_one():
    bilm = random_bilm(SIZES["tiny"], seed=1)
    assert bilm.options.max_characters == 50
    places, others = range(len(FITTING)), "我你他她它们"  # several, since one may lose to the maximum over the word
    changed = [FITTING[:place] + other + FITTING[place + 1 :] for place in places for other in others]
    whole, *found = bilm.token_layers([[FITTING, *changed, FITTING + "零", FITTING + "我们"]])[0]  # without context
    by_place = torch.stack(found[:-2]).view(len(FITTING), len(others), -1)  # (places, others, dim)
    assert (by_place != whole).any(dim=2).any(dim=1).all()
    for longer in found[-2:]:
        torch.testing.assert_close(longer, whole, rtol=0, atol=0)


def test_the_help_says_how_many_fit():
    assert f"{(50 - 2) // 3} Chinese characters" in neighbours.__doc__
