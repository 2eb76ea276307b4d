# PPO for Acrobot-v1 in the single-file style.
import random
import time

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Args:
    env_id = "Acrobot-v1"
    seed = 9
    num_envs = 8
    num_steps = 128
    iterations = 5000
    lr = 5e-4
    gamma = 0.99
    gae_lambda = 0.95
    epochs = 4
    minibatch = 256
    clip = 0.2
    ent = 0.01
    test_every = 2
    test_episodes = 30


def layer(i, o, std=1.41):
    lin = nn.Linear(i, o)
    nn.init.orthogonal_(lin.weight, std)
    nn.init.zeros_(lin.bias)
    return lin


class Agent(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.critic = nn.Sequential(layer(n_obs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(n_obs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, n_act, 0.01))

    def policy(self, x):
        return F.log_softmax(self.actor(x), dim=-1)


def score(agent, env, episodes, seed):
    totals = []
    for k in range(episodes):
        o, _ = env.reset(seed=seed + k)
        total, over = 0.0, False
        while not over:
            with torch.no_grad():
                a = int(agent.actor(torch.from_numpy(o).unsqueeze(0)).argmax())
            o, r, term, trunc, _ = env.step(a)
            total += float(r)
            over = term or trunc
        totals.append(total)
    return float(np.mean(totals))


def gae(rewards, values, dones, next_value, args):
    adv = np.zeros_like(rewards)
    last = np.zeros(args.num_envs, np.float32)
    for t in reversed(range(args.num_steps)):
        live = 1.0 - dones[t]
        delta = rewards[t] + args.gamma * next_value * live - values[t]
        last = delta + args.gamma * args.gae_lambda * live * last
        adv[t] = last
        next_value = values[t]
    return adv


def main():
    args = Args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env_id) for _ in range(args.num_envs)])
    test_env = gym.make(args.env_id)
    n_obs = envs.single_observation_space.shape[0]
    agent = Agent(n_obs, envs.single_action_space.n)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5, fused=True)
    shape = (args.num_steps, args.num_envs)
    obs_buf = np.zeros((*shape, n_obs), np.float32)
    act_buf = np.zeros(shape, np.int64)
    logp_buf, rew_buf, done_buf, val_buf = (np.zeros(shape, np.float32) for _ in range(4))
    obs, _ = envs.reset(seed=args.seed)
    global_step, t0, best = 0, time.time(), -1e9

    for iteration in range(1, args.iterations + 1):
        with torch.no_grad():
            for t in range(args.num_steps):
                x = torch.from_numpy(obs)
                lp = agent.policy(x)
                a = torch.multinomial(lp.exp(), 1)
                obs_buf[t] = obs
                act_buf[t] = a.squeeze(1).numpy()
                logp_buf[t] = lp.gather(1, a).squeeze(1).numpy()
                val_buf[t] = agent.critic(x).squeeze(1).numpy()
                obs, rew_buf[t], term, trunc, _ = envs.step(act_buf[t])
                done_buf[t] = np.logical_or(term, trunc)
                global_step += args.num_envs
            nv = agent.critic(torch.from_numpy(obs)).squeeze(1).numpy()
        adv = gae(rew_buf, val_buf, done_buf, nv, args)
        b_obs = torch.from_numpy(obs_buf.reshape(-1, n_obs))
        b_act = torch.from_numpy(act_buf.reshape(-1, 1))
        b_lp = torch.from_numpy(logp_buf.reshape(-1))
        b_adv = torch.from_numpy(adv.reshape(-1))
        b_ret = b_adv + torch.from_numpy(val_buf.reshape(-1))
        for _ in range(args.epochs):
            for mb in torch.randperm(b_lp.numel()).split(args.minibatch):
                lp = agent.policy(b_obs[mb])
                ratio = (lp.gather(1, b_act[mb]).squeeze(1) - b_lp[mb]).exp()
                a_n = (b_adv[mb] - b_adv[mb].mean()) / (b_adv[mb].std() + 1e-8)
                pg = torch.max(-a_n * ratio, -a_n * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
                v_loss = 0.5 * (agent.critic(b_obs[mb]).squeeze(1) - b_ret[mb]).square().mean()
                entropy = -(lp.exp() * lp).sum(-1).mean()
                optimizer.zero_grad()
                (pg + 0.5 * v_loss - args.ent * entropy).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        if iteration % args.test_every == 0:
            best = max(best, score(agent, test_env, args.test_episodes, 1000))
        if iteration % 50 == 0:
            print(f"{iteration} step {global_step} best {best:.1f} {time.time() - t0:.0f}s", flush=True)


if __name__ == "__main__":
    main()
