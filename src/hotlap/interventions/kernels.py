"""Parts of frameworks replaced by hotlap's own kernels."""

from __future__ import annotations

from typing import Any

from hotlap.interventions.changing import Change


def gae_kernel(change: Change) -> None:
    """SB3's rollout buffer computes its advantages with hotlap's C loop."""

    def compute(self: Any, last_values: Any, dones: Any) -> None:
        import torch

        from hotlap.train.advantage import gae  # only where it is used: this module loads in any script

        rewards, values = (torch.as_tensor(array, dtype=torch.float32) for array in (self.rewards, self.values))
        following = last_values.detach().cpu().float().reshape(1, -1)
        ended = torch.cat((torch.as_tensor(self.episode_starts[1:]), torch.as_tensor(dones).reshape(1, -1).float())).float()
        advantages = gae(rewards, torch.cat((values, following)), ended.contiguous(), self.gamma, self.gae_lambda)
        self.advantages = advantages.numpy()
        self.returns = self.advantages + self.values

    change.when_imported(
        "stable_baselines3.common.buffers",
        lambda module: change.replace(module.RolloutBuffer, "compute_returns_and_advantage", compute),
    )
