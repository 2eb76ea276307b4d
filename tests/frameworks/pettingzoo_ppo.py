"""Independent PPO in plain torch on a small PettingZoo ParallelEnv defined here.

Three robots live on a ring of cells, each with a lamp to reach; standing on one's own
lamp pays, bumping into another robot costs.  Robots whose lamp was lit leave the game.

usage: pettingzoo_ppo.py [env_steps]      (one env step = one ParallelEnv.step call)
"""

import json
import os
import random
import sys

import gymnasium as gym
import numpy as np
import torch
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper
from torch import nn
from torch.distributions import Categorical

SEED = 13


class LampRing(ParallelEnv):
    metadata = {"name": "lamp_ring_v0", "render_modes": []}

    def __init__(self, n_robots=3, cells=12, horizon=40):
        self.possible_agents = [f"robot_{i}" for i in range(n_robots)]
        self.agents = []
        self.cells, self.horizon = cells, horizon
        self.render_mode = None
        self.rng = np.random.default_rng()
        self._obs_space = gym.spaces.Box(-1.0, 1.0, (3 + 2 * (n_robots - 1),), np.float32)
        self._act_space = gym.spaces.Discrete(3)

    def observation_space(self, agent):
        return self._obs_space

    def action_space(self, agent):
        return self._act_space

    def _polar(self, delta):
        angle = 2.0 * np.pi * delta / self.cells
        return np.sin(angle), np.cos(angle)

    def _observe(self, agent):
        here = self.pos[agent]
        parts = list(self._polar(self.lamp[agent] - here)) + [2.0 * self.clock / self.horizon - 1.0]
        for other in self.possible_agents:
            if other != agent:
                parts.extend(self._polar(self.pos[other] - here))
        return np.asarray(parts, np.float32)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.clock = 0
        self.pos = {a: int(self.rng.integers(self.cells)) for a in self.agents}
        self.lamp = {a: int(self.rng.integers(self.cells)) for a in self.agents}
        return {a: self._observe(a) for a in self.agents}, {a: {} for a in self.agents}

    def step(self, actions):
        self.clock += 1
        acting = list(self.agents)
        for agent in acting:
            self.pos[agent] = (self.pos[agent] + int(actions[agent]) - 1) % self.cells
        late = self.clock >= self.horizon
        rewards, terminations, truncations = {}, {}, {}
        for agent in acting:
            lit = self.pos[agent] == self.lamp[agent]
            bump = any(self.pos[agent] == self.pos[o] for o in acting if o != agent)
            rewards[agent] = (1.0 if lit else -0.02) - (0.1 if bump else 0.0)
            terminations[agent] = lit
            truncations[agent] = late and not lit
        observations = {a: self._observe(a) for a in acting}
        self.agents = [a for a in acting if not (terminations[a] or truncations[a])]
        return observations, rewards, terminations, truncations, {a: {} for a in acting}


class ScaleReward(BaseParallelWrapper):
    def __init__(self, env, factor):
        super().__init__(env)
        self.factor = factor

    def step(self, actions):
        obs, rewards, term, trunc, infos = super().step(actions)
        return obs, {a: r * self.factor for a, r in rewards.items()}, term, trunc, infos


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, n_actions), nn.Linear(64, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Learner:
    """One agent's network, its rollout and its PPO update."""

    def __init__(self, obs_dim, n_actions):
        self.net = ActorCritic(obs_dim, n_actions)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.clear()

    def clear(self):
        self.obs, self.act, self.logp, self.val, self.rew, self.done = [], [], [], [], [], []

    @torch.no_grad()
    def act_on(self, obs):
        o = torch.as_tensor(obs)
        dist, value = self.net(o)
        a = dist.sample()
        self.obs.append(o)
        self.act.append(a)
        self.logp.append(dist.log_prob(a))
        self.val.append(value)
        return int(a)

    def feedback(self, reward, done):
        self.rew.append(reward)
        self.done.append(done)

    def advantages(self, gamma=0.98, lam=0.95):
        val = torch.stack(self.val)
        adv = torch.zeros_like(val)
        running = 0.0
        for t in reversed(range(len(self.rew))):
            alive = 0.0 if self.done[t] else 1.0
            nxt = float(val[t + 1]) if t + 1 < len(self.rew) else 0.0
            running = self.rew[t] + gamma * alive * nxt - float(val[t]) + gamma * lam * alive * running
            adv[t] = running
        return adv, adv + val

    def update(self, epochs=4, minibatch=64):
        adv, ret = self.advantages()
        obs, act, old = torch.stack(self.obs), torch.stack(self.act), torch.stack(self.logp)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        for _ in range(epochs):
            for idx in torch.randperm(len(act)).split(minibatch):
                dist, value = self.net(obs[idx])
                ratio = (dist.log_prob(act[idx]) - old[idx]).exp()
                policy_loss = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
                loss = policy_loss + 0.5 * (value - ret[idx]).pow(2).mean() - 0.01 * dist.entropy().mean()
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
                self.opt.step()
        self.clear()


def main():
    total_steps = int(sys.argv[1]) if len(sys.argv) > 1 else 12000
    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    env = ScaleReward(LampRing(), 1.0)
    learners = {a: Learner(env.observation_space(a).shape[0], int(env.action_space(a).n)) for a in env.possible_agents}

    env_steps = agent_steps = episodes = 0
    returns = []
    obs, _ = env.reset(seed=SEED)
    total = 0.0
    while env_steps < total_steps:
        for _ in range(256):
            actions = {a: learners[a].act_on(obs[a]) for a in env.agents}
            obs, rewards, term, trunc, _ = env.step(actions)
            env_steps += 1
            agent_steps += len(actions)
            for a in actions:
                learners[a].feedback(rewards[a], term[a] or trunc[a])
            total += sum(rewards.values())
            if not env.agents:
                episodes += 1
                returns.append(total)
                total = 0.0
                obs, _ = env.reset()
        for learner in learners.values():
            if len(learner.rew) > 1:
                learner.update()

    with open(os.environ.get("RESULT", "result.json"), "w") as f:
        json.dump(
            {
                "env_steps": env_steps,
                "weights": [float(p.detach().sum()) for l in learners.values() for p in l.net.parameters()],
                "agent_steps": agent_steps,
                "episodes": episodes,
            },
            f,
        )
    print(
        f"pettingzoo ppo: {env_steps} env steps, {agent_steps} agent steps, "
        f"return first/last 50 episodes {np.mean(returns[:50]):.2f}/{np.mean(returns[-50:]):.2f}"
    )


if __name__ == "__main__":
    main()
