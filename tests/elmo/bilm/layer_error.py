"""Error of the shipped biLM's layers against float64: python -m tests.elmo.bilm.layer_error [--device cuda].

The text is the test split of mini NER and one line of 301 tokens, long enough for errors to accumulate. With --rounded
WEIGHTS, the error of the layers of rounded weights against those of --weights, on the dev split and such a line; with
--int8, the same of products in int8.
"""

import argparse
import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

import torch
from torch import Tensor

from elmo import load_bilm
from elmo.bilm.model import Bilm
from elmo.sources.source import FrozenSource

LONG_LINE = 301


def sentences(split: str = "test") -> list[list[str]]:
    """The tokens that are embedded."""
    text = files("tasks").joinpath("mini", "ner", f"{split}.txt").read_text(encoding="utf-8")
    blocks = [[line.split()[0] for line in block.splitlines()] for block in text.split("\n\n")]
    lines = [block for block in blocks if block and block[0] != "-DOCSTART-"]
    running = [token for line in lines for token in line]
    return [*lines, running[:LONG_LINE]]


def exact_layers(bilm: Bilm, text: list[list[str]]) -> Tensor:
    """The layers in float64, (layers, tokens, dim)."""
    return copy.deepcopy(bilm).double().token_layers(text)


def layer_errors(bilm: Bilm, device: torch.device, text: list[list[str]], exact: Tensor) -> Tensor:
    """The largest absolute error of each layer and token, (layers, tokens), on the given device in float32."""
    found = copy.deepcopy(bilm).to(device).token_layers(text).cpu()
    return (found.double() - exact).abs().amax(dim=2)


def rounding_errors(rounded: FrozenSource, exact: FrozenSource, sentences: list[list[str]]) -> list[float]:
    """Of each layer, the length of the error of all its vectors over the length of all its vectors."""
    found, wanted = (source.token_layers(sentences).double().flatten(1) for source in (rounded, exact))
    errors: list[float] = ((found - wanted).norm(dim=1) / wanted.norm(dim=1)).tolist()
    return errors


@contextmanager
def tf32_products() -> Iterator[None]:
    """Lets a GPU round the factors of float32 products to TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def main() -> None:
    """Prints a table of errors for each way to compute the layers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=torch.device, default=torch.device("cpu"), help="cpu (default) or cuda")
    parser.add_argument("--weights", default="small", help="the biLM; default: small")
    parser.add_argument("--rounded", metavar="WEIGHTS", help="compare these, such as int8 ones, with --weights")
    parser.add_argument("--int8", action="store_true", help="compare --weights in int8 with float32")
    options = parser.parse_args()
    device, bilm = options.device, load_bilm(options.weights)
    if options.rounded or options.int8:
        rounded = load_bilm(options.rounded or options.weights, precision="int8" if options.int8 else "float32")
        shares = rounding_errors(rounded, bilm, sentences("dev"))
        print(", ".join(f"layer {number}: {share:.2%}" for number, share in enumerate(shares)))
        return
    text = sentences()
    exact = exact_layers(bilm, text)
    rows = {}
    if device.type == "cpu":
        for name, switch in (("C kernel", "1"), ("torch", "0")):
            os.environ["ELMO_KERNEL"] = switch
            rows[f"{name}, CPU"] = layer_errors(bilm, device, text, exact)
    else:
        name = torch.cuda.get_device_name(device)
        rows[f"Triton, {name}"] = layer_errors(bilm, device, text, exact)
        with tf32_products():
            rows[f"Triton with TF32, {name}"] = layer_errors(bilm, device, text, exact)
    print("| path | layer 0 | layer 1 | layer 2 | tokens off by more than 1e-5 at layer 2 |")
    print("| --- | --- | --- | --- | --- |")
    for name, errors in rows.items():
        largest = " | ".join(f"{value:.1e}" for value in errors.amax(dim=1).tolist())
        print(f"| {name} | {largest} | {(errors[2] > 1e-5).double().mean():.1%} |")


if __name__ == "__main__":
    main()
