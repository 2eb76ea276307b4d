import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.tensorboard import SummaryWriter

from glider import GliderFleet
from returns import batch_gae


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--exp-name", default="glider")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--total-timesteps", type=int, default=40_000_000)
    p.add_argument("--learning-rate", type=float, default=3e-4)
    p.add_argument("--num-envs", type=int, default=64)
    p.add_argument("--num-steps", type=int, default=128)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--gae-lambda", type=float, default=0.95)
    p.add_argument("--num-minibatches", type=int, default=8)
    p.add_argument("--update-epochs", type=int, default=4)
    p.add_argument("--clip-coef", type=float, default=0.2)
    p.add_argument("--ent-coef", type=float, default=0.001)
    p.add_argument("--vf-coef", type=float, default=0.5)
    p.add_argument("--max-grad-norm", type=float, default=0.5)
    args = p.parse_args()
    args.batch_size = args.num_envs * args.num_steps
    args.minibatch_size = args.batch_size // args.num_minibatches
    args.num_iterations = args.total_timesteps // args.batch_size
    return args


def layer_init(layer, std=math.sqrt(2), bias=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias)
    return layer


class Agent(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(obs_dim, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 1), std=1.0),
        )
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(obs_dim, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, act_dim), std=0.01),
        )
        self.actor_logstd = nn.Parameter(torch.zeros(act_dim))

    def get_value(self, x):
        return self.critic(x).flatten()

    def log_prob(self, mean, action):
        z = (action - mean) * (-self.actor_logstd).exp()
        return (-0.5 * z * z - self.actor_logstd - 0.9189385).sum(1)

    def sample(self, x):
        mean = self.actor_mean(x)
        action = mean + self.actor_logstd.exp() * torch.randn_like(mean)
        return action, self.log_prob(mean, action), self.get_value(x)

    def evaluate(self, x, action):
        return self.log_prob(self.actor_mean(x), action), (self.actor_logstd + 1.4189385).sum(), self.get_value(x)


if __name__ == "__main__":
    args = parse_args()
    writer = SummaryWriter(f"runs/{args.exp_name}_{args.seed}")
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    envs = GliderFleet(args.num_envs, args.seed)
    agent = Agent(envs.obs_dim, envs.act_dim)
    optimizer = optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5, fused=True)

    obs = torch.zeros((args.num_steps, args.num_envs, envs.obs_dim))
    actions = torch.zeros((args.num_steps, args.num_envs, envs.act_dim))
    logprobs = torch.zeros((args.num_steps, args.num_envs))
    rewards = torch.zeros((args.num_steps, args.num_envs))
    dones = torch.zeros((args.num_steps, args.num_envs))
    values = torch.zeros((args.num_steps, args.num_envs))

    global_step = 0
    start = time.time()
    next_obs = torch.from_numpy(envs.reset())
    finished = []

    for iteration in range(1, args.num_iterations + 1):
        with torch.no_grad():
            for step in range(args.num_steps):
                global_step += args.num_envs
                obs[step] = next_obs
                actions[step], logprobs[step], values[step] = agent.sample(next_obs)
                o, r, d, ended = envs.step(actions[step].numpy())
                rewards[step] = torch.from_numpy(r)
                dones[step] = torch.from_numpy(d)
                next_obs = torch.from_numpy(o)
                finished.extend(ended)
            next_value = agent.get_value(next_obs)
            advantages, returns = batch_gae(rewards, values, dones, next_value, args.gamma, args.gae_lambda)

        b_obs = obs.flatten(0, 1)
        b_actions = actions.flatten(0, 1)
        b_logprobs, b_adv, b_ret = logprobs.flatten(), advantages.flatten(), returns.flatten()
        b_adv = (b_adv - b_adv.mean()) / (b_adv.std() + 1e-8)

        for epoch in range(args.update_epochs):
            for mb in torch.randperm(args.batch_size).split(args.minibatch_size):
                newlogprob, entropy, newvalue = agent.evaluate(b_obs[mb], b_actions[mb])
                ratio = (newlogprob - b_logprobs[mb]).exp()
                adv = b_adv[mb]
                pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)).mean()
                v_loss = 0.5 * (newvalue - b_ret[mb]).pow(2).mean()
                loss = pg_loss - args.ent_coef * entropy + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()

        if iteration % 10 == 0:
            sps = int(global_step / (time.time() - start))
            writer.add_scalar("charts/SPS", sps, global_step)
            writer.add_scalar("losses/value_loss", v_loss.item(), global_step)
            writer.add_scalar("losses/policy_loss", pg_loss.item(), global_step)
            if finished:
                writer.add_scalar("charts/episodic_return", float(np.mean(finished)), global_step)
                print(f"global_step={global_step}, return={np.mean(finished):.2f}, SPS={sps}", flush=True)
                finished.clear()
    writer.close()
