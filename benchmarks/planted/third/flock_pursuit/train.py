import pathlib

import numpy as np
import torch
import yaml
from tqdm import trange

from mappo import PPO, Swarm
from pursuit_env import PursuitEnv

here = pathlib.Path(__file__).parent
cfg = yaml.safe_load((here / "config" / "pursuit.yaml").read_text())
torch.manual_seed(cfg["seed"])
torch.set_num_threads(1)          # the nets are small

env = PursuitEnv(**cfg["env"])
names = env.possible_agents
n, horizon = len(names), cfg["ppo"]["horizon"]
net = Swarm(env.obs_dim, 2, cfg["ppo"]["width"])
ppo = PPO(net, cfg["ppo"])

obs_buf = np.zeros((horizon, n, env.obs_dim), np.float32)
act_buf = np.zeros((horizon, n, 2), np.float32)
logp_buf, val_buf, rew_buf, end_buf = np.zeros((4, horizon, n), np.float32)


def stack(d):
    return np.stack([d[name] for name in names])


obs, _ = env.reset(seed=cfg["seed"])
obs = stack(obs)
score = []
bar = trange(cfg["iterations"], mininterval=1.0)
for iteration in bar:
    for t in range(horizon):
        action, logp, value = net.step(obs)
        obs_buf[t], act_buf[t], logp_buf[t], val_buf[t] = obs, action, logp, value
        nxt, rewards, _, over, _ = env.step(dict(zip(names, action)))
        rew_buf[t] = [rewards[name] for name in names]
        end_buf[t] = over[names[0]]
        if not env.agents:
            nxt, _ = env.reset()
        obs = stack(nxt)
    last = net.step(obs)[2]
    adv = ppo.gae(rew_buf, val_buf, last, end_buf)
    loss = ppo.update(obs_buf, act_buf, logp_buf, adv, adv + val_buf)
    score.append(float(rew_buf.mean()))
    bar.set_postfix(reward=f"{np.mean(score[-20:]):.3f}", loss=f"{loss:.3f}", refresh=False)
    if iteration % 1000 == 999:
        torch.save(net.state_dict(), here / "swarm.pt")
