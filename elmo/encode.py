"""ELMo elsewhere: a layer saved to a folder and loaded again, and vectors of texts as other libraries ask for them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from elmo.bilm.model import Bilm
from elmo.bilm.weight_files import load_bilm, save_bilm
from elmo.common.errors import InputError
from elmo.common.files import read_own_json, sha256_of, write_json
from elmo.layer import Elmo
from elmo.tokeniser import tokenise

WEIGHTS, MIXES, SETTINGS = "weights.safetensors", "mixes.safetensors", "layer.json"
CARD = """\
# An ELMo layer: elmo.load_layer("{folder}")

{layers} layers of {dim} dimensions. The mix of each place: {mixes}. The sha256 of the biLM's weights: {sha256}.
"""


def save_layer(layer: Elmo, folder: str | Path) -> None:
    """Writes a layer on a biLM to a folder: weights, mixes, settings and a card.

    Raises:
        InputError: its source is no biLM.
    """
    folder, source = Path(folder), layer.source
    if not isinstance(source, Bilm):
        raise InputError(f"save_layer: expected a layer on a Bilm, found one on a {type(source).__name__}")
    folder.mkdir(parents=True, exist_ok=True)
    save_bilm(source, folder / WEIGHTS)
    save_file({name: value.contiguous() for name, value in layer.mixes.state_dict().items()}, folder / MIXES)
    mix: Any = next(iter(layer.mixes.values()))
    settings = {"layers": mix.chosen, "layer_norm": mix.layer_norm, "l2": mix.l2, "dropout": layer.dropout.p}
    if source.int8:
        settings["precision"] = "int8"
    write_json(folder / SETTINGS, {"places": list(layer.mixes), **settings})
    facts = {"folder": folder, "layers": len(source.widths), "dim": layer.dim, "mixes": json.dumps(layer.weights())}
    (folder / "card.md").write_text(CARD.format(**facts, sha256=sha256_of(folder / WEIGHTS)), encoding="utf-8")


def load_layer(folder: str | Path) -> Elmo:
    """The layer that `save_layer` wrote."""
    folder = Path(folder)
    settings = read_own_json(folder / SETTINGS)
    layer = Elmo(load_bilm(folder / WEIGHTS, precision=settings.pop("precision", "float32")), **settings)
    layer.mixes.load_state_dict(load_file(folder / MIXES))
    return layer


class TextEncoder(nn.Module):
    """Texts to vectors: the mean over the words of a text.

    It has the `encode` of sentence-transformers and MTEB. For what asks for a model of theirs, it is a module of one:
    `SentenceTransformer(modules=[TextEncoder(layer)])`, which mteb.evaluate accepts, too.

    Args:
        layer: in evaluation mode, or there is dropout.
        place: the mix to use; by default the first.
    """

    def __init__(self, layer: Elmo, place: str = "") -> None:
        super().__init__()
        self.layer = layer
        self.place = place or next(iter(layer.mixes))

    @torch.no_grad()
    def encode(
        self,
        sentences: str | Sequence[str] | Iterable[Mapping[str, Any]],
        *_: object,
        batch_size: int = 32,
        normalize_embeddings: bool = False,
        convert_to_tensor: bool = False,
        **__: object,
    ) -> np.ndarray | Tensor:
        """One vector for each text, (texts, dim); a text without words is zero.

        Args:
            sentences: texts, a single one, or batches with a list of texts under `text`, as MTEB 2 gives them.
            batch_size: texts to compute at once.
            normalize_embeddings: whether vectors have length one.
            convert_to_tensor: whether to return a tensor instead of an array.
        """
        alone = isinstance(sentences, str)
        given: list[Any] = [sentences] if alone else list(sentences)
        texts = list(chain.from_iterable([it] if isinstance(it, str) else it["text"] for it in given))
        vectors = torch.zeros(len(texts), self.layer.dim)
        for start in range(0, len(texts), batch_size):
            words = [list(chain.from_iterable(tokenise(text))) for text in texts[start : start + batch_size]]
            rows = [row for row, tokens in enumerate(words) if tokens]
            if rows:
                output = self.layer([words[row] for row in rows])
                mean = output.places[self.place].sum(dim=1) / output.mask.sum(dim=1, keepdim=True)
                vectors[[start + row for row in rows]] = mean.cpu()
        if normalize_embeddings:
            vectors = torch.nn.functional.normalize(vectors, dim=-1)
        vectors = vectors[0] if alone else vectors
        return vectors if convert_to_tensor else vectors.numpy()

    def preprocess(self, texts: Iterable[str], *_: object, **__: object) -> dict[str, list[str]]:
        """The input of `forward`."""
        return {"texts": list(texts)}

    tokenize = preprocess  # its name in sentence-transformers 5

    def forward(self, features: Mapping[str, Any], **_: object) -> dict[str, Any]:
        """The same with the vectors of the texts."""
        return {**features, "sentence_embedding": self.encode(features["texts"], convert_to_tensor=True)}
