"""PPO that searches a skyline for its highest hill."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from torch import nn

POINTS = 600
NUM_ENVS = 64
HORIZON = 32
MINIBATCH = 1024
EPOCHS = 4


class SkylineVec(VectorEnv):
    """Find the highest of several hills; a scan of the whole skyline is seen."""

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (POINTS,), np.float32)
        self.single_action_space = gym.spaces.Discrete(5)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.grid = np.linspace(0.0, 1.0, POINTS, dtype=np.float32)

    def _fresh(self, over):
        self.place[over] = self.rng.uniform(0.0, 1.0, len(over))
        centre = self.rng.uniform(0.0, 1.0, (len(over), 6, 1)).astype(np.float32)
        height = self.rng.uniform(0.2, 1.0, (len(over), 6, 1)).astype(np.float32)
        self.sky[over] = (height * np.exp(-400.0 * np.square(self.grid - centre))).max(axis=1)

    def _observe(self):
        bump = np.exp(-2000.0 * np.square(self.grid - self.place[:, None]))
        return self.sky - bump

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.place = np.zeros(self.num_envs, np.float32)
        self.sky = np.zeros((self.num_envs, POINTS), np.float32)
        self.time = np.zeros(self.num_envs, np.int64)
        self._fresh(np.arange(self.num_envs))
        return self._observe(), {}

    def step(self, actions):
        self.place = np.clip(self.place + 0.02 * (actions - 2), 0.0, 1.0).astype(np.float32)
        self.time += 1
        here = np.rint(self.place * (POINTS - 1)).astype(np.int64)
        reward = self.sky[np.arange(self.num_envs), here]
        cut = self.time >= 60
        over = np.flatnonzero(cut)
        if len(over):
            self._fresh(over)
            self.time[over] = 0
        return self._observe(), reward, np.zeros(self.num_envs, bool), cut, {}


class ActorCritic(nn.Module):
    def __init__(self, inputs, actions, width=256):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.policy = nn.Linear(width, actions)
        self.value = nn.Linear(width, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return torch.log_softmax(self.policy(hidden), dim=-1), self.value(hidden).squeeze(-1)


def gae(rewards, values, dones, last_value, gamma=0.98, lam=0.95):
    advantages = np.empty_like(rewards)
    running = np.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * last_value * alive - values[t]
        running = delta + gamma * lam * alive * running
        advantages[t] = running
        last_value = values[t]
    return advantages


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    env = SkylineVec(NUM_ENVS)
    net = ActorCritic(POINTS, 5)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, foreach=True)
    shape = (HORIZON, NUM_ENVS)
    obs_buf = torch.zeros(*shape, POINTS)
    action_buf = torch.zeros(shape, dtype=torch.int64)
    logp_buf, value_buf = torch.zeros(shape), torch.zeros(shape)
    reward_buf, done_buf = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    obs, _ = env.reset(seed=3)
    for iteration in range(1_000_000):
        with torch.no_grad():
            for t in range(HORIZON):
                obs_buf[t] = torch.from_numpy(obs)
                logp, value_buf[t] = net(obs_buf[t])
                action = (logp - torch.empty_like(logp).exponential_().log()).argmax(dim=-1)
                action_buf[t] = action
                logp_buf[t] = logp.gather(1, action[:, None]).squeeze(1)
                obs, reward_buf[t], done, cut, _ = env.step(action.numpy())
                done_buf[t] = done | cut
            last_value = net(torch.from_numpy(obs))[1].numpy()
        advantages = torch.from_numpy(gae(reward_buf, value_buf.numpy(), done_buf, last_value))
        returns = (advantages + value_buf).flatten()
        advantages = ((advantages - advantages.mean()) / (advantages.std() + 1e-8)).flatten()
        rows, actions, old = obs_buf.flatten(0, 1), action_buf.flatten(), logp_buf.flatten()
        for _ in range(EPOCHS):
            for index in torch.randperm(len(rows)).split(MINIBATCH):
                logp, value = net(rows[index])
                chosen = logp.gather(1, actions[index, None]).squeeze(1)
                ratio = (chosen - old[index]).exp()
                gain = advantages[index]
                clipped = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
                entropy = -(logp.exp() * logp).sum(dim=-1)
                loss = -(clipped + 0.01 * entropy).mean()
                loss = loss + 0.5 * (value - returns[index]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5, foreach=True)
                optimizer.step()


if __name__ == "__main__":
    main()
