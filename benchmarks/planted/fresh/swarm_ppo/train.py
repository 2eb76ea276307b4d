import copy
import json
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
import yaml

from model import GaussianAC
from swarm import QuadBatch

torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))


def compute_gae(rew, done, val, gamma, lam):
    T, n = rew.shape
    adv = np.zeros((T, n), np.float32)
    running = np.zeros(n, np.float32)
    for t in range(T - 1, -1, -1):
        alive = 1.0 - done[t]
        delta = rew[t] + gamma * val[t + 1] * alive - val[t]
        running = delta + gamma * lam * alive * running
        adv[t] = running
    return adv


def evaluate(net, seed):
    env = QuadBatch(32, seed)
    o, total = env.reset(), 0.0
    for _ in range(100):
        with torch.inference_mode():
            a = net.pi(torch.from_numpy(o)).numpy()
        o, r, _ = env.step(a)
        total += float(r.mean())
    return total


class League:
    """keeps copies of the three best policies found by the evaluations"""

    def __init__(self):
        self.best = []

    def offer(self, score, net):
        self.best.append((score, copy.deepcopy(net.state_dict())))
        self.best.sort(key=lambda p: -p[0])
        del self.best[3:]


def main():
    cfg = yaml.safe_load(open(os.path.join(HERE, "config.yaml")))
    torch.manual_seed(cfg["seed"])
    env = QuadBatch(cfg["n_envs"], cfg["seed"])
    net = GaussianAC(env.obs_dim, env.act_dim, cfg["width"])
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"], fused=True)
    league, T, n = League(), cfg["rollout"], cfg["n_envs"]
    obs = np.zeros((T, n, env.obs_dim), np.float32)
    act = np.zeros((T, n, env.act_dim), np.float32)
    logp, val = np.zeros((T, n), np.float32), np.zeros((T + 1, n), np.float32)
    rew, done = np.zeros((T, n), np.float32), np.zeros((T, n), np.float32)
    o, t0 = env.reset(), time.time()
    out = open(os.path.join(HERE, "progress.jsonl"), "w")
    for it in range(1, cfg["iterations"] + 1):
        for t in range(T):
            obs[t] = o
            act[t], logp[t], val[t] = net.act(torch.from_numpy(o))
            o, rew[t], done[t] = env.step(act[t])
        val[T] = net.act(torch.from_numpy(o))[2]
        adv = compute_gae(rew, done, val, cfg["gamma"], cfg["lam"])
        b_ret = torch.from_numpy((adv + val[:T]).reshape(-1))
        b_adv = torch.from_numpy(((adv - adv.mean()) / (adv.std() + 1e-8)).reshape(-1))
        b_obs, b_act = torch.from_numpy(obs.reshape(T * n, -1)), torch.from_numpy(act.reshape(T * n, -1))
        b_logp = torch.from_numpy(logp.reshape(-1))
        for _ in range(cfg["epochs"]):
            for i in torch.randperm(T * n).chunk(cfg["minibatches"]):
                x = b_obs[i]
                ratio = (net.logp(net.pi(x), b_act[i]) - b_logp[i]).exp()
                a = b_adv[i]
                loss = (-torch.min(ratio * a, ratio.clamp(1 - cfg["clip"], 1 + cfg["clip"]) * a).mean()
                        + 0.5 * F.mse_loss(net.vf(x).squeeze(-1), b_ret[i]))
                opt.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()
        if it % 20 == 0:
            row = dict(it=it, steps=it * T * n, reward=round(float(rew.mean()), 4), fps=int(it * T * n / (time.time() - t0)))
            out.write(json.dumps(row) + "\n")
            out.flush()
            print(row, flush=True)
        if it % cfg["eval_every"] == 0:
            score = evaluate(net, 1000 + it)
            league.offer(score, net)
            print("eval", round(score, 2), "best", round(league.best[0][0], 2), flush=True)


if __name__ == "__main__":
    main()
