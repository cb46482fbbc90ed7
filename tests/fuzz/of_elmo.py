"""Readers of elmo/: weights, word vectors, token stores, shards, downloads and the layer store."""

import gzip
import lzma
import re
import sys
import zipfile
from functools import cache, partial
from types import ModuleType
from unittest.mock import patch

import numpy as np
import torch
from torch import nn

from elmo import load_bilm, random_bilm, save_bilm
from elmo.bilm.options import BilmOptions
from elmo.common.progress import Reporter
from elmo.download import _unpack
from elmo.embed.one_file import read_lines
from elmo.embed.settings import EmbedSettings
from elmo.embed.shards import ShardsJob, ShardWriter, unfinished
from elmo.pretrain.corpus.text import find_sources, read_blocks
from elmo.pretrain.corpus.token_store import TokenStore
from elmo.pretrain.run import Position, RunFolder
from elmo.published import PublishedFile, PublishedVectors
from elmo.sources.character_lm import read_pair
from elmo.sources.cove import Cove
from elmo.sources.grid import load_lm, random_lm, save_lm
from elmo.store.shelf import StoreFull, open_shelf
from elmo.word_vectors import convert, open_vectors
from tests.elmo.pretrain.corpus_text import build, write
from tests.elmo.sources.character_lms import CHARACTERS, tensors_of
from tests.elmo.sources.naive_masked import OPTIONS
from tests.elmo.word_vectors.test_wink import ROWS, package, package_json
from tests.fuzz.reading import Reader

SMALL = BilmOptions(cell_dim=2, projection_dim=2, filters=((1, 2), (2, 2)), char_dim=2)
SENTENCES = [("The", "play"), ("ended",)]
SHA256 = "ab" * 32
VECTORS = "the 0.5 -1 2e-3\ncafé 1 2 3\n日本 0 0 1\n"


def _file(name, content):
    def make(folder):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return [folder / name]

    return make


def _made(name, write):
    def make(folder):
        write(folder / name)
        return [folder / name]

    return make


@cache
def _bilm():
    return random_bilm(SMALL, 5)


def _make_options(folder):
    save_bilm(_bilm(), folder / "weights.hdf5")
    return [folder / "options.json"]


def _read_shelf(path):
    """Reads and fills a shelf as a run does."""
    store = next(parent for parent in path.parents if parent.name == "store")
    shelf = open_shelf(store, _bilm().fingerprint(), _bilm().widths, "float32", 1.0)
    shelf.missing(SENTENCES, Reporter(quiet=True))
    rows, width = list(shelf.starts.values()), sum(_bilm().widths)
    shelf.take(np.array(rows, dtype=np.int64), np.empty((len(rows), width), np.float32))
    shelf.add(SENTENCES, np.ones((3, width), np.float32))


def _make_store(folder):
    _read_shelf(folder / "store" / "x")
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _make_flair(folder, stream=False):
    """Two LMs as flair writes them, which the reader knows only by the names of their classes."""
    module = ModuleType("flair")
    kind = type("Dictionary", (), {"__module__": "flair"})
    vars(module).update(Dictionary=kind)
    dictionary = kind()
    dictionary.idx2item = [character.encode() for character in CHARACTERS]
    with patch.dict(sys.modules, {"flair": module}):
        for seed, way in enumerate(("forward", "backward")):
            tensors = _in_one_storage(tensors_of(seed)) if stream else tensors_of(seed)
            content = {"state_dict": tensors, "is_forward_lm": way == "forward", "dictionary": dictionary}
            torch.save(content, folder / f"{way}.pt", _use_new_zipfile_serialization=not stream)
            if stream:
                _rename_storage(folder / f"{way}.pt")
    return [folder / "forward.pt", folder / "backward.pt"]


def _rename_storage(path):
    """Replaces the name of a stream's one storage, which is an address, so that the file is equal each time."""
    path.write_bytes(re.sub(rb"\d{9,}", lambda name: b"0" * len(name[0]), path.read_bytes()))


def _in_one_storage(tensors):
    flat = torch.cat([tensor.flatten() for tensor in tensors.values()])
    parts = flat.split([tensor.numel() for tensor in tensors.values()])
    return {name: part.view_as(tensors[name]) for name, part in zip(tensors, parts, strict=True)}


def _make_cove(folder):
    torch.manual_seed(1)
    torch.save(nn.LSTM(3, 2, num_layers=2, bidirectional=True).state_dict(), folder / "lstm.pth")
    (folder / "vectors.txt").write_text(VECTORS)
    return [folder / "lstm.pth", folder / "vectors.txt"]


def _make_embedded(folder):
    (folder / "in.txt").write_text("The play\nended here .\n")
    job = ShardsJob(folder, "small", _bilm().fingerprint(), EmbedSettings(), "cpu", 1)
    assert not ShardWriter(job, _bilm())({"name": "in.txt", "path": str(folder / "in.txt")})["failure"]
    return [folder / "in.txt.parquet"]


def _read_embedded(path):
    job = ShardsJob(path.parent, "small", _bilm().fingerprint(), EmbedSettings(), "cpu", 1)
    unfinished(job, {"in.txt": path.with_name("in.txt")})


def _make_corpus(folder):
    build(folder / "store", write(folder / "text.txt", range(30)))
    return sorted(path for path in (folder / "store").iterdir() if path.is_file() and path.suffix != ".txt")


def _read_corpus(path):
    store = TokenStore.open(path.parent)
    for side in (store.train, store.heldout):
        for sentence in side:
            [store.words()[number] for number in sentence]
    store.words()[: store.vocabulary_size], store.fingerprint


def _read_source(path):
    list(read_blocks(find_sources([path])))


def _model():
    torch.manual_seed(1)
    model = nn.Linear(2, 2)
    return model, torch.optim.Adam(model.parameters())


def _make_run(folder):
    RunFolder(folder, {"seed": 1, "text.sha256": SHA256})
    (folder / "curve.csv").write_text("step,loss\n1,0.5\n2,0.4\n")
    model, optimiser = _model()
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    run = RunFolder(folder, {"seed": 1, "text.sha256": SHA256})
    run.save(model, optimiser, Position(2, 20, 1.5))
    run.finish({"settings": {"name": "tiny", "export": {"weights": "int8"}}})
    return sorted(folder.iterdir())


def _read_run(path):
    run = RunFolder(path.parent, {"seed": 1, "text.sha256": SHA256})
    run.made_with()
    run.keep_curve_until(run.load(*_model()).step)


def _make_archive(folder):
    with zipfile.ZipFile(folder / "glove.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("v.txt"), VECTORS, zipfile.ZIP_DEFLATED)
    return [folder / "glove.zip"]


def _unpack_archive(path):
    archive = PublishedFile(path.name, ("http://127.0.0.1",), None, None)
    _unpack(PublishedVectors(archive, "v.txt", 3), path, path.with_name("v.txt"))


def _pack(path):
    with patch("time.time", return_value=0):  # which gzip writes
        package(path, package_json(ROWS))


def _convert(path):
    convert(path, path.with_name("out.txt"))


def _pick(path):
    vectors = open_vectors(str(path))
    vectors.pick(["the", "cat"])
    vectors.pick()


READERS = [
    Reader("biLM", _made("weights.safetensors", lambda path: save_bilm(_bilm(), path)), load_lm),
    Reader("biLM in int8", _made("w.safetensors", lambda path: save_bilm(_bilm(), path, torch.int8)), load_lm),
    Reader("biLM in HDF5", _made("weights.hdf5", lambda path: save_bilm(_bilm(), path)), load_bilm, apart=True),
    Reader("masked LM", _made("w.safetensors", lambda path: save_lm(random_lm(OPTIONS, 5), path)), load_lm),
    Reader("options", _make_options, lambda path: load_lm(path.parent)),
    Reader("LMs of flair", _make_flair, lambda path: read_pair(str(path.parent))),
    Reader("LMs of flair, streams", partial(_make_flair, stream=True), lambda path: read_pair(str(path.parent))),
    Reader("cove", _make_cove, lambda path: Cove(str(path.with_name("lstm.pth")), str(path.with_name("vectors.txt")))),
    Reader("vectors", _file("v.txt", VECTORS), _pick),
    Reader("vectors with a header", _file("v.vec", f"3 3\n{VECTORS}"), _pick),
    Reader("gzipped vectors", _file("v.txt.gz", gzip.compress(VECTORS.encode(), mtime=0)), _pick),
    Reader("package of wink", _made("p.tgz", _pack), _convert),
    Reader("JSON of wink", _file("p.json", package_json(ROWS)), _convert),
    Reader("text to embed", _file("in.txt", "The play\nended here .\n"), lambda path: list(read_lines(path))),
    Reader("table to embed", _file("in.csv", 'id,text\n1,"a, b"\n2,c\n'), lambda p: list(read_lines(p, "ptb", "text"))),
    Reader("embedded shard", _make_embedded, _read_embedded, most_lines=3),
    Reader("token store", _make_corpus, _read_corpus),
    Reader("corpus", _file("text.txt", "One paragraph.\n\nAnother, 日本.\n"), _read_source),
    Reader("corpus in gzip", _file("text.gz", gzip.compress(b"One paragraph.\n" * 9, mtime=0)), _read_source),
    Reader("corpus in xz", _file("text.xz", lzma.compress(b"One paragraph.\n" * 9)), _read_source),
    Reader("pretraining run", _make_run, _read_run, most_lines=23),
    Reader("archive of vectors", _make_archive, _unpack_archive),
    Reader("layer store", _make_store, _read_shelf, (StoreFull,)),
]
