"""Temporal-difference learning of Q-values: how rows act, and how a minibatch's gradient is computed.

Two small interfaces, each with implementations that tests hold equal: torch with autograd (here, for any network and device),
and C or CUDA for dense networks (`q_kernel`, `q_gpu`), which saves what torch takes around small operations. `choose` chooses.
All but C work inside CUDA graphs: what they count is on the device, and so may be epsilon.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from hotlap.envs.spec import EnvSpec
from hotlap.train import q_gpu, q_kernel
from hotlap.train.adam_gpu import adam_of
from hotlap.train.configs import DQNConfig
from hotlap.train.flat import Adam
from hotlap.train.nets import QNet
from hotlap.train.replay import Batch

EPS = 1e-8  # of Adam
LOWEST = torch.finfo(torch.float32).min  # the value of illegal actions; not -inf, of which 0 times is not a number


class QActor(Protocol):
    """How rows act."""

    def act(self, obs: Tensor, mask: Tensor | None, draw: Tensor, epsilon: float | Tensor) -> Tensor:
        """Epsilon-greedy actions [rows] among the legal ones (`mask` [rows, actions]), from draws [rows] between 0 and 1."""
        ...


class QGradient(Protocol):
    """How a minibatch's gradient is computed."""

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The networks whose modules it calls."""
        ...

    def loss(self, batch: Batch) -> Tensor:
        """The TD errors [B] of a minibatch."""
        ...

    def backward(self) -> None:
        """The gradient of that minibatch's loss, into the flat gradient."""
        ...

    def mean_loss(self) -> Tensor:
        """The mean of the losses since it was last asked for, still on the device."""
        ...


class TorchActor:
    """Acts with the network itself."""

    def __init__(self, net: nn.Module) -> None:
        self.net = net

    @torch.inference_mode()
    def act(self, obs: Tensor, mask: Tensor | None, draw: Tensor, epsilon: float | Tensor) -> Tensor:
        q = self.net(obs)
        greedy = legal(q, mask).argmax(dim=1)
        # One draw decides both whether to explore and, scaled up, where to: it is uniform below epsilon.
        scaled = draw * (1 / epsilon.clamp(min=1e-9) if isinstance(epsilon, Tensor) else q_kernel.scale_of(epsilon))
        if mask is None:
            random = (scaled * q.shape[1]).to(torch.int64).clamp_(max=q.shape[1] - 1)
        else:
            count = mask.sum(dim=1)
            chosen = torch.minimum((scaled * count).to(torch.int64), count - 1)
            random = (mask.cumsum(dim=1) > chosen[:, None]).to(torch.uint8).argmax(dim=1)
        return torch.where(draw < epsilon, random, greedy)


def legal(q: Tensor, mask: Tensor | None) -> Tensor:
    """The values of illegal actions lower than any other."""
    return q if mask is None else q.masked_fill(~mask, LOWEST)


class Autograd:
    """The gradient by autograd."""

    def __init__(self, net: nn.Module, target: nn.Module, flat: nn.Parameter, double: bool) -> None:
        self.net, self.target, self.flat, self.double = net, target, flat, double
        self._loss, self._total, self._count = (flat.new_zeros(()) for _ in range(3))

    @property
    def modules(self) -> dict[str, nn.Module]:
        return {"net": self.net, "target": self.target}

    def loss(self, batch: Batch) -> Tensor:
        error = td_error(self.net, self.target, batch, self.double)
        huber = nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none")
        self._loss = (huber if batch.weight is None else huber * batch.weight).mean()
        self._total += self._loss.detach()
        self._count += 1
        return error.detach()

    def backward(self) -> None:
        assert self.flat.grad is not None
        self.flat.grad.zero_()
        self._loss.backward()  # type: ignore[no-untyped-call]

    def mean_loss(self) -> Tensor:
        mean = self._total / self._count
        self._total.zero_()
        self._count.zero_()
        return mean


def td_error(net: nn.Module, target: nn.Module, batch: Batch, double: bool) -> Tensor:
    """Value of the action taken minus its target, [B]."""
    with torch.no_grad():
        next_value = target(batch.next_obs)
        choosing = net(batch.next_obs) if double else next_value
        best = legal(choosing, batch.next_mask).argmax(dim=1, keepdim=True)
        td_target = batch.reward + batch.discount * next_value.gather(1, best)[:, 0]
    return net(batch.obs).gather(1, batch.action[:, None])[:, 0] - td_target  # type: ignore[no-any-return]


def choose(
    net: QNet, target: QNet, flat: nn.Parameter, target_flat: nn.Parameter, spec: EnvSpec, config: DQNConfig
) -> tuple[QActor, QGradient, Adam]:
    """In C or CUDA, where the network fits it."""
    if q_kernel.fits(net, spec, flat.device):
        kernel = q_kernel.QKernel(net, spec, flat, target_flat.data, config.double)
        return kernel, kernel, q_kernel.CompiledAdam(flat, config.learning_rate, EPS, config.grad_clip)
    optimizer = adam_of(flat)(flat, config.learning_rate, EPS, config.grad_clip)
    if q_gpu.fits(net, flat.device):
        in_cuda = q_gpu.GpuQ(net, target, flat, target_flat, config.double)
        return in_cuda, in_cuda, optimizer
    return TorchActor(net), Autograd(net, target, flat, config.double), optimizer
