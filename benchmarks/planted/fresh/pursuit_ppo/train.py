import os
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from pursuit.policy import SharedPolicy
from pursuit.runner import Runner
from pursuit.world import PursuitWorld


@dataclass
class PPOConfig:
    seed: int = 0
    wolves: int = 8
    sheep: int = 4
    rollout: int = 256
    hidden: int = 64
    epochs: int = 4
    minibatch: int = 512
    lr: float = 3e-4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    ent: float = 0.01
    iterations: int = 20_000
    save_every: int = 100


def update(policy, opt, data, cfg):
    obs, act, old_logp, adv, ret = data
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(cfg.epochs):
        for idx in torch.randperm(len(obs)).split(cfg.minibatch):
            logp, ent, v = policy.evaluate(obs[idx], act[idx])
            ratio = (logp - old_logp[idx]).exp()
            a = adv[idx]
            pg = -torch.min(ratio * a, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * a).mean()
            loss = pg + 0.5 * F.mse_loss(v, ret[idx]) - cfg.ent * ent.mean()
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            opt.step()


def main(cfg=PPOConfig()):
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    world = PursuitWorld(cfg.wolves, cfg.sheep, seed=cfg.seed)
    policy = SharedPolicy(world.obs_dim, world.n_actions, cfg.hidden)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    runner = Runner(world, policy, cfg)
    os.makedirs("checkpoints", exist_ok=True)
    t0 = time.time()
    for it in range(1, cfg.iterations + 1):
        data = runner.collect()
        update(policy, opt, data, cfg)
        if it % 10 == 0:
            print(f"[{it:5d}] env_steps={runner.env_steps} caught/10it={runner.caught} ret={data[4].mean():.3f} "
                  f"sps={runner.env_steps / (time.time() - t0):.0f}", flush=True)
            runner.caught = 0
        if it % cfg.save_every == 0:
            torch.save(policy.state_dict(), "checkpoints/policy.pt")


if __name__ == "__main__":
    main()
