# Online decision transformer on the cart with a load (exported from odt_cart.ipynb)
import time

import numpy as np
import torch

import cartpull
from data import TrajectoryBuffer
from model import DecisionTransformer

# %% parameters
params = dict(
    seed=13, context=6, batch_size=64, lr=6e-4, weight_decay=1e-4,
    offline_episodes=40, buffer=120, envs=16, target_return=800.0, scale=500.0, explore=0.15,
    env_steps_per_chunk=40, updates_per_chunk=16, total_env_steps=50_000_000,
)
rng = np.random.default_rng(params["seed"])
torch.manual_seed(params["seed"])
torch.set_num_threads(1)

# %% data from scripted controllers
buffer = TrajectoryBuffer(params["buffer"], params["seed"])
buffer.add(*cartpull.scripted_episodes(params["offline_episodes"], rng))
print("offline returns: mean %.1f best %.1f" % (np.mean([t["return"] for t in buffer.trajectories]), buffer.trajectories[-1]["return"]))

# %% model
model = DecisionTransformer(cartpull.STATE_DIM, cartpull.ACT_DIM, cartpull.HORIZON)
optimizer = torch.optim.AdamW(model.parameters(), lr=params["lr"], weight_decay=params["weight_decay"], fused=True)


# %% acting
def interact(chunk):
    """Generator: plays episodes in all copies, pauses after every `chunk` steps; yields finished episodes or None."""
    n, k = params["envs"], params["context"]
    while True:
        s = cartpull.init_state(n, rng)
        states = np.zeros((n, cartpull.HORIZON, cartpull.STATE_DIM), dtype=np.float32)
        actions = np.zeros((n, cartpull.HORIZON, cartpull.ACT_DIM), dtype=np.float32)
        rewards = np.zeros((n, cartpull.HORIZON), dtype=np.float32)
        rtg = np.zeros((n, cartpull.HORIZON, 1), dtype=np.float32)
        rtg[:, 0] = params["target_return"] / params["scale"]
        for t in range(cartpull.HORIZON):
            states[:, t] = s
            lo = max(0, t - k + 1)
            with torch.inference_mode():
                window = ((states[:, lo:t + 1] - buffer.mean) / buffer.std).astype(np.float32)
                steps = torch.arange(lo, t + 1).expand(n, -1)
                a = model(torch.from_numpy(window), torch.from_numpy(actions[:, lo:t + 1]), torch.from_numpy(rtg[:, lo:t + 1]), steps)[:, -1].numpy()
            a = np.clip(a + params["explore"] * rng.standard_normal(a.shape), -1, 1).astype(np.float32)
            actions[:, t] = a
            s, rewards[:, t] = cartpull.dynamics(s, a)
            if t + 1 < cartpull.HORIZON:
                rtg[:, t + 1, 0] = rtg[:, t, 0] - rewards[:, t] / params["scale"]
                if (t + 1) % chunk == 0:
                    yield None
        yield states, actions, rewards


# %% training
env_steps, updates, losses, returns = 0, 0, [], []
start = last = time.time()
for finished in interact(params["env_steps_per_chunk"]):
    env_steps += params["env_steps_per_chunk"] * params["envs"]
    if finished is not None:
        buffer.add(*finished)
        returns.append(float(finished[2].sum(1).mean()))
    model.train()
    for _ in range(params["updates_per_chunk"]):
        s, a, rtg, steps = buffer.get_batch(params["batch_size"], params["context"], params["scale"])
        loss = (model(s, a, rtg, steps) - a).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        updates += 1
        losses.append(loss.detach())
    if time.time() - last > 1.0:
        last = time.time()
        print("%6.1f s  env steps %8d  updates %6d  loss %.4f  online return %s" % (
            last - start, env_steps, updates, torch.stack(losses).mean().item(), "%.1f" % returns[-1] if returns else "-"), flush=True)
        losses.clear()
    if env_steps >= params["total_env_steps"]:
        break
