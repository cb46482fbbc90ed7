"""Readers of tasks/: data files of all tasks, dataset files, input of tasks.predict, checkpoints and saved models."""

import json
from functools import cache
from pathlib import Path
from unittest.mock import patch

from hydra.errors import ConfigCompositionException

import tasks
from elmo.common.progress import Reporter
from tasks.classify import TableReader, read_table
from tasks.coref.task import read_coref
from tasks.data.datasets import DataSource
from tasks.data.text import raw_items
from tasks.ner import ColumnReader, read_columns
from tasks.probes.wsd import read_first_senses, read_sentences
from tasks.running.predict import load_weights, save_weights
from tasks.running.schema import read_dataset
from tasks.snli import EsimSettings, PairReader, Snli
from tasks.squad.task import SquadReader, read_squad
from tasks.srl import read_frames
from tasks.sst5 import TreeReader, read_trees
from tasks.training.trainer import Trainer, TrainerConfig
from tests.fuzz.reading import Reader
from tests.tasks.making import WORDS, model_of, run_of
from tests.tasks.probes.test_wsd_data import BANK, GOLD, TAKE_PLACE, XML
from tests.tasks.training.line_task import CPU, Line

MINI = Path(tasks.__file__).parent / "mini"
TABLE = 'text,label\n"It works, mostly.",good\n"A ""quote""\nin two lines",bad\n'
POS = """\
# sent_id = 1
1\tDogs\tdog\tNOUN\tNNS\t_\t2
2\tbark\tbark\tVERB\tVBP\t_\t0

1-2\tdon't\t_\t_\t_\t_\t_
3\tno\tno\tX\tX\t_\t0
"""
SEMCOR = json.dumps({"tokens": ["The", "bank", "took_place"], "sense": [None, [BANK], [TAKE_PLACE]]}) + "\n"
DATASET = """\
name: mine
task: ner
reader: {word_column: 0}
splits: {train: [train.txt], dev: [dev.txt], test: [a.txt, b.txt]}
expected: {train: {sentences: 13, tokens: 67}}
"""


def _text(name, text):
    def make(folder):
        (folder / name).write_text(text, encoding="utf-8")
        return [folder / name]

    return make


def _start_of(path, size=2000):
    """A copy of the beginning of one of the shipped files."""

    def make(folder):
        text = (MINI / path).read_text(encoding="utf-8")[:size]
        (folder / Path(path).name).write_text(text[: text.rindex("\n\n" if path.endswith(".conll") else "\n") + 1])
        return [folder / Path(path).name]

    return make


def _make_conll(folder):
    """The first documents of a shipped file, whole."""
    text = (MINI / "coref" / "dev.conll").read_text(encoding="utf-8")
    (folder / "dev.conll").write_text(text[: text.index("#end document") + len("#end document\n")], encoding="utf-8")
    return [folder / "dev.conll"]


def _make_frames(folder):
    text = (MINI / "srl" / "dev.conll").read_text(encoding="utf-8")
    (folder / "dev.conll").write_text(text[: text.index("#end document") + len("#end document\n")], encoding="utf-8")
    return [folder / "dev.conll"]


def _make_squad(folder):
    content = json.loads((MINI / "squad" / "dev.json").read_text(encoding="utf-8"))
    article = content["data"][0]
    article["paragraphs"] = article["paragraphs"][:1]
    (folder / "dev.json").write_text(json.dumps({**content, "data": [article]}, indent=1), encoding="utf-8")
    return [folder / "dev.json"]


def _make_xml(folder):
    (folder / "some.data.xml").write_text(XML)
    (folder / "some.gold.key.txt").write_text(GOLD)
    return [folder / "some.data.xml", folder / "some.gold.key.txt"]


@cache
def _config():
    return run_of("task=ner", "data=mini", *WORDS, "task.hidden=3")


@cache
def _pos_probe():
    return run_of("task=pos_probe").task


def _make_weights(folder):
    config = _config()
    train = DataSource(config.data, config.data_dir, 3).load(config.task, "train").examples
    save_weights(folder / "weights.pt", model_of(config, train), config)
    return [folder / "weights.pt"]


def _train(path):
    """Trains an epoch, or continues after it."""
    task = Line([1.0])
    trainer = Trainer(task, TrainerConfig(epochs=1), 1, CPU, Reporter(quiet=True), path)
    trainer.fit(task.model, [("a", 1, 2.0)], [("b", 2, 4.0)])


def _make_checkpoint(folder):
    with patch("time.perf_counter", return_value=0.0):  # the curve has seconds
        _train(folder / "checkpoint.pt")
    return [folder / "checkpoint.pt"]


READERS = [
    Reader("CoNLL columns", _start_of("ner/dev.txt"), lambda path: read_columns(path, ColumnReader())),
    Reader("tags", _text("dev.conllu", POS), lambda path: _pos_probe().read(path, "dev")),
    Reader("CoNLL-2012 of coref", _make_conll, read_coref),
    Reader("CoNLL-2012 of srl", _make_frames, read_frames),
    Reader("csv", _text("a.csv", TABLE), lambda path: read_table(path, TableReader())),
    Reader(
        "tsv",
        _text("a.tsv", "text\tlabel\nIt works.\tgood\nNo\tbad\n"),
        lambda p: read_table(p, TableReader()),
    ),
    Reader("pairs", _start_of("snli/dev.jsonl"), lambda path: Snli(EsimSettings(), PairReader()).read(path, "train")),
    Reader("squad", _make_squad, lambda path: read_squad(path, "test", SquadReader())),
    Reader("trees", _start_of("sst5/dev.txt"), lambda path: read_trees(path, "train", TreeReader())),
    Reader("semcor", _text("semcor.jsonl", SEMCOR), read_sentences),
    Reader("senses in XML", _make_xml, lambda path: read_sentences(path.with_name("some.data.xml"))),
    Reader("WordNet", _text("index.sense", f"{BANK} 1 1 9\n{TAKE_PLACE} 2 1 0\n"), read_first_senses),
    Reader("dataset", _text("own.yaml", DATASET), lambda path: read_dataset(str(path)), (ConfigCompositionException,)),
    Reader("texts to predict", _text("in.txt", "One\nTwo\n"), lambda path: list(raw_items(path, "text", ["text"]))),
    Reader("table to predict", _text("in.csv", TABLE), lambda path: list(raw_items(path, "csv", ["text"]))),
    Reader("weights", _make_weights, load_weights),
    Reader("checkpoint", _make_checkpoint, _train),
]
