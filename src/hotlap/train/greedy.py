"""Playing with a trained policy, greedily or not: in evaluations, and where a saved one is used without our environments."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.train.actions import Actions
from hotlap.train.evaluation import Choose
from hotlap.train.memory import Memory, cleared
from hotlap.train.nets import Policy
from hotlap.train.normalize import Moments

# Observations, which actions are legal and the memory (`()` where an episode begins), to actions and the new memory.
GreedyPolicy = Callable[[Tensor, Tensor | None, Memory], tuple[Tensor, Memory]]


@dataclass(frozen=True)
class PolicyPlayer:
    """PPO's policy: the most probable actions; with a generator, drawn ones."""

    net: Policy
    actions: Actions
    obs_moments: Moments | None = None
    generator: torch.Generator | None = None

    @torch.inference_mode()
    def __call__(self, obs: Tensor, mask: Tensor | None = None, memory: Memory = ()) -> tuple[Tensor, Memory]:
        """Actions [batch, ...] and the new memory, from observations [batch, ...] as environments give them."""
        obs = self.obs_moments.normalize(obs) if self.obs_moments is not None else obs
        output, _, memory = self.net(obs, memory)
        if self.generator is None:
            return self.actions.greedy(output, mask), memory
        return self.actions.sample(output, self.generator, mask)[0], memory


def choose_with(policy: GreedyPolicy, actions: Actions, device: torch.device) -> Choose:
    """A policy as evaluations ask it: for arrays, with a memory that is cleared where episodes begin."""
    memory: Memory = ()

    def choose(obs: NDArray[Any], info: dict[str, Any], fresh: NDArray[np.bool_] | None) -> NDArray[Any]:
        nonlocal memory
        if fresh is not None:
            memory = cleared(memory, torch.from_numpy(fresh).to(device).float())
        mask = info.get("action_mask")
        mask = None if mask is None else torch.from_numpy(mask).to(device)
        action, memory = policy(torch.from_numpy(obs).to(device), mask, memory)
        return actions.to_env(action)

    return choose
