"""Advantage actor-critic with shared weights for a flock of foragers on a torus.

All foragers live in one world. Each sees its nearest berry, its nearest neighbour and its own energy.
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 42
FLOCK = 24
BERRIES = 30
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float64) * 0.03


class World:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.place = self.rng.random((FLOCK, 2))
        self.berry = self.rng.random((BERRIES, 2))
        self.energy = np.full(FLOCK, 1.0)

    @staticmethod
    def _offset(a, b):
        d = b[None, :, :] - a[:, None, :]
        return d - np.round(d)

    def look(self):
        to_berry = self._offset(self.place, self.berry)
        far = (to_berry ** 2).sum(-1)
        self.nearest = far.argmin(1)
        self.gap = np.sqrt(far[np.arange(FLOCK), self.nearest])
        to_mate = self._offset(self.place, self.place)
        mate_far = (to_mate ** 2).sum(-1)
        np.fill_diagonal(mate_far, 9.0)
        mate = mate_far.argmin(1)
        rows = np.arange(FLOCK)
        return np.concatenate([to_berry[rows, self.nearest] * 5, to_mate[rows, mate] * 5,
                               self.energy[:, None]], 1).astype(np.float32)

    def advance(self, actions):
        self.place = (self.place + MOVES[actions]) % 1.0
        before = self.gap
        far = (self._offset(self.place, self.berry) ** 2).sum(-1)
        ate = far.min(1) < 0.02 ** 2
        eaten = np.unique(far.argmin(1)[ate])
        self.berry[eaten] = self.rng.random((len(eaten), 2))
        self.energy += 0.5 * ate - 0.01
        starved = self.energy <= 0
        self.energy = np.clip(self.energy, 0, 2)
        seen = self.look()
        reward = 1.0 * ate + 2.0 * np.where(ate, 0.0, before - self.gap) - 1.0 * starved
        if starved.any():
            self.place[starved] = self.rng.random((int(starved.sum()), 2))
            self.energy[starved] = 1.0
            seen = self.look()
        return seen, reward.astype(np.float32), starved.astype(np.float32)


class Mind(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.l1 = nn.Linear(5, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.policy = nn.Linear(hidden, len(MOVES))
        self.value = nn.Linear(hidden, 1)

    def forward(self, x):
        h = F.relu(self.l2(F.relu(self.l1(x))))
        return self.policy(h), self.value(h).squeeze(-1)


@torch.no_grad()
def decide(mind, sight):
    actions = np.empty(FLOCK, np.int64)
    for who in range(FLOCK):
        logits, _ = mind(torch.from_numpy(sight[who]))
        actions[who] = torch.multinomial(torch.softmax(logits, -1), 1).item()
    return actions


def learn(mind, opt, sights, actions, rewards, ends, last_sight, gamma=0.95):
    with torch.no_grad():
        run = mind(torch.from_numpy(last_sight))[1].numpy()
    goal = np.zeros_like(rewards)
    for t in range(len(rewards) - 1, -1, -1):
        run = rewards[t] + gamma * (1.0 - ends[t]) * run
        goal[t] = run
    goal = torch.from_numpy(goal)
    logits, value = mind(torch.from_numpy(sights))
    logp = F.log_softmax(logits, -1)
    chosen = logp.gather(-1, torch.from_numpy(actions).unsqueeze(-1)).squeeze(-1)
    edge = goal - value.detach()
    entropy = -(logp.exp() * logp).sum(-1).mean()
    loss = -(chosen * edge).mean() + 0.5 * F.mse_loss(value, goal) - 0.02 * entropy
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(mind.parameters(), 0.5)
    opt.step()
    return loss.detach()


def main(rounds=500_000, unroll=32):
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    world = World(SEED)
    mind = Mind()
    opt = torch.optim.Adam(mind.parameters(), lr=7e-4)
    sights = np.zeros((unroll, FLOCK, 5), np.float32)
    actions = np.zeros((unroll, FLOCK), np.int64)
    rewards = np.zeros((unroll, FLOCK), np.float32)
    ends = np.zeros((unroll, FLOCK), np.float32)
    sight = world.look()
    agent_steps, mean = 0, 0.0
    for round_no in range(1, rounds + 1):
        for t in range(unroll):
            sights[t] = sight
            actions[t] = decide(mind, sight)
            sight, rewards[t], ends[t] = world.advance(actions[t])
            agent_steps += FLOCK
        loss = learn(mind, opt, sights, actions, rewards, ends, sight)
        mean = 0.95 * mean + 0.05 * float(rewards.mean())
        if round_no % 200 == 0:
            print(f"round {round_no}, {agent_steps} steps, reward {mean:.4f}, loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
