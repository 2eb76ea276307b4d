# %% [markdown]
# # Memory corridor with a GRU policy
# exported from notebooks/memory_corridor.ipynb

# %%
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from corridor import Corridors

torch.set_num_threads(1)
torch.manual_seed(1)

# %%
NUM = 128          # corridors walked side by side
LENGTH = 40        # all of them are equally long, so that episodes end together
HID = 128
GAMMA = 0.98
ROUNDS = 200_000

envs = Corridors(NUM, LENGTH, seed=1)


# %%
class Walker(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(envs.obs_dim, HID)
        self.rnn = nn.GRU(HID, HID)
        self.pi = nn.Linear(HID, envs.n_actions)
        self.v = nn.Linear(HID, 1)

    def forward(self, x, h):
        z, h = self.rnn(F.relu(self.inp(x)), h)
        return self.pi(z), self.v(z).squeeze(-1), h


net = Walker()
opt = torch.optim.Adam(net.parameters(), lr=5e-4, fused=True)


# %%
def walk():
    """one episode of every corridor, the hidden state carried from step to step"""
    x = envs.reset()
    h = torch.zeros(1, NUM, HID)
    xs = np.zeros((LENGTH, NUM, envs.obs_dim), np.float32)
    acts = np.zeros((LENGTH, NUM), np.int64)
    rews = np.zeros((LENGTH, NUM), np.float32)
    with torch.inference_mode():
        for t in range(LENGTH):
            xs[t] = x
            logits, _, h = net(torch.from_numpy(x)[None], h)
            acts[t] = torch.multinomial(logits[0].softmax(-1), 1)[:, 0].numpy()
            x, rews[t] = envs.step(acts[t])
    return xs, acts, rews


def returns(rews):
    g, out = np.zeros(NUM, np.float32), np.zeros_like(rews)
    for t in reversed(range(LENGTH)):
        g = rews[t] + GAMMA * g
        out[t] = g
    return out


# %%
steps, t0 = 0, time.time()
history = []
for k in range(1, ROUNDS + 1):
    xs, acts, rews = walk()
    ret = torch.from_numpy(returns(rews))
    logits, v, _ = net(torch.from_numpy(xs), torch.zeros(1, NUM, HID))
    logp = F.log_softmax(logits, -1)
    adv = ret - v.detach()
    pg = -(logp.gather(2, torch.from_numpy(acts).unsqueeze(2)).squeeze(2) * adv).mean()
    ent = -(logp.exp() * logp).sum(-1).mean()
    loss = pg + 0.5 * F.mse_loss(v, ret) - 0.02 * ent
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    steps += NUM * LENGTH
    history.append(float(rews.sum(0).mean()))
    if k % 20 == 0:
        print(f"round {k}: return {np.mean(history[-20:]):.3f}  entropy {ent.item():.3f}  {steps / (time.time() - t0):.0f} steps/s", flush=True)

# %%
# plt.plot(history)
