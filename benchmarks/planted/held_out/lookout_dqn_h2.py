"""Double DQN on the vectorised CartPole of gymnasium."""
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 8
NUM_ENVS = 16
HIDDEN = 1024
DEPTH = 3
BATCH = 128
CAPACITY = 50_000
WARMUP = 1_000
GAMMA = 0.99
LR = 2.5e-4
TRAIN_EVERY = 2
TARGET_EVERY = 250
TOTAL_STEPS = 30_000_000


def q_network(n_obs, n_act):
    layers, width = [], n_obs
    for _ in range(DEPTH):
        layers += [nn.Linear(width, HIDDEN), nn.ReLU()]
        width = HIDDEN
    layers.append(nn.Linear(width, n_act))
    return nn.Sequential(*layers)


class Replay:
    def __init__(self, n_obs):
        self.obs = np.zeros((CAPACITY, n_obs), np.float32)
        self.nxt = np.zeros((CAPACITY, n_obs), np.float32)
        self.act = np.zeros(CAPACITY, np.int64)
        self.rew = np.zeros(CAPACITY, np.float32)
        self.end = np.zeros(CAPACITY, np.float32)
        self.head, self.size = 0, 0
        self.rng = np.random.default_rng(SEED)

    def add(self, obs, act, rew, nxt, end):
        where = (self.head + np.arange(len(act))) % CAPACITY
        self.obs[where], self.nxt[where] = obs, nxt
        self.act[where], self.rew[where], self.end[where] = act, rew, end
        self.head = (self.head + len(act)) % CAPACITY
        self.size = min(self.size + len(act), CAPACITY)

    def sample(self):
        i = self.rng.integers(0, self.size, BATCH)
        return (torch.from_numpy(self.obs[i]), torch.from_numpy(self.act[i]), torch.from_numpy(self.rew[i]),
                torch.from_numpy(self.nxt[i]), torch.from_numpy(self.end[i]))


def update(online, target, optimizer, replay):
    obs, act, rew, nxt, end = replay.sample()
    with torch.no_grad():
        best = online(nxt).argmax(1, keepdim=True)
        goal = rew + GAMMA * (1 - end) * target(nxt).gather(1, best).squeeze(1)
    q = online(obs).gather(1, act.unsqueeze(1)).squeeze(1)
    loss = F.smooth_l1_loss(q, goal)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    envs = gym.make_vec("CartPole-v1", num_envs=NUM_ENVS, vectorization_mode="vector_entry_point")
    online, target = q_network(4, 2), q_network(4, 2)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=LR)
    replay = Replay(4)
    rng = np.random.default_rng(SEED + 1)

    obs, _ = envs.reset(seed=SEED)
    obs = obs.astype(np.float32)
    fresh = np.zeros(NUM_ENVS, bool)
    env_steps, updates, ticks, endings = 0, 0, 0, 0
    began = time.time()
    loss = torch.zeros(())
    while env_steps < TOTAL_STEPS:
        epsilon = max(0.05, 1.0 - env_steps / 30_000)
        action = rng.integers(0, 2, NUM_ENVS)
        greedy = rng.random(NUM_ENVS) > epsilon
        if greedy.any():
            with torch.no_grad():
                action[greedy] = online(torch.from_numpy(obs[greedy])).argmax(1).numpy()
        nxt, rew, term, trunc, _ = envs.step(action)
        nxt = nxt.astype(np.float32)
        keep = ~fresh
        replay.add(obs[keep], action[keep], rew[keep], nxt[keep], term[keep])
        fresh = term | trunc
        endings += int(fresh.sum())
        obs = nxt
        env_steps += NUM_ENVS
        ticks += 1
        if replay.size >= WARMUP and ticks % TRAIN_EVERY == 0:
            loss = update(online, target, optimizer, replay)
            updates += 1
            if updates % TARGET_EVERY == 0:
                target.load_state_dict(online.state_dict())
        if ticks % 2000 == 0:
            print(f"{env_steps} steps, episode length {2000 * NUM_ENVS / max(endings, 1):.1f}, "
                  f"loss {loss.item():.4f}, {time.time() - began:.0f}s", flush=True)
            endings = 0


if __name__ == "__main__":
    main()
