"""A policy of dense layers on a GPU, forward and backward by hand, in few and large kernels.

Between matrix products torch would launch some forty small operations per minibatch, and as many per step of a rollout; here
they are three kernels (dense.cu). The heads of a shared trunk are one matrix. In bfloat16 the layers' outputs and their
gradients take half the bytes; parameters, heads, losses and sums stay float32.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hotlap.core import nvrtc, stages
from hotlap.core.clock import StageClock
from hotlap.train.acting import Groups
from hotlap.train.configs import PPOConfig
from hotlap.train.encoders import Indices, Sparse
from hotlap.train.flat import gradient_views
from hotlap.train.minibatch import Losses, Minibatch
from hotlap.train.nets import Policy
from hotlap.train.sparse import SparseLinear

SOURCE = Path(__file__).with_name("dense.cu")
BLOCKS = 2048  # of rows, on the way back through an activation
PARTS = 5  # of the loss, as in dense.cu


@cache
def program(bfloat16: bool) -> nvrtc.Program:
    return nvrtc.Program(f"#define BFLOAT16 {int(bfloat16)}\n{SOURCE.read_text()}", str(SOURCE.parent))


@dataclass(frozen=True)
class Affine:
    """A linear layer: its parameters as they are multiplied with, and where their gradients go."""

    weight: Tensor
    bias: Tensor
    weight_grad: Tensor
    bias_grad: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.weight.t())

    def backward(self, gradient: Tensor, x: Tensor, sums: Tensor) -> None:
        """`sums`: of the gradient, over its rows."""
        self.bias_grad.copy_(sums)
        weight_gradient(gradient, x, self.weight_grad)


def weight_gradient(gradient: Tensor, x: Tensor, out: Tensor) -> None:
    """In float32, from numbers of whatever kind."""
    if x.dtype == torch.float32:
        torch.mm(gradient.t(), x, out=out)
    else:
        torch.mm(gradient.t(), x, out_dtype=torch.float32, out=out)


class Trunk:
    """Layers with an activation after each."""

    def __init__(self, layers: list[Affine], tanh: bool, kernels: nvrtc.Program) -> None:
        self._layers, self._tanh, self._kernels = layers, tanh, kernels
        self._seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        """Keeps what `backward` needs."""
        self._seen = [x]
        for layer in self._layers:
            x = layer.forward(x)
            self._seen.append(x.tanh_() if self._tanh else x.relu_())
        return x

    def backward(self, gradient: Tensor) -> None:
        """Put the gradients of the parameters in their places, from that of the output, which is changed."""
        for number in range(len(self._layers) - 1, -1, -1):
            layer, sums = self._layers[number], self._through(gradient, self._seen[number + 1])
            layer.backward(gradient, self._seen[number], sums)
            if number:
                gradient = gradient.mm(layer.weight)

    def _through(self, gradient: Tensor, after: Tensor) -> Tensor:
        """The gradient before an activation, in place; its sums over rows."""
        rows, units = after.shape
        each = -(-rows // BLOCKS)
        blocks, lanes = -(-rows // each), max(1, nvrtc.BLOCK // units)
        sums = torch.empty(blocks * lanes, units, device=after.device)
        self._kernels.run("through", blocks * nvrtc.BLOCK, gradient, after, sums, rows, units, each, int(self._tanh))
        return sums.sum(0)


class GpuDense:
    """The passes through a network. `heads` [B, actions + 1] are logits and value."""

    def __init__(self, net: Policy, flat: nn.Parameter, config: PPOConfig) -> None:
        assert flat.grad is not None
        half = config.precision == "bfloat16"
        self.kind = torch.bfloat16 if half else torch.float32
        self.kernels = program(half)
        self._flat, self._used = flat.data, torch.empty_like(flat.data, dtype=self.kind) if half else flat.data
        weights, gradients = (gradient_views(net, vector) for vector in (self._used, flat.grad))

        def layer(linear: Any) -> Affine:
            weight, to_weight = weights[linear.weight], gradients[linear.weight]
            if isinstance(linear, SparseLinear):
                weight, to_weight = weight.t(), to_weight.t()
            return Affine(weight, weights[linear.bias], to_weight, gradients[linear.bias])

        def trunk(modules: nn.Sequential) -> Trunk:
            return Trunk([layer(module) for module in list(modules)[::2]], isinstance(modules[1], nn.Tanh), self.kernels)

        # Sums of a hundred rows of weights are memory traffic; a GPU multiplies the zeros faster.
        self._encode = Sparse(net.encoder.features).forward if isinstance(net.encoder, Indices) else net.encoder.forward
        self._action, self._value = layer(net.action), layer(net.value)
        self._trunks = [trunk(modules) for modules in (net.actor, net.critic) if modules is not None]
        self.actions = len(self._action.bias)
        self._together = torch.empty(self.actions + 1, net.units, dtype=self.kind, device=flat.device)
        self._biases = torch.empty(self.actions + 1, device=flat.device)
        self._features: list[Tensor] = []

    def ready(self) -> None:
        """The parameters have changed: prepare what is multiplied with."""
        if self._used is not self._flat:
            self._used.copy_(self._flat)
        if len(self._trunks) == 1:
            torch.cat((self._action.weight, self._value.weight), out=self._together)
        torch.cat((self._action.bias.float(), self._value.bias.float()), out=self._biases)

    def heads(self, obs: Tensor) -> Tensor:
        """Keeps what `backward` needs."""
        x = self._encode(obs).to(self.kind)
        self._features = [trunk.forward(x) for trunk in self._trunks]
        if len(self._trunks) == 1:
            return self._affine(self._features[0], self._together, self._biases)
        actor, critic = self._features
        logits = self._affine(actor, self._action.weight, self._biases[:-1])
        return torch.cat((logits, self._affine(critic, self._value.weight, self._biases[-1:])), 1)

    def _affine(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        if self.kind == torch.float32:
            return torch.addmm(bias, x, weight.t())
        return torch.mm(x, weight.t(), out_dtype=torch.float32).add_(bias)

    def backward(self, to_heads: Tensor) -> None:
        """Put the gradient of the parameters in its place, from that of the heads."""
        sums = to_heads.sum(0, dtype=torch.float32)
        if len(self._trunks) == 1:
            weights = torch.empty(self._together.shape, device=to_heads.device)
            weight_gradient(to_heads, self._features[0], weights)
            for head, rows in ((self._action, slice(0, -1)), (self._value, slice(-1, None))):
                head.weight_grad.copy_(weights[rows])
                head.bias_grad.copy_(sums[rows])
            self._trunks[0].backward(to_heads.mm(self._together))
            return
        parts = (self._action, to_heads[:, :-1], sums[:-1]), (self._value, to_heads[:, -1:], sums[-1:])
        for trunk, x, (head, part, total) in zip(self._trunks, self._features, parts, strict=True):
            head.backward(part, x, total)
            trunk.backward(part.mm(head.weight))


class GpuActor:
    """An `acting.Actor`: a step's actions, log-probabilities and values at once."""

    def __init__(self, groups: Groups, policy: GpuDense) -> None:
        self._groups, self._policy = groups, policy

    def begin(self, iteration: int) -> None:
        self._policy.ready()

    def act(self, group: int, t: int) -> Tensor:
        groups, policy, mask = self._groups, self._policy, self._groups.mask_at(group, t)
        heads = policy.heads(groups.obs[group][t])
        draw = torch.rand(len(heads), generator=groups.generators[group], device=heads.device)
        action, results = groups.action[group][t], (groups.log_prob[group][t], groups.value[group][t])
        policy.kernels.run("choose", len(heads), heads, mask, draw, action, *results, len(heads), policy.actions)
        return action

    def finish(self) -> None:
        rollout = self._groups.rollout
        rollout.value[-1] = self._policy.heads(rollout.obs[-1])[:, -1]


class GpuByHand:
    """A `gradients.Gradient`."""

    def __init__(self, policy: GpuDense, config: PPOConfig) -> None:
        self._policy, self._config = policy, config
        self.modules: Mapping[str, nn.Module] = {}

    def part_size(self, size: int, rows: int) -> int:
        return size

    def prepare(self, batch: Minibatch, rows: int) -> Minibatch:
        return batch

    @torch.no_grad()
    def compute(self, batch: Minibatch, entropy_weight: Tensor, clock: StageClock, report: bool) -> Losses | None:
        policy, config, rows = self._policy, self._config, len(batch.action)
        with clock.stage(stages.LOSS):
            policy.ready()
            heads = policy.heads(batch.obs)
            to_heads = torch.empty_like(heads, dtype=policy.kind)
            parts = torch.empty(-(-rows // nvrtc.BLOCK), PARTS, device=heads.device) if report else None
            given: list[Any] = [heads, batch.action, batch.log_prob, batch.advantage, batch.return_, batch.value, batch.mask]
            numbers = float(config.clip), float(config.value_weight), float(config.value_clip)
            policy.kernels.run("ppo_loss", rows, *given, entropy_weight, to_heads, parts, rows, policy.actions, *numbers)
        with clock.stage(stages.BACKWARD):
            policy.backward(to_heads)
        if parts is None:
            return None
        policy_loss, value_loss, entropy, kl, clipped = parts.sum(0)
        loss = policy_loss + config.value_weight * value_loss - entropy_weight * entropy
        return Losses(loss, policy_loss, value_loss, entropy, kl, clipped)

    def training(self, seed: int) -> AbstractContextManager[None]:
        return nullcontext()  # dense layers have one mode


def fits(flat: Tensor) -> bool:
    """Whether such passes can be made through a network that `DensePolicy` fits."""
    return flat.is_cuda and not nvrtc.missing()
