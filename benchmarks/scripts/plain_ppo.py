"""PPO on CartPole in one plain file, torch and gymnasium only. Says how fast its own loop ran.

python plain_ppo.py STEPS [MINIBATCH]
"""

import sys
import time

import gymnasium
import numpy as np
import torch
from torch import nn

NUM_ENVS, HORIZON, EPOCHS = 8, 128, 4
MINIBATCH = int(sys.argv[2]) if len(sys.argv) > 2 else 256
GAMMA, LAMBDA, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, obs: torch.Tensor) -> tuple[torch.distributions.Categorical, torch.Tensor]:
        return torch.distributions.Categorical(logits=self.actor(obs)), self.critic(obs)[:, 0]


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    total = int(sys.argv[1])
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * NUM_ENVS)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    buffer = {name: torch.zeros(HORIZON, NUM_ENVS) for name in ("action", "log_prob", "reward", "done", "value")}
    seen = torch.zeros(HORIZON, NUM_ENVS, 4)
    obs = torch.from_numpy(envs.reset(seed=0)[0])
    begin, cpu_begin, steps = time.perf_counter(), time.process_time(), 0
    while steps < total:
        for t in range(HORIZON):
            with torch.no_grad():
                policy, value = agent(obs)
                action = policy.sample()
            seen[t], buffer["action"][t], buffer["value"][t] = obs, action, value
            buffer["log_prob"][t] = policy.log_prob(action)
            after, reward, terminated, truncated, _ = envs.step(action.numpy())
            buffer["reward"][t] = torch.from_numpy(reward)
            buffer["done"][t] = torch.from_numpy(terminated | truncated)
            obs = torch.from_numpy(after)
            steps += NUM_ENVS
        with torch.no_grad():
            following = agent(obs)[1]
        advantage, running = torch.zeros(HORIZON, NUM_ENVS), torch.zeros(NUM_ENVS)
        for t in reversed(range(HORIZON)):
            alive = 1 - buffer["done"][t]
            running = buffer["reward"][t] + GAMMA * following * alive - buffer["value"][t] + GAMMA * LAMBDA * alive * running
            advantage[t], following = running, buffer["value"][t]
        target = advantage + buffer["value"]
        flat = {name: tensor.flatten() for name, tensor in {**buffer, "advantage": advantage, "target": target}.items()}
        flat_obs = seen.flatten(0, 1)
        for _ in range(EPOCHS):
            order = torch.from_numpy(rng.permutation(HORIZON * NUM_ENVS))
            for rows in order.split(MINIBATCH):  # type: ignore[no-untyped-call]
                policy, value = agent(flat_obs[rows])
                scaled = flat["advantage"][rows]
                scaled = (scaled - scaled.mean()) / (scaled.std() + 1e-8)
                ratio = (policy.log_prob(flat["action"][rows]) - flat["log_prob"][rows]).exp()
                surrogate = torch.min(scaled * ratio, scaled * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                loss = VALUE * (value - flat["target"][rows]).pow(2).mean() - surrogate - ENTROPY * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
    print("cpu_s_per_step", (time.process_time() - cpu_begin) / steps)
    print("steps_per_s", steps / (time.perf_counter() - begin), flush=True)


if __name__ == "__main__":
    main()
