"""Independent PPO with parameter sharing for the warehouse robots."""
import dataclasses
import time

import numpy as np
import torch

from agents.policy import TeamPolicy
from agents.rollout import Rollout, collect
from warehouse import OBS, MOVES, WarehouseEnv


@dataclasses.dataclass
class Args:
    seed: int = 4
    robots: int = 16
    steps: int = 128
    iterations: int = 20_000
    epochs: int = 3
    minibatch: int = 512
    gamma: float = 0.97
    lam: float = 0.95
    clip: float = 0.2
    lr: float = 5e-4
    entropy: float = 0.01


def ppo_update(policy, optim, data, adv, ret, args):
    flat = lambda x: torch.from_numpy(x.reshape(-1, *x.shape[2:]))
    obs, act, logp, adv, ret = map(flat, (data.obs, data.act, data.logp, adv, ret))
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    losses = []
    for _ in range(args.epochs):
        for idx in torch.randperm(len(obs)).split(args.minibatch):
            dist, value = policy(obs[idx])
            ratio = (dist.log_prob(act[idx]) - logp[idx]).exp()
            a = adv[idx]
            pg = -torch.min(ratio * a, ratio.clamp(1 - args.clip, 1 + args.clip) * a).mean()
            loss = pg + 0.5 * (value - ret[idx]).pow(2).mean() - args.entropy * dist.entropy().mean()
            optim.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optim.step()
            losses.append(loss.detach())
    return torch.stack(losses).mean().item()


def main(args=Args()):
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    np.random.seed(args.seed)
    env = WarehouseEnv(args.robots)
    policy = TeamPolicy(OBS, len(MOVES))
    optim = torch.optim.Adam(policy.parameters(), lr=args.lr, fused=True)
    data = Rollout(args.steps, args.robots, OBS)
    obs, _ = env.reset(seed=args.seed)
    start = time.time()
    for it in range(args.iterations):
        obs, reward = collect(env, policy, obs, data)
        last = policy.values(np.stack([obs[name] for name in env.possible_agents]))
        adv, ret = data.advantages(last, args.gamma, args.lam)
        loss = ppo_update(policy, optim, data, adv, ret, args)
        if it % 10 == 0:
            steps = (it + 1) * args.steps
            print(f"it {it:5d} | env steps {steps:8d} | reward/step {reward:+.4f} | loss {loss:.4f} | "
                  f"{steps / (time.time() - start):.0f} env steps/s", flush=True)
        if it % 500 == 499:
            torch.save(policy.state_dict(), "team.pt")


if __name__ == "__main__":
    main()
