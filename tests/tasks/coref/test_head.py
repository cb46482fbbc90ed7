"""The coreference head: what is cut, what the loss sums, what it learns, and how much memory a long document needs."""

import re
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from elmo.common.checks import check_ranges
from elmo.common.errors import InputError
from tasks.coref.head import CorefSettings
from tasks.coref.task import Coref, CorefExample, CorefReader
from tasks.task import FeatureBatch

SMALL = CorefSettings(hidden=8, feedforward=12, feature=4, dropout=0.0, span_width=4, spans_per_word=0.8)
DIM = 16
TWO = [
    CorefExample(
        "a:0",
        (("Ann", "saw", "her", "dog"), ("she", "called", "it")),
        ("",) * 7,
        "nw",
        (((0, 1), (2, 3), (4, 5)), ((2, 4), (6, 7))),
    ),
    CorefExample(
        "b:0",
        (("the", "two", "old", "men", "sat"), ("They",), ("ate", "bread", "in", "the", "park")),
        ("x",) * 6 + ("y",) * 5,
        "bc",
        (((0, 4), (5, 6)), ((7, 8),), ((9, 11),)),
    ),
]


def task_of(settings=SMALL, singletons=True):
    task = Coref(settings, CorefReader(singletons))
    task.learn_labels(TWO)
    return task


def test_training_files_without_chains():
    with pytest.raises(InputError, match="expected chains in the training files, found none in 2 documents"):
        Coref(SMALL, CorefReader()).learn_labels([replace(example, chains=()) for example in TWO])


def features_of(batch, seed=0):
    """A drawn vector for each place of each word."""
    lengths = torch.tensor([len(sentence) for sentence in batch.texts[0]])
    inside = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    vectors = torch.randn(*inside.shape, DIM, generator=torch.Generator().manual_seed(seed)) * inside.unsqueeze(-1)
    nothing = vectors[..., :0]
    return [FeatureBatch(vectors, nothing, nothing, inside, lengths)]


def head_of(task, seed=1):
    torch.manual_seed(seed)
    return task.build_head({"input": DIM})


@pytest.mark.parametrize("singletons", [True, False])
def test_learns_two_documents_by_heart(singletons):
    """With singletons all chains. Without, a mention that is pruned is never learned: chains of two of the others."""
    task = task_of(singletons=singletons)
    head, batch = head_of(task), task.collate(TWO)
    features = features_of(batch)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss = head.loss(features, batch)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.5
    head.eval()
    expected = task.gold(TWO)
    if not singletons:
        kept = [head._kept(document) for document in head._documents(features[0], batch)]
        expected = [
            tuple(own for own in (tuple(span for span in chain if span in spans) for chain in chains) if len(own) > 1)
            for chains, spans in zip(expected, kept, strict=True)
        ]
        assert all(expected)
    assert head.decode(features, batch) == expected


def test_mentions_are_scored_as_such_only_if_singletons_are_annotated():
    """The difference of the two losses: binary cross-entropy of kept spans and of gold mentions that were pruned."""
    few = replace(SMALL, spans_per_word=0.2, mention_weight=0.5)
    task = task_of(few)
    head, batch = head_of(task), task.collate(TWO)
    features = features_of(batch)
    whole = head.loss(features, batch)
    head.singletons = False
    links = head.loss(features, batch)
    expected = 0.0
    for document in head._documents(features[0], batch):
        kept = head._kept(document)
        assert set(document.chain_of) - set(kept), "some mentions are pruned"
        spans = sorted({*kept, *document.chain_of})
        scores = head.spans.scorer(head.spans(document, spans))
        right = torch.tensor([span in document.chain_of for span in spans])
        expected -= torch.where(right, scores.sigmoid(), 1 - scores.sigmoid()).log().sum().item()
    assert (whole - links).item() == pytest.approx(0.5 * expected, rel=1e-4)


def test_a_document_is_cut_in_training_alone_and_its_mentions_with_it():
    task = task_of(replace(SMALL, max_sentences=1))
    head, batch = head_of(task), task.collate(TWO)
    features = features_of(batch)
    read = [set(), set()]
    for _ in range(30):
        for number, document in enumerate(head.train()._documents(features[0], batch)):
            words = len(document.states)
            assert (document.sentence_ends == words - 1).all()
            assert len(document.vectors) == len(document.speakers) == words
            read[number].add((words, tuple(document.chain_of.items()), tuple(document.speakers.tolist())))
    assert read[0] == {
        (4, (((0, 1), 1), ((2, 3), 1), ((2, 4), 2)), (0,) * 4),
        (3, (((0, 1), 1), ((2, 3), 2)), (0,) * 3),
    }
    assert read[1] == {
        (5, (((0, 4), 1),), (1,) * 5),
        (1, (((0, 1), 1),), (1,)),
        (5, (((1, 2), 2), ((3, 5), 3)), (2,) * 5),
    }
    whole = list(head.eval()._documents(features[0], batch))
    assert [len(document.states) for document in whole] == [7, 11]
    assert [document.sentence_ends.tolist() for document in whole] == [[3] * 4 + [6] * 3, [4] * 5 + [5] + [10] * 5]
    assert [document.genre.item() for document in whole] == [2, 1]  # of bc, nw, after the unknown one


def test_a_share_of_the_words_is_kept_as_spans():
    task = task_of()  # 0.8 of 7 and of 11 words, without what follows the decimal point
    head, batch = head_of(task), task.collate(TWO)
    documents = head.eval()._documents(features_of(batch)[0], batch)
    assert [len(head._kept(document)) for document in documents] == [5, 8]


def test_the_seed_decides_where_a_document_is_cut():
    task = task_of(replace(SMALL, max_sentences=1))
    head, batch = head_of(task), task.collate(TWO)
    features = features_of(batch)

    def losses(seed):
        torch.manual_seed(seed)
        return [head.train().loss(features, batch).item() for _ in range(8)]

    assert losses(1) == losses(1)
    assert len(set(losses(1))) > 1


def test_a_document_of_one_word():
    task, one = task_of(), CorefExample("c:0", (("Yes",),), ("",), "", ())
    batch = task.collate([one])
    head = head_of(task)
    head.loss(features_of(batch), batch).backward()
    assert head.decode(features_of(batch), batch) in ([()], [(((0, 1),),)])


@pytest.mark.parametrize(
    ("setting", "value"),
    [("feature", 0), ("spans_per_word", 0.0), ("spans_per_word", 11), ("max_sentences", 0), ("dropout", 1.0)],
)
def test_settings_out_of_range(setting, value):
    with pytest.raises(ValueError, match=rf"task\.{setting}: expected .*, found {value}"):
        check_ranges("task", CorefSettings(**{setting: value}))


# One training step on a document of 5,000 words with features as wide as with the original ELMo, 300 + 150 + 1024.
LONG_STEP = """
import resource, torch
from tasks.coref.head import CorefSettings, EndToEndCoref
from tasks.task import Batch, FeatureBatch

torch.set_num_threads(1)
head = EndToEndCoref(CorefSettings(span_width=20, spans_per_word=0.3, max_sentences=None), 1474, 1, True)
optimizer = torch.optim.Adam(head.parameters())
lengths = torch.full((200,), 25)
nothing = torch.zeros(200, 25, 0)
text = FeatureBatch(torch.randn(200, 25, 1474), nothing, nothing, torch.ones(200, 25, dtype=torch.bool), lengths)
starts = torch.arange(0, 5000, 8)
mentions = torch.stack([0 * starts, starts, starts + 2, starts % 40 + 1], dim=1)
targets = {"mentions": mentions, "speakers": torch.zeros(5000, dtype=torch.long), "genres": torch.tensor([0])}
loss = head.loss([text], Batch(["a"], ([()] * 200,), targets, (torch.zeros(200, dtype=torch.long),)))
loss.backward()
optimizer.step()
print("loss", loss.item(), "peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss")
def test_a_document_of_5000_words_trains_within_4_gb():
    done = subprocess.run([sys.executable, "-c", LONG_STEP], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    assert 0 < int(re.search(r"peak (\d+)", done.stdout)[1]) < 4000
