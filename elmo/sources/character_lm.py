"""Contextual string embeddings (flair): a forward and a backward character LM, read at the ends of words.

A word's vector is the forward LM's state after the word and the space that follows it, and the backward LM's state
after the word, read from its end, and the space before it (Akbik et al. 2018, and flair's code).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo.bilm.model import weights_hash
from elmo.bilm.sentences import Sentence, check_sentences
from elmo.common.device import upload
from elmo.sources.character_lm_files import SavedLm, read_pair

# Sentences that are read in parallel; a row that has read one starts with the next. The number is fixed: products of
# matrices of other shapes add in another order, and a sentence's vectors would depend on its batch.
ROWS_ON_CPU = 32
ROWS_ON_GPU = 1024

Numbers = npt.NDArray[np.int64]


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
        here, rows_of_words, tokens = (
            upload(numbers, out.device) for numbers in (characters, words[:, 1], words[:, 2])
        )
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
            `elmo.sources.character_lm_files.read_pair`.
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
