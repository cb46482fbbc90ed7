"""Layers shared by several heads: RNNs, initial weights, dropout, and attention and pooling with masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tasks.modules.recurrence import bidirectional
from tasks.modules.recurrence_in_torch import Packing


class BiRnn(nn.Module):
    """A bidirectional LSTM or GRU over sentences of unequal length; padding comes out as zeros.

    Args:
        input_dim: width of a token's vector.
        hidden: width of one direction; the output is twice as wide.
        layers: number of stacked layers.
        dropout: between the layers.
        cell: nn.LSTM or nn.GRU.
        hidden_dim: width of vectors that join the input of every layer above the first.
    """

    def __init__(
        self,
        input_dim: int,
        hidden: int,
        layers: int = 1,
        dropout: float = 0.0,
        cell: type[nn.LSTM] | type[nn.GRU] = nn.LSTM,
        hidden_dim: int = 0,
    ) -> None:
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.rnn = cell(input_dim, hidden, layers, batch_first=True, bidirectional=True, dropout=between)
        self.output_dim = 2 * hidden
        # The weights on the joined vectors, of both directions of each layer above the first. They are separate, so
        # that the RNN has the parameters, and the initial values, that it has without joined vectors.
        gates = (4 if issubclass(cell, nn.LSTM) else 3) * hidden
        joining = 2 * (layers - 1) if hidden_dim else 0
        self.joining = nn.ModuleList(nn.Linear(hidden_dim, gates, bias=False) for _ in range(joining))

    def forward(self, x: Tensor, lengths: Tensor, hidden: Tensor | None = None) -> Tensor:
        """The states of all tokens, (batch, tokens, 2 * hidden), zeros at padding.

        Args:
            x: the input, (batch, tokens, input_dim).
            lengths: tokens of each sentence, (batch,), on the CPU.
            hidden: joins the input of every layer above the first, (batch, tokens, hidden_dim).
        """
        packing = Packing.of(lengths, x.shape[1], x.device)
        names = ("weight_hh", "weight_ih", "bias_ih", "bias_hh")
        for layer in range(self.rnn.num_layers):
            inner, outer, *biases = (
                [getattr(self.rnn, f"{name}_l{layer}{way}") for way in ("", "_reverse")] for name in names
            )
            if layer:
                if self.joining:
                    x = torch.cat([x, hidden], dim=-1)  # type: ignore[list-item]
                    joining = self.joining[2 * layer - 2 : 2 * layer]
                    outer = [torch.cat([w, more.weight], dim=1) for w, more in zip(outer, joining, strict=True)]  # type: ignore[list-item]
                x = functional.dropout(x, self.rnn.dropout, self.training)
            x = bidirectional(x, packing, inner, outer, [*biases[0], *biases[1]], isinstance(self.rnn, nn.LSTM))
        return x

    def together(self, texts: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """The states of several batches, (x, lengths) each, in one pass: fewer, larger steps are faster."""
        tokens = max(x.shape[1] for x, _ in texts)
        padded = [functional.pad(x, (0, 0, 0, tokens - x.shape[1])) for x, _ in texts]
        states = self(torch.cat(padded), torch.cat([lengths for _, lengths in texts]))
        parts = torch.split(states, [len(x) for x, _ in texts])
        return [part[:, : x.shape[1]] for part, (x, _) in zip(parts, texts, strict=True)]


class OrthogonalLstm(nn.LSTM):
    """An LSTM with Xavier input weights, orthogonal recurrent weights, and a forget bias of 1 at the start."""

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for name, parameter in self.named_parameters():
            self.start_parameter(name, parameter)

    def start_parameter(self, name: str, parameter: Tensor) -> None:
        """Draws one parameter again; see `tasks.modules.seeding.initialise`."""
        if name.startswith("weight_ih"):
            nn.init.xavier_uniform_(parameter)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(parameter)
        else:
            nn.init.zeros_(parameter)
            if name.startswith("bias_hh"):  # torch adds two biases to a gate, and orders gates i, f, g, o
                with torch.no_grad():
                    parameter[self.hidden_size : 2 * self.hidden_size] = 1.0


class XavierLinear(nn.Linear):
    """A linear layer with Xavier weights and zero bias at the start."""

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)


class VariationalDropout(nn.Dropout):
    """Dropout with one mask for all tokens of a sentence (Gal and Ghahramani 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape with dropped dimensions, (batch, tokens, dim)."""
        if not self.training or self.p == 0:
            return x
        keep = torch.full((x.shape[0], 1, x.shape[2]), 1 - self.p, device=x.device, dtype=x.dtype)
        return x * (torch.bernoulli(keep) / (1 - self.p))


class _Product(torch.autograd.Function):
    """a @ b for batches of matrices, with contiguous right factors in both passes."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:  # noqa: ANN401
        b = b.contiguous()
        ctx.save_for_backward(a, b)
        return torch.bmm(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        a, b = ctx.saved_tensors
        return torch.bmm(grad, b.transpose(1, 2).contiguous()), torch.bmm(a.transpose(1, 2), grad)


def product(a: Tensor, b: Tensor) -> Tensor:
    """The products of two batches of matrices: (batch, m, k), (batch, k, n) -> (batch, m, n).

    OpenBLAS takes half a millisecond for a transposed right factor of any size, for each matrix of a batch. The plain
    product has one in its backward pass, and attention has another in its forward pass.
    """
    if a.device.type != "cpu":
        return a @ b
    multiplied: Tensor = _Product.apply(a, b)  # type: ignore[no-untyped-call]
    return multiplied


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """A softmax over the last axis with zeros where the mask is false, also if it is false everywhere."""
    weights = torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1)
    return weights * mask


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the tokens of each sentence: (batch, tokens, dim), (batch, tokens) -> (batch, dim)."""
    return x.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(dim=1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens of each sentence: (batch, tokens, dim), (batch, tokens) -> (batch, dim)."""
    return (x * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True)
