"""PPO's gradient by hand, for networks without convolutions, or LSTM cells after one, with discrete actions.

On small networks autograd, and an optimizer that walks over parameters, take several times longer than the arithmetic. Here the
parameters and their gradients are one vector each, of which every layer has its views; a minibatch is some seventy plain
operations; clipping and Adam see one vector. The result equals autograd's on `ppo.ppo_loss` within float tolerance, by test.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hotlap.train import lstm
from hotlap.train.dense import FEW_ROWS, WIDEST, ActorKernel, Layer, actor_library, back_through, layers_of, run_layers
from hotlap.train.fast import Lanes
from hotlap.train.flat import gradient_views
from hotlap.train.memory import Cell, Memory
from hotlap.train.nets import Policy


class FusedPolicy:
    """The forward and backward pass of a `Policy` whose parameters were flattened."""

    CACHED = 1 << 18  # numbers that a layer's output may have to stay in the cache until it is used again

    @staticmethod
    def fits(net: Policy) -> bool:
        return not net.encoder.learns and net.memory is None and net.log_std is None

    def __init__(self, net: Policy, gradient: Tensor) -> None:
        places = gradient_views(net, gradient)
        self._actor = layers_of(net.actor, places)
        self._critic = layers_of(net.critic, places) if net.critic is not None else None
        self._tanh = isinstance(net.actor[1], nn.Tanh)
        self._action, self._value = Layer(net.action, places), Layer(net.value, places)
        self.cached_rows = max(1, self.CACHED // max(len(layer.bias) for layer in self._actor))

    def actor_kernel(self, rows: int, inputs: int) -> "ActorKernel | None":
        """A faster way to act for a few rows, where one is available."""
        layers = [*self._actor, self._action]
        narrow = max(inputs, *(len(layer.bias) for layer in layers)) <= WIDEST
        library = actor_library() if narrow and rows <= FEW_ROWS and not self._action.bias.is_cuda else None
        return None if library is None else ActorKernel(library, layers, self._tanh, inputs)

    def logits(self, obs: Tensor) -> Tensor:
        """Of the actor alone, [B, actions]."""
        return self._action.forward(self._run(self._actor, obs)[-1])

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, actions] and values [B]; keeps what `backward` needs."""
        self._actor_seen = self._run(self._actor, obs)
        self._critic_seen = self._actor_seen if self._critic is None else self._run(self._critic, obs)
        return self._action.forward(self._actor_seen[-1]), self._value.forward(self._critic_seen[-1])[:, 0]

    def backward(self, logits: Tensor, values: Tensor) -> None:
        """Put the gradient of the parameters in its place, from that of the logits [B, actions] and of the values [B]."""
        values = values[:, None]
        self._action.backward(logits, self._actor_seen[-1])
        self._value.backward(values, self._critic_seen[-1])
        gradient = logits.mm(self._action.weight)
        if self._critic is None:
            self._back(self._actor, self._actor_seen, gradient.addmm_(values, self._value.weight))
        else:
            self._back(self._actor, self._actor_seen, gradient)
            self._back(self._critic, self._critic_seen, values.mm(self._value.weight))

    def on(self, rows: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Logits and values of a minibatch."""
        return self.forward(rows["obs"])

    def _run(self, layers: list[Layer], x: Tensor) -> list[Tensor]:
        return run_layers(layers, x, self._tanh)

    def _back(self, layers: list[Layer], seen: list[Tensor], gradient: Tensor) -> None:
        for number, layer, to_layer in back_through(layers, seen, gradient, self._tanh):
            layer.backward(to_layer, seen[number])


class FusedRecurrent:
    """A `Policy` with LSTM cells, on whole sequences, which are split over lanes (see `fast.Lanes`)."""

    CACHED_ROWS = 512  # of a lane when acting

    @staticmethod
    def fits(net: Policy) -> bool:
        cells = isinstance(net.memory, Cell) and isinstance(net.memory.cell, nn.LSTMCell)
        return cells and not net.encoder.learns and net.log_std is None and net.value.weight.device.type == "cpu"

    def __init__(self, net: Policy, gradient: Tensor, lanes: Lanes) -> None:
        self._gradient, self._lanes = gradient, lanes
        self._places = [gradient, *(torch.zeros_like(gradient) for _ in range(lanes.count - 1))]
        self._parts = [_Sequences(net, place) for place in self._places]
        self._split: list[slice] = []

    def act(self, obs: Tensor, memory: Memory) -> tuple[Tensor, Tensor, Memory]:
        """One step: logits [batch, actions], values [batch] and the new memory."""
        (h, c), weights = memory, self._parts[0].weights()
        heads, new_h, new_c = obs.new_empty(len(obs), len(weights.heads)), torch.empty_like(h), torch.empty_like(c)

        def step(rows: slice) -> None:
            for begin in range(rows.start, rows.stop, self.CACHED_ROWS):
                some = slice(begin, min(rows.stop, begin + self.CACHED_ROWS))
                self._parts[0].step(weights, obs[some], h[some], c[some], heads[some], new_h[some], new_c[some])

        self._lanes.run([partial(step, rows) for rows in self._lanes.split(len(obs))])
        return heads[:, :-1], heads[:, -1], (new_h, new_c)

    def on(self, rows: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Logits and values of a minibatch of sequences: `obs` [time, batch, ...], rows of the results are time-major."""
        self._split = self._lanes.split(rows["obs"].shape[1])
        (h, c), weights = rows["memory"], self._parts[0].weights()
        jobs = [
            partial(part.forward, weights, rows["obs"][:, columns], rows["done"][:, columns], h[columns], c[columns])
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

    def step(self, weights: _Weights, obs: Tensor, h: Tensor, c: Tensor, heads: Tensor, new_h: Tensor, new_c: Tensor) -> None:
        gates = weights.gates(run_layers(self._trunk, obs, self._tanh)[-1], h)
        new_c.copy_(lstm.step(gates, c, torch.empty_like(c), new_h))
        torch.addmm(weights.heads_bias, new_h, weights.heads.t(), out=heads)

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


def compute_by_hand(net: Policy, flat: nn.Parameter, threads: int) -> FusedPolicy | FusedRecurrent | None:
    """The network's hand-written forward and backward pass, if it has one; `flat` holds its parameters and their gradient."""
    assert flat.grad is not None
    if FusedPolicy.fits(net):
        return FusedPolicy(net, flat.grad)
    if not FusedRecurrent.fits(net):
        return None
    torch.set_num_threads(1)  # of each lane
    return FusedRecurrent(net, flat.grad, Lanes(threads))


def prepare(config: Any, rows: dict[str, Tensor], part: int) -> dict[str, Tensor]:
    """Rows with what `gradients` also needs, computed once; `part` is the number of rows in each part of a minibatch."""
    ratio_limit = torch.where(rows["scaled_advantage"] >= 0, 1 + config.clip, 1 - config.clip)
    return {**rows, "advantage_over_size": rows["scaled_advantage"] / part, "ratio_limit": ratio_limit}


def gradients(
    config: Any, batch: dict[str, Tensor], logits: Tensor, value: Tensor, entropy_weight: float, report: bool
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Of `ppo.ppo_loss`: its gradient with respect to the logits [B, actions] and the values [B]; its parts, if asked for."""
    size = len(value)
    if (mask := batch.get("mask")) is not None:
        logits = logits.masked_fill(~mask, -torch.inf)
    log_prob = torch.log_softmax(logits, -1)
    probability = log_prob.exp()
    action, advantage = batch["action"][:, None], batch["advantage_over_size"]
    log_ratio = log_prob.gather(-1, action)[:, 0] - batch["log_prob"]
    ratio = log_ratio.exp()
    # The surrogate follows the ratio, unless that has moved too far the way the advantage pushes it.
    unclipped = (ratio - batch["ratio_limit"]).mul_(advantage) <= 0
    slope = (ratio * advantage).mul_(unclipped)[:, None]
    to_logits = probability * slope
    to_logits.scatter_add_(1, action, -slope)
    entropy = None
    if entropy_weight or report:
        weighted = probability * log_prob.clamp(min=-1e9)
        entropy = -weighted.sum(-1, keepdim=True)
        if entropy_weight:
            to_logits += (weighted + probability * entropy) * (entropy_weight / size)
    error = value - batch["returns"]
    to_value = error * (config.value_weight / size)
    if config.value_clip:
        moved = value - batch["value"]
        near = batch["value"] + moved.clamp(-config.value_clip, config.value_clip) - batch["returns"]
        further = error**2 >= near**2
        inside = moved.abs() <= config.value_clip
        to_value = torch.where(further, to_value, near * inside * (config.value_weight / size))
        error = torch.where(further, error, near)
    if entropy is None or not report:
        return to_logits, to_value, {}
    policy_loss = -torch.min(advantage * ratio, advantage * ratio.clamp(1 - config.clip, 1 + config.clip)).sum()
    value_loss, mean_entropy = 0.5 * (error**2).mean(), entropy.mean()
    parts = {
        "loss": policy_loss + config.value_weight * value_loss - entropy_weight * mean_entropy,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": mean_entropy,
        "kl": (ratio - 1 - log_ratio).mean(),
        "clipped": ((ratio - 1).abs() > config.clip).float().mean(),
    }
    return to_logits, to_value, parts
