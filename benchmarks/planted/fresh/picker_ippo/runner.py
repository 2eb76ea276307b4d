import numpy as np
import torch


class Runner:
    """Collects `length` steps of all robots into arrays (T, N, ...)."""

    def __init__(self, env, policy, length, seed):
        self.env, self.policy, self.T = env, policy, length
        self.names = env.possible_agents
        self.obs, _ = env.reset(seed=seed)
        self.score, self.scores = 0.0, []

    @torch.no_grad()
    def collect(self):
        T, N = self.T, len(self.names)
        obs_dim = self.env.observation_space(self.names[0]).shape[0]
        buf = dict(
            obs=np.zeros((T, N, obs_dim), np.float32), act=np.zeros((T, N), np.int64),
            logp=np.zeros((T, N), np.float32), val=np.zeros((T + 1, N), np.float32),
            rew=np.zeros((T, N), np.float32), done=np.zeros((T, N), np.float32),
        )
        for t in range(T):
            actions = {}
            for i, name in enumerate(self.names):
                o = torch.as_tensor(self.obs[name]).unsqueeze(0)
                a, logp, v = self.policy.act(o)
                actions[name] = int(a)
                buf["obs"][t, i] = self.obs[name]
                buf["act"][t, i] = actions[name]
                buf["logp"][t, i] = float(logp)
                buf["val"][t, i] = float(v)
            nxt, rew, term, trunc, _ = self.env.step(actions)
            for i, name in enumerate(self.names):
                buf["rew"][t, i] = rew[name]
                buf["done"][t, i] = term[name] or trunc[name]
            self.score += sum(rew.values())
            if not self.env.agents:
                self.scores.append(self.score)
                self.score = 0.0
                nxt, _ = self.env.reset()
            self.obs = nxt
        last = torch.as_tensor(np.stack([self.obs[n] for n in self.names]))
        buf["val"][T] = self.policy.vf(last).squeeze(-1).numpy()
        return buf


def advantages(buf, gamma, lam):
    T = len(buf["rew"])
    adv = np.zeros_like(buf["rew"])
    run = 0.0
    for t in reversed(range(T)):
        mask = 1.0 - buf["done"][t]
        delta = buf["rew"][t] + gamma * buf["val"][t + 1] * mask - buf["val"][t]
        run = delta + gamma * lam * mask * run
        adv[t] = run
    return adv, adv + buf["val"][:T]
