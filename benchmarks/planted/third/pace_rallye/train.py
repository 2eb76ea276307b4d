"""Recurrent PPO on the rally stage. Whole episodes are rolled out and trained on, so hidden states never have to be stored."""
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from driver import Driver
from rallye import RallyeField


@dataclass
class Cfg:
    cars: int = 64
    horizon: int = 48
    epochs: int = 4
    minibatches: int = 2
    gamma: float = 0.98
    lam: float = 0.95
    clip: float = 0.2
    entropy: float = 1e-3
    lr: float = 4e-4
    stages: int = 20_000
    eval_every: int = 100
    seed: int = 2


@torch.no_grad()
def drive(field, driver, stages=1, explore=True):
    """Generator over stages: dict of [T, B, ...] tensors."""
    std = driver.log_std.exp()
    for _ in range(stages):
        obs, state, done = torch.from_numpy(field.reset()), None, False
        rows = {"obs": [], "action": [], "mean": [], "value": [], "reward": []}
        while not done:
            mean, value, state = driver(obs.unsqueeze(0), state)
            mean = mean[0]
            action = mean + std * torch.randn_like(mean) if explore else mean
            rows["obs"].append(obs)
            rows["mean"].append(mean)
            rows["action"].append(action)
            rows["value"].append(value[0])
            obs, reward, done = field.step(action.numpy())
            obs = torch.from_numpy(obs)
            rows["reward"].append(torch.from_numpy(reward))
        yield {k: torch.stack(v) for k, v in rows.items()}


def gae(reward, value, cfg):
    """One numpy row of all cars per time step."""
    reward, value = reward.numpy(), value.numpy()
    adv, last, following = np.zeros_like(reward), 0.0, 0.0
    for t in range(len(reward) - 1, -1, -1):
        last = reward[t] + cfg.gamma * following - value[t] + cfg.gamma * cfg.lam * last
        following = value[t]
        adv[t] = last
    return torch.from_numpy(adv), torch.from_numpy(adv + value)


def improve(driver, opt, data, cfg):
    adv, ret = gae(data["reward"], data["value"], cfg)
    with torch.no_grad():
        old = driver.log_prob(data["mean"], data["action"])
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(cfg.epochs):
        for cars in torch.randperm(cfg.cars).chunk(cfg.minibatches):
            mean, value, _ = driver(data["obs"][:, cars])
            ratio = (driver.log_prob(mean, data["action"][:, cars]) - old[:, cars]).exp()
            a = adv[:, cars]
            policy_loss = -torch.min(ratio * a, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * a).mean()
            value_loss = (value - ret[:, cars]).pow(2).mean()
            loss = policy_loss + 0.5 * value_loss - cfg.entropy * driver.log_std.sum()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(driver.parameters(), 1.0)
            opt.step()


def main():
    cfg = Cfg()
    print(asdict(cfg))
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    field = RallyeField(cfg.cars, cfg.horizon, cfg.seed)
    judge = RallyeField(cfg.cars, cfg.horizon, cfg.seed + 1000)
    driver = Driver(field.obs_dim, field.act_dim)
    opt = torch.optim.Adam(driver.parameters(), lr=cfg.lr, fused=True)

    bar = tqdm(drive(field, driver, cfg.stages), total=cfg.stages, mininterval=2.0, disable=True)
    start = last = time.time()
    for stage, data in enumerate(bar, 1):
        improve(driver, opt, data, cfg)
        if stage % cfg.eval_every == 0:
            score = next(drive(judge, driver, explore=False))["reward"].sum(0).mean()
            torch.save(driver.state_dict(), "driver.pt")
            print(f"--- evaluation after stage {stage}: {score:.2f}", flush=True)
        if time.time() - last > 1.5:
            last = time.time()
            print(f"stage {stage} steps {stage * cfg.cars * cfg.horizon} return {data['reward'].sum(0).mean():.2f} "
                  f"std {driver.log_std.exp().mean():.2f} elapsed {last - start:.1f}", flush=True)


if __name__ == "__main__":
    main()
