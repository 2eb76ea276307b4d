"""Playing greedily with PPO's policy: in evaluations, and where a saved policy is used without hotlap's environments."""

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
class GreedyPolicy:
    """The most probable actions. The memory of a policy that begins an episode is `()`."""

    net: Policy
    actions: Actions
    obs_moments: Moments | None = None

    @torch.inference_mode()
    def __call__(self, obs: Tensor, mask: Tensor | None = None, memory: Memory = ()) -> tuple[Tensor, Memory]:
        """Actions [batch, ...] and the new memory, from observations [batch, ...] as environments give them."""
        obs = self.obs_moments.normalize(obs) if self.obs_moments is not None else obs
        output, _, memory = self.net(obs, memory)
        return self.actions.greedy(output, mask), memory


def choose_with(policy: GreedyPolicy, device: torch.device) -> Choose:
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
