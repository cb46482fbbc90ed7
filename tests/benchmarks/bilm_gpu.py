"""Benchmark of the biLM on a GPU, against AllenNLP's method and cuDNN's LSTM: `python -m tests.benchmarks.bilm_gpu`.

It takes 90 seconds. First 64 sentences per batch, all paths in turn, with an empty word cache; then batches of our
choice, as for filling the store. Everything is float32, no TF32. The anchor is the step loop of
`tests.benchmarks.measuring.anchor`; "cuDNN" is torch's projected LSTM over a packed batch, each distinct word encoded
once: fast, but it cannot clip. BENCH_FORMAT=json prints JSON instead of a table.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import elmo.store.cached_layers
from elmo import SIZES, Bilm, random_bilm
from elmo.bilm.lstm import ProjectedLstm
from elmo.store.cached_layers import CachedLayers
from elmo.store.shelf import open_shelf
from tests.benchmarks import text
from tests.benchmarks.measuring import anchor

ROUNDS = 7
TOLERANCE = {"tiny": 5e-5, "small": 5e-5, "original": 1e-4}
TOKENS_AT_ONCE = (32_768, 65_536, 131_072)
ANCHOR, CUDNN = "anchor: AllenNLP's way", "cuDNN, no clipping"

GpuRow = dict[str, Any]


def timed(work: Callable[[], Any]) -> float:
    """Seconds until the device is done."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


@torch.no_grad()
def unclipped_torch_lstm(lstm: ProjectedLstm) -> nn.LSTM:
    """An `nn.LSTM` with the weights of a `ProjectedLstm`, without clipping."""
    shape = {"input_size": lstm.input_dim, "hidden_size": lstm.cell_dim, "proj_size": lstm.projection_dim}
    # On the meta device, so that it draws no initial values: that would change the random state of the caller.
    made = nn.LSTM(**shape, device="meta", dtype=lstm.weight.dtype).to_empty(device=lstm.weight.device)
    made.requires_grad_(False).eval()
    by_input, recurrent = lstm.weight[:, : lstm.input_dim], lstm.weight[:, lstm.input_dim :]
    parts = by_input, recurrent, lstm.used_bias(), torch.zeros_like(lstm.bias), lstm.projection
    for name, values in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"), parts, strict=True):
        getattr(made, f"{name}_l0").copy_(values)
    made.flatten_parameters()
    return made


@torch.no_grad()
def cudnn_layers(bilm: Bilm, lstms: list[list[nn.LSTM]], sentences: list[list[str]]) -> Tensor:
    """(layers, sentences, tokens, dim), zero where a sentence has ended: packed, in the shortest code."""
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    marked = [["<S>", *sentences[i], "</S>"] for i in order]
    lengths = [len(words) for words in marked]
    rows = {word: row for row, word in enumerate(dict.fromkeys(word for words in marked for word in words))}
    vectors = bilm.encoder.encode_words(list(rows))
    halves = []
    for direction in (0, 1):
        reading = [words[:: -1 if direction else 1] for words in marked]
        numbers = [[rows[word] for word in words] + [0] * (lengths[0] - len(words)) for words in reading]
        x = vectors[torch.tensor(numbers, device=vectors.device)]
        found = [x]
        for layer, lstm in enumerate(lstms[direction]):
            packed = pack_padded_sequence(x, lengths, batch_first=True)
            output = pad_packed_sequence(lstm(packed)[0], batch_first=True)[0]
            x = output + x if bilm.options.skip_connections and layer > 0 else output
            found.append(x)
        layers = torch.stack(found)  # (layers, sentences, steps, projection_dim)
        steps = torch.arange(lengths[0]).expand(len(lengths), -1)
        ends = torch.tensor(lengths)[:, None]
        at = (torch.where(steps < ends, ends - 1 - steps, steps) if direction else steps).to(x.device)
        halves.append(layers.gather(2, at[None, :, :, None].expand_as(layers)))
    result = torch.cat(halves, dim=-1)[:, :, 1:-1]
    there = torch.arange(lengths[0] - 2) < torch.tensor(lengths)[:, None] - 2
    result = result * there.to(result.device)[None, :, :, None]
    back = torch.empty(len(order), dtype=torch.int64)
    back[order] = torch.arange(len(order))
    return result[:, back.to(result.device)]


def batch_rows(size: str, clipped: Bilm, unclipped: Bilm) -> list[GpuRow]:
    """64 sentences per batch, all paths in turn."""
    batch = text.sentences(64)
    tokens = sum(map(len, batch))
    lstms = [[unclipped_torch_lstm(lstm) for lstm in direction] for direction in unclipped.directions]
    paths: dict[str, Callable[[list[list[str]]], Tensor]] = {
        ANCHOR: partial(anchor.layers, clipped),
        CUDNN: partial(cudnn_layers, unclipped, lstms),
        "ours, clipped": clipped.layers,
        "ours, no clipping": unclipped.layers,
    }
    expected = anchor.layers(clipped, batch), anchor.layers(unclipped, batch)
    for name, work in paths.items():
        difference = float((work(batch) - expected["no clipping" in name]).abs().max())
        if difference > TOLERANCE[size]:
            sys.exit(f"{name}, size {size}: differs by {difference:.1e}; a speed of something else means nothing")
        work(batch)  # warms up
    rounds = [{name: timed(partial(work, batch)) for name, work in paths.items()} for _ in range(ROUNDS)]
    rows = []
    for name in paths:
        seconds = statistics.median(once[name] for once in rounds)
        ratios = {other: statistics.median(once[other] / once[name] for once in rounds) for other in (ANCHOR, CUDNN)}
        rows.append(row(size, "64 sentences", name, tokens / seconds, ratios[ANCHOR], ratios[CUDNN]))
    return rows


def fill_rows(size: str, clipped: Bilm, unclipped: Bilm, count: int, before: list[GpuRow]) -> list[GpuRow]:
    """Batches of our choice, compared with the anchors' speeds on 64 sentences, the most that they use."""
    sentences = like(text.sentences(1000), count)
    speed = {entry["what"]: entry["tokens_per_second"] for entry in before}

    def filled(name: str, bilm: Bilm, at_once: int = 65_536, stored: bool = False) -> GpuRow:
        elmo.store.cached_layers.TOKENS_AT_ONCE_ON_A_GPU = at_once
        bilm.remember_words()  # forgets all words
        with tempfile.TemporaryDirectory() as folder:
            shelf = open_shelf(Path(folder), bilm.fingerprint(), bilm.widths, "float16", 20.0) if stored else None
            cached = CachedLayers(bilm, shelf, "float16", memory_gb=40)
            cached.to(bilm.device)
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            seconds = timed(partial(cached.prepare, sentences))
        found = sum(map(len, set(sentences))) / seconds
        peak = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else 0.0
        entry = row(size, f"fill, {at_once:,} tokens", name, found, found / speed[ANCHOR], found / speed[CUDNN])
        return entry | {"gpu_gb": round(peak, 1)}

    filled("warms up", clipped)
    rows = [filled("ours, clipped", clipped, at_once) for at_once in TOKENS_AT_ONCE]
    rows.append(filled("ours, no clipping", unclipped))
    if size == "small":
        rows.append(filled("ours, clipped, through a store", clipped, stored=True))
    return rows


def like(some: list[list[str]], count: int) -> list[tuple[str, ...]]:
    """Quickly makes more sentences of the same lengths and words."""
    draw = random.Random(1)
    words = [word for sentence in some for word in sentence]
    return [tuple(draw.choices(words, k=len(draw.choice(some)))) for _ in range(count)]


def row(size: str, batches: str, what: str, speed: float, to_anchor: float, to_cudnn: float) -> GpuRow:
    ratios = {"to_anchor": round(to_anchor, 2), "to_cudnn": round(to_cudnn, 2)}
    return {"size": size, "batches": batches, "what": what, "tokens_per_second": round(speed), **ratios}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.bilm_gpu", description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["small", "original"], choices=list(TOLERANCE))
    parser.add_argument("--sentences", type=int, default=20_000, help="of the filling (default: 20,000)")
    parser.add_argument("--device", default="cuda", help="cpu tries the benchmark itself out")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = False
    rows: list[GpuRow] = []
    for size in options.sizes:
        shape = SIZES[size]
        clipped = random_bilm(shape, seed=1).to(options.device)
        unclipped = random_bilm(replace(shape, cell_clip=None, projection_clip=None), seed=1).to(options.device)
        of_batches = batch_rows(size, clipped, unclipped)
        rows += of_batches + fill_rows(size, clipped, unclipped, options.sentences, of_batches)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    machine = f"{name}, torch {torch.__version__}, float32 without TF32"
    if os.environ.get("BENCH_FORMAT") == "json":
        print(json.dumps({"machine": machine, "rows": rows}, indent=2))
        return
    table = Table(title=machine, title_justify="left")
    columns = {
        "size": "size",
        "batches": "batches",
        "what": "path",
        "tokens_per_second": "tokens / s",
        "to_anchor": "x anchor",
        "to_cudnn": "x cuDNN",
        "gpu_gb": "peak GB",
    }
    for key, heading in columns.items():
        table.add_column(heading, justify="left" if key in ("size", "batches", "what") else "right")
    for entry in rows:
        table.add_row(
            *(f"{entry[key]:,}" if key == "tokens_per_second" else str(entry.get(key, "")) for key in columns)
        )
    Console(highlight=False, width=None if sys.stdout.isatty() else 120).print(table)
    print(
        "medians of alternating rounds; fill: layers kept on the device, its ratios are to the others at 64 sentences"
    )


if __name__ == "__main__":
    main()
