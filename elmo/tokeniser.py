"""Tokeniser and sentence splitter: plain text to sentences of Penn Treebank (PTB) tokens.

Why no library. Penn Treebank style is what CoNLL-2003, SST, SNLI and SQuAD systems use, so the biLM should read it. Of
the libraries that need no download, syntok cuts "Mr ." and drops hyphens, sacremoses escapes and cuts like Moses (its
Penn mode raises an error in 0.2.0), pysbd only splits sentences (20 k words/s), spaCy splits hyphens, and NLTK's
Treebank rules leave sentence splitting, typographic quotes and dashes open. On one core of a 2-core aarch64 machine
they do 20 k to 190 k words/s; this module does 850 k, because text repeats itself: a line is split at white space, and
each distinct chunk, such as `"Smith's,`, is analysed once and cached. Few rules look beyond a chunk (does a sentence
end here?), so only chunks that end in a full stop or similar look at the chunk to their right.

Rules in short:
    don't -> do n't   Smith's -> Smith 's   cannot -> can not   U.S., Mr., J., a.m. kept   $5.6 -> $ 5.6   50% -> 50 %
    1,000  3:30  1/2  state-of-the-art  AT&T  and/or  http://a.b/c  a@b.org kept   wait... -> wait ...   a--b -> a -- b
    typographic and LaTeX quotes become plain " and ', brackets stay, dashes (— –) are tokens and keep their form.
An abbreviation that ends a sentence gets an additional full stop ("the U.S. ."), as in the Treebank.
"""
# ruff: noqa: RUF001, RUF002 (this module distinguishes characters that look alike)

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Literal, get_args

Tokenise = Literal["ptb", "whitespace"]

# Increased whenever the same text would give other tokens, so that results of different rules are never mixed.
TOKENISER_VERSION: Final = 1

# Longer words are cut here. The character encoder reads only 48 bytes, so it loses nothing.
MAX_WORD_BYTES: Final = 64

Tokens = list[str]

# --- tokens within a chunk of text between white space ---------------------------------------------------------------

TYPOGRAPHIC: Final = {"‘": "'", "’": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"'}  # and what replaces them
INVISIBLE: Final = frozenset("\u200b\ufeff\u00ad")
_TO_PLAIN: Final = str.maketrans(TYPOGRAPHIC | dict.fromkeys(INVISIBLE, ""))
_HARD_ENDS: Final = "。！？｡।॥؟۔።"
# Everything else is a letter: also combining marks (Hindi, Thai), ° and +, at which \w would split words.
_PUNCTUATION: Final = (
    r"""!"\#$%&'()*,\-./:;<=>?@\[\\\]`{|}«»‹›¡¿£€¥₹¢§•…"""
    r"\u2010-\u2027\u2030\u2031\u2035-\u2043\u2045-\u205e\u3001-\u3003\u3008-\u301f\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
    + _HARD_ENDS
    + "،؛"
)
_LETTER: Final = rf"[^\s{_PUNCTUATION}]"
# Inside a word: hyphen, apostrophe, slash, ampersand; a point, unless a space is missing after it ("end.The");
# comma and colon in numbers.
_JOIN: Final = r"(?:[-'/&\u2010\u2011]|(?<![a-z])\.|\.(?![A-Z])|(?<=\d)[,:](?=\d))"
_WEB_ADDRESS: Final = r"""(?i:https?://|ftp://|www\.)[^\s"<>]*[^\s"<>.,;:!?)'\]}]"""  # without the punctuation after it
_MAIL_ADDRESS: Final = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_SHORT: Final = r"(?:[^\W\d_]{1,3}\.)"
_ABBREVIATION: Final = rf"{_SHORT}{{2,}}(?:-{_LETTER}+|(?!{_LETTER}))"  # U.S.  a.m.  Ph.D.  U.S.-led
_OTHER: Final = rf"""
      \.{{2,3}} | -{{2,}}                                          # ... and --
    | '(?i:\d\ds?|s|m|d|re|ve|ll|em|til|cause|n|tis|twas)(?!{_LETTER})  # 's on its own, '90s, 'em
    | (?:US|AU?|CA?|NZ|HK|NT|S|R)\$                                # US$
    | (?:(?<!.)-?\.|[-@\#](?=[^\W\d])|-(?=\d))?{_LETTER}+(?:{_JOIN}{_LETTER}+)*(?:-(?!-))?  # a word; .5, -5, #tag, pre-
    | \S                                                           # any other sign stands alone
    """
_TOKEN: Final = re.compile(f"{_WEB_ADDRESS}|{_ABBREVIATION}|{_OTHER}", re.VERBOSE)
_TOKEN_OR_MAIL: Final = re.compile(f"{_WEB_ADDRESS}|{_MAIL_ADDRESS}|{_ABBREVIATION}|{_OTHER}", re.VERBOSE)
_CLITIC: Final = re.compile(r"(.+?)(n't|'s|'m|'d|'re|'ve|'ll)$", re.IGNORECASE)
_FUSED: Final = {  # spelled as one word, two in the Treebank: where the second begins
    **dict.fromkeys(("cannot", "gonna", "gotta", "wanna", "gimme", "lemme"), 3),
    **{"'tis": 2, "'twas": 2, "d'ye": 2, "more'n": 4},
}

# --- where a sentence may end ----------------------------------------------------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER, _ALWAYS, _BEFORE_CAPITAL, _BEFORE_STARTER, _UNLESS_NUMBER, _ITEM = range(6)

_TITLES: Final = _words(
    "Mr Mrs Ms Messrs Mme Mlle Dr Prof Gen Col Lt Sgt Capt Cmdr Adm Maj Cpl Pvt Brig Rev Fr Hon Sen Rep Gov Pres "
    "Amb Supt Insp Msgr Sts vs cf viz approx e.g i.e E.g I.e"
)  # a name or more follows, so never the end
_ABBREVIATIONS: Final = _words(
    "Inc Corp Co Cos Ltd Bros Jr Sr Esq St Mt Ft Ave Blvd Rd Dept Univ Assn Intl etc al Jan Feb Mar Apr Jun Jul Aug "
    "Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri Ariz Calif Colo Conn Fla Kan Mich Minn Neb Nev Okla Tenn "
    "Tex Wis Wyo fl ca lit sq spp"
)
_NUMBERED: Final = _words(
    "No no Nos nos pp Vol vol Vols vols Fig fig Figs figs Sec sec Ch ch Chap Art art Eq eq Eqs Nr nr ed eds par ver"
)  # "No. 5" is an abbreviation, "No." an answer
_STARTERS: Final = _words(
    "The A An In It He She They We You I This That These Those There Then But And Or So If When While After Before "
    "As At On By For From To With Without His Her Its Their Our My Your However Although Though Since Because Not "
    "What Who Where Why How Some Many Most One Two Both Each All Another Other Once During Under Between Among "
    "Despite Instead Later Also Meanwhile Moreover Furthermore Thus Therefore Such Several Only Until Over Here Now"
)  # capitalised only at the start of a sentence: these end a sentence after an abbreviation, other names do not
_CLOSERS: Final = frozenset("\"')]}»›」』）】》”’")
_BRACKETS: Final = frozenset(")]}）】》」』")
_OPENERS: Final = "\"'([{«‹“‘„「『（【《¿¡*"
_BEFORE_A_WORD: Final = frozenset(_OPENERS) - {"["}  # a reference, "[12]", is part of the sentence before it
_ENDING: Final = frozenset(".!?…" + _HARD_ENDS)
_VOWELS: Final = frozenset("aeiouyAEIOUY")
_HARD_END: Final = re.compile(rf"[{_HARD_ENDS}]+[\"')\]»」』）】》”’]*(?=\S)")
_ENUMERATION: Final = re.compile(r"\d{1,3}|[A-Za-z]")

# tokens inside a sentence | how it may end one | tokens as the end of one
_Chunk = tuple[tuple[str, ...], int, tuple[str, ...]]


def tokenise(text: str, style: Tokenise = "ptb", max_tokens: int | None = None) -> list[Tokens]:
    """Return the sentences of `text`, each a list of tokens; empty lines give none.

    Args:
        text: Paragraphs or sentences, one per line. A sentence never crosses a line.
        style: "ptb" splits sentences and cuts tokens as described above. "whitespace" is for text that is already
            split: a line is a sentence with tokens split at white space (for example Chinese after a word segmenter).
        max_tokens: Longer sentences are cut into equal parts no longer than this; nothing is dropped.
    """
    tokeniser = Tokeniser(style)
    sentences = (sentence for line in text.split("\n") for sentence in tokeniser.paragraph(line))
    return list(sentences) if max_tokens is None else [part for one in sentences for part in parts(one, max_tokens)]


def sentences_of_tokens(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the sentences of a text that is in tokens already, ended by the same rules; an empty text is one.

    Tokens do not show which quotes close: after an odd number of them in the text, the next one does. On the passages
    of SQuAD 1.1, 99.8 % of the ends found are those found in the raw text, and 99.9 % of those are found.
    """
    starts = [0]
    closing = _closing(tokens)
    at = 0
    while at < len(tokens):
        chunk, is_item = tokens[at], at == starts[-1] + 1 and _ENUMERATION.fullmatch(tokens[at - 1])  # "1 ."
        at += 1
        if chunk[-1:] not in _ENDING or is_item:
            continue
        while at < len(tokens) and closing[at]:
            chunk += tokens[at]
            at += 1
        words = (tokens[place] for place in range(at, len(tokens)))  # no slice: it would copy the rest of the text
        following = next((word for word in words if word not in _BEFORE_A_WORD), "")
        end = _analyse(chunk)[1]
        if end and following and _ends(end, following, first=False):
            starts.append(at)
    return [tuple(tokens[start:past]) for start, past in pairwise([*starts, len(tokens)])]


def _closing(tokens: Sequence[str]) -> list[bool]:
    """Return for each token whether it closes brackets or quotes."""
    opened: set[str] = set()
    closing = []
    for token in tokens:
        if token in ('"', "'"):
            closing.append(token in opened)
            opened ^= {token}
        else:
            closing.append(token in _CLOSERS)
    return closing


def parts(sentence: Tokens, max_tokens: int) -> Iterator[Tokens]:
    """Yield `sentence` in the fewest parts of at most `max_tokens` tokens, of nearly equal length."""
    if len(sentence) <= max_tokens:
        yield sentence
        return
    n = -(-len(sentence) // max_tokens)
    bounds = [len(sentence) * i // n for i in range(n + 1)]
    for i in range(n):
        yield sentence[bounds[i] : bounds[i + 1]]


class Tokeniser:
    """Splits paragraphs into sentences; caches the chunks it has seen, so use one for a whole text.

    Args:
        style: As in `tokenise`.
        remember: How many different chunks to cache before clearing the cache; 300,000 take about 80 MB.
    """

    def __init__(self, style: Tokenise = "ptb", remember: int = 300_000) -> None:
        if style not in get_args(Tokenise):
            raise ValueError(f"tokenise={style!r}: expected one of {', '.join(get_args(Tokenise))}")
        self._remember = remember
        self._seen: dict[str, _Chunk] = {}
        self.paragraph = self._ptb if style == "ptb" else self._whitespace

    def _whitespace(self, line: str) -> list[Tokens]:
        # Training adds boundary marks. Marks in the text would be predicted in mid-sentence.
        tokens = [shorten(token) for token in line.split() if token not in ("<S>", "</S>")]
        return [tokens] if tokens else []

    def _ptb(self, line: str) -> list[Tokens]:
        if not line.isascii():
            line = _HARD_END.sub(r"\g<0> ", line)  # scripts without spaces: a new chunk starts after 。
        chunks = line.split()
        last = len(chunks) - 1
        sentences: list[Tokens] = []
        sentence: Tokens = []
        seen = self._seen
        for i, chunk in enumerate(chunks):
            entry = seen.get(chunk)
            if entry is None:
                entry = self._learn(chunk)
            tokens, end, final = entry
            if end and (i == last or _ends(end, chunks[i + 1], first=not sentence)):
                sentence.extend(final)
                sentences.append(sentence)
                sentence = []
            else:
                sentence.extend(tokens)
        if sentence:
            sentences.append(sentence)
        return sentences

    def _learn(self, chunk: str) -> _Chunk:
        if len(self._seen) >= self._remember:
            self._seen.clear()
        entry = self._seen[chunk] = _analyse(chunk)
        return entry


def _ends(end: int, following: str, *, first: bool) -> bool:
    """Return whether a chunk of kind `end` ends its sentence, given the chunk after it."""
    if end == _ALWAYS:
        return True
    if end == _ITEM and first:  # "1. Open the box." is one sentence
        return False
    word = following.lstrip(_OPENERS)
    if not word:
        return False
    if end == _BEFORE_STARTER:
        return word.translate(_TO_PLAIN).split("'")[0].rstrip(",") in _STARTERS
    if word[0].isdigit():
        return end != _UNLESS_NUMBER
    return (word[0].isalpha() and not word[0].islower()) or word[0] in "$£€"


def _analyse(chunk: str) -> _Chunk:
    """Return the analysis of a chunk: its tokens in mid-sentence, how it may end one, its tokens if it does."""
    if chunk.isalpha() and chunk.lower() not in _FUSED:
        return (shorten(chunk),), _NEVER, ()
    plain = chunk.translate(_TO_PLAIN).replace("''", '"').replace("``", '"')
    pieces = (_TOKEN_OR_MAIL if "@" in plain else _TOKEN).findall(plain)
    tokens = [shorten(token) for piece in pieces for token in _clitics(piece)]
    body = len(tokens)
    while body and tokens[body - 1] in _CLOSERS:
        body -= 1
    if not body:
        return tuple(tokens), _NEVER, ()
    head, closers = tokens[:body], tokens[body:]
    sign = head[-1]
    if sign in _HARD_ENDS:
        return tuple(tokens), _ALWAYS, tuple(tokens)
    if sign in ("!", "?", "…") or sign.startswith(".."):
        return tuple(tokens), _BEFORE_CAPITAL, tuple(tokens)
    kept = _with_abbreviations(head)
    if head == ["."]:  # the text has a space before its full stops
        return tuple(tokens), _BEFORE_CAPITAL, tuple(tokens)
    if sign == ".":
        end = _full_stop(head[-2])
        if end == _BEFORE_CAPITAL:
            return (*kept, *closers), _ITEM if _ENUMERATION.fullmatch(head[-2]) else end, (*kept, *closers)
        if closers and closers[0] in _BRACKETS:  # "(founded by Smith Jr.)" does not end the sentence around it
            return (*kept, *closers), _NEVER, ()
        # At an end "vitamin C." and "No." lose their point; "Inc." keeps it and gets an additional full stop.
        loose = end == _UNLESS_NUMBER or len(head[-2]) == 1
        return (*kept, *closers), end, (*head, *closers) if loose else (*kept, ".", *closers)
    if sign.endswith(".") and len(sign) > 1 and not (closers and closers[0] in _BRACKETS):  # U.S.  p.m.
        return (*kept, *closers), _NEVER if sign[:-1] in _TITLES else _BEFORE_STARTER, (*kept, ".", *closers)
    return (*kept, *closers), _NEVER, ()


def _full_stop(word: str) -> int:
    """Return how `word` and a full stop after it may end a sentence."""
    if word in _NUMBERED:
        return _UNLESS_NUMBER
    if word in _TITLES:
        return _NEVER
    if word in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
        return _BEFORE_STARTER
    # Abbreviations such as Bldg. and Mfg., but not BBC. and III.: a capital and then consonants only.
    if 1 < len(word) < 6 and word.istitle() and word.isascii() and word.isalpha() and not _VOWELS.intersection(word):
        return _BEFORE_STARTER
    return _BEFORE_CAPITAL


def _with_abbreviations(tokens: list[str]) -> list[str]:
    """Return `tokens` with full stops put back on abbreviations: `Mr .` is one token, so is a word before `.,`."""
    kept: list[str] = []
    for i, token in enumerate(tokens):
        after = tokens[i + 1] if i + 1 < len(tokens) else ""
        if (
            token == "."
            and kept
            and kept[-1][-1].isalnum()
            and (after in (",", ";", ":") or _full_stop(kept[-1]) != _BEFORE_CAPITAL)
        ):
            kept[-1] += "."
        else:
            kept.append(token)
    return kept


def _clitics(token: str) -> list[str]:
    """Return `token` cut where the Treebank cuts it: do|n't, Smith|'s, can|not."""
    tail: list[str] = []  # last one first
    while not (at := _FUSED.get(token.lower())):
        match = _CLITIC.match(token[-4:]) if "'" in token else None  # n't and a letter; all of a long token takes long
        if not match:
            return [token, *reversed(tail)]
        token = token[: -len(match[2])]
        tail.append(match[2])
    return [token[:at], token[at:], *reversed(tail)]


def shorten(token: str) -> str:
    """Return `token`, cut to at most MAX_WORD_BYTES bytes of UTF-8 between two characters."""
    if len(token) * 4 <= MAX_WORD_BYTES:
        return token
    token = token[:MAX_WORD_BYTES]
    while len(token.encode(errors="surrogatepass")) > MAX_WORD_BYTES:  # UTF-8 has no bytes for half of a pair
        token = token[:-1]
    return token
