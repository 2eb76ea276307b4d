from dataclasses import dataclass
import random

import numpy as np
import torch
from tqdm import tqdm

from keydoor import KeyDoor
from model import RecurrentQ
from replay import EpisodeReplay


@dataclass
class Config:
    seed: int = 5
    hidden: int = 64
    lr: float = 5e-4
    gamma: float = 0.98
    batch: int = 32
    episodes_kept: int = 2000
    start_episodes: int = 24
    update_every: int = 16
    target_every: int = 100
    eps_final: float = 0.05
    eps_steps: int = 60_000
    total_steps: int = 2_000_000


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        random.seed(cfg.seed)
        torch.manual_seed(cfg.seed)
        self.env = KeyDoor(cfg.seed)
        self.q = RecurrentQ(self.env.obs_dim, self.env.n_actions, cfg.hidden)
        self.q_target = RecurrentQ(self.env.obs_dim, self.env.n_actions, cfg.hidden)
        self.q_target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=cfg.lr)
        self.replay = EpisodeReplay(cfg.episodes_kept, self.env.limit, self.env.obs_dim, cfg.seed)
        self.steps = 0
        self.updates = 0

    def epsilon(self):
        return max(self.cfg.eps_final, 1 - self.steps / self.cfg.eps_steps)

    def update(self):
        obs, act, rew, done, mask = self.replay.sample(self.cfg.batch)
        with torch.no_grad():
            q_next = self.q_target.unroll(obs)[:, 1:].max(-1).values
            y = rew + self.cfg.gamma * (1 - done) * q_next
        q = self.q.unroll(obs[:, :-1]).gather(2, act.unsqueeze(-1)).squeeze(-1)
        loss = ((q - y).pow(2) * mask).sum() / mask.sum()
        self.opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.q.parameters(), 10.0)
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg.target_every == 0:
            self.q_target.load_state_dict(self.q.state_dict())

    def run(self):
        bar = tqdm(total=self.cfg.total_steps, mininterval=2.0)
        returns = []
        while self.steps < self.cfg.total_steps:
            o = self.env.reset()
            h = self.q.initial()
            obs, act, rew = [o], [], []
            terminal = timeout = False
            while not (terminal or timeout):
                with torch.no_grad():
                    q, h = self.q(torch.from_numpy(o).unsqueeze(0), h)
                a = int(q.argmax()) if random.random() > self.epsilon() else random.randrange(self.env.n_actions)
                o, r, terminal, timeout = self.env.step(a)
                obs.append(o)
                act.append(a)
                rew.append(r)
                self.steps += 1
                if self.replay.count >= self.cfg.start_episodes and self.steps % self.cfg.update_every == 0:
                    self.update()
            self.replay.add(np.stack(obs), act, rew, terminal)
            returns.append(sum(rew))
            bar.update(len(act))
            if len(returns) % 100 == 0:
                bar.set_postfix(ret=f"{np.mean(returns[-100:]):.2f}", eps=f"{self.epsilon():.2f}", upd=self.updates)


if __name__ == "__main__":
    torch.set_num_threads(1)
    Trainer(Config()).run()
