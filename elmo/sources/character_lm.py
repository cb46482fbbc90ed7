"""Contextual string embeddings (flair): a forward and a backward character LM, read at the ends of words.

A word's vector is the forward LM's state after the word and the space that follows it, and the backward LM's state
after the word, read from its end, and the space before it (Akbik et al. 2018, and flair's code). Files are those of
flair, read without unpickling them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo.bilm.model import weights_hash
from elmo.bilm.sentences import Sentence, check_sentences
from elmo.common.device import upload
from elmo.common.errors import InputError, excerpt, naming
from elmo.common.tensor_files import check_finite_weights, check_tensors
from elmo.download import path_or_published
from elmo.published import CHARACTER_LMS
from elmo.sources.torch_files import InertObject, read_torch_file

# Sentences that are read in parallel; a row that has read one starts with the next. The number is fixed: products of
# matrices of other shapes add in another order, and a sentence's vectors would depend on its batch.
ROWS_ON_CPU = 32
ROWS_ON_GPU = 1024

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SavedLm:
    """A character LM as its file has it.

    Attributes:
        is_forward: whether it reads from left to right.
        characters: by their numbers; 0 is for all other characters.
        tensors: encoder.weight and, for each layer of the LSTM, rnn.weight_ih_l0 and so on, gates in torch's order.
        delimiter: what it reads in front of a sentence.
    """

    is_forward: bool
    characters: tuple[str, ...]
    tensors: Mapping[str, Tensor]
    delimiter: str = "\n"

    @property
    def hidden(self) -> int:
        """The width of a state."""
        return self.tensors["rnn.weight_hh_l0"].shape[1]

    @property
    def n_layers(self) -> int:
        """The number of LSTM layers."""
        return sum(name.startswith("rnn.weight_hh_l") for name in self.tensors)

    def check(self) -> None:
        """Raises an InputError unless the tensors are finite and those of an LSTM over these characters."""
        shapes = {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}
        if any(len(shapes.get(name, ())) != 2 or 0 in shapes[name] for name in ("encoder.weight", "rnn.weight_hh_l0")):
            raise InputError(f"expected the matrices encoder.weight and rnn.weight_hh_l0, found {excerpt(shapes)}")
        width = self.tensors["encoder.weight"].shape[1]
        lstm = nn.LSTM(width, self.hidden, self.n_layers, device="meta").state_dict()
        expected = {"encoder.weight": torch.empty(len(self.characters), width, device="meta")}
        expected |= {f"rnn.{name}": tensor for name, tensor in lstm.items()}
        check_tensors({name: tensor.float() for name, tensor in self.tensors.items()}, expected)
        check_finite_weights(self.tensors)


class CharacterLm(nn.Module):
    """A character LM: LSTM layers over characters, without the softmax.

    Args:
        saved: its characters and tensors.
    """

    def __init__(self, saved: SavedLm) -> None:
        super().__init__()
        self.is_forward = saved.is_forward
        self.hidden = saved.hidden
        self.n_layers = saved.n_layers
        self._delimiter = saved.delimiter
        self._numbers = {character: number for number, character in enumerate(saved.characters)}
        tensors = {name: tensor.float() for name, tensor in saved.tensors.items()}
        options = f"character LM 1 {saved.is_forward} {saved.delimiter!r} {saved.characters!r}"
        self.digest = weights_hash(tensors, options)
        for layer in range(self.n_layers):
            bias = tensors[f"rnn.bias_ih_l{layer}"] + tensors[f"rnn.bias_hh_l{layer}"]
            inner = tensors[f"rnn.weight_ih_l{layer}"].t()
            # The first layer reads a character: what that adds to the gates is a row of a table.
            self.register_buffer(f"inner_{layer}", tensors["encoder.weight"] @ inner + bias if layer == 0 else inner)
            self.register_buffer(f"bias_{layer}", bias)
            self.register_buffer(f"outer_{layer}", tensors[f"rnn.weight_hh_l{layer}"].t().contiguous())

    def word_states(self, sentences: Sequence[Sentence]) -> Tensor:
        """The top layer's states at the words of sentences, one after the other, (tokens, hidden)."""
        starts = [0, *accumulate(len(sentence) for sentence in sentences)]
        states: Tensor = self.get_buffer("outer_0").new_zeros(starts[-1], self.hidden)
        rows = ROWS_ON_GPU if states.device.type == "cuda" else ROWS_ON_CPU
        if not len(states):
            return states
        lines: list[list[int]] = [[] for _ in range(rows)]  # the characters of each row
        begins, words = [], []  # (step, row) of each sentence, (step, row, token) of each word
        read = [(*self._read(sentence), start) for sentence, start in zip(sentences, starts, strict=False) if sentence]
        for numbers, ends, start in sorted(read, key=lambda item: -len(item[0])):
            row = min(range(rows), key=lambda row: len(lines[row]))
            begins.append((len(lines[row]), row))
            words += [(len(lines[row]) + end, row, start + word) for word, end in enumerate(ends)]
            lines[row] += numbers
        characters = np.zeros((max(map(len, lines)), rows), dtype=np.int64)
        for row, numbers in enumerate(lines):
            characters[: len(numbers), row] = numbers
        self._walk(characters, np.array(begins), np.array(sorted(words)), states)
        return states

    def _read(self, sentence: Sentence) -> tuple[list[int], list[int]]:
        """The numbers of a sentence's characters in reading order, and the position where each word is read."""
        way = 1 if self.is_forward else -1
        text = f"{self._delimiter}{' '.join(sentence)[::way]} "
        past = accumulate((len(word) + 1 for word in sentence[::way]), initial=len(self._delimiter))
        ends = [place - 1 for place in past][1:]  # of the space after each word
        return [self._numbers.get(letter, 0) for letter in text], ends[::way]

    def _walk(self, characters: Numbers, begins: Numbers, words: Numbers, out: Tensor) -> None:
        """Reads rows of characters, (steps, rows), in parallel and copies the states at words to `out`.

        Args:
            characters: their numbers.
            begins: step and row where a sentence begins, (sentences, 2): the states are zero there.
            words: step, row and row of `out` for each word, (words, 3), by step.
            out: where the states go, (tokens, hidden).
        """
        steps, rows = characters.shape
        kept = np.ones((steps, rows, 1), dtype=np.int64)
        kept[begins[:, 0], begins[:, 1]] = 0
        some_begin = set(begins[:, 0].tolist())
        read = characters, words[:, 1], words[:, 2]
        here, rows_of_words, tokens = (upload(numbers, out.device) for numbers in read)
        keeping = upload(kept, out.device).to(out.dtype)
        bounds = np.searchsorted(words[:, 0], np.arange(steps + 1)).tolist()
        hidden = [out.new_zeros(rows, self.hidden) for _ in range(self.n_layers)]
        cells = [out.new_zeros(rows, self.hidden) for _ in range(self.n_layers)]
        for step in range(steps):
            for layer in range(self.n_layers):
                if step in some_begin:
                    hidden[layer], cells[layer] = hidden[layer] * keeping[step], cells[layer] * keeping[step]
                inner, outer, bias = (self.get_buffer(f"{name}_{layer}") for name in ("inner", "outer", "bias"))
                seen = inner[here[step]] if layer == 0 else hidden[layer - 1] @ inner + bias
                i, f, g, o = torch.addmm(seen, hidden[layer], outer).chunk(4, dim=1)  # (rows, hidden) each
                cells[layer] = torch.sigmoid(f) * cells[layer] + torch.sigmoid(i) * torch.tanh(g)
                hidden[layer] = torch.sigmoid(o) * torch.tanh(cells[layer])
            ended = slice(bounds[step], bounds[step + 1])
            out[tokens[ended]] = hidden[-1][rows_of_words[ended]]


class Flair(nn.Module):
    """A forward and a backward character LM as a source: one layer, both states next to each other.

    Args:
        weights: flair/news-fast or flair/news, downloaded on first use, or a folder with the files of two LMs; see
            `read_pair`.
    """

    def __init__(self, weights: str = "flair/news-fast") -> None:
        super().__init__()
        self.forward_lm, self.backward_lm = map(CharacterLm, read_pair(weights))
        self.widths = (self.forward_lm.hidden + self.backward_lm.hidden,)

    def fingerprint(self) -> str:
        """The sha256 of both LMs; it does not depend on the file format."""
        return hashlib.sha256(f"flair {self.forward_lm.digest} {self.backward_lm.digest}".encode()).hexdigest()

    @torch.no_grad()
    def token_layers(self, sentences: Sequence[Sentence]) -> Tensor:
        """The states at all words, (1, tokens, hidden of both)."""
        check_sentences(sentences)
        states = [lm.word_states(sentences) for lm in (self.forward_lm, self.backward_lm)]
        return torch.cat(states, dim=1).unsqueeze(0)


def read_pair(weights: str) -> tuple[SavedLm, SavedLm]:
    """The forward and the backward LM of a name or of a folder with two files of flair (.pt).

    Raises:
        InputError: there is no such folder, or its files are not those of two character LMs.
    """
    folder = path_or_published(weights, CHARACTER_LMS, "flair")
    files = sorted(folder.glob("*.pt"))
    lms = sorted(map(_read, files), key=lambda lm: not lm.is_forward)
    if [lm.is_forward for lm in lms] != [True, False]:
        raise InputError(
            f"{folder}: expected one forward and one backward character LM (.pt), found "
            f"{', '.join(file.name for file in files) or 'neither'}. Name another folder"
        )
    return lms[0], lms[1]


def _read(file: Path) -> SavedLm:
    """An LM as flair's LanguageModel.save writes it."""
    content = read_torch_file(file)
    with naming(file, "Get the file again, or name another folder"):
        if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
            raise InputError(f"expected a language model of flair, with a state_dict, found {excerpt(content)}")
        kind = str(content.get("recurrent_type") or "lstm").lower()
        if kind != "lstm" or content.get("nout") is not None:
            raise InputError(
                f"expected an LSTM without a projection, found recurrent_type={kind}, nout={content.get('nout')}"
            )
        holder = content.get("tokenizer", content)  # newer versions put the dictionary into a tokenizer
        dictionary = (holder.attributes if isinstance(holder, InertObject) else holder).get("dictionary")
        if not isinstance(dictionary, InertObject) or not isinstance(dictionary.attributes.get("idx2item"), list):
            raise InputError(f"expected the characters of the model, found {excerpt(dictionary)}")
        items = dictionary.attributes["idx2item"]
        characters = tuple(item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in items)
        tensors = {
            name: tensor
            for name, tensor in content["state_dict"].items()
            if name.startswith(("encoder.", "rnn.")) and isinstance(tensor, Tensor)  # those in front of the softmax
        }
        delimiter = content.get("document_delimiter") or "\n"
        saved = SavedLm(bool(content.get("is_forward_lm")), characters, tensors, delimiter)
        saved.check()
    return saved
