"""Q-learning with a dense network on a GPU, forward and backward by hand, in few and large kernels (q.cu).

Between matrix products torch would launch some sixty small operations per minibatch. Here it is one kernel for the heads, the
TD error and their gradient, one per hidden layer on the way back, and one for the gradients of all biases and heads. The
specification is `td`.
"""

from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from hotlap.core import nvrtc
from hotlap.train import q_kernel
from hotlap.train.flat import gradient_views
from hotlap.train.nets import QNet
from hotlap.train.replay import Batch

SOURCE = Path(__file__).with_name("q.cu")
BLOCK = 512  # threads
ROWS, WARP = 16, 32  # of a block, as in q.cu
MOST_HEADS = 64  # a block leaves the gradient of their weights


@cache
def program(actions: int, dueling: bool) -> nvrtc.Program:
    source = f"#define ACTIONS {actions}\n#define DUELING {int(dueling)}\n#define BLOCK {BLOCK}\n{SOURCE.read_text()}"
    return nvrtc.Program(source, str(SOURCE.parent), BLOCK)


class Passes:
    """The passes through a network's hidden layers, each with a ReLU after it, and through its heads."""

    def __init__(self, net: QNet, flat: nn.Parameter) -> None:
        assert flat.grad is not None
        heads = [head for head in (net.advantage, net.value) if head is not None]
        parameters: list[Tensor | None] = [part.detach() for head in heads for part in (head.weight, head.bias)]
        self.heads = parameters + [None] * (4 - len(parameters))  # their weights and biases, for q.cu
        self.width = sum(head.out_features for head in heads)
        self.kernels = program(net.advantage.out_features, net.value is not None)
        self._encode = net.encoder.forward
        self._hidden = [module for module in net.trunk.modules() if isinstance(module, nn.Linear)]
        self._gradient, self._gradient_of = flat.grad, gradient_views(net, flat.grad)
        place_of = gradient_views(net, torch.arange(flat.numel(), device=flat.device))
        summed = [layer.bias for layer in (*self._hidden, *heads)] + [head.weight for head in heads]
        self._places = torch.cat([place_of[part].flatten() for part in summed])  # of the columns of `sums` in the flat gradient
        self._seen: list[Tensor] = []

    def features(self, obs: Tensor) -> Tensor:
        """What the heads take; keeps what `backward` needs."""
        self._seen = [self._encode(obs)]
        for layer in self._hidden:
            self._seen.append(torch._addmm_activation(layer.bias, self._seen[-1], layer.weight.t()))
        return self._seen[-1]

    def new_sums(self, rows: int) -> Tensor:
        """Where blocks leave sums over their rows."""
        return self._gradient.new_empty(-(-rows // ROWS), len(self._places))

    def backward(self, gradient: Tensor, sums: Tensor) -> None:
        """Put the gradient of the parameters in its place, from what `td` gave for the first rows that were seen."""
        (blocks, columns), begin = sums.shape, sum(layer.out_features for layer in self._hidden)
        for number in range(len(self._hidden) - 1, -1, -1):
            layer, x = self._hidden[number], self._seen[number][: len(gradient)]
            begin -= layer.out_features
            if number < len(self._hidden) - 1:
                after, shape = self._seen[number + 1], gradient.shape
                self.kernels.run("back", blocks * BLOCK, gradient, after, sums, *shape, columns, begin)
            torch.mm(gradient.t(), x, out=self._gradient_of[layer.weight])
            gradient = gradient.mm(layer.weight) if number else gradient
        self.kernels.run("add_up", -(-columns // WARP) * BLOCK, sums, self._places, self._gradient, blocks, columns)


class GpuQ:
    """Actor and gradient."""

    modules: dict[str, nn.Module] = {}

    def __init__(self, net: QNet, target: QNet, flat: nn.Parameter, target_flat: nn.Parameter, double: bool) -> None:
        self._net, self._target, self._double = Passes(net, flat), Passes(target, target_flat), double
        self._total, self._count = flat.new_zeros(0), flat.new_zeros(())  # of losses since they were asked for, by row
        self._gradient = self._sums = torch.empty(0)

    @torch.no_grad()
    def act(self, obs: Tensor, mask: Tensor | None, draw: Tensor, epsilon: float | Tensor) -> Tensor:
        features, action = self._net.features(obs), torch.empty(len(obs), dtype=torch.int64, device=obs.device)
        explore = epsilon if isinstance(epsilon, Tensor) else torch.full((), epsilon, dtype=torch.float64, device=obs.device)
        given = (features, *self._net.heads, mask, draw, explore)
        self._net.kernels.run("choose", WARP * len(obs), *given, action, *features.shape)
        return action

    @torch.no_grad()
    def loss(self, batch: Batch) -> Tensor:
        rows = len(batch.action)
        if len(self._total) != rows:
            self._total = self._total.new_zeros(rows)
        target = self._target.features(batch.next_obs)
        features = self._net.features(torch.cat((batch.obs, batch.next_obs)) if self._double else batch.obs)
        error, to_heads = torch.empty_like(batch.reward), target.new_empty(rows, self._net.width)
        self._gradient, self._sums = torch.empty_like(target), self._net.new_sums(rows)
        given = (features, target, *self._net.heads, *self._target.heads)
        drawn = (batch.action, batch.reward, batch.discount, batch.next_mask, batch.weight)
        written = (error, to_heads, self._gradient, self._sums, self._total, self._count)
        blocks, columns = self._sums.shape
        sizes = (*target.shape, columns, int(self._double))
        self._net.kernels.run("td", blocks * BLOCK, *given, *drawn, *written, *sizes)
        return error

    @torch.no_grad()
    def backward(self) -> None:
        self._net.backward(self._gradient, self._sums)

    def mean_loss(self) -> Tensor:
        mean = self._total.mean() / self._count
        self._total.zero_()
        self._count.zero_()
        return mean


def fits(net: nn.Module, device: torch.device) -> bool:
    """Whether this is a network that can be computed here."""
    small = q_kernel.is_dense(net) and net.advantage.out_features < MOST_HEADS
    return small and device.type == "cuda" and not nvrtc.missing()
