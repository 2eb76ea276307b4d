import time

import numpy as np
import torch

from policy import SharedPolicy
from runner import Runner, advantages
from warehouse.env import Pickers

torch.set_num_threads(1)

CFG = dict(
    agents=8, size=12, horizon=200, rollout=128, iterations=20000, epochs=4, minibatch=256,
    lr=4e-4, gamma=0.98, lam=0.95, clip=0.2, ent=0.01, vf=0.5, seed=11,
)


def update(policy, opt, buf, cfg):
    adv, ret = advantages(buf, cfg["gamma"], cfg["lam"])
    flat = lambda x: torch.from_numpy(x.reshape(-1, *x.shape[2:]))
    obs, act, logp = flat(buf["obs"]), flat(buf["act"]), flat(buf["logp"])
    adv, ret = flat(adv), flat(ret)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(cfg["epochs"]):
        for idx in torch.randperm(len(obs)).split(cfg["minibatch"]):
            lp, ent, v = policy.evaluate(obs[idx], act[idx])
            ratio = (lp - logp[idx]).exp()
            a = adv[idx]
            pg = -torch.min(ratio * a, ratio.clamp(1 - cfg["clip"], 1 + cfg["clip"]) * a).mean()
            loss = pg + cfg["vf"] * (v - ret[idx]).pow(2).mean() - cfg["ent"] * ent.mean()
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            opt.step()


def main(cfg=CFG):
    torch.manual_seed(cfg["seed"])
    np.random.seed(cfg["seed"])
    env = Pickers(cfg["agents"], cfg["size"], cfg["horizon"])
    policy = SharedPolicy(env.observation_space("robot_0").shape[0], 5)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg["lr"], eps=1e-5)
    runner = Runner(env, policy, cfg["rollout"], cfg["seed"])
    start, steps = time.time(), 0
    for it in range(cfg["iterations"]):
        buf = runner.collect()
        update(policy, opt, buf, cfg)
        steps += cfg["rollout"]
        if it % 10 == 0:
            mean = np.mean(runner.scores[-10:]) if runner.scores else float("nan")
            print(f"[{it:5d}] env steps {steps:8d}  team return {mean:7.2f}  {steps / (time.time() - start):7.1f} steps/s", flush=True)


if __name__ == "__main__":
    main()
