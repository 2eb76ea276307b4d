"""How a minibatch's gradient is computed: the interface, and autograd, eager or compiled. By hand: see `by_hand`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.train.auxiliary import Auxiliary
from hotlap.train.minibatch import Losses, Minibatch
from hotlap.train.nets import Policy

# From a minibatch, the network's outputs and values for it, and the weight of the entropy.
Loss = Callable[[Minibatch, Tensor, Tensor, Any], Losses]


class Gradient(Protocol):
    """Puts the gradient of the loss on a minibatch into the network's flat gradient."""

    modules: Mapping[str, nn.Module]  # the networks whose modules are called, so that they can be timed

    def part_size(self, size: int, rows: int) -> int:
        """Into parts of how many a minibatch of `size` items of so many rows each is best split; a divisor of `size`."""

    def prepare(self, batch: Minibatch, rows: int) -> Minibatch:
        """Compute ahead, for an epoch, what minibatches (or parts of them) of so many rows need."""

    def compute(self, batch: Minibatch, entropy_weight: Tensor, clock: StageClock, report: bool) -> Losses | None:
        """The gradient of one minibatch (or part of one) that was prepared; its losses, if asked for."""

    def training(self, seed: int) -> AbstractContextManager[None]:
        """The network in training mode, for an iteration's updates; what it drops out follows from the seed."""


class ByAutograd:
    """Autograd on the loss, and on auxiliary ones. `compiled`: network and loss as one graph, by torch.compile."""

    def __init__(
        self,
        net: Policy,
        flat: nn.Parameter,
        loss: Loss,
        precision: str,
        compiled: bool,
        auxiliaries: Sequence[Auxiliary] = (),
        mode: str = "default",
    ) -> None:
        def compute_loss(batch: Minibatch, entropy_weight: Any) -> tuple[Losses, tuple[Tensor, ...]]:
            """The parts of the loss; output and features, for auxiliary ones."""
            with autocast(flat.device, precision):
                output, value, *features = forward_with_features(net, batch) if auxiliaries else forward(net, batch)
            return loss(batch, output, value, entropy_weight), (output, *features) if features else ()

        assert flat.grad is not None
        self._net, self._auxiliaries = net, auxiliaries
        self.modules: Mapping[str, nn.Module] = {"net": net}
        self._gradient = flat.grad
        self._compute_loss = torch.compile(compute_loss, mode=mode) if compiled else compute_loss

    def part_size(self, size: int, rows: int) -> int:
        return size

    def prepare(self, batch: Minibatch, rows: int) -> Minibatch:
        return batch

    def compute(self, batch: Minibatch, entropy_weight: Tensor, clock: StageClock, report: bool) -> Losses | None:
        with clock.stage(stages.LOSS):
            losses, seen = self._compute_loss(batch, entropy_weight)
            total = losses.loss
            for auxiliary in self._auxiliaries:
                with clock.stage(auxiliary.stage):
                    added = auxiliary.loss(batch, *seen)
                    total = total if added is None else total + added
        with clock.stage(stages.BACKWARD):
            self._gradient.zero_()
            total.backward()  # type: ignore[no-untyped-call]
        # A copy: with CUDA graphs the next minibatch writes to the same memory.
        return Losses(*(part.detach().clone() for part in losses)) if report else None

    @contextmanager
    def training(self, seed: int) -> Iterator[None]:
        torch.manual_seed(seed)  # dropout draws from torch's own generator, which no checkpoint holds
        self._net.train()
        try:
            yield
        finally:
            self._net.eval()


def forward(net: Policy, batch: Minibatch) -> tuple[Tensor, Tensor]:
    """The network on a minibatch: outputs and values; with a memory on whole sequences, cleared where an episode ended."""
    if batch.memory:
        assert batch.done is not None
        return net.sequence(batch.obs, batch.done, batch.memory)
    output, value, _ = net(batch.obs)
    return output, value


def forward_with_features(net: Policy, batch: Minibatch) -> tuple[Tensor, Tensor, Tensor]:
    """See `forward`; also the actor's features of each row."""
    if batch.memory:
        assert batch.done is not None
        features = net.sequence_features(batch.obs, batch.done, batch.memory)
    else:
        features, _ = net.step_features(batch.obs)
    return *net.heads(features), features.actor.float()


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Mixed precision, if asked for."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16")
