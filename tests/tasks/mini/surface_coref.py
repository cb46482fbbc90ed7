"""A trivial baseline for coreference: mentions found by their first word, and linked where their words are the same."""

from itertools import groupby

from tasks.coref.task import score_documents

PRONOUNS = ["i me my myself", "you your yourself", "he him his himself", "she her herself", "it its itself"]
PRONOUNS += ["we us our ourselves", "they them their themselves"]
FAMILY = {word: family for family in PRONOUNS for word in family.split()}
DETERMINERS = {"the", "a", "an", "this", "that", "these", "those", "my", "your", "his", "her", "its", "our", "their"}


def mentions(words, common):
    """The mentions of a sentence, each as start, end and what it shares with the others of its chain.

    They are: every pronoun; an article, demonstrative or possessive with the word after it; and every stretch of
    capitalised words, without a first word that is common.

    Args:
        words: of the sentence.
        common: words seen in lower case.
    """
    lower = [word.lower() for word in words]
    for place, word in enumerate(lower):
        if word in FAMILY:
            yield place, place + 1, FAMILY[word]
        if word in DETERMINERS and "".join(lower[place + 1 : place + 2]).isalpha():
            yield place, place + 2, " ".join(lower[place : place + 2])

    def is_name(place):
        known = lower[place] in FAMILY or lower[place] in DETERMINERS or (place == 0 and lower[place] in common)
        return words[place][0].isupper() and not known

    for fits, group in groupby(range(len(words)), is_name):
        if fits:
            start, *rest = group
            end = start + len(rest) + 1
            yield start, end, " ".join(lower[start:end])


def surface_chains(example, common):
    """The chains of a document: pronouns of the same family, other mentions with the same words."""
    chains, before = {}, 0
    for words in example.sentences:
        for start, end, shared in mentions(words, common):
            chains.setdefault(shared, []).append((before + start, before + end))
        before += len(words)
    return list(chains.values())


def score(train, test):
    """The scores of these chains; the words of train are the common ones."""
    common = {word for example in train for words in example.sentences for word in words if word.islower()}
    return score_documents([example.chains for example in test], [surface_chains(example, common) for example in test])
