"""The alternating highway LSTM of He et al. 2017, as in AllenNLP: layers read in alternating directions.

Packed sentences and the loop over the steps are shared with the other recurrences; see `tasks.modules.recurrence`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from tasks.modules.packing import Packing
from tasks.modules.recurrence import as_right_factor, loops_for


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
        return states[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        packed, mask, outer, inner, gates, carried, states, kept = ctx.saved_tensors
        packing, turned = ctx.about
        grad = grad.clone(memory_format=torch.contiguous_format).unsqueeze(0)  # the loop overwrites it
        at_input = loops_for(gates).backward(grad, gates, carried, kept, inner, packing, mask)[0]
        at_state = at_input[:, -inner.shape[1] :]
        by_inner = at_state[packing.sizes[0] :].t() @ states[0].index_select(0, packing.before)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = at_input @ outer
            if turned:
                grad_x = grad_x.index_select(0, packing.mirrored)
        by_bias = at_state.new_ones(len(at_state)) @ at_state  # faster than a sum
        return grad_x, None, None, None, at_input.t() @ packed, by_inner, by_bias
