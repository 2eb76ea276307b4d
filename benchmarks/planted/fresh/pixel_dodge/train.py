import os
import time
from collections import deque

import numpy as np
import torch
import torch.nn.functional as F

from core.buffer import FrameBuffer
from core.checkpoint import Checkpointer
from core.game import SIDE, DodgeGame
from core.net import conv_q

torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))

# -------- settings
SEED = 2
CAPACITY = 10_000
BATCH = 32
GAMMA = 0.98
LR = 3e-4
START = 600
TRAIN_EVERY = 4
TARGET_EVERY = 1000
CKPT_EVERY = 500
EPS_STEPS = 25_000
TOTAL = 5_000_000


def epsilon(step):
    return max(0.03, 1.0 - step / EPS_STEPS)


class DQN:
    def __init__(self, n_actions):
        self.n_actions = n_actions
        self.net, self.target = conv_q(n_actions), conv_q(n_actions)
        self.target.load_state_dict(self.net.state_dict())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=LR)

    def act(self, obs, eps, rng):
        if rng.random() < eps:
            return int(rng.integers(self.n_actions))
        with torch.inference_mode():
            x = torch.from_numpy(obs).unsqueeze(0).float().div_(255)
            return int(self.net(x).argmax())

    def learn(self, batch):
        o, a, r, o2, d = batch
        with torch.no_grad():
            y = r + GAMMA * (1 - d) * self.target(o2).amax(1)
        q = self.net(o).gather(1, a[:, None])[:, 0]
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    game, agent = DodgeGame(SEED), DQN(3)
    buffer = FrameBuffer(CAPACITY, (3, SIDE, SIDE), SEED)
    ckpt = Checkpointer(os.path.join(HERE, "runs", "latest"))
    recent, total, t0 = deque(maxlen=50), 0.0, time.time()
    obs = game.reset()
    for step in range(1, TOTAL + 1):
        a = agent.act(obs, epsilon(step), rng)
        obs2, r, done, _ = game.step(a)
        buffer.push(obs, a, r, obs2, float(done))
        total += r
        obs = obs2
        if done:
            recent.append(total)
            total = 0.0
            obs = game.reset()
        if step >= START and step % TRAIN_EVERY == 0:
            agent.learn(buffer.sample(BATCH))
        if step % TARGET_EVERY == 0:
            agent.target.load_state_dict(agent.net.state_dict())
        if step % CKPT_EVERY == 0:
            ckpt.save(agent.net, agent.target, agent.opt, buffer, step)
        if step % 2000 == 0:
            print("step", step, "return", round(float(np.mean(recent)), 2), "eps", round(epsilon(step), 2),
                  "fps", int(step / (time.time() - t0)), flush=True)


if __name__ == "__main__":
    main()
