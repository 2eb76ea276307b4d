import numpy as np
import torch
from skrl.agents.torch.ppo import PPO


class GatePPO(PPO):
    """PPO which flies a test swarm now and then and widens the course when it does well."""

    def attach(self, raw_env, every=300):
        self.raw_env, self.every, self.rollout_count = raw_env, every, 0
        return self

    def update(self, *, timestep, timesteps):
        super().update(timestep=timestep, timesteps=timesteps)
        self.rollout_count += 1
        if self.rollout_count % self.every == 0:
            self.exam()

    @torch.no_grad()
    def exam(self):
        test = self.raw_env.clone()
        obs, _ = test.reset(seed=123)
        total = np.zeros(test.num_envs)
        for _ in range(test.horizon):
            x = self._observation_preprocessor(torch.from_numpy(obs))
            _, out = self.policy.act({"observations": x}, role="policy")
            obs, r, _, _, _ = test.step(out["mean_actions"].numpy())
            total += r
        print(f"exam: mean return {total.mean():.2f} at level {self.raw_env.level:.2f}", flush=True)
        if total.mean() > 12:
            self.raw_env.level = min(1.0, self.raw_env.level + 0.05)
