"""Soft actor-critic on a planar arm, one gradient step per environment step."""
import argparse
import copy
import time

import numpy as np
import torch
import torch.nn.functional as F

import core
from arm_env import PlanarArm


class SAC:
    def __init__(self, obs_dim, act_dim, hidden, lr, gamma, polyak):
        self.gamma, self.polyak = gamma, polyak
        self.pi = core.SquashedGaussianActor(obs_dim, act_dim, hidden)
        self.q = core.TwinQ(obs_dim, act_dim, hidden)
        self.q_targ = copy.deepcopy(self.q).requires_grad_(False)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.target_entropy = -float(act_dim)
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=lr, fused=True)
        self.q_opt = torch.optim.Adam(self.q.parameters(), lr=lr, fused=True)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=lr, fused=True)
        self.q_params, self.t_params = list(self.q.parameters()), list(self.q_targ.parameters())

    @torch.no_grad()
    def act(self, obs):
        return self.pi(torch.from_numpy(obs))[0].numpy()

    def update(self, o, a, r, o2, d):
        alpha = self.log_alpha.detach().exp()
        with torch.no_grad():
            a2, logp2 = self.pi(o2)
            backup = r + self.gamma * (1 - d) * (torch.min(*self.q_targ(o2, a2)) - alpha * logp2)
        q1, q2 = self.q(o, a)
        loss_q = F.mse_loss(q1, backup) + F.mse_loss(q2, backup)
        self.q_opt.zero_grad()
        loss_q.backward()
        self.q_opt.step()

        self.q.requires_grad_(False)
        act, logp = self.pi(o)
        loss_pi = (alpha * logp - torch.min(*self.q(o, act))).mean()
        self.pi_opt.zero_grad()
        loss_pi.backward()
        self.pi_opt.step()
        self.q.requires_grad_(True)

        loss_alpha = -self.log_alpha * (logp.detach().mean() + self.target_entropy)
        self.alpha_opt.zero_grad()
        loss_alpha.backward()
        self.alpha_opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.t_params, self.q_params, 1 - self.polyak)
        return loss_q.detach(), loss_pi.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hid", type=int, default=256)
    ap.add_argument("--layers", type=int, default=2)
    ap.add_argument("--gamma", type=float, default=0.98)
    ap.add_argument("--seed", "-s", type=int, default=0)
    ap.add_argument("--steps", type=int, default=500_000)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--start-steps", type=int, default=1000)
    ap.add_argument("--test-every", type=int, default=20_000)
    args = ap.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)

    env = PlanarArm()
    obs_dim, act_dim = env.observation_space.shape[0], env.action_space.shape[0]
    sac = SAC(obs_dim, act_dim, [args.hid] * args.layers, 3e-4, args.gamma, 0.995)
    buf = core.ReplayBuffer(obs_dim, act_dim, 300_000)
    o, _ = env.reset(seed=args.seed)
    ep_ret, rets, t0 = 0.0, [], time.time()

    for t in range(1, args.steps + 1):
        a = sac.act(o) if t > args.start_steps else np.random.uniform(-1, 1, act_dim).astype(np.float32)
        o2, r, term, trunc, _ = env.step(a)
        buf.store(o, a, r, o2, term)
        ep_ret += r
        o = o2
        if term or trunc:
            rets.append(ep_ret)
            ep_ret = 0.0
            o, _ = env.reset()
        if t > args.start_steps:
            loss_q, loss_pi = sac.update(*buf.sample_batch(args.batch))
        if t % 1000 == 0:
            print(f"t {t:7d} | return {np.mean(rets[-10:]):8.2f} | alpha {sac.log_alpha.exp().item():.3f} | {time.time() - t0:6.1f}s", flush=True)
        if t % args.test_every == 0:
            torch.save({"pi": sac.pi.state_dict(), "q": sac.q.state_dict()}, "sac_arm.pt")


if __name__ == "__main__":
    main()
