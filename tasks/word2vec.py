"""Train word2vec vectors on the text of a biLM: `python -m tasks.word2vec TEXT...`, for features=static and word2vec.

Skip-gram with negative sampling, on the tokens that the biLM was trained on: a static baseline for ELMo. See
`elmo.pretrain.word2vec`. Words are lower-cased, because the tasks look vectors up in lower case
(features.words.lowercase); their character CNN reads the original spelling.

One file serves all runs of an experiment.

Examples:
  python -m tasks.word2vec enwiki.txt.xz news/      text files and folders, split and held out as by elmo.pretrain
  python -m tasks.word2vec run/store                the token store of a pretraining: exactly the text of the biLM
  python -m tasks.word2vec run/store --workers 1 --out static.txt     the same file again each time
  ELMO_WORD2VEC=static.txt python -m tasks.run task=ner features=static          then
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from rich.console import Console

from elmo.common.errors import command_parser, exit_status
from elmo.common.processes import available_cores
from elmo.pretrain.corpus.token_store import CorpusSettings
from elmo.pretrain.word2vec import Word2VecSettings, make_vectors
from elmo.tokeniser import Tokenise
from elmo.word_vectors import word2vec_path


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.word2vec", str(__doc__))
    about = ".txt, .gz or .xz files and folders of them, or the token store of a pretraining (its training part)"
    parser.add_argument("texts", metavar="TEXT", type=Path, nargs="+", help=about)
    about = "default: the file of features=static and word2vec, $ELMO_WORD2VEC or ~/.cache/elmo-suite/word2vec.txt"
    parser.add_argument("--out", metavar="FILE", type=Path, default=word2vec_path(), help=about)
    parser.add_argument("--tokenise", choices=get_args(Tokenise), default="ptb", help="default: ptb; not for a store")
    share = CorpusSettings.heldout_fraction
    notes = {
        "heldout_fraction": "SHARE of the text that is held out, as in pretraining, not for a store; ",
        "epochs": "passes over the text; ",
        "spread": "standard deviation of the values; ",
        "workers": "threads, by default one per core; with 1, runs are bit-equal; ",
    }
    defaults = {"heldout_fraction": share, **asdict(Word2VecSettings(workers=available_cores()))}
    for name, value in defaults.items():
        option, note = f"--{name.replace('_', '-')}", notes.get(name, "")
        if name != "cased":
            parser.add_argument(option, type=type(value), default=value, help=f"{note}default: %(default)s")
    parser.add_argument("--cased", action="store_true", help="keep capitals, for features.words.lowercase=false")
    options = parser.parse_intermixed_args(arguments)
    ended = "interrupted; no vectors were written, the next run starts again"
    return exit_status("tasks.word2vec", lambda: _train(options), ended)


def _train(options: argparse.Namespace) -> None:
    settings = Word2VecSettings(**{name: getattr(options, name) for name in Word2VecSettings.__dataclass_fields__})
    text = CorpusSettings(
        options.texts, tokenise=options.tokenise, heldout_fraction=options.heldout_fraction, seed=options.seed
    )
    make_vectors(text, options.out, settings, Console(stderr=True))


if __name__ == "__main__":
    sys.exit(main())
