"""PPO from pixels on the catch game, everything in one loop."""
import argparse
import random
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
from torch.utils.tensorboard import SummaryWriter

from game import CatchGame
from net import ConvNet

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=9)
parser.add_argument("--num-envs", type=int, default=64)
parser.add_argument("--num-steps", type=int, default=32)
parser.add_argument("--minibatch", type=int, default=512)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--iterations", type=int, default=5000)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--gamma", type=float, default=0.99)
parser.add_argument("--lam", type=float, default=0.95)
parser.add_argument("--clip", type=float, default=0.1)
parser.add_argument("--ent", type=float, default=0.01)


def gae(rew, val, done, last_val, gamma, lam):
    adv = torch.zeros_like(rew)
    run = torch.zeros_like(last_val)
    nxt = last_val
    for t in reversed(range(rew.shape[0])):
        live = 1.0 - done[t]
        run = rew[t] + gamma * nxt * live - val[t] + gamma * lam * live * run
        adv[t] = run
        nxt = val[t]
    return adv


def main(args):
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    game = CatchGame(args.num_envs, args.seed)
    net = ConvNet(game.shape, game.n_actions).to(memory_format=torch.channels_last)
    opt = torch.optim.Adam(net.parameters(), lr=args.lr, eps=1e-5, fused=True)
    writer = SummaryWriter("runs/catch")
    T, N = args.num_steps, args.num_envs
    obs_b = torch.zeros((T, N) + game.shape, dtype=torch.uint8)
    act_b = torch.zeros((T, N), dtype=torch.long)
    logp_b, rew_b, done_b, val_b = (torch.zeros(T, N) for _ in range(4))
    scores = deque(maxlen=200)
    obs = torch.from_numpy(game.reset())
    start = time.time()

    for it in range(1, args.iterations + 1):
        with torch.no_grad():
            for t in range(T):
                obs_b[t] = obs
                logp, val = net(obs)
                act = torch.multinomial(logp.exp(), 1)[:, 0]
                act_b[t], val_b[t] = act, val
                logp_b[t] = logp.gather(1, act[:, None])[:, 0]
                frame, rew, done, info = game.step(act.numpy())
                obs = torch.from_numpy(frame)
                rew_b[t] = torch.from_numpy(rew)
                done_b[t] = torch.from_numpy(done)
                scores.extend(info.get("score", ()))
            last_val = net(obs)[1]
            adv = gae(rew_b, val_b, done_b, last_val, args.gamma, args.lam)
            ret = (adv + val_b).reshape(-1)
            adv = adv.reshape(-1)
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)

        flat_obs = obs_b.flatten(0, 1)
        flat_act, flat_logp = act_b.flatten(), logp_b.flatten()
        for _ in range(args.epochs):
            for idx in torch.randperm(T * N).split(args.minibatch):
                logp, val = net(flat_obs[idx])
                lp = logp.gather(1, flat_act[idx, None])[:, 0]
                ratio = (lp - flat_logp[idx]).exp()
                a = adv[idx]
                pg = -torch.min(ratio * a, ratio.clamp(1 - args.clip, 1 + args.clip) * a).mean()
                vf = 0.5 * (val - ret[idx]).pow(2).mean()
                ent = -(logp.exp() * logp).sum(-1).mean()
                loss = pg + 0.5 * vf - args.ent * ent
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                opt.step()

        if it % 5 == 0 and scores:
            sps = it * T * N / (time.time() - start)
            writer.add_scalar("charts/score", np.mean(scores), it * T * N)
            writer.add_scalar("charts/sps", sps, it * T * N)
            writer.add_scalar("losses/loss", loss.item(), it * T * N)
            print(f"iter {it:5d}  steps {it * T * N:9d}  score {np.mean(scores):7.2f}  sps {sps:7.0f}", flush=True)
        if it % 500 == 0:
            torch.save(net.state_dict(), "catch.pt")
    writer.close()


if __name__ == "__main__":
    main(parser.parse_args())
