# ppo_plume.py -- cleanrl style single file, the env is in plume.py
import os
import sys
import time
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from plume import PlumeEnv


@dataclass
class Args:
    exp_name: str = "plume_ppo"
    seed: int = 1
    total_timesteps: int = 50_000_000
    learning_rate: float = 2.5e-4
    num_envs: int = 4
    num_steps: int = 64
    anneal_lr: bool = True
    gamma: float = 0.99
    gae_lambda: float = 0.95
    num_minibatches: int = 2
    update_epochs: int = 3
    clip_coef: float = 0.1
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    save_every: int = 500
    tags: list = field(default_factory=list)


def make_env(seed, idx):
    def thunk():
        env = PlumeEnv()
        env = gym.wrappers.RecordEpisodeStatistics(env)
        env.action_space.seed(seed + idx)
        return env

    return thunk


def layer_init(layer, std=np.sqrt(2), bias=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self, n_in, n_act):
        super().__init__()
        self.shared = nn.Sequential(layer_init(nn.Linear(n_in, 128)), nn.Tanh(), layer_init(nn.Linear(128, 128)), nn.Tanh())
        self.actor = layer_init(nn.Linear(128, n_act), std=0.01)
        self.critic = layer_init(nn.Linear(128, 1), std=1)

    def get_value(self, x):
        return self.critic(self.shared(x))

    def get_action_and_value(self, x, action=None):
        h = self.shared(x)
        probs = Categorical(logits=self.actor(h), validate_args=False)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(h)


def main(args):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    batch_size = args.num_envs * args.num_steps
    mb_size = batch_size // args.num_minibatches
    n_iter = args.total_timesteps // batch_size

    envs = gym.vector.AsyncVectorEnv([make_env(args.seed, i) for i in range(args.num_envs)])
    n_in = envs.single_observation_space.shape[0]
    agent = Agent(n_in, envs.single_action_space.n)
    opt = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    obs = torch.zeros((args.num_steps, args.num_envs, n_in))
    actions = torch.zeros((args.num_steps, args.num_envs), dtype=torch.long)
    logprobs = torch.zeros((args.num_steps, args.num_envs))
    rewards = torch.zeros((args.num_steps, args.num_envs))
    dones = torch.zeros((args.num_steps, args.num_envs))
    values = torch.zeros((args.num_steps, args.num_envs))

    gstep, t0 = 0, time.time()
    tl, gl = t0, 0
    o, _ = envs.reset(seed=args.seed)
    next_obs = torch.from_numpy(o)
    next_done = torch.zeros(args.num_envs)
    rets, dist = [], []

    for it in range(1, n_iter + 1):
        if args.anneal_lr:
            opt.param_groups[0]["lr"] = (1 - (it - 1) / n_iter) * args.learning_rate
        for step in range(args.num_steps):
            gstep += args.num_envs
            obs[step] = next_obs
            dones[step] = next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            o, r, term, trunc, infos = envs.step(action.numpy())
            rewards[step] = torch.as_tensor(r, dtype=torch.float32)
            next_obs = torch.from_numpy(o)
            next_done = torch.from_numpy(np.logical_or(term, trunc).astype(np.float32))
            dist.append(infos["dist"].mean() if "dist" in infos else np.nan)
            if "episode" in infos:
                m = infos["_episode"]
                rets.extend(infos["episode"]["r"][m].tolist())

        with torch.no_grad():
            nv = agent.get_value(next_obs).flatten()
            adv = torch.zeros_like(rewards)
            last = torch.zeros(args.num_envs)
            for t in reversed(range(args.num_steps)):
                if t == args.num_steps - 1:
                    nonterm, nextv = 1.0 - next_done, nv
                else:
                    nonterm, nextv = 1.0 - dones[t + 1], values[t + 1]
                delta = rewards[t] + args.gamma * nextv * nonterm - values[t]
                adv[t] = last = delta + args.gamma * args.gae_lambda * nonterm * last
            ret = adv + values

        b_obs, b_act, b_lp = obs.reshape(-1, n_in), actions.reshape(-1), logprobs.reshape(-1)
        b_adv, b_ret = adv.reshape(-1), ret.reshape(-1)
        for epoch in range(args.update_epochs):
            for mb in torch.randperm(batch_size).split(mb_size):
                _, newlp, ent, newv = agent.get_action_and_value(b_obs[mb], b_act[mb])
                ratio = (newlp - b_lp[mb]).exp()
                a = b_adv[mb]
                a = (a - a.mean()) / (a.std() + 1e-8)
                pg = torch.max(-a * ratio, -a * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)).mean()
                vl = 0.5 * (newv.view(-1) - b_ret[mb]).pow(2).mean()
                loss = pg - args.ent_coef * ent.mean() + args.vf_coef * vl
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                opt.step()

        if time.time() - tl > 2:
            print(
                f"iter {it} step {gstep} SPS {(gstep - gl) / (time.time() - tl):.0f} "
                f"ret {np.mean(rets[-20:]) if rets else float('nan'):.2f} dist {np.nanmean(dist[-200:]):.1f} v {vl.item():.3f}",
                flush=True,
            )
            tl, gl = time.time(), gstep
            rets, dist = rets[-100:], dist[-200:]
        if it % args.save_every == 0:
            os.makedirs(os.path.join(HERE, "runs"), exist_ok=True)
            torch.save(agent.state_dict(), os.path.join(HERE, "runs", f"{args.exp_name}.pt"))
    envs.close()


if __name__ == "__main__":
    main(Args())
