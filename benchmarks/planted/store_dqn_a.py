"""DQN on restocking a small store."""

import copy

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch import nn

ITEMS = 6


class StoreEnv(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (3 * ITEMS + 1,), np.float32)
    action_space = gym.spaces.Discrete(ITEMS + 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = {
            "day": 0,
            "cash": 50.0,
            "stock": np.full(ITEMS, 5.0),
            "orders": [{"item": i, "amount": 0.0, "due": i} for i in range(4)],
            "demand": self.np_random.uniform(0.5, 2.0, ITEMS),
            "shelves": [{"item": i, "place": [i % 3, i // 3], "size": 40} for i in range(ITEMS)],
            "prices": {"buy": np.full(ITEMS, 1.0), "sell": np.linspace(1.5, 2.5, ITEMS)},
        }
        return self.observe(), {}

    def observe(self):
        state = self.state
        coming = np.zeros(ITEMS)
        for order in state["orders"]:
            coming[order["item"]] += order["amount"]
        obs = np.empty(3 * ITEMS + 1, np.float32)
        obs[:ITEMS], obs[ITEMS : 2 * ITEMS], obs[2 * ITEMS : -1] = state["stock"], coming, state["demand"]
        obs[-1] = state["cash"] / 100.0
        return obs

    def step(self, action):
        previous = copy.deepcopy(self.state)
        state = self.state
        state["day"] += 1
        if action < ITEMS and state["cash"] > 10.0:
            state["orders"].append({"item": int(action), "amount": 10.0, "due": state["day"] + 2})
            state["cash"] -= 10.0 * state["prices"]["buy"][action]
        for order in [order for order in state["orders"] if order["due"] <= state["day"]]:
            state["stock"][order["item"]] += order["amount"]
            state["orders"].remove(order)
        sold = np.minimum(state["stock"], self.np_random.poisson(state["demand"]))
        state["stock"] -= sold
        state["cash"] += float(sold @ state["prices"]["sell"]) - 0.05 * float(state["stock"].sum())
        reward = 0.1 * (state["cash"] - previous["cash"])
        return self.observe(), reward, state["cash"] < 0.0, state["day"] >= 100, {}


def make_network(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    n, capacity, batch = 32, 20480, 256
    envs = SyncVectorEnv([StoreEnv] * n, autoreset_mode=AutoresetMode.SAME_STEP)
    size = envs.single_observation_space.shape[0]
    online, target = make_network(size, 7), make_network(size, 7)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=5e-4, foreach=True)
    states, nexts = torch.zeros(capacity, size), torch.zeros(capacity, size)
    acts, rewards, alive = torch.zeros(capacity, dtype=torch.int64), torch.zeros(capacity), torch.zeros(capacity)
    pos = filled = 0
    obs = torch.from_numpy(envs.reset(seed=3)[0])
    for t in range(2_000_000):
        with torch.no_grad():
            greedy = online(obs).argmax(1).numpy()
        epsilon = max(0.05, 1.0 - t / 4000)
        actions = np.where(rng.random(n) < epsilon, rng.integers(0, 7, n), greedy)
        new_obs, reward, term, trunc, _ = envs.step(actions)
        new_obs = torch.from_numpy(new_obs)
        rows = slice(pos, pos + n)
        states[rows], nexts[rows], acts[rows] = obs, new_obs, torch.from_numpy(actions)
        rewards[rows], alive[rows] = torch.from_numpy(reward), torch.from_numpy(~(term | trunc))
        pos, filled, obs = (pos + n) % capacity, min(filled + n, capacity), new_obs
        if t >= 32 and t % 8 == 0:
            pick = torch.randint(0, filled, (batch,))
            with torch.no_grad():
                goal = rewards[pick] + 0.97 * alive[pick] * target(nexts[pick]).amax(1)
            value = online(states[pick]).gather(1, acts[pick, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if t % 800 == 0:
                target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
