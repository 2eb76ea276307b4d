"""Playing with PPO's policy, greedily or not: in evaluations, and where a saved policy is used without our environments."""

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


@dataclass(frozen=True)
class PolicyPlayer:
    """The most probable actions; with a generator, drawn ones. The memory of a policy that begins an episode is `()`."""

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


def choose_with(policy: PolicyPlayer, device: torch.device) -> Choose:
    """The policy as evaluations ask it: for arrays, with a memory that is cleared where episodes begin."""
    memory: Memory = ()

    def choose(obs: NDArray[Any], info: dict[str, Any], fresh: NDArray[np.bool_] | None) -> NDArray[Any]:
        nonlocal memory
        if fresh is not None:
            memory = cleared(memory, torch.from_numpy(fresh).to(device).float())
        mask = info.get("action_mask")
        mask = None if mask is None else torch.from_numpy(mask).to(device)
        action, memory = policy(torch.from_numpy(obs).to(device), mask, memory)
        return policy.actions.to_env(action)

    return choose
