"""PPO in plain torch over pufferlib.vector, CartPole-v1 through pufferlib.emulation.

usage: puffer_ppo.py [total_env_steps] [serial|multiprocessing] [workers]
Runs with pufferlib 3.0.0 and 1.0.1.
"""

import json
import os
import random
import sys

import gymnasium as gym
import numpy as np
import pufferlib
import pufferlib.emulation
import pufferlib.vector
import torch
from torch import nn
from torch.distributions import Categorical

SEED = 19
HORIZON = 128


def make_cartpole(buf=None, seed=0):
    # pufferlib >= 2 hands buf and seed to the creator, 1.x neither
    kwargs = {"env_creator": gym.make, "env_args": ["CartPole-v1"]}
    if buf is not None:
        kwargs["buf"] = buf
    return pufferlib.emulation.GymnasiumPufferEnv(**kwargs)


class Agent(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.actor, self.critic = nn.Linear(64, n_actions), nn.Linear(64, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


def gae(rewards, values, dones, last_value, last_done, gamma=0.99, lam=0.95):
    adv = torch.zeros_like(rewards)
    running = torch.zeros_like(last_value)
    for t in reversed(range(len(rewards))):
        nxt_value = last_value if t + 1 == len(rewards) else values[t + 1]
        nxt_alive = 1.0 - (last_done if t + 1 == len(rewards) else dones[t + 1])
        delta = rewards[t] + gamma * nxt_value * nxt_alive - values[t]
        running = delta + gamma * lam * nxt_alive * running
        adv[t] = running
    return adv, adv + values


def main():
    kind = sys.argv[2] if len(sys.argv) > 2 else "serial"
    # pufferlib's workers and its recv busy-wait, so 2 workers plus the parent crawl on 2 cores
    total_steps = int(sys.argv[1]) if len(sys.argv) > 1 else (40960 if kind == "serial" else 4096)
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 2

    torch.set_num_threads(1)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)

    if kind == "serial":
        vecenv = pufferlib.vector.make(make_cartpole, num_envs=4, backend=pufferlib.vector.Serial)
    elif kind == "multiprocessing":
        vecenv = pufferlib.vector.make(
            make_cartpole,
            num_envs=4,
            num_workers=workers,
            batch_size=4,
            backend=pufferlib.vector.Multiprocessing,
        )
    else:
        raise SystemExit(f"unknown backend {kind!r}")
    n = vecenv.agents_per_batch
    agent = Agent(vecenv.single_observation_space.shape[0], int(vecenv.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)

    obs = torch.zeros(HORIZON, n, *vecenv.single_observation_space.shape)
    actions = torch.zeros(HORIZON, n, dtype=torch.long)
    logps, values, rewards, dones = (torch.zeros(HORIZON, n) for _ in range(4))

    def receive():
        o, r, d, t, info, env_ids, mask = vecenv.recv()
        done = torch.as_tensor(np.logical_or(d, t)).float()
        return torch.as_tensor(np.array(o)).float(), torch.as_tensor(np.array(r)).float(), done, int(mask.sum())

    vecenv.async_reset(SEED)
    cur, _, cur_done, _ = receive()
    env_steps = 0
    while env_steps < total_steps:
        for t in range(HORIZON):
            with torch.no_grad():
                dist, value = agent(cur)
                act = dist.sample()
            obs[t], actions[t], logps[t], values[t], dones[t] = cur, act, dist.log_prob(act), value, cur_done
            vecenv.send(act.numpy().astype(np.int32))
            cur, rewards[t], cur_done, live = receive()
            env_steps += live
        with torch.no_grad():
            _, last_value = agent(cur)
        adv, ret = gae(rewards, values, dones, last_value, cur_done)
        flat = [x.reshape(-1, *x.shape[2:]) for x in (obs, actions, logps, adv, ret)]
        b_obs, b_act, b_logp, b_adv, b_ret = flat
        for _ in range(4):
            for idx in torch.randperm(HORIZON * n).split(128):
                dist, value = agent(b_obs[idx])
                ratio = (dist.log_prob(b_act[idx]) - b_logp[idx]).exp()
                a = (b_adv[idx] - b_adv[idx].mean()) / (b_adv[idx].std() + 1e-8)
                loss = (
                    -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
                    + 0.5 * (value - b_ret[idx]).pow(2).mean()
                    - 0.01 * dist.entropy().mean()
                )
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
    vecenv.close()

    with open(os.environ.get("RESULT", "result.json"), "w") as f:
        json.dump({"env_steps": env_steps, "weights": [float(p.detach().sum()) for p in agent.parameters()]}, f)
    print(f"puffer ppo {kind}: pufferlib {pufferlib.__version__}, {env_steps} env steps")


if __name__ == "__main__":
    main()
