import numpy as np
import torch


class Runner:
    def __init__(self, world, policy, cfg):
        self.world, self.policy, self.cfg = world, policy, cfg
        self.obs = world.reset()
        self.env_steps = 0
        self.caught = 0

    def collect(self):
        T, names = self.cfg.rollout, self.world.agents
        n, d = len(names), self.world.obs_dim
        obs = np.zeros((T, n, d), np.float32)
        act = np.zeros((T, n), np.int64)
        logp = np.zeros((T, n), np.float32)
        val = np.zeros((T + 1, n), np.float32)
        rew = np.zeros((T, n), np.float32)
        done = np.zeros((T, n), np.float32)
        for t in range(T):
            actions = {}
            for i, name in enumerate(names):
                a, lp, v = self.policy.act(torch.from_numpy(self.obs[name]))
                actions[name] = int(a)
                obs[t, i], act[t, i], logp[t, i], val[t, i] = self.obs[name], int(a), float(lp), float(v)
            self.obs, rewards, dones, info = self.world.step(actions)
            self.env_steps += 1
            self.caught += info["caught"]
            for i, name in enumerate(names):
                rew[t, i] = rewards[name]
                done[t, i] = dones[name]
            if dones["__all__"]:
                self.obs = self.world.reset()
        last = torch.from_numpy(np.stack([self.obs[name] for name in names]))
        val[T] = self.policy.act(last)[2].numpy()
        adv = np.zeros((T, n), np.float32)
        g = np.zeros(n, np.float32)
        for t in reversed(range(T)):
            delta = rew[t] + self.cfg.gamma * val[t + 1] * (1 - done[t]) - val[t]
            g = delta + self.cfg.gamma * self.cfg.lam * (1 - done[t]) * g
            adv[t] = g
        ret = adv + val[:T]
        flat = lambda x: torch.from_numpy(x.reshape(T * n, *x.shape[2:]))
        return flat(obs), flat(act), flat(logp), flat(adv), flat(ret)
