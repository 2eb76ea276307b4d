import numpy as np
import torch
import torch.nn.functional as F

from model import Actor, Critic
from optim import TargetNetwork, build_optimizer, clip_gradients


class Memory:
    def __init__(self, capacity, obs_dim, act_dim, seed):
        self.fields = [np.zeros((capacity, *s), np.float32) for s in ((obs_dim,), (act_dim,), (), (obs_dim,))]
        self.capacity, self.size, self.at = capacity, 0, 0
        self.rng = np.random.default_rng(seed)

    def add(self, *rows):
        n = len(rows[0])
        where = (self.at + np.arange(n)) % self.capacity
        for field, row in zip(self.fields, rows):
            field[where] = row
        self.at = (self.at + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def draw(self, n):
        pick = self.rng.integers(0, self.size, n)
        return [torch.from_numpy(f[pick]) for f in self.fields]


class DDPG:
    """Deterministic policy gradient with residual networks."""

    def __init__(self, obs_dim, act_dim, model, cfg, optim):
        self.cfg = cfg
        self.actor = Actor(obs_dim, act_dim, **model)
        self.critic = Critic(obs_dim, act_dim, **model)
        self.actor_params = list(self.actor.parameters())
        self.critic_params = list(self.critic.parameters())
        self.actor_target = TargetNetwork(self.actor, cfg["polyak"])
        self.critic_target = TargetNetwork(self.critic, cfg["polyak"])
        self.actor_opt = build_optimizer(self.actor_params, optim)
        self.critic_opt = build_optimizer(self.critic_params, optim)

    @torch.inference_mode()
    def act(self, obs, rng):
        a = self.actor(torch.from_numpy(obs)).numpy()
        return np.clip(a + self.cfg["noise"] * rng.standard_normal(a.shape, np.float32), -1, 1)

    def update(self, batch):
        obs, act, rew, nxt = batch
        with torch.no_grad():
            y = rew + self.cfg["gamma"] * self.critic_target(nxt, self.actor_target(nxt))
        critic_loss = F.mse_loss(self.critic(obs, act), y)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        clip_gradients(self.critic_params, self.cfg["max_norm"])
        self.critic_opt.step()

        self.critic.requires_grad_(False)
        actor_loss = -self.critic(obs, self.actor(obs)).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        clip_gradients(self.actor_params, self.cfg["max_norm"])
        self.actor_opt.step()
        self.critic.requires_grad_(True)

        self.critic_target.update()
        self.actor_target.update()
        return critic_loss.detach(), actor_loss.detach()
