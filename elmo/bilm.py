"""The biLM: sentences in, the layers of every token out, without gradients."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo.characters import END_OF_SENTENCE, START_OF_SENTENCE
from elmo.encoder import WordMemory, encoder_of
from elmo.errors import InputError
from elmo.lstm import Packing, ProjectedLstm
from elmo.options import SIZES, BilmOptions
from elmo.threads import at_once, side_by_side

Sentence = Sequence[str]
FORWARD, BACKWARD = 0, 1
SENTENCES_IN_A_SHARE = 12  # a thread that gets fewer reads all weights for too little


class CarriedState:
    """LSTM states that outlive a batch: row i of one batch hands over to row i of the next, as bilm-tf does.

    Pass the same object to successive calls. Without one every sentence starts from zero, and its vectors depend on
    nothing but itself; with one they depend on all that was read before.
    """

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def take(self, direction: int, layer: int, start: tuple[Tensor, Tensor]) -> None:
        """Overwrites the leading rows of `start` with what the last batch left behind, as far as there are any."""
        for into, saved in zip(start, self._rows.get((direction, layer), ()), strict=False):
            n = min(len(into), len(saved))
            into[:n] = saved[:n]

    def put(self, direction: int, layer: int, end: tuple[Tensor, Tensor]) -> None:
        """Keeps the rows of a finished batch; rows beyond it stay as an earlier, larger batch left them."""
        earlier = self._rows.get((direction, layer), end)
        self._rows[direction, layer] = (
            torch.cat([end[0], earlier[0][len(end[0]) :]]),
            torch.cat([end[1], earlier[1][len(end[1]) :]]),
        )


class Bilm(nn.Module):
    """A frozen bidirectional language model.

    Layer 0 is the encoder's vector, twice; layer j holds [forward; backward] of LSTM layer j.
    """

    def __init__(self, options: BilmOptions) -> None:
        super().__init__()
        self.options = options
        # Modules draw initial values, which are overwritten later; the generator of the model around this one must not
        # notice, or the same seed would give it another start with ELMo than without.
        with torch.random.fork_rng(devices=[]):
            self.encoder = encoder_of(options)
        # directions[d][j] is LSTM layer j of direction d; both read projection_dim wide inputs.
        self.directions = nn.ModuleList(
            nn.ModuleList(
                ProjectedLstm(
                    options.projection_dim,
                    options.cell_dim,
                    options.projection_dim,
                    options.cell_clip,
                    options.projection_clip,
                )
                for _ in range(options.n_layers)
            )
            for _ in (FORWARD, BACKWARD)
        )
        self.requires_grad_(False)
        self._memory: WordMemory | None = None

    def remember_words(self) -> None:
        """From now on every distinct word is encoded once, and then comes from memory; weights must not change."""
        self._memory = WordMemory(self.encoder)

    @property
    def dim(self) -> int:
        """Width of a layer."""
        return 2 * self.options.projection_dim

    @property
    def n_layers(self) -> int:
        """Layers that come out: the encoder's and one for each LSTM layer."""
        return self.options.n_layers + 1

    @property
    def widths(self) -> tuple[int, ...]:
        """Values of each layer that are worth keeping: of the encoder's, which is the same vector twice, one half."""
        return (self.options.projection_dim, *[self.dim] * self.options.n_layers)

    @property
    def device(self) -> torch.device:
        """Where the weights are, and the layers will be."""
        return next(self.parameters()).device

    def fingerprint(self) -> str:
        """The sha256 of options and weights as they are now; equal for equal weights, whatever file held them."""
        digest = hashlib.sha256(self.options.canonical().encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(f"{name} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def layers(self, sentences: Sequence[Sentence], state: CarriedState | None = None) -> Tensor:
        """The layers of a padded batch, (n_layers, sentences, tokens, dim), zero where a sentence has ended."""
        lengths = torch.tensor([len(sentence) for sentence in sentences], device=self.device)
        longest = max((len(sentence) for sentence in sentences), default=0)
        mask = torch.arange(longest, device=self.device) < lengths[:, None]  # (sentences, tokens)
        padded = torch.zeros(self.n_layers, *mask.shape, self.dim, device=self.device)
        padded[:, mask] = self.token_layers(sentences, state)
        return padded

    @torch.no_grad()
    def token_layers(self, sentences: Sequence[Sentence], state: CarriedState | None = None) -> Tensor:
        """The layers of all tokens, sentence after sentence without padding, (n_layers, tokens, dim).

        Args:
            sentences: lists of words; an empty one has no tokens.
            state: None starts every sentence from zero; see `CarriedState`.
        """
        if not sentences:
            return torch.zeros(self.n_layers, 0, self.dim, device=self.device)
        marked = [[START_OF_SENTENCE, *sentence, END_OF_SENTENCE] for sentence in sentences]
        type_of = {word: i for i, word in enumerate(dict.fromkeys(chain.from_iterable(marked)))}
        types = torch.tensor([type_of[word] for sentence in marked for word in sentence], device=self.device)
        vectors = (self._memory or self.encoder).encode_words(list(type_of))  # (types, projection_dim)
        # The marks are read by the LSTMs and then left out: which positions are tokens, and the result's row of each.
        kinds = [kind for sentence in sentences for kind in (False, *[True] * len(sentence), False)]
        is_token = torch.tensor(kinds, device=self.device)  # (tokens and marks,)
        row_of = torch.cumsum(is_token, dim=0) - 1

        result = vectors.new_empty(self.n_layers, int(is_token.sum()), self.dim)
        result[0] = vectors[types[is_token]].repeat(1, 2)

        def read(direction: int, packing: Packing, first: int) -> None:
            positions = first + (packing.forward if direction == FORWARD else packing.backward)
            kept = is_token[positions]
            rows = row_of[positions[kept]]
            half = slice(direction * self.options.projection_dim, (direction + 1) * self.options.projection_dim)
            x = vectors[types[positions]]  # (tokens and marks, projection_dim), packed
            for layer, lstm in enumerate(cast(Iterable[ProjectedLstm], self.directions[direction])):
                output = self._run(lstm, x, packing, state, direction, layer)
                # The skip connection is outside of the recurrence, and the layer that comes out includes it.
                x = output + x if self.options.skip_connections and layer > 0 else output
                result[layer + 1, rows, half] = x[kept]

        # With more threads than directions each direction of some of the sentences is one job. Where states are carried
        # from batch to batch, all sentences stay together.
        on_cpu = self.device.type == "cpu"
        shares = min(at_once() // 2, len(sentences) // SENTENCES_IN_A_SHARE) if on_cpu and state is None else 1
        jobs, first = [], 0
        for lengths in np.array_split([len(sentence) for sentence in marked], max(1, shares)):
            packing = Packing.of(lengths.tolist(), self.device)
            jobs += [partial(read, direction, packing, first) for direction in (FORWARD, BACKWARD)]
            first += int(lengths.sum())
        if on_cpu:
            side_by_side(jobs)
        else:
            for job in jobs:
                job()
        return result

    @staticmethod
    def _run(
        lstm: ProjectedLstm, x: Tensor, packing: Packing, carried: CarriedState | None, direction: int, layer: int
    ) -> Tensor:
        """The packed outputs of one LSTM layer; takes the carried state, if any, and leaves it for the next batch."""
        n = len(packing.order)
        start = x.new_zeros(n, lstm.projection_dim), x.new_zeros(n, lstm.cell_dim)
        if carried is None:
            output: Tensor = lstm(x, packing.step_sizes, *start)
            return output
        carried.take(direction, layer, start)
        ordered = start[0][packing.order], start[1][packing.order]
        output = lstm(x, packing.step_sizes, *ordered)
        back = torch.argsort(packing.order)
        carried.put(direction, layer, (ordered[0][back], ordered[1][back]))
        return output


def random_bilm(size: str | BilmOptions, seed: int) -> Bilm:
    """An untrained biLM of a named size (tiny, small, medium, original) or of any options; equal for equal seeds.

    The control of the benchmark: whatever it adds to a task is width, not knowledge. Weights are drawn in the manner
    of bilm-tf before training, so that activations have the scale a trained biLM starts from.
    """
    if isinstance(size, str):
        if size not in SIZES:
            raise InputError(f"unknown biLM size {size!r}; expected one of {', '.join(SIZES)}, or BilmOptions")
        size = SIZES[size]
    bilm = Bilm(size)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in sorted(bilm.named_parameters()):
            if name.endswith("carry.bias"):
                parameter.fill_(-2.0)  # highways start by passing their input through
            elif name.endswith("bias"):
                parameter.zero_()
            elif name.endswith("characters.weight"):
                parameter.uniform_(-1.0, 1.0, generator=generator)
            else:
                fan_in = parameter[0].numel()
                bound = math.sqrt(3.0 / fan_in)  # unit gain
                parameter.uniform_(-bound, bound, generator=generator)
    return bilm
