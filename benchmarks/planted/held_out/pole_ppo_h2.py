"""PPO on CartPole with a synchronous vector of environments."""
import random
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class Args:
    seed: int = 3
    total_timesteps: int = 20_000_000
    num_envs: int = 16
    num_steps: int = 128
    epochs: int = 3
    minibatch: int = 1024
    lr: float = 7e-4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    ent: float = 0.01


class SplitSensors(gym.ObservationWrapper):
    def __init__(self, env):
        super().__init__(env)
        lo, hi = env.observation_space.low, env.observation_space.high
        self.observation_space = gym.spaces.Dict({
            "cart": gym.spaces.Box(lo[:2], hi[:2], dtype=np.float32),
            "pole": gym.spaces.Box(lo[2:], hi[2:], dtype=np.float32),
        })

    def observation(self, observation):
        return {"cart": observation[:2], "pole": observation[2:]}


class SpaceGuard(gym.Wrapper):
    def step(self, action):
        assert self.action_space.contains(action), action
        obs, reward, term, trunc, info = self.env.step(action)
        assert self.observation_space.contains(obs), obs
        return obs, reward, term, trunc, info


def make_env():
    env = gym.make("CartPole-v1")
    env = gym.wrappers.RecordEpisodeStatistics(env)
    env = SplitSensors(env)
    env = SpaceGuard(env)
    env = gym.wrappers.FlattenObservation(env)
    env = gym.wrappers.NormalizeObservation(env)
    env = gym.wrappers.TransformObservation(env, lambda o: np.clip(o, -5, 5), None)
    env = gym.wrappers.NormalizeReward(env)
    env = gym.wrappers.TransformReward(env, lambda r: float(np.clip(r, -5, 5)))
    env = gym.wrappers.DtypeObservation(env, np.float32)
    return env


class Agent(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.pi = nn.Linear(64, n_act)
        self.v = nn.Linear(64, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.pi(h), self.v(h).squeeze(-1)


def main():
    args = Args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.vector.SyncVectorEnv([make_env] * args.num_envs,
                                    autoreset_mode=gym.vector.AutoresetMode.SAME_STEP)
    agent = Agent(4, 2)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    T, N = args.num_steps, args.num_envs
    obs_buf = torch.zeros(T, N, 4)
    act_buf = torch.zeros(T, N, dtype=torch.long)
    logp_buf = torch.zeros(T, N)
    val_buf = np.zeros((T + 1, N), np.float32)
    rew_buf = np.zeros((T, N), np.float32)
    done_buf = np.zeros((T, N), np.float32)

    global_step, iteration, began = 0, 0, time.time()
    next_obs, _ = envs.reset(seed=args.seed)
    while global_step < args.total_timesteps:
        with torch.no_grad():
            for t in range(T):
                x = torch.as_tensor(next_obs)
                logits, value = agent(x)
                dist = Categorical(logits=logits, validate_args=False)
                action = dist.sample()
                obs_buf[t] = x
                act_buf[t] = action
                logp_buf[t] = dist.log_prob(action)
                val_buf[t] = value.numpy()
                next_obs, rew_buf[t], term, trunc, _ = envs.step(action.numpy())
                done_buf[t] = term | trunc
                global_step += N
            val_buf[T] = agent(torch.as_tensor(next_obs))[1].numpy()

        adv = np.zeros((T, N), np.float32)
        last = np.zeros(N, np.float32)
        for t in reversed(range(T)):
            alive = 1.0 - done_buf[t]
            delta = rew_buf[t] + args.gamma * val_buf[t + 1] * alive - val_buf[t]
            last = delta + args.gamma * args.lam * alive * last
            adv[t] = last
        ret = torch.from_numpy(adv + val_buf[:T]).flatten()
        b_adv = torch.from_numpy(adv).flatten()
        b_obs, b_act, b_logp = obs_buf.view(-1, 4), act_buf.flatten(), logp_buf.flatten()

        for _ in range(args.epochs):
            for idx in torch.randperm(T * N).split(args.minibatch):
                logits, value = agent(b_obs[idx])
                dist = Categorical(logits=logits, validate_args=False)
                ratio = (dist.log_prob(b_act[idx]) - b_logp[idx]).exp()
                a = b_adv[idx]
                a = (a - a.mean()) / (a.std() + 1e-8)
                pg = -torch.min(ratio * a, ratio.clamp(1 - args.clip, 1 + args.clip) * a).mean()
                vf = 0.5 * (value - ret[idx]).pow(2).mean()
                loss = pg + 0.5 * vf - args.ent * dist.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        iteration += 1
        if iteration % 20 == 0:
            ends = max(done_buf.sum(), 1.0)
            print(f"{global_step} steps, mean length {T * N / ends:.1f}, {time.time() - began:.0f}s", flush=True)


if __name__ == "__main__":
    main()
