"""PPO on a catching game seen as images."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from torch import nn

SIDE = 32
NUM_ENVS = 64
HORIZON = 8
MINIBATCH = 512
EPOCHS = 3


class CatchVec(VectorEnv):
    """Catch falling balls with a paddle, seen as small images."""

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(0.0, 1.0, (1, SIDE, SIDE), np.float32)
        self.single_action_space = gym.spaces.Discrete(3)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.index = np.arange(num_envs)

    def _observe(self):
        image = np.zeros((self.num_envs, 1, SIDE, SIDE), np.float32)
        image[self.index, 0, self.row, self.column] = 1.0
        for shift in (-1, 0, 1):
            image[self.index, 0, SIDE - 1, self.paddle + shift] = 0.5
        return image

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.row = self.rng.integers(0, SIDE - 1, self.num_envs)
        self.column = self.rng.integers(0, SIDE, self.num_envs)
        self.paddle = np.full(self.num_envs, SIDE // 2)
        return self._observe(), {}

    def step(self, actions):
        self.paddle = np.clip(self.paddle + actions - 1, 1, SIDE - 2)
        self.row = self.row + 1
        landed = self.row == SIDE - 1
        caught = np.abs(self.paddle - self.column) <= 1
        reward = np.where(landed, np.where(caught, 1.0, -1.0), 0.0).astype(np.float32)
        self.row[landed] = 0
        self.column[landed] = self.rng.integers(0, SIDE, int(landed.sum()))
        return self._observe(), reward, landed, np.zeros(self.num_envs, bool), {}


class ActorCritic(nn.Module):
    def __init__(self, actions, width=128):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(32, 32, 4, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 4 * 4, width), nn.ReLU(),
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
    torch.manual_seed(4)
    env = CatchVec(NUM_ENVS)
    net = ActorCritic(actions=3)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, foreach=True)
    shape = (HORIZON, NUM_ENVS)
    obs_buf = torch.zeros(*shape, 1, SIDE, SIDE)
    action_buf = torch.zeros(shape, dtype=torch.int64)
    logp_buf, value_buf = torch.zeros(shape), torch.zeros(shape)
    reward_buf, done_buf = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    obs, _ = env.reset(seed=4)
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
