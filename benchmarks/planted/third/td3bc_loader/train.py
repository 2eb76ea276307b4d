"""TD3+BC: a short offline phase on data from a controller, then online fine-tuning with one update per step."""
from pathlib import Path
import time

import numpy as np
import torch
import yaml

import arm
from replay import ReplayDataset
from td3 import TD3BC


def offline_data(dataset, episodes, horizon, rng):
    noise = rng.uniform(0.1, 1.0, (episodes, 1))
    s = arm.reset(episodes, rng)
    obs = arm.observe(s)
    for _ in range(horizon):
        action = arm.jacobian_controller(s, noise, rng)
        s, next_obs, reward = arm.step(s, action)
        dataset.extend(obs, action, reward, next_obs)
        obs = next_obs


def evaluate(agent, episodes, horizon, rng):
    s = arm.reset(episodes, rng)
    obs, total = arm.observe(s), 0.0
    for _ in range(horizon):
        s, obs, reward = arm.step(s, agent.act(obs))
        total += float(reward.mean())
    return total


def main():
    cfg = yaml.safe_load((Path(__file__).parent / "configs" / "default.yaml").read_text())
    rng = np.random.default_rng(cfg["seed"])
    eval_rng = np.random.default_rng(cfg["seed"] + 1)
    torch.manual_seed(cfg["seed"])
    torch.set_num_threads(1)

    horizon, train = cfg["env"]["horizon"], cfg["train"]
    dataset = ReplayDataset(cfg["replay"]["capacity"], arm.OBS, arm.ACT, cfg["replay"]["batch"], cfg["seed"])
    offline_data(dataset, cfg["offline"]["episodes"], horizon, rng)
    print("offline transitions:", dataset.size)
    agent = TD3BC(arm.OBS, arm.ACT, cfg["net"]["width"], cfg["td3"])
    loader = dataset.loader()

    for _ in range(train["offline_updates"]):
        agent.update(next(loader), bc=True)
    print(f"after {train['offline_updates']} offline updates: {evaluate(agent, train['eval_episodes'], horizon, eval_rng):.2f}", flush=True)

    explore = cfg["td3"]["explore"]
    state, t, total, returns, losses = arm.reset(1, rng), 0, 0.0, [], []
    obs = arm.observe(state)
    mark = time.perf_counter()
    for step in range(1, train["online_steps"] + 1):
        action = agent.act(obs) + explore * rng.standard_normal((1, arm.ACT)).astype(np.float32)
        action = np.clip(action, -1.0, 1.0)
        state, next_obs, reward = arm.step(state, action)
        dataset.extend(obs, action, reward, next_obs)
        obs = next_obs
        total += float(reward[0])
        t += 1
        if t == horizon:
            returns.append(total)
            state, t, total = arm.reset(1, rng), 0, 0.0
            obs = arm.observe(state)

        losses.append(agent.update(next(loader), bc=False))

        if step % train["log_every"] == 0:
            now = time.perf_counter()
            print(f"step {step} return {np.mean(returns[-10:]) if returns else float('nan'):.2f} q loss {torch.stack(losses).mean():.4f} "
                  f"{train['log_every'] / (now - mark):.0f} steps/s", flush=True)
            losses.clear()
            mark = now
        if step % train["eval_every"] == 0:
            print(f"evaluation: {evaluate(agent, train['eval_episodes'], horizon, eval_rng):.2f}", flush=True)


if __name__ == "__main__":
    main()
