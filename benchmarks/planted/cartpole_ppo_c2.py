"""PPO on a vectorised CartPole, with curves and a test now and then."""

import tempfile

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from torch import nn
from torch.utils.tensorboard import SummaryWriter

NUM_ENVS = 192
HORIZON = 24
MINIBATCH = 2304
EPOCHS = 6
TEST_EVERY = 500


class CartPoleVec(VectorEnv):
    """Many carts, each with its pole."""

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def _fresh(self, count):
        return self.rng.uniform(-0.05, 0.05, (4, count)).astype(np.float32)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.state = self._fresh(self.num_envs)
        self.time = np.zeros(self.num_envs, np.int64)
        return self.state.T.copy(), {}

    def step(self, actions):
        x, speed, angle, spin = self.state
        force = np.where(actions == 1, np.float32(10.0), np.float32(-10.0))
        sin, cos = np.sin(angle), np.cos(angle)
        push = (force + 0.05 * spin * spin * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        pull = push - 0.05 * turn * cos / 1.1
        self.state += 0.02 * np.stack([speed, pull, spin, turn])
        self.time += 1
        fallen = (np.abs(self.state[0]) > 2.4) | (np.abs(self.state[2]) > 0.2095)
        cut = self.time >= 500
        over = np.flatnonzero(fallen | cut)
        if len(over):
            self.state[:, over] = self._fresh(len(over))
            self.time[over] = 0
        return self.state.T.copy(), np.ones(self.num_envs, np.float32), fallen, cut, {}


class ActorCritic(nn.Module):
    def __init__(self, inputs, actions, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh()
        )
        self.policy = nn.Linear(width, actions)
        self.value = nn.Linear(width, 1)

    def forward(self, obs):
        hidden = self.body(obs)
        return torch.log_softmax(self.policy(hidden), dim=-1), self.value(hidden).squeeze(-1)


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    advantages = np.empty_like(rewards)
    running = np.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        alive = 1.0 - dones[t]
        delta = rewards[t] + gamma * last_value * alive - values[t]
        running = delta + gamma * lam * alive * running
        advantages[t] = running
        last_value = values[t]
    return advantages


@torch.no_grad()
def test(net, episodes=32, limit=200):
    env = CartPoleVec(episodes)
    obs, _ = env.reset(seed=77)
    alive, total = np.ones(episodes, bool), 0
    for _ in range(limit):
        total += alive.sum()
        obs, _, fallen, _, _ = env.step(net(torch.from_numpy(obs))[0].argmax(dim=-1).numpy())
        alive &= ~fallen
    return total / episodes


def main():
    torch.set_num_threads(1)
    torch.manual_seed(2)
    env = CartPoleVec(NUM_ENVS)
    net = ActorCritic(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4, foreach=True)
    writer = SummaryWriter(tempfile.mkdtemp(prefix="cartpole_"))
    shape = (HORIZON, NUM_ENVS)
    obs_buf = torch.zeros(*shape, 4)
    action_buf = torch.zeros(shape, dtype=torch.int64)
    logp_buf, value_buf = torch.zeros(shape), torch.zeros(shape)
    reward_buf, done_buf = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    obs, _ = env.reset(seed=2)
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
        writer.add_scalar("loss", loss.item(), iteration)
        writer.add_scalar("done_share", done_buf.mean(), iteration)
        if iteration % TEST_EVERY == TEST_EVERY - 1:
            writer.add_scalar("test_length", test(net), iteration)


if __name__ == "__main__":
    main()
