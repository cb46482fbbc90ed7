"""The hidden states of a Hugging Face transformer as a source of layers, one vector for each word and layer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from elmo.bilm.model import weights_hash
from elmo.bilm.sentences import Sentence, check_sentences
from elmo.common import checks
from elmo.common.errors import InputError, naming, reworded
from elmo.common.files import UNREADABLE, FileState, states_of
from elmo.common.tensor_files import check_finite_weights

LAYER_VERSION = 2  # raised when equal weights and settings give other layers
POOLINGS = ("first", "mean")
WINDOW = 512  # what BERT can read
OVERLAP = 128
SUBWORDS_AT_ONCE = 4096
SUBWORDS_AT_ONCE_ON_A_GPU = 65_536

FILES = (".json", ".txt", ".model", ".safetensors", ".bin")  # of a model; a .bin where there are no safetensors

# Of a model's config: how and by which version it was saved, not what it computes.
NOT_HASHED = ("transformers_version", "_name_or_path", "dtype", "torch_dtype", "architectures")


def windows_of(lengths: Sequence[int], capacity: int, overlap: int) -> list[range]:
    """Windows, as ranges of words, that cover a sentence; each has the last words of the one before it, as context.

    Args:
        lengths: sub-words of each word, none longer than `capacity`.
        capacity: sub-words of a window.
        overlap: sub-words that a window shares with the one before it, or as many as fit in whole words.
    """
    windows, first = [], 0
    while True:
        last, size = first, 0
        while last < len(lengths) and size + lengths[last] <= capacity:
            size += lengths[last]
            last += 1
        windows.append(range(first, last))
        if last == len(lengths):
            return windows
        # The next window has room for at least one more word.
        shared = min(overlap, capacity - lengths[last])
        first += 1
        while sum(lengths[first:last]) > shared:
            first += 1


def owners(lengths: Sequence[int], windows: Sequence[range]) -> list[int]:
    """For each word the number of the window where it has most context on its poorer side; the earlier one of equals.

    The start and the end of the sentence lack no context. That needs no case of its own: no window has as much before a
    word as the first one, or as much after it as the last one.
    """
    best, chosen = [-1] * len(lengths), [0] * len(lengths)
    for number, window in enumerate(windows):
        before, after = 0, sum(lengths[word] for word in window)
        for word in window:
            after -= lengths[word]
            if min(before, after) > best[word]:
                best[word], chosen[word] = min(before, after), number
            before += lengths[word]
    return chosen


@dataclass(frozen=True)
class _Piece:
    """A window as the model reads it.

    Attributes:
        ids: sub-words, with the marks around them.
        rows: where its words are among all words of the call.
        starts: the position in `ids` of each of these words.
        counts: sub-words of each of these words.
    """

    ids: list[int]
    rows: list[int]
    starts: list[int]
    counts: list[int]


class Transformer(nn.Module):
    """The layers of a transformer: its input embeddings, then each of its layers.

    Words are split into sub-words one by one, with a space before them where the tokeniser has one in its vocabulary,
    so a word has the same sub-words wherever it is. Words that are spelled like a mark, such as [SEP], are split too.
    Texts that are too long are read in overlapping windows, and each word takes its vectors from the window where it
    has most context. Encoders (BERT, RoBERTa, DeBERTa, ...) and decoders (GPT-2, ...) work; a decoder reads only the
    words before a word.

    Args:
        model: a name on the Hugging Face hub, or a folder with config, tokeniser and weights.
        pooling: first or mean: the vector of a word is that of its first sub-word, or the mean of all of them.
        window: sub-words to read at once, with the marks around them; fewer if the model cannot read as many.
        overlap: sub-words that neighbouring windows share; at most half a window if the model cannot read `window`.

    Raises:
        InputError: the package transformers is missing, the model cannot be loaded, or a setting is out of range.
    """

    def __init__(self, model: str, pooling: str = "first", window: int = WINDOW, overlap: int = OVERLAP) -> None:
        super().__init__()
        checks.one_of(POOLINGS, "pooling", pooling)
        self.name, self.pooling = model, pooling
        with torch.random.fork_rng(devices=[]):  # what torch draws next must not depend on the features
            self.model, self.tokeniser = load_transformer(model)
        self.before, self.after = _marks(self.tokeniser)
        longest = _longest(self.model, self.tokeniser)
        self.window = min(window, longest)
        marks = len(self.before) + len(self.after)
        self.capacity = self.window - marks
        checks.at_least(marks + 1, f"transformer {model}: window", self.window)
        self.overlap = min(overlap, self.capacity // 2) if longest < window else overlap
        if not 0 <= self.overlap < self.capacity:
            raise InputError(
                f"transformer {model}: overlap: expected at least 0 and less than the {self.capacity} sub-words of a "
                f"window, found {overlap}. Choose a smaller overlap, or a larger window"
            )
        self._space = " " if "ByteLevel" in repr(self.tokeniser.backend_tokenizer.pre_tokenizer) else ""
        self._known: dict[str, list[int]] = {}  # the sub-words of words

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of each layer."""
        config = self.model.config
        return (int(config.hidden_size),) * (int(config.num_hidden_layers) + 1)

    @property
    def device(self) -> torch.device:
        """The device of weights and layers."""
        return next(self.parameters()).device

    def fingerprint(self) -> str:
        """The sha256 of weights, config, tokeniser and settings; it does not depend on the file format."""
        config = {key: value for key, value in self.model.config.to_diff_dict().items() if key not in NOT_HASHED}
        settings = [LAYER_VERSION, self.pooling, self.window, self.overlap, self.before, self.after]
        options = json.dumps(["transformer", settings, config], sort_keys=True, default=str)
        return weights_hash(self.model.state_dict(), options + self.tokeniser.backend_tokenizer.to_str())

    @property
    def tuned(self) -> bool:
        """Whether the weights may change, and layers have gradients."""
        return next(self.parameters()).requires_grad

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """The embeddings with all else below the layers, each layer, and with the last one all above it."""
        count = self.model.config.num_hidden_layers
        stacks = [part for part in self.model.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
        if not stacks:  # layers that share their weights, as ALBERT's
            return [list(self.parameters())]
        groups: list[list[nn.Parameter]] = [[] for _ in range(count + 1)]
        number = {id(weight): layer for layer, block in enumerate(stacks[0], 1) for weight in block.parameters()}
        last = 0
        for weight in self.parameters():
            last = number.get(id(weight), count if last else 0)
            groups[last].append(weight)
        return groups

    def subwords(self, words: Sequence[str]) -> list[list[int]]:
        """The sub-words of each word, at least one and at most as many as fit in a window."""
        new = [word for word in dict.fromkeys(words) if word not in self._known]
        if new:
            whole = [word.encode("utf-8", "ignore").decode() for word in new]  # drops halves of surrogate pairs
            pieces = self.tokeniser([self._space + word for word in whole], add_special_tokens=False)["input_ids"]
            # A normaliser may remove all of a word, such as a control character.
            unknown = [self.tokeniser.unk_token_id or 0]
            self._known |= {word: ids[: self.capacity] or unknown for word, ids in zip(new, pieces, strict=True)}
        return [self._known[word] for word in words]

    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (layers, tokens, dim)."""
        check_sentences(sentences)
        pieces = list(self._pieces(sentences))
        if not pieces:
            return torch.zeros(len(self.widths), 0, self.widths[0], device=self.device)
        batches = list(self._batches(pieces))
        layers = torch.cat([self._read(batch) for batch in batches], dim=1)
        rows = [row for batch in batches for piece in batch for row in piece.rows]
        return layers.index_select(1, torch.tensor(rows, device=self.device).argsort())

    def _pieces(self, sentences: Sequence[Sentence]) -> Iterator[_Piece]:
        """The windows of all sentences, each with the words that take their vectors from it."""
        row = 0
        for sentence in sentences:
            words = self.subwords(sentence)
            lengths = list(map(len, words))
            windows = windows_of(lengths, self.capacity, self.overlap) if words else []
            owner = owners(lengths, windows)
            for number, window in enumerate(windows):
                ids, starts, whole = list(self.before), [], []
                for word in window:
                    if owner[word] == number:
                        whole.append(word)
                        starts.append(len(ids))
                    ids += words[word]
                if whole:
                    yield _Piece(ids + self.after, [row + i for i in whole], starts, [lengths[i] for i in whole])
            row += len(words)

    def _batches(self, pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
        """Pieces of equal length together: without padding, others of a batch change the last bits of a vector at most.

        All together while it is tuned: the trainer bounds its batches, and few of them are of equal length.
        """
        if self.tuned:
            yield list(pieces)
            return
        most = SUBWORDS_AT_ONCE if self.device.type == "cpu" else SUBWORDS_AT_ONCE_ON_A_GPU
        for length, equal in groupby(sorted(pieces, key=lambda piece: len(piece.ids)), lambda piece: len(piece.ids)):
            group, size = list(equal), max(1, most // length)
            yield from (group[start : start + size] for start in range(0, len(group), size))

    def _read(self, batch: Sequence[_Piece]) -> Tensor:
        """The layers of the words of these pieces, (layers, words, dim)."""
        longest = max(len(piece.ids) for piece in batch)
        # Padding is masked, so any sub-word will do: decoders have no mark for it, or one that is not in their table.
        padded = [piece.ids + [0] * (longest - len(piece.ids)) for piece in batch]
        ids = torch.tensor(padded, device=self.device)  # (pieces, sub-words)
        lengths = torch.tensor([len(piece.ids) for piece in batch], device=self.device)
        there = torch.arange(longest, device=self.device) < lengths[:, None]
        output = self.model(input_ids=ids, attention_mask=there.long(), output_hidden_states=True)
        layers = torch.stack([layer.flatten(0, 1) for layer in output.hidden_states])  # (layers, all sub-words, dim)
        offsets = range(0, ids.numel(), ids.shape[1])
        starts = [offset + start for offset, piece in zip(offsets, batch, strict=True) for start in piece.starts]
        if self.pooling == "first":
            return layers.index_select(1, torch.tensor(starts, device=self.device))
        counts = [count for piece in batch for count in piece.counts]
        rows = [row for start, count in zip(starts, counts, strict=True) for row in range(start, start + count)]
        of_words = layers.index_select(1, torch.tensor(rows, device=self.device))  # of words: without marks
        sizes = torch.tensor(counts, device=self.device)
        word = torch.arange(len(counts), device=self.device).repeat_interleave(sizes, output_size=len(rows))
        sums = layers.new_zeros(len(layers), len(counts), layers.shape[-1]).index_add(1, word, of_words)
        return sums / sizes[:, None]


def _marks(tokeniser: Any) -> tuple[list[int], list[int]]:  # noqa: ANN401 (transformers has no types)
    """The sub-words that the model expects before and after a text, such as [CLS] and [SEP].

    A decoder without any gets its start mark: it reads the first sub-word of a text unlike all others.
    """
    bare, whole = (tokeniser("a", add_special_tokens=marked)["input_ids"] for marked in (False, True))
    start = next(i for i in range(len(whole)) if whole[i : i + len(bare)] == bare)
    before, after = whole[:start], whole[start + len(bare) :]
    if not before and not after and tokeniser.bos_token_id is not None:
        before = [tokeniser.bos_token_id]
    return list(before), list(after)


def _longest(model: Any, tokeniser: Any) -> int:  # noqa: ANN401
    """The sub-words that the model can read at once, as its config and its tokeniser say."""
    positions = int(getattr(model.config, "max_position_embeddings", None) or WINDOW)
    positions = positions if positions > 0 else WINDOW  # XLNet's -1 means any number
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    # RoBERTa counts positions from the one after its padding.
    unused = [table.padding_idx + 1 for table in tables if getattr(table, "padding_idx", None) is not None]
    return min(positions - max(unused, default=0), int(tokeniser.model_max_length))


def file_states(model: str) -> tuple[FileState, ...]:
    """The states of the files in a model's folder; empty for a name on the hub."""
    folder = Path(model)
    return states_of(file for file in folder.iterdir() if file.is_file()) if folder.is_dir() else ()


def files_of(model: str) -> list[Path]:
    """The files of a model in a folder or, once they were downloaded, of a name on the hub."""
    from huggingface_hub import snapshot_download

    folder = Path(model) if Path(model).is_dir() else Path(snapshot_download(model, local_files_only=True))
    files = sorted(file for file in folder.iterdir() if file.suffix in FILES and file.is_file())
    tensors = [file for file in files if file.suffix == ".safetensors"]
    return [file for file in files if file.suffix != ".bin" or not tensors]


def load_transformer(name: str) -> tuple[Any, Any]:
    """The model, without layers that only sentences need, and its tokeniser. Code in a model's folder is never run."""
    remedy = "in the checkout, pip install -e '.[transformer]'"
    with reworded(ImportError, lambda it: f"a transformer needs {it.name}, which is not installed: {remedy}"):
        from huggingface_hub.errors import StrictDataclassError
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging
    logging.disable_progress_bar()
    said = logging.get_verbosity()
    logging.set_verbosity_error()  # it lists weights that are not used, such as those of an output layer
    try:
        model, info = AutoModel.from_pretrained(
            name, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True, trust_remote_code=False
        )
        tokeniser = AutoTokenizer.from_pretrained(
            name, use_fast=True, split_special_tokens=True, trust_remote_code=False
        )
    except (*UNREADABLE, ArithmeticError, ImportError, SafetensorError, StrictDataclassError) as error:
        # The text of an UnpicklingError advises to load the file in a way that may run its code.
        reason = "damaged weights" if isinstance(error, UnpicklingError) else str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"transformer {name}: expected a name on the Hugging Face hub, such as bert-base-cased, or a folder with "
            f"config.json, tokeniser and weights, found: {reason}. Without a network, copy such a folder here and give "
            "its path"
        ) from error
    finally:
        logging.set_verbosity(said)
    _check(name, model, info, tokeniser)
    _hide_marks(tokeniser)
    if hasattr(model, "pooler"):
        model.pooler = None  # reads whole sentences; many files lack its weights, which would be drawn at random
    with naming(f"transformer {name}", "Copy its files again, or use another model"):
        check_finite_weights(dict(model.named_parameters()))
    return model.eval(), tokeniser


def _check(name: str, model: Any, info: Mapping[str, Any], tokeniser: Any) -> None:  # noqa: ANN401
    """Raises an InputError unless it is one stack of layers, with all its weights and its own tokeniser."""
    missing = sorted(key for key in info["missing_keys"] if not key.startswith("pooler."))
    rows = len(model.get_input_embeddings().weight)
    # Without its files, transformers makes a tokeniser of marks alone, to which all words are unknown.
    marks = set(tokeniser.all_special_tokens)
    words = [number for word, number in tokeniser.get_vocab().items() if word not in marks]
    problems = {
        "an encoder with a decoder": model.config.is_encoder_decoder,
        f"no weights for {', '.join(missing[:3])}, {len(missing)} in all": missing,
        f"weights of other shapes: {sorted(info['mismatched_keys'])[:1]}": info["mismatched_keys"],
        f"a {type(tokeniser).__name__}, which is not of the package tokenizers": not tokeniser.is_fast,
        f"a tokeniser of {len(words):,} words for {rows:,} sub-words": not words or max(words) >= rows,
    }
    if problem := next((text for text, applies in problems.items() if applies), None):
        raise InputError(
            f"transformer {name}: expected an encoder or a decoder, such as BERT or GPT-2, with the config, weights "
            f"and tokeniser of one model, found {problem}. Copy the model's own files again, or use another model"
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
