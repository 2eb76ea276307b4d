"""REINFORCE with one shared torch policy on a small turn-based PettingZoo AECEnv defined here.

Two players take one to three stones in turn from a pile; whoever takes the last one wins.

usage: pettingzoo_aec.py [env_steps]   (one env step = one AECEnv.step with a real action)
"""

import json
import os
import random
import sys

import gymnasium as gym
import numpy as np
import torch
from pettingzoo import AECEnv
from pettingzoo.utils import AgentSelector, wrappers
from torch import nn
from torch.distributions import Categorical

SEED = 17


class StonePile(AECEnv):
    metadata = {"name": "stone_pile_v0", "render_modes": [], "is_parallelizable": False}

    def __init__(self, max_stones=21):
        super().__init__()
        self.max_stones = max_stones
        self.possible_agents = ["first", "second"]
        self.render_mode = None
        self.rng = np.random.default_rng()
        self._obs_space = gym.spaces.Box(0.0, 1.0, (max_stones + 1,), np.float32)
        self._act_space = gym.spaces.Discrete(3)

    def observation_space(self, agent):
        return self._obs_space

    def action_space(self, agent):
        return self._act_space

    def observe(self, agent):
        seen = np.zeros(self.max_stones + 1, np.float32)
        seen[self.stones] = 1.0
        return seen

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {a: {} for a in self.agents}
        self.stones = int(self.rng.integers(self.max_stones // 2, self.max_stones + 1))
        self._turns = AgentSelector(self.agents)
        self.agent_selection = self._turns.next()

    def step(self, action):
        me = self.agent_selection
        if self.terminations[me] or self.truncations[me]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[me] = 0.0
        self._clear_rewards()
        self.stones = max(0, self.stones - (int(action) + 1))
        if self.stones == 0:
            for a in self.agents:
                self.rewards[a] = 1.0 if a == me else -1.0
                self.terminations[a] = True
        self.agent_selection = self._turns.next()
        self._accumulate_rewards()


def make_env():
    env = StonePile()
    env = wrappers.AssertOutOfBoundsWrapper(env)
    return wrappers.OrderEnforcingWrapper(env)


def main():
    total_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    env = make_env()
    agent0 = env.possible_agents[0]
    policy = nn.Sequential(
        nn.Linear(env.observation_space(agent0).shape[0], 64), nn.ReLU(), nn.Linear(64, int(env.action_space(agent0).n))
    )
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)

    env_steps = dead_steps = games = 0
    env.reset(seed=SEED)
    while env_steps < total_steps:
        log_probs, entropies, outcomes = [], [], []
        for _ in range(16):
            moves = {a: [] for a in env.possible_agents}
            for agent in env.agent_iter():
                obs, reward, termination, truncation, _ = env.last()
                if termination or truncation:
                    for logp, entropy in moves[agent]:
                        log_probs.append(logp)
                        entropies.append(entropy)
                        outcomes.append(reward)
                    env.step(None)
                    dead_steps += 1
                    continue
                dist = Categorical(logits=policy(torch.as_tensor(obs)))
                move = dist.sample()
                moves[agent].append((dist.log_prob(move), dist.entropy()))
                env.step(int(move))
                env_steps += 1
            games += 1
            env.reset()
        score = torch.tensor(outcomes)
        score = (score - score.mean()) / (score.std() + 1e-8)
        loss = -(torch.stack(log_probs) * score).mean() - 0.01 * torch.stack(entropies).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    with open(os.environ.get("RESULT", "result.json"), "w") as f:
        json.dump(
            {
                "env_steps": env_steps,
                "weights": [float(p.detach().sum()) for p in policy.parameters()],
                "dead_steps": dead_steps,
                "episodes": games,
            },
            f,
        )
    print(f"pettingzoo aec: {env_steps} env steps, {dead_steps} dead steps, {games} games")


if __name__ == "__main__":
    main()
