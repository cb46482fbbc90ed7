"""Layers shared by several heads: RNNs, initial weights, dropout, and attention and pooling with masks.

LSTMs, GRUs and the highway LSTM have the same results as torch's, but are faster (tests/benchmarks/heads.py). At the
sizes of task heads torch spends most of a step on overhead: the directions run one after the other, and the backward
pass has a dozen small operations per step. On a GPU cuDNN launches a few kernels for each step of sentences of unequal
length. Here all that does not depend on an earlier step is computed for all steps at once, and so are the gradients of
the weights. Only the loop over the steps remains, with an implementation for each device (`loops_for`). Sentences are
packed: step t has the sentences that are longer than t, longest first, so that padding costs nothing.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from elmo.bilm import pointwise_in_torch
from elmo.bilm.fast import compiled as bilm_in_c
from elmo.bilm.fast import kernel_module, pointwise
from tasks.modules import recurrence_in_torch
from tasks.modules.recurrence_in_torch import Packing

# A module or an object with `forward` and `backward` of `recurrence_in_torch`.
Loops: TypeAlias = Any


def loops_for(x: Tensor) -> Loops:
    """The fastest loops over the steps for a tensor's device and type: plain torch without a C compiler or Triton."""
    if x.device.type == "cuda":
        return kernel_module("recurrence_in_triton") or recurrence_in_torch
    in_c = kernel_module("in_c")
    return (in_c.loops(x) if in_c is not None else None) or recurrence_in_torch


def kernels_for(device: torch.device) -> str:
    """The code for recurrences on a device, of heads and of the biLM: "C", "Triton", "torch", or two of them."""
    x = torch.empty(0, device=device)
    fast = "Triton" if device.type == "cuda" else "C"
    in_torch = loops_for(x) is recurrence_in_torch, bilm_in_c(x) is None and pointwise(device) is pointwise_in_torch
    return " and ".join(sorted({"torch" if slow else fast for slow in in_torch}))


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
            parameters = [*inner, *outer, *biases[0], *biases[1]]
            x = _Layer.apply(x, packing, isinstance(self.rnn, nn.LSTM), *parameters)  # type: ignore[no-untyped-call]
        return x

    def together(self, texts: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """The states of several batches, (x, lengths) each, in one pass: fewer, larger steps are faster."""
        tokens = max(x.shape[1] for x, _ in texts)
        padded = [functional.pad(x, (0, 0, 0, tokens - x.shape[1])) for x, _ in texts]
        states = self(torch.cat(padded), torch.cat([lengths for _, lengths in texts]))
        parts = torch.split(states, [len(x) for x, _ in texts])
        return [part[:, : x.shape[1]] for part, (x, _) in zip(parts, texts, strict=True)]


class _Layer(torch.autograd.Function):
    """Both directions of a layer as one node of the graph; the overhead of thirty nodes would exceed the loop itself.

    (batch, tokens, input_dim) -> (batch, tokens, 2 * hidden), zeros at padding. `lstm`: an LSTM, or else a GRU. The
    parameters are those of torch's layout, of both directions each: weight_hh, weight_ih, bias_ih, bias_hh.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, packing: Packing, lstm: bool, *parameters: Tensor) -> Tensor:  # noqa: ANN401
        batch, tokens, width = x.shape
        inner, outer, of_input, of_state = (_side_by_side(parameters[i : i + 2], lstm) for i in (0, 2, 4, 6))
        hidden = inner.shape[2]
        outer = outer.flatten(0, 1)
        packed = x.reshape(-1, width).index_select(0, packing.places).to(inner.dtype)
        bias = of_input + of_state if lstm else of_input
        # Both directions in one product. Gates are narrower than inputs, so the gates are reordered.
        read = torch.addmm(bias.flatten(), packed, as_right_factor(outer)).to(inner.dtype)
        gates = read.view(-1, inner.shape[1]).index_select(0, packing.apart).view(2, -1, inner.shape[1])
        carried, states, kept = loops_for(gates).forward(gates, inner, None if lstm else of_state, packing)
        ctx.save_for_backward(packed, inner, outer, gates, carried, states, kept)
        ctx.about = packing, lstm, x.shape, x.dtype
        padded: Tensor = states.new_zeros(batch * tokens * 2, hidden)
        padded.index_copy_(0, packing.halves, states.flatten(0, 1))
        return padded.view(batch, tokens, 2 * hidden)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_padded: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        packed, inner, outer, gates, carried, states, kept = ctx.saved_tensors
        packing, lstm, shape, dtype = ctx.about
        hidden = inner.shape[2]
        grad = grad_padded.reshape(-1, hidden).index_select(0, packing.halves).view_as(states)
        at_state = at_input = loops_for(gates).backward(grad, gates, (carried, kept), inner, packing)
        if not lstm:
            _, z, n = gates.chunk(3, dim=-1)
            at_input = torch.cat([at_state[..., : 2 * hidden], grad * (1 - z) * (1 - n * n)], dim=-1)
        by_inner = torch.bmm(at_state[:, packing.sizes[0] :].transpose(1, 2), states.index_select(1, packing.before))
        at_input = at_input.flatten(0, 1).index_select(0, packing.together).view(len(packed), -1)
        by_outer = (at_input.t() @ packed).view(2, -1, packed.shape[1])
        by_input = at_input.sum(dim=0).view(2, -1)
        by_state = by_input if lstm else at_state.sum(dim=1)
        grad_x = None
        if ctx.needs_input_grad[0]:
            rows = at_input @ outer
            grad_x = rows.new_zeros(shape[0] * shape[1], shape[2]).index_copy_(0, packing.places, rows)
            grad_x = grad_x.view(shape).to(dtype)
        parameters = [part for both in (by_inner, by_outer, by_input, by_state) for part in _apart(both, lstm)]
        return grad_x, None, None, *parameters


def _side_by_side(parameters: Sequence[Tensor], lstm: bool) -> Tensor:
    """A parameter of both directions, (2, gates * hidden, ...), in the loops' order of gates.

    torch's i, f, g, o become o, i, f, g: the gates with a sigmoid are adjacent, and so are those of the cell.
    """
    if lstm:
        last = len(parameters[0]) * 3 // 4
        pieces = [piece for parameter in parameters for piece in (parameter[last:], parameter[:last])]
    else:
        pieces = list(parameters)
    return torch.cat(pieces).view(2, *parameters[0].shape)


def _apart(gradient: Tensor, lstm: bool) -> Sequence[Tensor]:
    """The gradients of both directions' parameters, in torch's order of gates."""
    if lstm:
        gradient = gradient.view(2, 4, -1, *gradient.shape[2:]).roll(-1, dims=1).view_as(gradient)
    return gradient.unbind()


def as_right_factor(weights: Tensor) -> Tensor:
    """Weights as the right factor of a product; OpenBLAS is several times slower on a view."""
    transposed = weights.t()
    return transposed.contiguous() if weights.device.type == "cpu" else transposed


class AlternatingHighwayLstm(nn.Module):
    """Stacked LSTM layers, in turn forward and backward, over sentences of unequal length; padding comes out as zeros.

    A layer is an LSTM with a further gate r and a projection of its input: h = r * (o * tanh(c)) + (1 - r) * (W x).

    Args:
        input_dim: width of a token's vector.
        hidden: width of a layer, and of the output.
        layers: number of stacked layers.
        recurrent_dropout: of the states, with one mask for all tokens of a sentence in a layer. As in the paper and in
            AllenNLP, the next step and the layer above read the same masked state.
    """

    def __init__(self, input_dim: int, hidden: int, layers: int, recurrent_dropout: float = 0.0) -> None:
        super().__init__()
        self.output_dim = hidden
        self.recurrent_dropout = recurrent_dropout
        widths = [input_dim, *[hidden] * (layers - 1)]
        self.of_input = nn.ModuleList(HighwayGates(width, hidden, 6, bias=False) for width in widths)
        self.of_state = nn.ModuleList(HighwayGates(hidden, hidden, 5) for _ in widths)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """The states of the last layer, (batch, tokens, hidden), zeros at padding.

        Args:
            x: the input, (batch, tokens, input_dim).
            lengths: tokens of each sentence, (batch,), on the CPU.
        """
        packing = Packing.of(lengths, x.shape[1], x.device)
        ones = next(self.parameters()).new_ones(1, len(lengths), self.output_dim)
        places, states = packing.places, x.flatten(0, 1).index_select(0, packing.places).to(ones.dtype)
        for layer, (of_input, of_state) in enumerate(zip(self.of_input, self.of_state, strict=True)):
            # A row for each sentence, longest first as the loops have them.
            mask = functional.dropout(ones, self.recurrent_dropout, self.training)
            if layer:
                places = places.index_select(0, packing.mirrored)
            weights = of_input.weight, of_state.weight, of_state.bias
            states = _HighwayLayer.apply(states, packing, bool(layer), mask, *weights)  # type: ignore[no-untyped-call]
        padded = states.new_zeros(x.shape[0] * x.shape[1], self.output_dim).index_copy_(0, places, states)
        return padded.view(*x.shape[:2], self.output_dim)


class HighwayGates(nn.Linear):
    """The last `blocks` of a layer's projection, r, o, i, f, g, `hidden` outputs each, before their nonlinearity.

    At the start each block is orthogonal and the bias is 0, that of the forget gate f 1.
    """

    def __init__(self, input_dim: int, hidden: int, blocks: int, bias: bool = True) -> None:
        self.blocks = blocks
        super().__init__(input_dim, blocks * hidden, bias)

    def reset_parameters(self) -> None:
        """Draws all parameters again."""
        for block in self.weight.detach().chunk(self.blocks):
            nn.init.orthogonal_(block)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
            nn.init.ones_(self.bias.detach().chunk(self.blocks)[-2])


class _HighwayLayer(torch.autograd.Function):
    """One layer as one node of the graph: (packed, input_dim) -> (packed, hidden)."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        x: Tensor,
        packing: Packing,
        turned: bool,  # it reads against the direction in which x is packed
        mask: Tensor,
        outer: Tensor,
        inner: Tensor,
        bias: Tensor,
    ) -> Tensor:
        hidden = inner.shape[1]
        packed = x.index_select(0, packing.mirrored) if turned else x
        with_zeros = functional.pad(bias, (hidden, 0))  # none for the projection
        gates = torch.addmm(with_zeros, packed, as_right_factor(outer)).to(inner.dtype).unsqueeze(0)
        inner = inner.unsqueeze(0)
        carried, states, kept = loops_for(gates).forward(gates, inner, None, packing, mask)
        ctx.save_for_backward(packed, mask, outer, inner, gates, carried, states, kept)
        ctx.about = packing, turned
        return cast(Tensor, states[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        packed, mask, outer, inner, gates, carried, states, kept = ctx.saved_tensors
        packing, turned = ctx.about
        grad = grad.clone(memory_format=torch.contiguous_format).unsqueeze(0)  # the loop overwrites it
        at_input = loops_for(gates).backward(grad, gates, (carried, kept), inner, packing, mask)[0]
        at_state = at_input[:, -inner.shape[1] :]
        by_inner = at_state[packing.sizes[0] :].t() @ states[0].index_select(0, packing.before)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = at_input @ outer
            if turned:
                grad_x = grad_x.index_select(0, packing.mirrored)
        by_bias = at_state.new_ones(len(at_state)) @ at_state  # faster than a sum
        return grad_x, None, None, None, at_input.t() @ packed, by_inner, by_bias


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
    return _Product.apply(a, b)  # type: ignore[no-untyped-call]


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """A softmax over the last axis with zeros where the mask is false, also if it is false everywhere."""
    return torch.softmax(scores.masked_fill(~mask, torch.finfo(scores.dtype).min), dim=-1) * mask


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the tokens of each sentence: (batch, tokens, dim), (batch, tokens) -> (batch, dim)."""
    return x.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(dim=1)


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens of each sentence: (batch, tokens, dim), (batch, tokens) -> (batch, dim)."""
    return (x * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True)
