"""The command `python -m elmo.convert`: writes a biLM to another weights file, in another format or precision.

Write the biLM WEIGHTS to the file OUT, whose suffix chooses the format: .safetensors, or .hdf5 for bilm-tf and
AllenNLP. Its options are written next to it. int8 rounds the matrices of LSTMs and highways to 8 bits, with one
scale per output row, in .safetensors only; it needs half the space of float16. All are read back as float32.

example: python -m elmo.convert small small-int8/weights.safetensors --precision int8
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from elmo.bilm.options import WEIGHT_TYPES, BilmOptions
from elmo.common.errors import InputError, command_parser
from elmo.published import weights_choices


def convert(weights: str, out: Path, precision: str) -> None:
    """Writes a biLM to a new file; see `load_bilm` and `save_bilm`."""
    from elmo.bilm import weight_files  # torch: not for --help

    if out.exists():
        raise InputError(f"{out}: this file exists; name a new one, or delete it first")
    source = weight_files.find_weights(weights)  # before OUT is in that folder, too
    bilm, options = weight_files.load_bilm(weights), weight_files.options_path(out)
    if options.exists() and BilmOptions.from_file(options) != bilm.options:
        raise InputError(f"{options}: the options of another biLM, which would be lost; name a file in another folder")
    weight_files.save_bilm(bilm, out, weight_files.PRECISIONS[precision])
    before, after = (path.stat().st_size / 1e6 for path in (source, out))
    print(f"{weights}: {before:,.1f} MB; {out} in {precision}: {after:,.1f} MB")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("elmo.convert", str(__doc__))
    parser.add_argument("weights", metavar="WEIGHTS", help=weights_choices())
    parser.add_argument("out", metavar="OUT", type=Path, help="a new file ending in .safetensors or .hdf5")
    parser.add_argument("--precision", choices=WEIGHT_TYPES, default="float32", help="of OUT; default: float32")
    return parser.run(arguments, lambda given: convert(given.weights, given.out, given.precision))


if __name__ == "__main__":
    sys.exit(main())
