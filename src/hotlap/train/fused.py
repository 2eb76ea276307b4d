"""PPO's gradient by hand, for feed-forward networks that choose one of some discrete actions.

On small networks autograd, and an optimizer that walks over parameters, take several times longer than the arithmetic. Here the
parameters and their gradients are one vector each, of which every layer has its views; a minibatch is some seventy plain
operations; clipping and Adam see one vector. The result equals autograd's on `ppo.loss_of` within float tolerance, by test.
"""

from typing import Any

import torch
from torch import Tensor, nn

from hotlap.train.nets import Policy

_tanh_backward = torch.ops.aten.tanh_backward.default
_relu_backward = torch.ops.aten.threshold_backward.default


def flatten(net: nn.Module) -> nn.Parameter:
    """Make the network's parameters and gradients views of one vector each, and return that vector."""
    own = list(net.parameters())
    flat = nn.Parameter(torch.cat([p.detach().flatten() for p in own]))
    flat.grad = torch.zeros_like(flat)
    begin = 0
    for p in own:
        end = begin + p.numel()
        p.data = flat.data[begin:end].view(p.shape)
        p.grad = flat.grad[begin:end].view(p.shape)
        begin = end
    return flat


class _Layer:
    """A linear layer: its weights, and where its gradients go."""

    __slots__ = ("bias", "bias_grad", "transposed", "weight", "weight_grad")

    def __init__(self, linear: nn.Linear) -> None:
        assert linear.weight.grad is not None and linear.bias.grad is not None
        self.weight, self.bias = linear.weight.detach(), linear.bias.detach()
        self.transposed = self.weight.t()
        self.weight_grad, self.bias_grad = linear.weight.grad, linear.bias.grad

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x, self.transposed)

    def backward(self, gradient: Tensor, x: Tensor) -> None:
        torch.mm(gradient.t(), x, out=self.weight_grad)
        torch.sum(gradient, 0, out=self.bias_grad)


class FusedPolicy:
    """The forward and backward pass of a `Policy` whose parameters were flattened."""

    @staticmethod
    def fits(net: Policy) -> bool:
        return net.encoder is None and net.memory is None and net.log_std is None

    def __init__(self, net: Policy) -> None:
        self._actor, self._critic = _trunk_of(net.actor), _trunk_of(net.critic) if net.critic is not None else None
        self._tanh = isinstance(net.actor[1], nn.Tanh)
        self._action, self._value = _Layer(net.action), _Layer(net.value)

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

    def _run(self, layers: list[_Layer], x: Tensor) -> list[Tensor]:
        seen = [x]
        for layer in layers:
            x = layer.forward(x)
            x = x.tanh_() if self._tanh else x.relu_()
            seen.append(x)
        return seen

    def _back(self, layers: list[_Layer], seen: list[Tensor], gradient: Tensor) -> None:
        for number in range(len(layers) - 1, -1, -1):
            out = seen[number + 1]
            gradient = _tanh_backward(gradient, out) if self._tanh else _relu_backward(gradient, out, 0)
            layers[number].backward(gradient, seen[number])
            if number:
                gradient = gradient.mm(layers[number].weight)


def _trunk_of(trunk: nn.Sequential) -> list[_Layer]:
    return [_Layer(module) for module in trunk if isinstance(module, nn.Linear)]


class Adam:
    """Adam on one vector, with the gradient clipped to a norm, in one fused operation of torch's.

    Step size and count are tensors and nothing asks the device for a number, so that a CUDA graph can hold it all. Where `skip`
    is 1 nothing happens.
    """

    def __init__(self, flat: nn.Parameter, learning_rate: float, eps: float, clip: float = 0.0) -> None:
        self.flat, self.eps, self.clip = flat.data, eps, clip
        self.mean, self.square = torch.zeros_like(flat.data), torch.zeros_like(flat.data)
        self.steps, self.skip = torch.zeros((), device=flat.device), torch.zeros((), device=flat.device)
        self.rate = torch.tensor(learning_rate, device=flat.device)

    def step(self, gradient: Tensor) -> None:
        scale = (torch.linalg.vector_norm(gradient) + 1e-6).div_(self.clip).clamp_(min=1.0) if self.clip else None
        self.steps += 1 - self.skip
        torch._fused_adam_(
            [self.flat],
            [gradient],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            lr=self.rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=scale,
            found_inf=self.skip,
        )


def prepare(config: Any, rows: dict[str, Tensor], part: int) -> dict[str, Tensor]:
    """What `gradients` needs of rows whose gain is known, for parts of so many rows."""
    bound = torch.where(rows["gain"] >= 0, 1 + config.clip, 1 - config.clip)
    return {**rows, "pull": rows["gain"] / part, "bound": bound}


def gradients(
    config: Any, batch: dict[str, Tensor], logits: Tensor, value: Tensor, entropy_weight: float, report: bool
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Of `ppo.loss_of`: its gradient with respect to the logits [B, actions] and the values [B]; its parts, if asked for."""
    size = len(value)
    if (mask := batch.get("mask")) is not None:
        logits = logits.masked_fill(~mask, -torch.inf)
    logp = torch.log_softmax(logits, -1)
    chance = logp.exp()
    action, gain = batch["action"][:, None], batch["pull"]
    log_ratio = logp.gather(-1, action)[:, 0] - batch["logp"]
    ratio = log_ratio.exp()
    # The surrogate follows the ratio, unless that has moved too far the way the advantage pushes it.
    moves = (ratio - batch["bound"]).mul_(gain) <= 0
    slope = (ratio * gain).mul_(moves)[:, None]
    to_logits = chance * slope
    to_logits.scatter_add_(1, action, -slope)
    entropy = None
    if entropy_weight or report:
        weighed = chance * logp.clamp(min=-1e9)
        entropy = -weighed.sum(-1, keepdim=True)
        if entropy_weight:
            to_logits += (weighed + chance * entropy) * (entropy_weight / size)
    error = value - batch["goal"]
    to_value = error * (config.value_weight / size)
    if config.value_clip:
        moved = value - batch["value"]
        near = batch["value"] + moved.clamp(-config.value_clip, config.value_clip) - batch["goal"]
        further = error**2 >= near**2
        inside = moved.abs() <= config.value_clip
        to_value = torch.where(further, to_value, near * inside * (config.value_weight / size))
        error = torch.where(further, error, near)
    if entropy is None or not report:
        return to_logits, to_value, {}
    policy_loss = -torch.min(gain * ratio, gain * ratio.clamp(1 - config.clip, 1 + config.clip)).sum()
    value_loss, spread = 0.5 * (error**2).mean(), entropy.mean()
    parts = {
        "loss": policy_loss + config.value_weight * value_loss - entropy_weight * spread,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": spread,
        "kl": (ratio - 1 - log_ratio).mean(),
        "clipped": ((ratio - 1).abs() > config.clip).float().mean(),
    }
    return to_logits, to_value, parts
