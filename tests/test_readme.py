"""The Python that README shows does what its comments say."""

import re
from pathlib import Path

import pytest
import torch

import elmo
from tasks.running.config import typed_config
from tasks.running.experiment import run

README = Path(__file__).parents[1] / "README.md"
MODEL, VECTORS = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
RUN = "results/runs/mini/ner/elmo/seed-4"  # not one of the demo, which keeps no weights


@pytest.mark.integration
def test_the_model_of_a_run_finds_entities(tmp_path, capsys):
    """With a run of a few sentences in place of a whole one: it finds what it finds, in the words of the sentence."""
    settings = ["task=ner", "features=elmo", "data=mini", "keep_weights=true", "limit=60", "trainer.epochs=4"]
    ended = run(typed_config([*settings, f"runs_dir={tmp_path}", f"store.path={tmp_path / 'store'}"]))
    assert RUN in MODEL
    names = {}
    exec(MODEL.replace(RUN, str(ended.folder)), names)
    words = names["sentence"]["tokens"]
    assert words == ["Ada", "Lind", "lives", "in", "Oslo", "."]
    assert all(entity["text"] in " ".join(words) for entity in names["sentence"]["entities"])
    assert capsys.readouterr().out.endswith(f"{names['sentence']['entities']}\n")


def test_the_vectors_are_the_same_every_time():
    first, second = {}, {}
    exec(VECTORS, first)
    exec(VECTORS, second)
    assert torch.equal(first["vectors"], second["vectors"])


def test_the_vectors_are_the_average_of_the_layers_in_the_shape_of_the_comment():
    snippet, found = VECTORS, {}
    exec(snippet, found)
    shape = re.search(r"^vectors = .*# \((\d+), (\d+), (\d+)\)$", snippet, re.MULTILINE)
    assert found["vectors"].shape == tuple(map(int, shape.groups()))
    assert found["sentences"] == [["The", "play", "closed", "."], ["They", "play", "chess", "."]]
    layers = elmo.load_bilm("small").layers(found["sentences"])
    torch.testing.assert_close(found["vectors"], layers.mean(dim=0))
