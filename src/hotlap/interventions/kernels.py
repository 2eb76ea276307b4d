"""Parts of frameworks replaced by hotlap's own kernels."""

from contextlib import AbstractContextManager
from typing import Any

from hotlap.interventions.changing import Change, when_imported


def gae_kernel() -> AbstractContextManager[Change]:
    """SB3's rollout buffer computes its advantages with hotlap's C loop."""

    def patch(module: Any, change: Change) -> None:
        def compute(self: Any, last_values: Any, dones: Any) -> None:
            import torch

            from hotlap.train.advantage import gae

            rewards, values = (torch.as_tensor(array, dtype=torch.float32) for array in (self.rewards, self.values))
            following = last_values.detach().cpu().float().reshape(1, -1)
            ended = torch.cat((torch.as_tensor(self.episode_starts[1:]), torch.as_tensor(dones).reshape(1, -1).float())).float()
            found = gae(rewards, torch.cat((values, following)), ended.contiguous(), self.gamma, self.gae_lambda)
            self.advantages = found.numpy()
            self.returns = self.advantages + self.values

        change.set(module.RolloutBuffer, "compute_returns_and_advantage", compute)

    return when_imported({"stable_baselines3.common.buffers": patch})
