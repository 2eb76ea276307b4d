"""A policy with LSTM cells after its trunk, forward and backward by hand, over whole sequences."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from hotlap.train import lstm
from hotlap.train.dense import Layer, back_through, computes, layers_of, run_layers
from hotlap.train.fast import Lanes
from hotlap.train.flat import gradient_views
from hotlap.train.memory import Cell, Memory
from hotlap.train.minibatch import Minibatch
from hotlap.train.nets import Policy


class LstmPolicy:
    """A `Policy` with LSTM cells, on whole sequences, which are split over lanes (see `fast.Lanes`)."""

    cached_rows = 1 << 62  # a step's numbers stay in the cache, however many steps there are
    CACHED_ROWS = 512  # of a lane when acting

    @staticmethod
    def fits(net: nn.Module) -> bool:
        if type(net) is not Policy or net.encoder.learns or net.log_std is not None or net.value.weight.device.type != "cpu":
            return False
        return type(net.memory) is Cell and type(net.memory.cell) is nn.LSTMCell and computes(net)

    def __init__(self, net: Policy, gradient: Tensor, lanes: Lanes) -> None:
        self._gradient, self._lanes, self._encode = gradient, lanes, net.encoder.forward
        self._places = [gradient, *(torch.zeros_like(gradient) for _ in range(lanes.count - 1))]
        self._parts = [_Sequences(net, place) for place in self._places]
        self._split: list[slice] = []

    def act(self, obs: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Memory]:
        """One step: logits [batch, actions], values [batch] and the memory, which is changed in place."""
        x, (h, c), weights = self._encode(obs), memory, self._parts[0].weights()
        heads = x.new_empty(len(x), len(weights.heads))

        def step(rows: slice) -> None:
            for begin in range(rows.start, rows.stop, self.CACHED_ROWS):
                some = slice(begin, min(rows.stop, begin + self.CACHED_ROWS))
                self._parts[0].step(weights, x[some], h[some], c[some], heads[some])

        self._lanes.run([partial(step, rows) for rows in self._lanes.split(len(x))])
        return heads[:, :-1], heads[:, -1], memory

    def forward(self, batch: Minibatch) -> tuple[Tensor, Tensor]:
        """Logits and values of a minibatch of sequences."""
        assert batch.done is not None
        obs = self._encode(batch.obs.flatten(0, 1)).view(*batch.done.shape, -1)
        self._split = self._lanes.split(obs.shape[1])
        (h, c), weights = batch.memory, self._parts[0].weights()
        jobs = [
            partial(part.forward, weights, obs[:, columns], batch.done[:, columns], h[columns], c[columns])
            for part, columns in zip(self._parts, self._split, strict=False)
        ]
        heads = torch.cat(self._lanes.run(jobs), 1).flatten(0, 1)
        return heads[:, :-1], heads[:, -1]

    def backward(self, logits: Tensor, values: Tensor) -> None:
        """Put the gradient of the parameters in its place, from those of the logits and of the values."""
        heads = torch.cat((logits, values[:, None]), 1).view(-1, self._split[-1].stop, logits.shape[1] + 1)
        jobs = [partial(part.backward, heads[:, columns]) for part, columns in zip(self._parts, self._split, strict=False)]
        self._lanes.run(jobs)
        for place in self._places[1 : len(jobs)]:
            self._gradient.add_(place)


@dataclass(frozen=True)
class _Weights:
    """Weights ready to multiply with: the cells' (see `lstm.ready`), and both heads' as one matrix."""

    ih: Tensor
    hh: Tensor
    bias: Tensor
    heads: Tensor
    heads_bias: Tensor

    def gates(self, x: Tensor, h: Tensor, out: Tensor | None = None) -> Tensor:
        return torch.addmm(self.bias, x, self.ih.t(), out=out).addmm_(h, self.hh.t())


class _Sequences:
    """A lane's sequences. A step's numbers are used while they are in the cache."""

    def __init__(self, net: Policy, gradient: Tensor) -> None:
        assert isinstance(net.memory, Cell)
        places = gradient_views(net, gradient)
        self._gradient, self._cell = gradient, net.memory.cell
        self._trunk, self._tanh = layers_of(net.actor, places), isinstance(net.actor[1], nn.Tanh)
        self._action, self._value = Layer(net.action, places), Layer(net.value, places)
        cell = self._cell
        self._to_ih, self._to_hh = places[cell.weight_ih], places[cell.weight_hh]
        self._to_biases = places[cell.bias_ih], places[cell.bias_hh]

    def weights(self) -> _Weights:
        cell, heads = self._cell, (self._action, self._value)
        parts = (cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh)
        ih, hh, bias = (lstm.ready(part, cell.hidden_size) for part in parts)
        return _Weights(ih, hh, bias, torch.cat([head.weight for head in heads]), torch.cat([head.bias for head in heads]))

    def step(self, weights: _Weights, x: Tensor, h: Tensor, c: Tensor, heads: Tensor) -> None:
        """Fill in logits and values [batch, actions + 1], and replace the state."""
        gates = weights.gates(run_layers(self._trunk, x, self._tanh)[-1], h)
        c.copy_(lstm.step(gates, c, torch.empty_like(c), h))
        torch.addmm(weights.heads_bias, h, weights.heads.t(), out=heads)

    def forward(self, weights: _Weights, obs: Tensor, done: Tensor, h: Tensor, c: Tensor) -> Tensor:
        """Logits and values [time, batch, actions + 1]; keeps what `backward` needs."""
        steps, batch, units = len(obs), len(h), h.shape[1]
        self._weights, self._alive = weights, (1.0 - done)[..., None]
        self._features: list[list[Tensor]] = []
        self._gates = obs.new_empty(steps, batch, 4 * units)
        # The state before each step, and what new cells are seen through, and the output.
        self._hidden, self._cells = (obs.new_empty(steps + 1, batch, units) for _ in range(2))
        self._seen, self._out = (obs.new_empty(steps, batch, units) for _ in range(2))
        self._hidden[0], self._cells[0] = h, c
        heads = obs.new_empty(steps, batch, len(weights.heads))
        for t in range(steps):
            features = run_layers(self._trunk, obs[t], self._tanh)
            self._features.append(features)
            gates, out = weights.gates(features[-1], self._hidden[t], self._gates[t]), self._out[t]
            fresh = lstm.step(gates, self._cells[t], self._seen[t], out)
            torch.mul(fresh, self._alive[t], out=self._cells[t + 1])
            torch.mul(out, self._alive[t], out=self._hidden[t + 1])
            torch.addmm(weights.heads_bias, out, weights.heads.t(), out=heads[t])
        return heads

    def backward(self, to_heads: Tensor) -> None:
        self._gradient.zero_()
        cell, heads = self._cell, self._weights.heads
        weight_ih, weight_hh = cell.weight_ih.detach(), cell.weight_hh.detach()
        to_h, to_c, to_features = (torch.zeros_like(self._out[0]) for _ in range(3))
        to_gates, to_bias = torch.empty_like(self._gates[0]), torch.zeros_like(self._weights.bias)
        to_weight = torch.zeros_like(heads)
        to_ih, to_hh = (torch.zeros_like(place.t()).contiguous() for place in (self._to_ih, self._to_hh))  # faster than upright
        for t in range(len(self._out) - 1, -1, -1):
            to_weight.addmm_(to_heads[t].t(), self._out[t])
            to_h.mul_(self._alive[t]).addmm_(to_heads[t], heads)
            to_c.mul_(self._alive[t])
            lstm.back(self._gates[t], self._cells[t], self._seen[t], to_h, to_c, to_gates)
            features = self._features[t]
            to_ih.addmm_(features[-1].t(), to_gates)
            to_hh.addmm_(self._hidden[t].t(), to_gates)
            to_bias.add_(to_gates.sum(0))
            torch.mm(to_gates, weight_hh, out=to_h)
            torch.mm(to_gates, weight_ih, out=to_features)
            for number, layer, to_layer in back_through(self._trunk, features, to_features, self._tanh):
                layer.add_backward(to_layer, features[number])
        self._to_ih.copy_(to_ih.t())
        self._to_hh.copy_(to_hh.t())
        for place in self._to_biases:
            place.copy_(to_bias)
        self._action.weight_grad.copy_(to_weight[:-1])
        self._value.weight_grad.copy_(to_weight[-1:])
        total = to_heads.sum((0, 1))
        self._action.bias_grad.copy_(total[:-1])
        self._value.bias_grad.copy_(total[-1:])
