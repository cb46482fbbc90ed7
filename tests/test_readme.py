"""The Python that README shows does what its comments say."""

import re
from pathlib import Path

import pytest
import torch

import elmo

README = Path(__file__).parents[1] / "README.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_snippet_gives_the_same_every_time(snippet):
    first, second = {}, {}
    exec(snippet, first)
    exec(snippet, second)
    tensors = [name for name, value in first.items() if isinstance(value, torch.Tensor)]
    assert tensors
    for name in tensors:
        assert torch.equal(first[name], second[name])


def test_the_vectors_are_the_average_of_the_layers_in_the_shape_of_the_comment():
    snippet, found = SNIPPETS[0], {}
    exec(snippet, found)
    shape = re.search(r"^vectors = .*# \((\d+), (\d+), (\d+)\)$", snippet, re.MULTILINE)
    assert found["vectors"].shape == tuple(map(int, shape.groups()))
    assert found["sentences"] == [["The", "play", "closed", "."], ["They", "play", "chess", "."]]
    layers = elmo.load_bilm("small").layers(found["sentences"])
    torch.testing.assert_close(found["vectors"], layers.mean(dim=0))
