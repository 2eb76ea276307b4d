"""LSTM cells over whole sequences as one operation of autograd: matrix products, and one C pass per step (`lstm`).

Autograd on a loop of cells keeps a dozen tensors per step, and multiplies weights once per step; here what comes from the input
is one product for all steps, and so are the gradients of the weights. Used by `memory.Cell` in float32 on the CPU.
"""

from typing import Any

import torch
from torch import Tensor, nn

from hotlap.train import lstm

State = tuple[Tensor, ...]  # output and cells, [batch, units] each


def usable(x: Tensor) -> bool:
    """Whether the operation works on such numbers, here and now."""
    plain = x.dtype == torch.float32 and not x.is_cuda
    return plain and not torch.compiler.is_compiling() and not torch.is_autocast_enabled("cpu")


class LstmSequence(nn.Module):
    """A module, so that its time is seen; it has no parameters but those of the cell that it is given, an LSTM cell."""

    def forward(self, cell: nn.RNNCellBase, x: Tensor, done: Tensor, state: State) -> Tensor:
        """Outputs [time, batch, units] from x [time, batch, units]; the state is cleared after steps that are done."""
        weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
        out: Tensor = _Sequence.apply(x, (1.0 - done)[..., None], *state, *weights)  # type: ignore[no-untyped-call]
        return out

    def step(self, cell: nn.RNNCellBase, x: Tensor, state: State) -> State:
        """The new state after one step, without gradients: x [batch, units]."""
        h, c = state
        gates = torch.addmm(cell.bias_ih + cell.bias_hh, x, cell.weight_ih.t()).addmm_(h, cell.weight_hh.t())
        gates[:, 2 * cell.hidden_size : 3 * cell.hidden_size].mul_(2)  # see `lstm.ready`
        out = torch.empty_like(c)
        return out, lstm.step(gates, c.contiguous(), torch.empty_like(c), out)


class _Sequence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, alive: Tensor, h: Tensor, c: Tensor, weight_ih: Tensor, weight_hh: Tensor, *biases: Tensor
    ) -> Tensor:
        steps, batch, units = *x.shape[:2], h.shape[1]
        ih, hh, bias = (lstm.ready(part, units) for part in (weight_ih, weight_hh, biases[0] + biases[1]))
        gates = torch.addmm(bias, x.flatten(0, 1), ih.t()).view(steps, batch, 4 * units)
        # The state before each step, and what new cells are seen through, and the output.
        hidden, cells = (x.new_empty(steps + 1, batch, units) for _ in range(2))
        seen, out = (x.new_empty(steps, batch, units) for _ in range(2))
        hidden[0], cells[0] = h, c
        across = hh.t()
        for t in range(steps):
            fresh = lstm.step(gates[t].addmm_(hidden[t], across), cells[t], seen[t], out[t])
            torch.mul(fresh, alive[t], out=cells[t + 1])
            torch.mul(out[t], alive[t], out=hidden[t + 1])
        ctx.save_for_backward(x, alive, weight_ih, weight_hh, gates, hidden, cells, seen)
        return out

    @staticmethod
    def backward(ctx: Any, to_out: Tensor) -> tuple[Tensor | None, ...]:
        x, alive, weight_ih, weight_hh, gates, hidden, cells, seen = ctx.saved_tensors
        to_h, to_c = torch.zeros_like(seen[0]), torch.zeros_like(seen[0])
        to_gates = torch.empty_like(gates)
        for t in range(len(seen) - 1, -1, -1):
            to_h.mul_(alive[t]).add_(to_out[t])
            to_c.mul_(alive[t])
            lstm.back(gates[t], cells[t], seen[t], to_h, to_c, to_gates[t])
            torch.mm(to_gates[t], weight_hh, out=to_h)
        each = to_gates.flatten(0, 1)
        to_x = (each @ weight_ih).view_as(x) if ctx.needs_input_grad[0] else None
        to_bias = each.sum(0)
        to_ih, to_hh = each.t() @ x.flatten(0, 1), each.t() @ hidden[:-1].flatten(0, 1)
        return to_x, None, None, None, to_ih, to_hh, to_bias, to_bias
