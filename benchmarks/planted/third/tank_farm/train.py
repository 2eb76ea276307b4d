# %% [markdown]
# # Pump scheduling for tank farms: double DQN on a batch of simulated farms

# %%
import torch
from tqdm import tqdm

from agent import DoubleDQN
from memory import ReplayMemory
from plant import TankFarm

CFG = dict(
    seed=11,
    n_farms=256,
    memory=200_000,
    batch=256,
    warmup=2_000,
    lr=5e-4,
    gamma=0.97,
    hidden=[64, 64],
    target_every=250,
    eps=(1.0, 0.05, 3_000),
    vector_steps=400_000,
)

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(CFG["seed"])
farm = TankFarm(CFG["n_farms"], device, CFG["seed"])
agent = DoubleDQN(farm.obs_dim, farm.n_actions, CFG, device)
memory = ReplayMemory(CFG["memory"], farm.obs_dim, device)


def epsilon(k):
    hi, lo, n = CFG["eps"]
    return max(lo, hi + (lo - hi) * k / n)


# %%
obs = farm.reset()
mean_reward, mean_loss = 0.0, 0.0
bar = tqdm(range(CFG["vector_steps"]), mininterval=2.0)
for k in bar:
    action = agent.act(obs, epsilon(k))
    next_obs, reward, terminal, done, final_obs = farm.step(action)
    agent.remember(memory, obs, action, reward, final_obs, terminal)
    obs = next_obs
    if memory.size >= CFG["warmup"]:
        loss = agent.learn(memory.sample(CFG["batch"]))
        if k % 100 == 0:
            mean_loss = 0.9 * mean_loss + 0.1 * float(loss)
            mean_reward = 0.9 * mean_reward + 0.1 * float(reward.mean())
            bar.set_postfix(reward=f"{mean_reward:.3f}", loss=f"{mean_loss:.4f}", eps=f"{epsilon(k):.2f}", refresh=False)

# %%
torch.save(agent.q.state_dict(), "tank_farm_q.pt")
