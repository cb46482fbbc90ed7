"""Files of a Hugging Face transformer: loads its model and its tokeniser, and checks that they fit together."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError

from elmo.common import checks
from elmo.common.errors import InputError, excerpt
from elmo.common.files import FileState, read_json, require_file, states_of
from elmo.common.tensor_files import check_finite_weights, naming

# What a config may ask for: a model of a million layers would be built for hours.
MOST = {
    "num_hidden_layers": checks.MOST_LAYERS,
    "num_attention_heads": checks.WIDEST,
    "hidden_size": checks.WIDEST,
    "intermediate_size": 1 << 20,
    "vocab_size": 10**7,
}
SENTENCEPIECE = ("spm.model", "spiece.model", "sentencepiece.bpe.model")  # of DeBERTa v3, ALBERT and T5, XLM-R

READ = (".json", ".txt", ".model", ".safetensors", ".bin")  # a .bin where there are no safetensors


def file_states(model: str) -> tuple[FileState, ...]:
    """The states of the files in a model's folder; empty for a name on the hub."""
    folder = Path(model)
    return states_of(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else ()


def files_of(model: str) -> list[Path]:
    """The files of a model in a folder or, once they were downloaded, of a name on the hub."""
    from huggingface_hub import snapshot_download

    folder = Path(model) if Path(model).is_dir() else Path(snapshot_download(model, local_files_only=True))
    found = sorted(file for file in folder.iterdir() if file.suffix in READ and file.is_file())
    tensors = [file for file in found if file.suffix == ".safetensors"]
    return [file for file in found if file.suffix != ".bin" or not tensors]


def load_transformer(name: str) -> tuple[Any, Any]:
    """The model, without layers that only sentences need, and its tokeniser. Code in a model's folder is never run."""
    try:
        from huggingface_hub.errors import StrictDataclassError
        from transformers import AutoConfig, AutoModel, AutoTokenizer
        from transformers.utils import logging

        _check_folder(Path(name))
        _check_sentencepiece(Path(name))
    except ImportError as error:
        raise InputError(
            f"a transformer needs {error.name}, which is not installed: in the checkout, "
            "pip install -e '.[transformer]'"
        ) from error
    logging.disable_progress_bar()
    said = logging.get_verbosity()
    logging.set_verbosity_error()  # it lists weights that are not used, such as those of an output layer
    try:
        config = AutoConfig.from_pretrained(name, trust_remote_code=False)
        with naming(f"transformer {name}", "Is its config.json damaged?"):
            for key, most in MOST.items():
                if isinstance(value := getattr(config, key, None), int):
                    checks.count(most, key, value)
        model, info = AutoModel.from_pretrained(
            name,
            config=config,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
        )
        tokeniser = AutoTokenizer.from_pretrained(
            name, use_fast=True, split_special_tokens=True, trust_remote_code=False
        )
    except InputError:
        raise
    except (
        OSError,
        ValueError,
        ArithmeticError,
        KeyError,
        ImportError,
        RuntimeError,
        SafetensorError,
        StrictDataclassError,
        UnpicklingError,
    ) as error:
        found = _reason(Path(name), error)
        raise InputError(
            f"transformer {name}: expected a name on the Hugging Face hub, such as bert-base-cased, or a folder with "
            f"config.json, tokeniser and weights, found: {found}. Without a network, copy such a folder here and give "
            "its path"
        ) from error
    finally:
        logging.set_verbosity(said)
    _check_weights(name, model, info)
    _check_tokeniser(name, model, tokeniser)
    _hide_marks(tokeniser)
    if hasattr(model, "pooler"):
        model.pooler = None  # reads whole sentences; many files lack its weights, which would be drawn at random
    with naming(f"transformer {name}", "Copy its files again, or use another model"):
        check_finite_weights(dict(model.named_parameters()))
    return model.eval(), tokeniser


def _reason(folder: Path, error: Exception) -> str:
    """Why a model could not be loaded."""
    if folder.is_file():
        return "a file"
    if (folder.is_absolute() or len(folder.parts) > 2) and not folder.is_dir():
        return "no such folder"
    cut = isinstance(error, OSError) and error.errno == errno.EINVAL  # torch seeks before the start of a short file
    if cut or isinstance(error, UnpicklingError):  # whose text advises to load it in a way that may run its code
        return "damaged weights, or weights with more than numbers in them"
    return str(error).splitlines()[0].rstrip(".")


def _check_folder(folder: Path) -> None:
    """Raises an InputError for a pipe in a model's folder, and for an index of weights that names other folders."""
    if not folder.is_dir():
        return
    for item in folder.iterdir():
        if item.exists() and not item.is_dir():
            require_file(item)
        if item.name.endswith(".index.json"):
            try:
                named = set(read_json(item)["weight_map"].values())
            except (ValueError, LookupError, TypeError, AttributeError):
                named = {None}
            if wrong := [name for name in named if not (isinstance(name, str) and Path(name).name == name)]:
                raise InputError(f"{item}: expected files of this folder, found {excerpt(wrong[0])}. Copy it again")


def _check_sentencepiece(folder: Path) -> None:
    """Raises an InputError if a folder's SentencePiece file is damaged; transformers takes it for another format."""
    files = [folder / name for name in SENTENCEPIECE if (folder / name).is_file()]
    if not files or (folder / "tokenizer.json").is_file():  # which is read instead
        return
    from sentencepiece import SentencePieceProcessor

    for file in files:
        try:
            SentencePieceProcessor(model_file=str(file))
        except (RuntimeError, OSError) as error:
            raise InputError(
                f"{file}: expected a SentencePiece model, found another file or a damaged one ({error}). Copy it again"
            ) from error


def _check_weights(name: str, model: Any, info: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Raises an InputError unless it is one stack of layers, and the file had its weights, except for the pooler's."""
    if model.config.is_encoder_decoder:
        raise InputError(
            f"transformer {name}: expected an encoder or a decoder, such as BERT or GPT-2, found one with both. Use "
            "another model"
        )
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise InputError(
            f"transformer {name}: expected all weights of {type(model).__name__}, found none for "
            f"{', '.join(missing[:3])}: {len(missing)} are missing. Is config.json of another model?"
        )
    if info["mismatched_keys"]:
        key, found, expected = min(info["mismatched_keys"])
        raise InputError(
            f"transformer {name}: expected {key} of shape {tuple(expected)}, found {tuple(found)}. Is config.json of "
            "another model?"
        )


def _check_tokeniser(name: str, model: Any, tokeniser: Any) -> None:  # noqa: ANN401
    """Raises an InputError unless the tokeniser gives words numbers that the model has vectors for."""
    if not tokeniser.is_fast:
        raise InputError(
            f"transformer {name}: expected a tokeniser of the package tokenizers, found {type(tokeniser).__name__}. "
            "Use another model"
        )
    vocabulary, rows = tokeniser.get_vocab(), len(model.get_input_embeddings().weight)
    # Without its files, transformers makes a tokeniser of marks alone, to which all words are unknown.
    words = {word: number for word, number in vocabulary.items() if word not in tokeniser.all_special_tokens}
    if not words or max(words.values()) >= rows:
        raise InputError(
            f"transformer {name}: expected a tokeniser for the {rows:,} sub-words of the model, found one of "
            f"{len(vocabulary):,}, {len(words):,} without marks. Copy the model's own files of the tokeniser, such as "
            "tokenizer.json, to its folder"
        )


def _hide_marks(tokeniser: Any) -> None:  # noqa: ANN401
    """Keeps a tokeniser made of a SentencePiece file from finding its marks in words.

    The marks are among its pieces. SentencePiece does not look for them, the package tokenizers does.
    """
    from tokenizers.models import Unigram

    backend = tokeniser.backend_tokenizer
    if not isinstance(backend.model, Unigram):
        return
    state = json.loads(backend.to_str())["model"]
    marks = set(tokeniser.all_special_tokens)
    # A name that no word has; numbers stay as they are.
    pieces = [("\0" + piece if piece in marks else piece, score) for piece, score in state["vocab"]]
    backend.model = Unigram(pieces, state["unk_id"], state["byte_fallback"])
