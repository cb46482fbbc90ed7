# ruff: noqa: RUF001 - typographic characters are tested
import random

import pytest

from elmo.tokeniser import MAX_WORD_BYTES, Tokeniser, sentences_of_tokens, tokenise

PTB = [
    # contractions and possessives
    ("I don't think he can't swim", "I do n't think he ca n't swim"),
    (
        "We're late, you've won, she'd go, I'll stay, I'm here",
        "We 're late , you 've won , she 'd go , I 'll stay , I 'm here",
    ),
    ("Smith's dogs' bowls", "Smith 's dogs ' bowls"),
    ("It’s the city’s", "It 's the city 's"),
    ("DON'T SHOUT, IT'S LATE", "DO N'T SHOUT , IT 'S LATE"),
    ("they couldn't've known", "they could n't 've known"),
    ("cannot gonna Gotta", "can not gon na Got ta"),
    ("O'Neill at five o'clock", "O'Neill at five o'clock"),
    ("back in the '90s with 'em", "back in the '90s with 'em"),
    # abbreviations, initials
    ("Mr. Smith met Dr. Jones vs. the U.S. Army", "Mr. Smith met Dr. Jones vs. the U.S. Army"),
    ("the U.S.-led force, the U.S.'s plan", "the U.S.-led force , the U.S. 's plan"),
    ("J. K. Rowling and J.R.R. Tolkien", "J. K. Rowling and J.R.R. Tolkien"),
    ("Acme Inc., Foo Corp., etc., at 5 p.m. on Jan. 5", "Acme Inc. , Foo Corp. , etc. , at 5 p.m. on Jan. 5"),
    ("No. 5 and pp. 12, Fig. 3", "No. 5 and pp. 12 , Fig. 3"),
    ("a Ph.D. student, e.g. me (i.e. us)", "a Ph.D. student , e.g. me ( i.e. us )"),
    # sentence ends
    ("It ended.", "It ended ."),
    ("He lives in the U.S.", "He lives in the U.S. ."),
    ("She works for Acme Inc.", "She works for Acme Inc. ."),
    ("She takes vitamin C.", "She takes vitamin C ."),
    ('"It ended."', '" It ended . "'),
    ("(It ended.)", "( It ended . )"),
    ('He said "no".', 'He said " no " .'),
    ("Really?! No!", "Really ? ! No !"),
    # numbers, money, times
    ("$5.6 million, US$5, £3.50, €4", "$ 5.6 million , US$ 5 , £ 3.50 , € 4"),
    ("1,000 miles, 50% at 3:30, 1/2 of .5 and -7", "1,000 miles , 50 % at 3:30 , 1/2 of .5 and -7"),
    ("in 1,000, 2,000 or 3", "in 1,000 , 2,000 or 3"),
    ("20°C, 10th, 1990s, 747-400", "20°C , 10th , 1990s , 747-400"),
    # words with signs in them
    ("state-of-the-art and/or AT&T C++", "state-of-the-art and/or AT&T C++"),
    ("pre- and post-war", "pre- and post-war"),
    (
        "see http://a.org/b?c=1, www.x.com. mail a.b@c.org; #tag @user",
        "see http://a.org/b?c=1 , www.x.com . mail a.b@c.org ; #tag @user",
    ),
    # quotes, brackets, dashes, dots
    ("“Yes,” she said, ‘no’", "\" Yes , \" she said , ' no '"),
    ("``Quoted'' as in LaTeX", '" Quoted " as in LaTeX'),
    ("[5] and {x} or (y)", "[ 5 ] and { x } or ( y )"),
    ("word--word and word -- word", "word -- word and word -- word"),
    ("In 2007–2010 it—he said—grew", "In 2007 – 2010 it — he said — grew"),
    ("wait... what... and…", "wait ... what ... and …"),
    ("end.The next, example.com", "end . The next , example.com"),
    ("a;b: c", "a ; b : c"),
    ("said.[12] so", "said . [ 12 ] so"),
    # already tokenised text passes through
    ("I do n't know , he 's \" here \" -- ( Mr. X )", "I do n't know , he 's \" here \" -- ( Mr. X )"),
    # other scripts
    ("Ça coûte 5 €, n'est-ce pas", "Ça coûte 5 € , n'est-ce pas"),
    ("мама мыла раму, да", "мама мыла раму , да"),
    ("यह किताब है", "यह किताब है"),
    ("he\u200bllo so\u00adft", "hello soft"),
]


@pytest.mark.parametrize(("text", "expected"), PTB, ids=[text[:40] for text, _ in PTB])
def test_tokens_are_those_of_the_treebank(text, expected):
    assert [token for sentence in tokenise(text) for token in sentence] == expected.split()


SPLITS = [
    ("It rained. He left.", ["It rained .", "He left ."]),
    ("Mr. Smith left. Dr. Jones stayed.", ["Mr. Smith left .", "Dr. Jones stayed ."]),
    ("J. K. Rowling wrote. George W. Bush read.", ["J. K. Rowling wrote .", "George W. Bush read ."]),
    ("It cost $5.6 million. 12 men paid.", ["It cost $ 5.6 million .", "12 men paid ."]),
    ("He lives in the U.S. He likes it.", ["He lives in the U.S. .", "He likes it ."]),
    ("The U.S. Army came.", ["The U.S. Army came ."]),
    ("Acme Corp. The firm grew.", ["Acme Corp. .", "The firm grew ."]),
    ("We met at 5 p.m. Then we left.", ["We met at 5 p.m. .", "Then we left ."]),
    ('"Go." She went.', ['" Go . "', "She went ."]),
    ('"Really?" he asked. "Yes!" she said.', ['" Really ? " he asked .', '" Yes ! " she said .']),
    ("(See Fig. 3.) The end.", ["( See Fig. 3 . )", "The end ."]),
    ("He knew (he said so.) and left.", ["He knew ( he said so . ) and left ."]),
    ("founded by Smith (Jr.) The firm", ["founded by Smith ( Jr. ) The firm"]),
    ("No. 5 won. No. We lost.", ["No. 5 won .", "No .", "We lost ."]),
    ("1. Open it. 2. Close it.", ["1 . Open it .", "2 . Close it ."]),
    ("He paused... Then he went. so did I", ["He paused ...", "Then he went . so did I"]),
    ("It grew , he said . She left .", ["It grew , he said .", "She left ."]),
    ("e.g. The Times", ["e.g. The Times"]),
    ("One line.\n\n  \nanother line\r\nlast", ["One line .", "another line", "last"]),
    (
        "那个包袱把观众逗笑了。他打开包袱，里面是衣服！你呢？",
        ["那个包袱把观众逗笑了 。", "他打开包袱 ， 里面是衣服 ！", "你呢 ？"],
    ),
    ("相声 演员 抖 了 一个 包袱 。 她 背着 包袱 。", ["相声 演员 抖 了 一个 包袱 。", "她 背着 包袱 。"]),
    ("他说：「走吧。」她走了。", ["他说 ： 「 走吧 。 」", "她走了 。"]),
    ("यह किताब है। वह घर है।", ["यह किताब है ।", "वह घर है ।"]),
    ("", []),
    (" \n\t\n", []),
]


@pytest.mark.parametrize(("text", "expected"), SPLITS, ids=[text[:40] for text, _ in SPLITS])
def test_sentences_end_where_a_reader_would_end_them(text, expected):
    assert [" ".join(sentence) for sentence in tokenise(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"), [pair for pair in SPLITS if "\n" not in pair[0]], ids=lambda value: str(value)[:40]
)
def test_tokens_of_several_sentences_end_where_their_text_does(text, expected):
    tokens = " ".join(expected).split()
    assert [" ".join(sentence) for sentence in sentences_of_tokens(tokens)] == (expected or [""])


@pytest.mark.parametrize(
    "expected",
    [
        ['" It rained .', 'He left . "', "Then the sun came out ."],
        ["It rained . [ 12 ] He left ."],
        ["It rained .", '" He left . "', '( " Why ? " )', "She smiled ."],
        ["The firm of Smith Inc .", "It grew in the U.S.", "There it ended"],
    ],
)
def test_ends_that_tokens_alone_must_show(expected):
    assert [" ".join(sentence) for sentence in sentences_of_tokens(" ".join(expected).split())] == expected


def test_whitespace_keeps_lines_and_tokens():
    text = "<S> 他 打开 包袱 。 里面 有 don't </S>\n\nU.S. <UNK>\n"
    assert tokenise(text, "whitespace") == [["他", "打开", "包袱", "。", "里面", "有", "don't"], ["U.S.", "<UNK>"]]


def test_unknown_tokeniser_is_refused_by_name():
    with pytest.raises(ValueError, match=r"tokenise='moses': expected one of ptb, whitespace"):
        Tokeniser("moses")


@pytest.mark.parametrize("n", [1, 5, 6, 11, 16])
def test_long_sentences_are_cut_into_equal_parts_and_lose_nothing(n):
    words = [f"w{i}" for i in range(n)]
    parts = tokenise(" ".join(words), "whitespace", max_tokens=5)
    assert [word for part in parts for word in part] == words
    sizes = [len(part) for part in parts]
    assert max(sizes) <= 5
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("style", ["ptb", "whitespace"])
def test_endless_words_are_cut_between_characters(style):
    [[word]] = tokenise("包" * 1000, style)
    assert word == "包" * (MAX_WORD_BYTES // 3)
    [[word]] = tokenise("x" * 1000, style)
    assert word == "x" * MAX_WORD_BYTES
    [[word]] = tokenise("\udcff" * 1000, style)  # halves of surrogate pairs: bytes that were not UTF-8
    assert word == "\udcff" * (MAX_WORD_BYTES // 3)


def test_any_number_of_clitics_is_cut_off():
    [found] = tokenise("x" + "'s" * 20_000)
    assert found == ["x", *["'s"] * 20_000]


N = 200
ROW = "Ab.Ed." * N
CUT = ["Ab", ".", "Ed", "."] * N


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (ROW + "Long", [*CUT, "Long"]),
        (ROW, [ROW[:MAX_WORD_BYTES]]),  # an abbreviation
        (f"long-{ROW}", ["long-Ab", ".", ("Ed." + ROW)[:MAX_WORD_BYTES]]),
        (f"{ROW}Ok@mail", [*CUT, "Ok", "@mail"]),
        (f"{ROW}Ok@mail.org", [ROW[:MAX_WORD_BYTES]]),
        (f"a@b.org,{ROW}Long,a@b.org", ["a@b.org", ",", *CUT, "Long", ",", "a@b.org"]),
        ("..." * N + "@", [*["..."] * N, "@"]),
    ],
    ids=["row", "abbreviation", "word first", "no mail", "mail", "mail around", "points"],
)
def test_long_rows_of_short_parts_are_cut_like_short_ones(chunk, expected):
    assert tokenise(f"{chunk}, x") == [[*expected, ",", "x"]]


def test_chunks_have_the_same_tokens_after_a_long_word_as_after_a_short_one():
    rng = random.Random(1)
    parts = ["Ab.", "C.", "de.", "FGH.", "a", "Word", "1", "..", "-", "+", "@", "@b.org", "www.", "'s", ",", "US$"]
    for _ in range(5_000):
        chunk = "".join(rng.choices(parts, k=rng.randint(1, 12)))
        [[_, *expected]] = tokenise(f"x,{chunk}")
        assert tokenise(f"{'x' * 1000},{chunk}") == [["x" * MAX_WORD_BYTES, *expected]], chunk


def test_forgetting_chunks_changes_nothing():
    text = [text for text, _ in [*PTB, *SPLITS]]
    forgetful, steady = Tokeniser(remember=3), Tokeniser()
    assert [forgetful.paragraph(t) for t in text] == [steady.paragraph(t) for t in text]
    assert [steady.paragraph(t) for t in text] == [Tokeniser().paragraph(t) for t in text]
