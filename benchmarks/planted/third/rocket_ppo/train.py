"""Land rockets with PPO.

Put together from my old CartPole PPO; the env is a numpy batch now.
"""
from collections import deque

import numpy as np
import torch
from tqdm import tqdm

from ppo import PPO, Rollout
from rocket import RocketBatch

CFG = {
    "seed": 1,
    "n_envs": 32,
    "horizon": 64,
    "iterations": 20000,
    "epochs": 4,
    "batch_size": 32,
    "lr": 2.5e-4,
    "gamma": 0.99,
    "lam": 0.95,
    "clip": 0.2,
    "entropy": 0.01,
    "width": 64,
}


def collect(env, agent, ro, obs, stats):
    for t in range(CFG["horizon"]):
        a, lp, v = agent.act(obs)
        ro.obs[t], ro.act[t], ro.logp[t], ro.val[t] = obs, a, lp, v
        obs, r, d, info = env.step(a)
        ro.rew[t], ro.done[t] = r, d
        if info:
            stats["returns"].extend(info["returns"])
            stats["landed"] += info["landed"]
    ro.val[-1] = agent.act(obs)[2]
    return obs


def main():
    np.random.seed(CFG["seed"])
    torch.manual_seed(CFG["seed"])
    torch.set_num_threads(1)
    env = RocketBatch(CFG["n_envs"], CFG["seed"])
    agent = PPO(env.obs_dim, env.n_actions, CFG)
    ro = Rollout(CFG["horizon"], CFG["n_envs"], env.obs_dim)
    stats = {"returns": deque(maxlen=200), "landed": 0}
    obs = env.reset()
    bar = tqdm(range(CFG["iterations"]), mininterval=2.0)
    for it in bar:
        obs = collect(env, agent, ro, obs, stats)
        agent.update(ro)
        if it % 20 == 0 and stats["returns"]:
            bar.set_postfix(ret=f"{np.mean(stats['returns']):.2f}", landed=stats["landed"],
                            steps=(it + 1) * CFG["n_envs"] * CFG["horizon"])
        if it % 1000 == 999:
            torch.save(agent.net.state_dict(), "rocket.pt")


if __name__ == "__main__":
    main()
