"""The mini documents for coreference: well-formed, consistent, without copies or templates, and as their card says."""

from itertools import chain, combinations
from statistics import mean

import pytest

from tasks.coref.task import CorefExample, read_coref, score_documents
from tasks.data.datasets import SHIPPED
from tasks.task import SPLITS
from tests.tasks.mini import chance
from tests.tasks.mini.mini_measures import Text, alike, counts_in_card, equal, patterns, section, variety
from tests.tasks.mini.surface_coref import FAMILY, mentions, surface_chains

FOLDER = SHIPPED / "coref"
DOCUMENTS = {split: read_coref(FOLDER / f"{split}.conll") for split in SPLITS}
ALL = list(chain.from_iterable(DOCUMENTS.values()))
TEXTS = [
    Text("document", split, example.id, tuple(chain.from_iterable(example.sentences)))
    for split, examples in DOCUMENTS.items()
    for example in examples
]
TOKENS = 1100  # of the smallest split
EVERY_SPLIT = pytest.mark.parametrize("split", SPLITS)


def words_of(example):
    return list(chain.from_iterable(example.sentences))


def spans_of(example):
    return sorted(chain.from_iterable(example.chains))


def figures(examples):
    """The figures of documents as the card writes them, by the names that its rows have."""
    chains = [own for example in examples for own in example.chains]
    widths = [end - start for start, end in chain.from_iterable(chains)]
    lengths = [len(words_of(example)) for example in examples]
    sentences = [words for example in examples for words in example.sentences]
    pronouns = [
        end - start == 1 and words_of(example)[start].lower() in FAMILY
        for example in examples
        for start, end in spans_of(example)
    ]
    return {
        "documents": f"{len(examples):,}",
        "sentences": f"{len(sentences):,}",
        "tokens": f"{sum(lengths):,}",
        "mentions": f"{len(widths):,}",
        "chains": f"{len(chains):,}",
        "of which singletons": f"{sum(len(own) == 1 for own in chains):,}",
        "document: tokens, mean": f"{mean(lengths):.1f}",
        "document: tokens, fewest and most": f"{min(lengths):,}, {max(lengths):,}",
        "sentence: tokens, mean": f"{mean(map(len, sentences)):.1f}",
        "sentence: types / tokens": f"{variety(sentences, TOKENS):.3f}",
        "mentions per 100 tokens": f"{100 * len(widths) / sum(lengths):.1f}",
        "mention: tokens, mean": f"{mean(widths):.2f}",
        "mention: tokens, most": f"{max(widths)}",
        "mentions that are pronouns, %": f"{100 * mean(pronouns):.1f}",
        "chain of two or more: mentions, mean": f"{mean(len(own) for own in chains if len(own) > 1):.2f}",
    }


class TestFormat:
    @EVERY_SPLIT
    def test_columns(self, split):
        """Every word has its document's name, part 0, eight unused columns and the mentions."""
        name = None
        for line in (FOLDER / f"{split}.conll").read_text(encoding="utf-8").splitlines():
            if line.startswith("#begin document ("):
                name = line.removeprefix("#begin document (").removesuffix("); part 0")
            elif line and line != "#end document":
                document, part, _, _, *unused, _ = line.split("\t")
                assert (document, part, unused) == (name, "0", ["_"] * 8), line

    def test_sizes_of_documents(self):
        for example in ALL:
            assert 70 <= len(words_of(example)) <= 150, example.id
            assert 4 <= len(example.sentences) <= 9, example.id
            assert 5 <= sum(len(own) > 1 for own in example.chains) <= 12, example.id

    def test_tokens_are_those_of_the_treebank(self):
        """Contractions are split, quotes are plain, punctuation stands alone and ends every sentence but greetings."""
        for word in chain.from_iterable(map(words_of, ALL)):
            assert word.isascii(), word
            assert word in ("n't", "o'clock") or "'" not in word[1:], word
            assert len(word) == 1 or not set(word) & set('",;:?!()[]'), word
            assert not word.endswith(".") or word in (".", "Mr.", "Mrs.", "Ms.", "Dr."), word

    def test_spans(self):
        """Spans are nested or apart, each is in the file once, and punctuation and 's are outside at both ends."""
        for example in ALL:
            words = words_of(example)
            assert example.repeated == 0, example.id
            for start, end in spans_of(example):
                edges = words[start], words[end - 1]
                assert not set(edges) & {"'s", *'.,;:?!"()'}, (example.id, words[start:end])
            for first, second in combinations(spans_of(example), 2):
                crossing = first[0] < second[0] < first[1] < second[1]
                assert not crossing, (example.id, first, second)

    def test_every_pronoun_for_a_person_is_a_mention(self):
        """Those of the first person and he and she always refer in these texts; it, you and they need not."""
        personal = {word for word, family in FAMILY.items() if family[:2] in ("i ", "we", "he", "sh")}
        for example in ALL:
            # "us both" is one mention.
            inner = {start for start, end in spans_of(example) if words_of(example)[start + 1 : end] == ["both"]}
            found = {start for start, end in spans_of(example) if end - start == 1} | inner
            pronouns = {place for place, word in enumerate(words_of(example)) if word.lower() in personal}
            assert pronouns <= found, example.id


class TestCard:
    @EVERY_SPLIT
    def test_counts(self, split):
        found, stated = figures(DOCUMENTS[split]), counts_in_card("coref")
        assert {row: cells[split] for row, cells in stated.items()} == found

    @pytest.mark.integration
    def test_counts_of_litbank(self, unpacked):
        files = sorted((unpacked("coref") / "coref" / "litbank" / "conll").glob("*.conll"))
        found = figures([example for path in files for example in read_coref(path)])
        assert {row: cells["original"] for row, cells in counts_in_card("coref").items()} == found

    def test_licence(self):
        assert section("coref", "Licence").strip() == "CC0 1.0: no rights reserved."

    def test_chance(self):
        lines = section("coref", "Chance").splitlines()
        assert str(chance.same_words(DOCUMENTS["train"], DOCUMENTS["test"])) in lines
        gold = [example.chains for example in DOCUMENTS["test"]]
        apart = score_documents(gold, [[[span] for span in spans_of(example)] for example in DOCUMENTS["test"]])
        together = score_documents(gold, [[spans_of(example)] for example in DOCUMENTS["test"]])
        values = together.values["average"], apart.values["average"]
        assert "With the gold mentions: all in one chain {:.1f}, each in its own {:.1f}.".format(*values) in lines

    def test_second_reading(self):
        """Ten test documents that were annotated again, without sight of the gold chains."""
        again = read_coref(FOLDER / "second_reading.conll")
        gold = {example.id: example for example in DOCUMENTS["test"]}
        assert len(again) == 10
        assert all(example.sentences == gold[example.id].sentences for example in again)
        scores = score_documents([gold[e.id].chains for e in again], [e.chains for e in again])
        line = f"Agreement of the second reading, 10 documents: average F1 {scores.values['average']:.1f}."
        assert line in section("coref", "Agreement").splitlines()


class TestCopies:
    def test_no_name_and_no_text_twice(self):
        assert len({example.id for example in ALL}) == len(ALL)
        assert equal(TEXTS) == []

    def test_no_text_nearly_twice(self):
        assert [(a.group, b.group) for a, b in alike(TEXTS, 0.3)] == []

    @EVERY_SPLIT
    def test_no_template(self, split):
        """No 5-gram of words with an open slot is in more than two documents of a split."""
        counts = patterns([text for text in TEXTS if text.split == split])
        words_only = {gram: n for gram, n in counts.items() if all(word == "_" or word.isalnum() for word in gram)}
        assert {gram: n for gram, n in words_only.items() if n > 2} == {}

    def test_splits_share_few_names(self):
        """A chain of test is not recognised by its name: at most one in ten names occurs in train."""

        def names(split):
            places = ((words_of(example), span) for example in DOCUMENTS[split] for span in spans_of(example))
            return {" ".join(words[a:b]) for words, (a, b) in places if all(word[0].isupper() for word in words[a:b])}

        test = {name for name in names("test") if name.lower() not in FAMILY}
        assert len(test & names("train")) < len(test) / 10, test & names("train")


class TestBaseline:
    def test_mentions(self):
        words = ["The", "old", "Ann", "Lee", "sold", "her", "boat", "to", "him", "."]
        found = {" ".join(words[start:end]) for start, end, _ in mentions(words, common=set())}
        assert found == {"The old", "Ann Lee", "her", "her boat", "him"}

    def test_a_common_first_word_is_no_name(self):
        assert list(mentions(["Dogs", "bark"], common={"dogs"})) == []
        assert list(mentions(["Rover", "barks"], common={"dogs"})) == [(0, 1, "rover")]

    def test_chains(self):
        sentences = (["He", "met", "Ann"], ["The", "dog", "bit", "him", "and", "the", "dog", "bit", "Ann"])
        example = CorefExample("a", sentences, (), "", ())
        assert sorted(surface_chains(example, set())) == [[(0, 1), (6, 7)], [(2, 3), (11, 12)], [(3, 5), (8, 10)]]
