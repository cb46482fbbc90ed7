"""The trained model: a network with gradients, and its output layer, a softmax over words.

`LanguageModel.core` is the network that is exported at the end, so nothing needs to be converted. A test checks that
its forward pass here agrees with the one that computes frozen layers. Training scores every target and a sample of
other words (`TrainingLoss`). Perplexity always uses all words (`OutputLayer.log_likelihood`).
"""

import math
from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.bilm.encoder import CharacterEncoder, Highway
from elmo.bilm.model import Bilm
from elmo.bilm.options import BilmOptions
from elmo.bilm.sentences import PADDING
from elmo.common.device import upload
from elmo.pretrain.batches import IGNORED, Groups, Spelling, TokenBatch
from elmo.pretrain.corpus.token_store import UNKNOWN
from elmo.sources.grid import GridLm, GridOptions, random_lm

# Logits in memory at once when all words are scored: 2^26 are 256 MB.
LOGITS_AT_ONCE = 2**26


class OutputLayer(nn.Module):
    """Scores of all words of the vocabulary, given what a language model predicts each target from."""

    def __init__(self, n_words: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_words, dim))
        self.bias = nn.Parameter(torch.zeros(n_words))

    @classmethod
    def random(cls, n_words: int, dim: int, seed: int) -> "OutputLayer":
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
        parts = []
        for part, target in zip(torch.split(hidden.float(), rows), torch.split(targets, rows), strict=True):
            logits = torch.addmm(self.bias, part, self.weight.t())  # (rows, words)
            parts.append(logits.gather(1, target[:, None])[:, 0] - logits.logsumexp(dim=1))
        return torch.cat(parts)


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

    def __init__(self, core: Bilm | GridLm, output: OutputLayer) -> None:
        super().__init__()
        self.core = core
        nn.Module.requires_grad_(core)  # the biLM's own method raises an error
        self.output = output

    @classmethod
    def random(cls, options: BilmOptions | GridOptions, n_words: int, seed: int) -> "LanguageModel":
        """An untrained model; equal for equal seeds."""
        return cls(random_lm(options, seed), OutputLayer.random(n_words, options.output_dim, seed))

    def hidden(
        self, batch: TokenBatch, spelled: Tensor, dtype: torch.dtype, dropout: float = 0.0
    ) -> tuple[Tensor, Tensor]:
        """The input of the output layer for each target of a batch, (targets, dim), and the targets, (targets,).

        Args:
            batch: to read.
            spelled: character ids of all words, (words, max_characters), on the model's device.
            dtype: of all products.
            dropout: see the core's `hidden`.
        """
        arrays = batch.types, batch.inputs, batch.places, batch.targets
        types, inputs, places, targets = (upload(array, self.core.device) for array in arrays)
        vectors = word_vectors(self.core, types, spelled.index_select(0, types), batch.groups, dtype)
        return self.core.hidden(vectors, inputs, places, dropout), targets.flatten()


def word_vectors(core: Bilm | GridLm, types: Tensor, spelled: Tensor, groups: Groups, dtype: torch.dtype) -> Tensor:
    """The encoder's vectors of distinct words, (types, projection_dim), computed in the precision `dtype`.

    Args:
        core: has the encoder.
        types: word numbers, (types,); numbers above the vocabulary have no row in a word table.
        spelled: their character ids, long spellings first, (types, max_characters).
        groups: of similar length.
        dtype: of all products.
    """
    encoder = core.encoder
    if isinstance(encoder, CharacterEncoder):
        return _character_vectors(encoder, spelled, groups, dtype)
    rows = torch.where(types < encoder.words.num_embeddings, types, UNKNOWN)
    x = encoder.words.weight.index_select(0, rows).to(dtype)
    if isinstance(encoder.characters, CharacterEncoder):
        x = torch.cat([x, _character_vectors(encoder.characters, spelled, groups, dtype)], dim=1)
    return _projected(encoder.projection, x, dtype)


def _character_vectors(encoder: CharacterEncoder, spelled: Tensor, groups: Groups, dtype: torch.dtype) -> Tensor:
    """Vectors of spelled words: all filters in one product; each group is cut to its longest word."""
    filters, widest = encoder.options.filters, max(width for width, _ in encoder.options.filters)
    # Narrow filters are padded to the widest with zeros: 14 % more arithmetic, but one product instead of seven.
    convolutions = [cast(nn.Conv1d, convolution) for convolution in encoder.convolutions]
    padded = [functional.pad(item.weight, (0, widest - item.kernel_size[0])) for item in convolutions]
    weight = torch.cat(padded).permute(2, 1, 0).flatten(0, 1).to(dtype)  # (widest * char_dim, n_filters)
    parts, start = [], 0
    for size, longest in groups:
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
        parts.append(y.amax(dim=1))
    x = torch.cat(parts) + torch.cat([item.bias for item in convolutions if item.bias is not None]).to(dtype)
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


class TrainingLoss:
    """The mean loss of a batch, with gradients.

    Args:
        model: to train, on its device.
        spelling: of every word of the text.
        negatives: size of the sample.
        dropout: see the core's `hidden`.
        dtype: of all products.
    """

    def __init__(
        self, model: LanguageModel, spelling: Spelling, negatives: int, dropout: float, dtype: torch.dtype
    ) -> None:
        self._model, self._dropout, self._dtype = model, dropout, dtype
        device = model.core.device
        self._spelled = torch.from_numpy(spelling.ids).to(device)
        self._sampler = LogUniformSampler(len(model.output.weight), negatives).to(device)

    def __call__(self, batch: TokenBatch, offset: float) -> Tensor:
        """The loss; `offset`, from [0, 1), decides the sample. Call `torch.manual_seed` before to fix the dropout."""
        hidden, targets = self._model.hidden(batch, self._spelled, self._dtype, self._dropout)
        output, sampler = self._model.output, self._sampler
        sampled = sampler.at(torch.full((), offset, dtype=torch.float64, device=hidden.device))
        weights = output.weight, output.bias, sampler.log_expected
        losses = sampled_loss(hidden, targets.clamp(min=0), sampled, *weights)
        return (losses * (targets != IGNORED)).sum() / batch.predictions
