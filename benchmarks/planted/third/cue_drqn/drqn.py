from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from networks import RecurrentQ


@dataclass
class Episode:
    """A batch of complete episodes, time second: obs is [n, T + 1, obs_dim]."""
    obs: np.ndarray
    action: np.ndarray
    reward: np.ndarray


class EpisodeReplay:
    def __init__(self, capacity, horizon, obs_dim, seed):
        self.obs = torch.zeros(capacity, horizon + 1, obs_dim)
        self.action = torch.zeros(capacity, horizon, dtype=torch.long)
        self.reward = torch.zeros(capacity, horizon)
        self.capacity, self.pos, self.size = capacity, 0, 0
        self.gen = torch.Generator().manual_seed(seed)

    def add(self, ep):
        n = len(ep.obs)
        rows = (self.pos + torch.arange(n)) % self.capacity
        self.obs[rows] = torch.from_numpy(ep.obs)
        self.action[rows] = torch.from_numpy(ep.action)
        self.reward[rows] = torch.from_numpy(ep.reward)
        self.pos = (self.pos + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, n):
        rows = torch.randint(self.size, (n,), generator=self.gen)
        return self.obs[rows], self.action[rows], self.reward[rows]


class DRQN:
    def __init__(self, obs_dim, n_actions, lr=1e-3, gamma=0.98, tau=0.02, seed=0):
        self.n_actions, self.gamma, self.tau = n_actions, gamma, tau
        self.online = RecurrentQ(obs_dim, n_actions)
        self.target = RecurrentQ(obs_dim, n_actions).requires_grad_(False)
        self.target.load_state_dict(self.online.state_dict())
        self.params = list(self.online.parameters())
        self.target_params = list(self.target.parameters())
        self.opt = torch.optim.Adam(self.params, lr=lr, fused=True)
        self.rng = np.random.default_rng(seed)

    @torch.no_grad()
    def act(self, obs, state, eps):
        q, state = self.online(torch.from_numpy(obs), state)
        action = q.argmax(-1).numpy()
        explore = self.rng.random(len(action)) < eps
        return np.where(explore, self.rng.integers(self.n_actions, size=len(action)), action), state

    def unroll(self, net, obs):
        """Q values along the whole episode, from an empty memory: [B, T + 1, actions]."""
        state, out = None, []
        for t in range(obs.shape[1]):
            q, state = net(obs[:, t], state)
            out.append(q)
        return torch.stack(out, dim=1)

    def update(self, obs, action, reward):
        q_all = self.unroll(self.online, obs)
        with torch.no_grad():
            q_next = self.unroll(self.target, obs)[:, 1:]
            best = q_all[:, 1:].argmax(-1, keepdim=True)
            not_last = torch.ones_like(reward)
            not_last[:, -1] = 0.0
            target = reward + self.gamma * not_last * q_next.gather(-1, best).squeeze(-1)
        q = q_all[:, :-1].gather(-1, action.unsqueeze(-1)).squeeze(-1)
        loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.params, 10.0)
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.target_params, self.params, self.tau)
        return loss.detach()
