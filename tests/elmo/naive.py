"""A biLM in plain numpy: one word, one sentence, one step at a time, in double precision.

The reference for tests, written from the known behaviour of bilm-tf (file layout, cell, character ids). It shares no
code with elmo/.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Tensors = dict[str, np.ndarray]
State = dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]  # (direction, layer) -> (recurrent state, cell)


def make_options(
    *,
    skip: bool = True,
    cell_clip: float | None = 3.0,
    proj_clip: float | None = 3.0,
    activation: str = "relu",
    n_highway: int = 2,
) -> dict[str, Any]:
    """The content of an options.json for a tiny biLM."""
    return {
        "lstm": {
            "dim": 20,
            "projection_dim": 6,
            "n_layers": 2,
            "cell_clip": cell_clip,
            "proj_clip": proj_clip,
            "use_skip_connections": skip,
        },
        "char_cnn": {
            "embedding": {"dim": 4},
            "filters": [[1, 4], [2, 8], [3, 16], [7, 12]],
            "n_highway": n_highway,
            "n_characters": 262,
            "max_characters_per_token": 50,
            "activation": activation,
        },
    }


def make_tensors(options: dict[str, Any], seed: int = 0) -> Tensors:
    """Random tensors in bilm-tf's layout.

    Made so that mistakes show: no bias is zero, the LSTMs run into their clips, and the first filter of every width
    responds to padding more strongly than to any letter.
    """
    draw = np.random.default_rng(seed)
    lstm, cnn = options["lstm"], options["char_cnn"]
    dim, cell, projection = cnn["embedding"]["dim"], lstm["dim"], lstm["projection_dim"]
    n_filters = sum(n for _, n in cnn["filters"])
    tensors = {"char_embed": draw.normal(size=(261, dim))}
    for i, (width, n) in enumerate(cnn["filters"]):
        tensors[f"CNN/W_cnn_{i}"] = draw.normal(size=(1, width, dim, n)) / np.sqrt(width * dim)
        tensors[f"CNN/W_cnn_{i}"][0, :, :, 0] = tensors["char_embed"][260]
        tensors[f"CNN/b_cnn_{i}"] = draw.normal(size=n)
    for i in range(cnn["n_highway"]):
        for gate in ("carry", "transform"):
            tensors[f"CNN_high_{i}/W_{gate}"] = draw.normal(size=(n_filters, n_filters)) / np.sqrt(n_filters)
            tensors[f"CNN_high_{i}/b_{gate}"] = draw.normal(size=n_filters)
    tensors["CNN_proj/W_proj"] = draw.normal(size=(n_filters, projection)) / np.sqrt(n_filters)
    tensors["CNN_proj/b_proj"] = draw.normal(size=projection)
    for direction in range(2):
        for layer in range(lstm["n_layers"]):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            tensors[f"{name}/W_0"] = 1.5 * draw.normal(size=(2 * projection, 4 * cell)) / np.sqrt(2 * projection)
            tensors[f"{name}/B"] = 0.5 * draw.normal(size=4 * cell)
            tensors[f"{name}/W_P_0"] = 2.0 * draw.normal(size=(cell, projection)) / np.sqrt(cell)
    return {name: tensor.astype(np.float32) for name, tensor in tensors.items()}


def write_model(folder: Path, options: dict[str, Any], tensors: Tensors) -> Path:
    """Writes weights.hdf5 and options.json to a folder, as bilm-tf does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, tensor in tensors.items():
            file[name] = tensor
    return folder


def spell(word: str, width: int = 50) -> list[int]:
    """The rows of char_embed that a word reads, padding included."""
    marks = {"<S>": [256], "</S>": [257]}
    middle = marks[word] if word in marks else list(word.encode("utf-8"))[: width - 2]
    ids = [258, *middle, 259]
    return ids + [260] * (width - len(ids))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def word_vector(tensors: Tensors, options: dict[str, Any], word: str) -> np.ndarray:
    """(projection_dim,): VALID convolutions over every position, maximum, activation, highways, projection."""
    cnn = options["char_cnn"]
    rows = tensors["char_embed"].astype(np.float64)[spell(word, cnn["max_characters_per_token"])]
    pooled = []
    for i, (width, _) in enumerate(cnn["filters"]):
        kernel, bias = tensors[f"CNN/W_cnn_{i}"][0], tensors[f"CNN/b_cnn_{i}"]
        positions = [
            np.tensordot(rows[at : at + width], kernel, axes=([0, 1], [0, 1])) for at in range(len(rows) - width + 1)
        ]
        pooled.append(np.max(positions, axis=0) + bias)
    x = np.concatenate(pooled)
    x = np.maximum(x, 0.0) if cnn["activation"] == "relu" else np.tanh(x)
    for i in range(cnn["n_highway"]):
        name = f"CNN_high_{i}"
        gate = sigmoid(x @ tensors[f"{name}/W_carry"] + tensors[f"{name}/b_carry"])
        x = gate * np.maximum(x @ tensors[f"{name}/W_transform"] + tensors[f"{name}/b_transform"], 0.0) + (1 - gate) * x
    return x @ tensors["CNN_proj/W_proj"] + tensors["CNN_proj/b_proj"]


def clipped(x: np.ndarray, bound: float | None) -> np.ndarray:
    return x if bound is None else np.clip(x, -bound, bound)


def lstm_steps(
    weight: np.ndarray,
    bias: np.ndarray,
    projection: np.ndarray,
    inputs: Sequence[np.ndarray],
    state: np.ndarray,
    cell: np.ndarray,
    cell_clip: float | None,
    proj_clip: float | None,
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """TensorFlow's projected LSTM cell over one sentence: the outputs, the last state and the last cell.

    The weights are W_0, B and W_P_0 of the file: gates i, g, f, o; inputs first.
    """
    outputs = []
    for x in inputs:
        i, g, f, o = np.split(np.concatenate([x, state]).astype(np.float64) @ weight + bias, 4)
        cell = clipped(sigmoid(f + 1.0) * cell + sigmoid(i) * np.tanh(g), cell_clip)
        state = clipped((sigmoid(o) * np.tanh(cell)) @ projection, proj_clip)
        outputs.append(state)
    return outputs, state, cell


def sentence_layers(
    tensors: Tensors, options: dict[str, Any], words: Sequence[str], start: State | None = None
) -> tuple[np.ndarray, State]:
    """The layers of one sentence, (layers, tokens, dim), and the final state."""
    lstm = options["lstm"]
    known: dict[str, np.ndarray] = {}
    for word in ["<S>", *words, "</S>"]:
        if word not in known:
            known[word] = word_vector(tensors, options, word)
    vectors = [known[word] for word in ["<S>", *words, "</S>"]]
    end: State = {}
    halves: list[list[np.ndarray]] = []
    for direction in range(2):
        x = vectors if direction == 0 else vectors[::-1]
        halves.append([np.array(vectors)])
        for layer in range(lstm["n_layers"]):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            W, B, W_P = (tensors[f"{name}/{part}"] for part in ("W_0", "B", "W_P_0"))
            state, cell = (start or {}).get((direction, layer), (np.zeros(W_P.shape[1]), np.zeros(W_P.shape[0])))
            output, state, cell = lstm_steps(W, B, W_P, x, state, cell, lstm["cell_clip"], lstm["proj_clip"])
            end[direction, layer] = state, cell
            if lstm["use_skip_connections"] and layer > 0:
                output = [after + before for after, before in zip(output, x, strict=True)]
            x = output
            halves[direction].append(np.array(x if direction == 0 else x[::-1]))
    layers = [np.concatenate([forward, backward], axis=1)[1:-1] for forward, backward in zip(*halves, strict=True)]
    return np.array(layers), end
