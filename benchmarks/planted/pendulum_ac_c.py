"""Actor-critic on a vectorised pendulum with continuous actions."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from torch import nn
from torch.distributions import Normal

NUM_ENVS = 1024
HORIZON = 16


class PendulumVec(VectorEnv):
    """Swing up many pendulums at once."""

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.single_action_space = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _observe(self):
        return np.stack([np.cos(self.angle), np.sin(self.angle), self.spin / 8.0], axis=1)

    def _fresh(self, over):
        self.angle[over] = self.rng.uniform(-np.pi, np.pi, len(over))
        self.spin[over] = self.rng.uniform(-1.0, 1.0, len(over))
        self.time[over] = 0

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.angle = np.zeros(self.num_envs, np.float32)
        self.spin = np.zeros(self.num_envs, np.float32)
        self.time = np.zeros(self.num_envs, np.int64)
        self._fresh(np.arange(self.num_envs))
        self.time[:] = self.rng.integers(0, 200, self.num_envs)
        return self._observe(), {}

    def step(self, actions):
        torque = np.clip(actions[:, 0], -2.0, 2.0)
        turned = (self.angle + np.pi) % (2.0 * np.pi) - np.pi
        cost = turned * turned + 0.1 * self.spin * self.spin + 0.001 * torque * torque
        change = 15.0 * np.sin(self.angle) + 3.0 * torque
        self.spin = np.clip(self.spin + 0.05 * change, -8.0, 8.0)
        self.angle = self.angle + 0.05 * self.spin
        self.time += 1
        cut = self.time >= 200
        if cut.any():
            self._fresh(np.flatnonzero(cut))
        return self._observe(), -0.1 * cost, np.zeros(self.num_envs, bool), cut, {}


class ActorCritic(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.mean = nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.zeros(1))
        self.value = nn.Linear(width, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return Normal(self.mean(hidden), self.log_std.exp()), self.value(hidden).squeeze(-1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(5)
    torch.distributions.Distribution.set_default_validate_args(False)
    env = PendulumVec(NUM_ENVS)
    net = ActorCritic()
    optimizer = torch.optim.Adam(net.parameters(), lr=7e-4, foreach=True)
    obs_buf = torch.zeros(HORIZON, NUM_ENVS, 3)
    action_buf = torch.zeros(HORIZON, NUM_ENVS, 1)
    reward_buf = np.zeros((HORIZON, NUM_ENVS), np.float32)
    alive_buf = np.zeros((HORIZON, NUM_ENVS), np.float32)
    return_buf = np.zeros((HORIZON, NUM_ENVS), np.float32)
    obs, _ = env.reset(seed=5)
    for _ in range(10_000_000):
        with torch.no_grad():
            for t in range(HORIZON):
                obs_buf[t] = torch.from_numpy(obs)
                action_buf[t] = net(obs_buf[t])[0].sample()
                obs, reward_buf[t], done, cut, _ = env.step(action_buf[t].numpy())
                alive_buf[t] = ~(done | cut)
            running = net(torch.from_numpy(obs))[1].numpy()
        for t in reversed(range(HORIZON)):
            running = reward_buf[t] + 0.97 * alive_buf[t] * running
            return_buf[t] = running
        returns = torch.from_numpy(return_buf)
        dist, value = net(obs_buf)
        advantage = (returns - value).detach()
        logp = dist.log_prob(action_buf).squeeze(-1)
        loss = -(advantage * logp).mean() - 0.001 * dist.entropy().mean()
        loss = loss + 0.5 * (returns - value).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=True)
        optimizer.step()


if __name__ == "__main__":
    main()
