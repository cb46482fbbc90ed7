"""Train word2vec vectors on the text of a biLM: `python -m tasks.word2vec TEXT...`, for features=static and word2vec.

A static baseline for ELMo, which may seem good only because it is compared with vectors that are narrow or were trained
on other text. These vectors have 300 dimensions and are trained on the same tokens as the biLM: the training part of
its token store, without the held-out text. The remaining difference is that the biLM uses a word's context.

Skip-gram with negative sampling, by gensim: of word2vec's two models the better one for rare words (Mikolov et al.
2013). A window of 5, five negatives, five passes, at least five occurrences and downsampling of frequent words at 1e-4
are usual for text of this size. One Neoverse-N1 core processes 106 k tokens a second (61 k with ten negatives), so five
passes over the 108 million tokens of the shipped biLM take 85 core-minutes. Words are lower-cased, because the tasks
look vectors up in lower case (features.words.lowercase); their character CNN reads the original spelling.

One file serves all runs of an experiment.

Examples:
  python -m tasks.word2vec enwiki.txt.xz news/      text files and folders, split and held out as by elmo.pretrain
  python -m tasks.word2vec run/store                the token store of a pretraining: exactly the text of the biLM
  python -m tasks.word2vec run/store --workers 1 --out static.txt     the same file again each time
  ELMO_WORD2VEC=static.txt python -m tasks.run task=ner features=static          then
"""

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rich.console import Console

from elmo.common.checks import AtLeastOne, AtLeastZero, Dropout, Positive, check_ranges, finite
from elmo.common.errors import InputError, command_parser, reworded
from elmo.common.files import replacing, sha256_of, write_json
from elmo.common.processes import available_cores
from elmo.common.progress import Meter, print_line
from elmo.pretrain.corpus.text import HELDOUT_FRACTION
from elmo.tokeniser import Tokenise
from elmo.word_vectors import Vector, word2vec_path

if TYPE_CHECKING:
    from elmo.pretrain.corpus.token_store import CorpusSettings, Sentences, TokenStore

SENTENCES_AT_ONCE = 10_000  # converted to words together: a few MB, and progress about every second


@dataclass(frozen=True)
class Word2VecSettings:
    """Settings of the training; equal settings and text give equal files only with one worker.

    Attributes:
        dim: of a vector.
        window: most words on either side that a word predicts; the actual number is drawn from 1 to this.
        negatives: negative samples for each of them.
        sample: words more frequent than this fraction of the text are downsampled; 0 keeps them all.
        min_count: rarer words get no vector.
        epochs: passes over the text.
        spread: standard deviation to which all vectors are scaled. Skip-gram's own, about 0.1, makes words small
            compared with characters at the input of a head: dev F1 of mini NER was 5 points lower (two seeds, vectors
            of 14 million tokens). GloVe 840B has 0.49.
        cased: keeps capitals.
        seed: of all random draws.
        workers: threads. Several threads update the same vectors without locks, so runs differ slightly.
    """

    dim: AtLeastOne = 300
    window: AtLeastOne = 5
    negatives: AtLeastOne = 5
    sample: Dropout = 1e-4
    min_count: AtLeastOne = 5
    epochs: AtLeastOne = 5
    spread: Positive = 0.5
    cased: bool = False
    seed: AtLeastZero = 1
    workers: AtLeastOne = 1

    def __post_init__(self) -> None:
        finite(asdict(self))
        check_ranges("", self)


@dataclass(frozen=True)
class TrainingText:
    """Training sentences as lists of words; gensim iterates over them once per epoch.

    Attributes:
        sentences: as numbers.
        forms: the word for each number.
        meter: counts the tokens that were read.
    """

    sentences: "Sentences"
    forms: Sequence[str]
    meter: Meter

    def __iter__(self) -> Iterator[list[str]]:
        for first in range(0, len(self.sentences), SENTENCES_AT_ONCE):
            bounds: list[int] = self.sentences.offsets[first : first + SENTENCES_AT_ONCE + 1].tolist()
            words = [self.forms[number] for number in self.sentences.tokens[bounds[0] : bounds[-1]].tolist()]
            for start, end in pairwise(bounds):
                yield words[start - bounds[0] : end - bounds[0]]
            self.meter.advance(len(words), len(words))


def train(
    store: "TokenStore", settings: Word2VecSettings, console: Console
) -> tuple[list[str], Vector, dict[str, Any]]:
    """Words by falling frequency, their vectors (words, dim), and facts about the training for the JSON file."""
    from gensim.models import Word2Vec

    spelled = store.words()
    forms = spelled if settings.cased else [word.lower() for word in spelled]
    counts: Counter[str] = Counter()
    for form, count in zip(forms, store.type_counts.tolist(), strict=True):
        counts[form] += count
    known = sum(count for count in counts.values() if count >= settings.min_count)
    if not known:
        raise InputError(
            f"{store.folder}: no word occurs {settings.min_count} times in the training text; give more text, or lower "
            "--min-count"
        )
    logging.getLogger("gensim").setLevel(logging.ERROR)  # it warns of small batches, which are fine for little text
    same = {name: getattr(settings, name) for name in ("window", "sample", "min_count", "epochs", "seed", "workers")}
    model = Word2Vec(sg=1, vector_size=settings.dim, negative=settings.negatives, **same)
    model.build_vocab_from_freq(counts, corpus_count=len(store.train))  # the store has the counts
    tokens, began = len(store.train.tokens), time.monotonic()
    # gensim 4.4.0 may print "Exception ignored in our_dot_float", for a product of exactly -1, and continues with 0.
    with Meter(console, "training", tokens * settings.epochs) as meter:
        text = TrainingText(store.train, forms, meter)
        model.train(text, total_examples=len(store.train), total_words=tokens, epochs=settings.epochs)
    spread = float(model.wv.vectors.std())
    about = {
        "words": len(model.wv),
        "spread_as_trained": round(spread, 4),
        "tokens_with_a_vector": known,
        "seconds": round(time.monotonic() - began, 1),
    }
    return list(model.wv.index_to_key), model.wv.vectors * (settings.spread / spread), about


def write_vectors(path: Path, words: Sequence[str], vectors: Vector) -> None:
    """Writes word2vec's text format with five decimals, a third smaller than gensim's."""
    line = "%s" + " %.5f" * vectors.shape[1] + "\n"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{len(words)} {vectors.shape[1]}\n")
        for word, vector in zip(words, vectors, strict=True):
            file.write(line % (word, *vector.tolist()))


def make_vectors(corpus: "CorpusSettings", out: Path, settings: Word2VecSettings, console: Console) -> None:
    """Trains vectors, writes them to `out`, and describes their text and training in a JSON file next to it.

    Args:
        corpus: the text and how to tokenise it, or one finished token store as its only source.
        out: the file, .txt; an existing one is never overwritten.
        settings: of the training.
        console: for progress.
    """
    from elmo.pretrain.corpus.token_store import TokenStore, build_store

    if out.suffix != ".txt":
        raise InputError(f"{out}: expected a name such as {out.stem}.txt")
    about_it = out.with_suffix(".json")
    for path in (out, about_it):
        if path.exists():
            raise InputError(f"{path}: exists already, and records may name it; remove it, or name another with --out")
    remedy = "in the checkout, pip install -e '.[word2vec]'"
    with reworded(ImportError, lambda it: f"training word vectors needs {it.name}, which is not installed: {remedy}"):
        import gensim
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{out.name}.", suffix=".partial", dir=out.parent) as work:
        # Held-out text depends on text and seed only, so it is the same as for a biLM of the same text and seed.
        stores = [source for source in map(Path, corpus.sources) if (source / "header.json").is_file()]
        if stores and len(corpus.sources) > 1:
            raise InputError(f"{stores[0]}: a token store; expected it alone, found other sources too")
        store = TokenStore.open(stores[0]) if stores else build_store(corpus, Path(work) / "store", console)
        words, vectors, about = train(store, settings, console)
    with replacing(out) as partial:
        write_vectors(partial, words, vectors)
    text = {key: store.header[key] for key in ("sources", "settings", "counts")}
    card = {
        "vectors": {"file": out.name, "sha256": sha256_of(out)},
        "text": {"store": store.fingerprint, **text},
        "settings": {"model": "skip-gram, negative sampling", **asdict(settings)},
        "training": about | {"gensim": gensim.__version__},
    }
    write_json(about_it, card)
    made = f"{about['words']:,} words of {settings.dim} numbers, in {about['seconds']:.0f} s of training"
    print_line(console, f"{out}: {made}; description: {about_it.name}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0, or 1 after an error message, or 130 after Ctrl-C."""
    parser = command_parser("tasks.word2vec", str(__doc__))
    about = ".txt, .gz or .xz files and folders of them, or the token store of a pretraining (its training part)"
    parser.add_argument("texts", metavar="TEXT", type=Path, nargs="+", help=about)
    about = "default: the file of features=static and word2vec, $ELMO_WORD2VEC or ~/.cache/elmo-suite/word2vec.txt"
    parser.add_argument("--out", metavar="FILE", type=Path, default=word2vec_path(), help=about)
    parser.add_argument("--tokenise", choices=get_args(Tokenise), default="ptb", help="default: ptb; not for a store")
    notes = {
        "heldout_fraction": "SHARE of the text that is held out, as in pretraining, not for a store; ",
        "epochs": "passes over the text; ",
        "spread": "standard deviation of the values; ",
        "workers": "threads, by default one per core; with 1, runs are bit-equal; ",
    }
    defaults = {"heldout_fraction": HELDOUT_FRACTION, **asdict(Word2VecSettings(workers=available_cores()))}
    for name, value in defaults.items():
        option, note = f"--{name.replace('_', '-')}", notes.get(name, "")
        if name != "cased":
            parser.add_argument(option, type=type(value), default=value, help=f"{note}default: %(default)s")
    parser.add_argument("--cased", action="store_true", help="keep capitals, for features.words.lowercase=false")
    return parser.run(arguments, _train, "interrupted; no vectors were written, the next run starts again")


def _train(options: argparse.Namespace) -> None:
    from elmo.pretrain.corpus.token_store import CorpusSettings  # numpy: not for --help

    settings = Word2VecSettings(**{name: getattr(options, name) for name in Word2VecSettings.__dataclass_fields__})
    text = CorpusSettings(
        options.texts, tokenise=options.tokenise, heldout_fraction=options.heldout_fraction, seed=options.seed
    )
    make_vectors(text, options.out, settings, Console(stderr=True))


if __name__ == "__main__":
    sys.exit(main())
