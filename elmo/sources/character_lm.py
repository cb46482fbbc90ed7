"""Contextual string embeddings (flair): a forward and a backward character LM, read at the ends of words.

A word's vector holds the forward LM's state after the word and the space that follows it, and the backward LM's state
after the word, read from its end, and the space in front of it (Akbik et al. 2018, and flair's code).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor, nn

from elmo.bilm.sentences import Sentence, refuse_plain_text
from elmo.common.device import upload
from elmo.sources.character_lm_files import SavedLm, read_pair

# Sentences that are read side by side. It is a fixed number, and short batches are filled up: products of matrices of
# other shapes add in another order, and a sentence's vectors would depend on its batch.
ROWS_ON_CPU = 32
ROWS_ON_GPU = 1024


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
        digest = hashlib.sha256(f"character LM 1 {saved.is_forward} {saved.delimiter!r} {saved.characters!r}".encode())
        for name, tensor in sorted(tensors.items()):
            digest.update(f"{name} {tuple(tensor.shape)}".encode() + tensor.contiguous().numpy().tobytes())
        self.digest = digest.hexdigest()
        for layer in range(self.n_layers):
            bias = tensors[f"rnn.bias_ih_l{layer}"] + tensors[f"rnn.bias_hh_l{layer}"]
            inner = tensors[f"rnn.weight_ih_l{layer}"].t()
            # The first layer sees a character: what it adds to the gates is a row of a table.
            self.register_buffer(f"inner_{layer}", tensors["encoder.weight"] @ inner + bias if layer == 0 else inner)
            self.register_buffer(f"bias_{layer}", bias)
            self.register_buffer(f"outer_{layer}", tensors[f"rnn.weight_hh_l{layer}"].t().contiguous())

    def word_states(self, sentences: Sequence[Sentence]) -> Tensor:
        """The top layer's states at the words of sentences, one after the other, (tokens, hidden)."""
        device: torch.device = self.get_buffer("outer_0").device
        read = [self._read(sentence) for sentence in sentences]
        starts = [0, *accumulate(len(sentence) for sentence in sentences)]
        states = torch.zeros(starts[-1], self.hidden, device=device)
        order = sorted((i for i, sentence in enumerate(sentences) if sentence), key=lambda i: -len(read[i][0]))
        rows = ROWS_ON_GPU if device.type == "cuda" else ROWS_ON_CPU
        for first in range(0, len(order), rows):
            chosen = order[first : first + rows]
            self._walk([read[i] for i in chosen], [starts[i] for i in chosen], rows, states)
        return states

    def _read(self, sentence: Sentence) -> tuple[list[int], list[int]]:
        """The numbers of a sentence's characters in reading order, and the position where each word is read."""
        text = " ".join(sentence)
        numbers = [self._numbers.get(letter, 0) for letter in f"{self._delimiter}{self._ordered(text)} "]
        before = len(self._delimiter)
        words = sentence if self.is_forward else sentence[::-1]
        ends = [before + end for end in accumulate(len(word) + 1 for word in words)]
        ends = [end - 1 for end in ends]  # of the space after the word
        return numbers, ends if self.is_forward else ends[::-1]

    def _ordered(self, text: str) -> str:
        return text if self.is_forward else text[::-1]

    def _walk(self, read: Sequence[tuple[list[int], list[int]]], starts: Sequence[int], rows: int, out: Tensor) -> None:
        """Reads some sentences character by character and copies the states at their words to `out`."""
        steps = max(len(numbers) for numbers, _ in read)
        characters = np.zeros((steps, rows), dtype=np.int64)
        for row, (numbers, _) in enumerate(read):
            characters[: len(numbers), row] = numbers
        words = [
            (end, row, start + word)
            for row, ((_, ends), start) in enumerate(zip(read, starts, strict=True))
            for word, end in enumerate(ends)
        ]
        steps_of_words, *places = np.array(sorted(words), dtype=np.int64).T
        here = upload(characters, out.device)
        rows_of_words, tokens = (upload(numbers, out.device) for numbers in places)
        bounds = np.searchsorted(steps_of_words, np.arange(steps + 1)).tolist()
        hidden = [out.new_zeros(rows, self.hidden) for _ in range(self.n_layers)]
        cells = [out.new_zeros(rows, self.hidden) for _ in range(self.n_layers)]
        for step in range(steps):
            for layer in range(self.n_layers):
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
        refuse_plain_text(sentences)
        states = [lm.word_states(sentences) for lm in (self.forward_lm, self.backward_lm)]
        return torch.cat(states, dim=1).unsqueeze(0)
