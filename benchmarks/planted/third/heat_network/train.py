import time

import torch
import torch.nn as nn

import network

cfg = {
    "seed": 21, "plants": 128, "horizon": 48, "epochs": 3, "minibatch": 1536, "hidden": 128,
    "gamma": 0.97, "lam": 0.95, "clip": 0.2, "lr": 4e-4, "iterations": 20_000, "evaluate_every": 200,
}


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.out = nn.Linear(hidden, act_dim + 1)
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.7))

    def forward(self, x):
        y = self.out(self.trunk(x))
        return y[..., :-1], y[..., -1]

    def logp(self, mean, act):
        z = (act - mean) / self.log_std.exp()
        return (-0.5 * z * z - self.log_std).sum(-1)


def rollout(net, state, obs, policy, rng, T):
    n = len(obs)
    traj = dict(obs=torch.empty(T, *obs.shape), act=torch.empty(T, n, net["boilers"]), logp=torch.empty(T, n),
                val=torch.empty(T + 1, n), rew=torch.empty(T, n), done=torch.empty(T, n))
    with torch.no_grad():
        for t in range(T):
            mean, val = policy(obs)
            act = mean + policy.log_std.exp() * torch.randn_like(mean)
            traj["obs"][t], traj["act"][t], traj["val"][t] = obs, act, val
            traj["logp"][t] = policy.logp(mean, act)
            obs, traj["rew"][t], traj["done"][t] = network.step(net, state, act, rng)
        traj["val"][T] = policy(obs)[1]
    return traj, obs


def gae(traj, gamma, lam):
    rew, val, live = traj["rew"], traj["val"], 1 - traj["done"]
    adv, last = torch.zeros_like(rew), 0.0
    for t in reversed(range(len(adv))):
        last = rew[t] + gamma * live[t] * val[t + 1] - val[t] + gamma * lam * live[t] * last
        adv[t] = last
    return adv, adv + val[:-1]


def update(policy, opt, traj):
    adv, ret = gae(traj, cfg["gamma"], cfg["lam"])
    obs, act, old = (traj[k].flatten(0, 1) for k in ("obs", "act", "logp"))
    adv, ret = adv.flatten(), ret.flatten()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(cfg["epochs"]):
        for mb in torch.randperm(len(adv)).split(cfg["minibatch"]):
            mean, val = policy(obs[mb])
            ratio = (policy.logp(mean, act[mb]) - old[mb]).exp()
            a = adv[mb]
            pg = -torch.min(ratio * a, ratio.clamp(1 - cfg["clip"], 1 + cfg["clip"]) * a).mean()
            loss = pg + 0.5 * (val - ret[mb]).pow(2).mean() - 1e-3 * policy.log_std.sum()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            opt.step()


def evaluate(net, policy, n=64, steps=100):
    rng = torch.Generator().manual_seed(999)
    state = network.initial(net, n, rng)
    state["t"][:] = 0
    obs, total = network.observe(net, state), 0.0
    with torch.inference_mode():
        for _ in range(steps):
            obs, rew, _ = network.step(net, state, policy(obs)[0], rng)
            total += rew.mean().item()
    return total


def main():
    torch.manual_seed(cfg["seed"])
    rng = torch.Generator().manual_seed(cfg["seed"])
    net = network.build(seed=cfg["seed"])
    state = network.initial(net, cfg["plants"], rng)
    obs = network.observe(net, state)
    policy = Policy(obs.shape[1], net["boilers"], cfg["hidden"])
    opt = torch.optim.Adam(policy.parameters(), lr=cfg["lr"])
    t0 = time.time()
    for it in range(1, cfg["iterations"] + 1):
        traj, obs = rollout(net, state, obs, policy, rng, cfg["horizon"])
        update(policy, opt, traj)
        if it % 10 == 0:
            steps = it * cfg["horizon"] * cfg["plants"]
            print(f"{it:6d} {steps:10d} steps  reward {traj['rew'].mean():+.4f}  {steps / (time.time() - t0):8.0f} /s", flush=True)
        if it % cfg["evaluate_every"] == 0:
            print(f"       evaluation {evaluate(net, policy):+.3f}", flush=True)


if __name__ == "__main__":
    main()
