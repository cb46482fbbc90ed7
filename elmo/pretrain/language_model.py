"""The trained model: a network (a biLM or a masked LM) with gradients, and its output layer, a softmax over words.

`LanguageModel.core` is the network that is exported at the end, so nothing needs to be converted. A test checks that
its forward pass here agrees with the one that computes frozen layers. Training scores every target and a sample of
other words. Perplexity always uses all words (`OutputLayer.log_likelihood`).

`Stepper` computes loss and gradients of a step: eager on a CPU; on a GPU compiled, captured once per shape, and
replayed. Nothing in a step waits for the host. Its inputs (words, positions, negatives) arrive in two copies, and
losses stay on the device until they are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.encoder import CharacterEncoder, Highway
from elmo.bilm.model import Bilm, random_bilm
from elmo.bilm.options import BilmOptions
from elmo.bilm.sentences import PADDING
from elmo.pretrain.batches import IGNORED, Profile, Spelling, TokenBatch
from elmo.pretrain.corpus.token_store import UNKNOWN
from elmo.sources.masked import MaskedLm, MaskedOptions, random_masked

# Logits in memory at once when all words are scored: 2^26 are 256 MB.
LOGITS_AT_ONCE = 2**26


class OutputLayer(nn.Module):
    """Scores of all words of the vocabulary, given the top of a biLM in either direction, or of a masked LM."""

    def __init__(self, n_words: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_words, dim))
        self.bias = nn.Parameter(torch.zeros(n_words))

    @classmethod
    def random(cls, n_words: int, dim: int, seed: int) -> OutputLayer:
        """An untrained layer; its weights are small, so that all words start about equally likely."""
        layer = cls(n_words, dim)
        with torch.no_grad():
            layer.weight.normal_(0.0, 1 / math.sqrt(dim), generator=torch.Generator().manual_seed(seed))
        return layer

    @torch.no_grad()
    def log_likelihood(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The natural logarithm of each target's probability among all words, (tokens,).

        Args:
            hidden: outputs of the biLM, (tokens, dim).
            targets: word numbers, (tokens,).
        """
        rows = max(1, LOGITS_AT_ONCE // len(self.weight))
        found = []
        for part, target in zip(torch.split(hidden.float(), rows), torch.split(targets, rows), strict=True):
            logits = torch.addmm(self.bias, part, self.weight.t())  # (rows, words)
            found.append(logits.gather(1, target[:, None])[:, 0] - logits.logsumexp(dim=1))
        return torch.cat(found)


class LogUniformSampler(nn.Module):
    """Draws negative samples, frequent words with higher probability (ids are ordered by falling frequency).

    Word i is expected min(1, c * log((i + 2) / (i + 1))) times in a sample, c such that a sample has exactly `size`
    words: the most frequent words are always in it, once, and a sample of the size of the vocabulary is the vocabulary.
    (TensorFlow's sampler draws until it has enough distinct words, which a GPU cannot do without the host, and its
    expected counts are approximate.)
    """

    log_expected: Tensor
    _ends: Tensor
    _factors: Tensor

    def __init__(self, n_words: int, size: int) -> None:
        super().__init__()
        self.size = min(size, n_words)
        ranks = torch.arange(n_words, dtype=torch.float64)
        weights = torch.log1p(1 / (ranks + 1))  # falling
        # The first k words are certain; the others share the rest of the sample in proportion to their weights.
        rest = weights.flip(0).cumsum(0).flip(0)  # (words,): the weight of word k and all after it
        scale = (self.size - ranks) / rest
        certain = int((scale * weights > 1).long().cumprod(0).sum())
        expected = torch.ones_like(weights)
        if certain < n_words:
            expected[certain:] = weights[certain:] * scale[certain]
        self.register_buffer("log_expected", expected.log().float(), persistent=False)
        self.register_buffer("_ends", expected.cumsum(0), persistent=False)
        generator = torch.Generator().manual_seed(0)
        factors = torch.randint(1, 2**20, (self.size,), generator=generator, dtype=torch.int64)
        self.register_buffer("_factors", factors.double(), persistent=False)

    def at(self, offset: Tensor) -> Tensor:
        """The sample, (size,), for a number drawn uniformly from [0, 1); the same in all processes."""
        # Lay the expected counts end to end, and take the word at one point in every unit of the line. The fraction of
        # an integer multiple of a uniform number is uniform, and different multiples are nearly independent.
        points = torch.arange(self.size, dtype=offset.dtype, device=offset.device) + (self._factors * offset).frac()
        return torch.searchsorted(self._ends, points, right=True).clamp_(max=len(self._ends) - 1)


def sampled_loss(
    hidden: Tensor, targets: Tensor, sampled: Tensor, weight: Tensor, bias: Tensor, log_expected: Tensor
) -> Tensor:
    """Minus the log probability of each target among itself and the sampled words, (tokens,).

    Every score is lowered by the logarithm of how often its word is expected in a sample; trained so, the scores of all
    words become log probabilities up to a constant (Jean et al. 2015, and TensorFlow's `sampled_softmax_loss`).

    Args:
        hidden: (tokens, dim); its precision is that of the large product.
        targets: word numbers, (tokens,).
        sampled: word numbers, shared by all tokens, (samples,).
        weight: of the output layer, (words, dim).
        bias: of the output layer, (words,).
        log_expected: log of the expected count in a sample, (words,).
    """
    corrected = bias - log_expected
    of_target = weight.index_select(0, targets).to(hidden.dtype)  # (tokens, dim)
    true = (hidden * of_target).sum(dim=1, dtype=torch.float32) + corrected[targets]
    scores = hidden @ weight.index_select(0, sampled).to(hidden.dtype).t()  # (tokens, samples)
    scores = scores.float() + corrected[sampled]
    scores = scores.masked_fill(targets[:, None] == sampled, -torch.inf)  # a target is not its own negative
    return torch.logaddexp(true, scores.logsumexp(dim=1)) - true


class LanguageModel(nn.Module):
    """A network and its output layer, with gradients."""

    def __init__(self, core: Bilm | MaskedLm, output: OutputLayer) -> None:
        super().__init__()
        self.core = core
        nn.Module.requires_grad_(core)  # the biLM's own method raises an error
        self.output = output

    @classmethod
    def random(cls, options: BilmOptions | MaskedOptions, n_words: int, seed: int) -> LanguageModel:
        """An untrained model; equal for equal seeds."""
        core = random_bilm(options, seed) if isinstance(options, BilmOptions) else random_masked(options, seed)
        return cls(core, OutputLayer.random(n_words, options.output_dim, seed))


def word_vectors(core: Bilm | MaskedLm, types: Tensor, spelled: Tensor, profile: Profile, dtype: torch.dtype) -> Tensor:
    """The encoder's vectors of distinct words, (types, projection_dim), computed in the precision `dtype`.

    Args:
        core: has the encoder.
        types: word numbers, (types,); numbers above the vocabulary have no row in a word table.
        spelled: their character ids, long spellings first, (types, max_characters).
        profile: groups of similar length.
        dtype: of all products.
    """
    encoder = core.encoder
    if isinstance(encoder, CharacterEncoder):
        return _character_vectors(encoder, spelled, profile, dtype)
    rows = torch.where(types < encoder.words.num_embeddings, types, UNKNOWN)
    x = encoder.words.weight.index_select(0, rows).to(dtype)
    if isinstance(encoder.characters, CharacterEncoder):
        x = torch.cat([x, _character_vectors(encoder.characters, spelled, profile, dtype)], dim=1)
    return _projected(encoder.projection, x, dtype)


def _character_vectors(encoder: CharacterEncoder, spelled: Tensor, profile: Profile, dtype: torch.dtype) -> Tensor:
    """Vectors of spelled words: all filters in one product; each group is cut to its longest word."""
    filters, widest = encoder.options.filters, max(width for width, _ in encoder.options.filters)
    # Narrow filters are padded to the widest with zeros: 14 % more arithmetic, but one product instead of seven.
    convolutions = [cast(nn.Conv1d, convolution) for convolution in encoder.convolutions]
    padded = [functional.pad(item.weight, (0, widest - item.kernel_size[0])) for item in convolutions]
    weight = torch.cat(padded).permute(2, 1, 0).flatten(0, 1).to(dtype)  # (widest * char_dim, n_filters)
    found, start = [], 0
    for size, longest in profile:
        group = spelled[start : start + size]
        start += size
        n_windows = min(longest + 1, spelled.shape[1])
        missing = max(0, n_windows + widest - 1 - group.shape[1])
        group = functional.pad(group[:, : n_windows + widest - 1], (0, missing), value=PADDING)
        # Single precision for the lookup: the gradient of a character is a sum over all words.
        x = encoder.characters.weight.index_select(0, group.flatten().int()).to(dtype)
        x = x.view(*group.shape, -1)  # (size, characters, char_dim)
        windows = x.unfold(1, widest, 1).transpose(2, 3).flatten(2)  # (size, n_windows, widest * char_dim)
        y = windows @ weight  # (size, n_windows, n_filters)
        if longest + widest > spelled.shape[1]:  # some windows are outside what the frozen encoder reads
            y = y + _beyond(filters, n_windows, spelled.shape[1], y)
        found.append(y.amax(dim=1))
    x = torch.cat(found) + torch.cat([item.bias for item in convolutions if item.bias is not None]).to(dtype)
    x = torch.relu(x) if encoder.options.activation == "relu" else torch.tanh(x)
    for highway in cast(Iterable[Highway], encoder.highways):
        gate = torch.sigmoid(_projected(highway.carry, x, dtype))
        x = torch.lerp(x, torch.relu(_projected(highway.transform, x, dtype)), gate)
    return _projected(encoder.projection, x, dtype)


def _beyond(filters: Sequence[tuple[int, int]], n_windows: int, n_characters: int, like: Tensor) -> Tensor:
    """Minus infinity where a filter's window would pass the last character, else zero, (n_windows, n_filters)."""
    ends = torch.cat([like.new_full((count,), n_characters - width) for width, count in filters])
    at = torch.arange(n_windows, device=like.device)[:, None]
    return like.new_zeros(n_windows, len(ends)).masked_fill(at > ends, -torch.inf)


def _projected(layer: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    if not isinstance(layer, nn.Linear):  # bilm-tf has no projection if the width stays the same
        return x
    return functional.linear(x, layer.weight.to(dtype), layer.bias.to(dtype))


@dataclass(frozen=True)
class Upload:
    """A batch to be copied to the device, in two tensors.

    Attributes:
        numbers: types, inputs, targets and places, end to end.
        scalars: the sampler's offset, and one over the predictions of the step.
        shape: of the inputs; it decides the numbers of targets and places.
        sizes: of the four parts of `numbers`.
        profile: groups of the types.
        tokens: words and ends of sentences read, over all processes.
    """

    numbers: Tensor
    scalars: Tensor
    shape: tuple[int, ...]
    sizes: list[int]
    profile: Profile
    tokens: int

    @classmethod
    def of(cls, batch: TokenBatch, offset: float, pin: bool) -> Upload:
        """Converts a batch, to pinned memory if `pin` is set."""
        parts = [item.reshape(-1) for item in (batch.types, batch.inputs, batch.targets, batch.places)]
        numbers = torch.from_numpy(np.concatenate(parts))
        scalars = torch.tensor([offset, 1 / batch.predictions], dtype=torch.float64)
        if pin:
            numbers, scalars = numbers.pin_memory(), scalars.pin_memory()
        return cls(numbers, scalars, batch.inputs.shape, list(map(len, parts)), batch.profile, batch.tokens)


class Stepper:
    """Computes the gradients of a batch into the parameters' `grad`.

    Attributes:
        gradient: all gradients in one vector; each parameter's `grad` is a view into it.
        loss: this process's share of the mean loss of all predictions, set by a call.
    """

    def __init__(
        self,
        model: LanguageModel,
        spelling: Spelling,
        negatives: int,
        dropout: float,
        dtype: torch.dtype,
        captured: Profile | None = None,
        rows: int = 0,
    ) -> None:
        """Prepares for a model on its device.

        Args:
            model: to train.
            spelling: of every word of the text.
            negatives: size of the sample.
            dropout: see the model's `hidden`.
            dtype: of all products.
            captured: the profile of words of captured steps; None never captures.
            rows: predictions in captured steps, padding included.
        """
        self._model = model
        self._dropout = dropout
        self._dtype = dtype
        self._captured = captured
        self._rows = rows
        device = model.core.device
        self._device = device
        self._spelled = torch.from_numpy(spelling.ids).to(device)
        self._sampler = LogUniformSampler(len(model.output.weight), negatives).to(device)
        self._parameters = list(model.parameters())
        self.gradient = torch.zeros(sum(item.numel() for item in self._parameters), device=device)
        parts = torch.split(self.gradient, [item.numel() for item in self._parameters])
        self._gradients = [part.view_as(item) for part, item in zip(parts, self._parameters, strict=True)]
        for parameter, part in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = part
        self.loss = torch.zeros((), device=device)
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        if captured is not None:
            self._pool = torch.cuda.graph_pool_handle()
            self._encode = torch.compile(word_vectors, dynamic=False)
            self._loss_of = torch.compile(sampled_loss, dynamic=False)

    def __call__(self, upload: Upload) -> None:
        """Computes loss and gradients; call `torch.manual_seed` before it to fix the dropout."""
        _, _, n_targets, _ = upload.sizes
        if upload.profile == self._captured and n_targets <= self._rows:
            self._replay(upload)
            return
        numbers = upload.numbers.to(self._device, non_blocking=True)
        scalars = upload.scalars.to(self._device, non_blocking=True)
        self._compute(numbers, scalars, upload, fixed=False)

    def _replay(self, upload: Upload) -> None:
        if upload.shape not in self._graphs:
            self._graphs[upload.shape] = self._capture(upload)
        graph, numbers, scalars = self._graphs[upload.shape]
        numbers.copy_(upload.numbers, non_blocking=True)
        scalars.copy_(upload.scalars, non_blocking=True)
        graph.replay()

    def _capture(self, upload: Upload) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        numbers, scalars = upload.numbers.to(self._device), upload.scalars.to(self._device)
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # a first run: libraries initialise, kernels are compiled
            self._compute(numbers, scalars, upload, fixed=True)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        # Graphs run one after the other and keep only gradients, so they can share memory. Threads that prepare batches
        # may pin memory at the same time, hence the error mode.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            self._compute(numbers, scalars, upload, fixed=True)
        return graph, numbers, scalars

    def _compute(self, numbers: Tensor, scalars: Tensor, upload: Upload, fixed: bool) -> None:
        """Loss and gradients; `fixed` pads all shapes to one number of predictions, so that they compile once."""
        encode, loss_of = (self._encode, self._loss_of) if fixed else (word_vectors, sampled_loss)
        types, inputs, targets, places = torch.split(numbers, upload.sizes)
        spelled = self._spelled.index_select(0, types)
        vectors = encode(self._model.core, types, spelled, upload.profile, self._dtype)
        hidden = self._model.core.hidden(vectors, inputs.view(upload.shape), places, self._dropout)  # (targets, dim)
        if fixed:
            missing = self._rows - len(targets)
            hidden = functional.pad(hidden, (0, 0, 0, missing))
            targets = functional.pad(targets, (0, missing), value=IGNORED)
        output, sampler = self._model.output, self._sampler
        sampled = sampler.at(scalars[0])
        there = targets != IGNORED
        losses = loss_of(hidden, targets.clamp(min=0), sampled, output.weight, output.bias, sampler.log_expected)
        loss = (losses * there).sum() * scalars[1].float()
        torch._foreach_copy_(self._gradients, torch.autograd.grad(loss, self._parameters))
        self.loss.copy_(loss.detach())
