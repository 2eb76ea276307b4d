"""PufferLib's recipe for CartPole as plain torch: modules, autograd, torch.optim.Adam; the environments are hotlap's.

python native_plain.py mlp|lstm STEPS
"""

import sys
import time
from statistics import median

import torch
from torch import Tensor, nn

import hotlap

ENVS, HORIZON, MINIBATCH, UNITS = 4096, 64, 32_768, 128
GAMMA, LAMBDA, CLIP, ALPHA, BETA = 0.95, 0.9, 0.2, 0.8, 0.2
kind, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(2)
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, UNITS), nn.GELU())
        self.lstm = nn.LSTM(UNITS, UNITS) if kind == "lstm" else None
        self.actor, self.critic = nn.Linear(UNITS, 2), nn.Linear(UNITS, 1)

    def forward(self, obs: Tensor, memory: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
        """Observations [time, batch, 4]; the memory is not cleared between episodes of a sequence."""
        x = self.encoder(obs)
        if self.lstm is not None:
            x, memory = self.lstm(x, memory)
        return self.actor(x), self.critic(x)[..., 0], memory


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, eps=1e-12)
env = hotlap.make_vec("cartpole", ENVS, seed=0, threads=2)
now, _ = env.reset()
memory: tuple[Tensor, Tensor] | None = None
obs, action = torch.zeros(HORIZON, ENVS, 4), torch.zeros(HORIZON, ENVS, dtype=torch.int64)
log_prob, value, reward, done = (torch.zeros(HORIZON, ENVS) for _ in range(4))
times: list[float] = []
made = 0
while made < steps:
    begin = time.perf_counter()
    lengths: list[float] = []
    with torch.no_grad():
        if memory is None and kind == "lstm":
            memory = (torch.zeros(1, ENVS, UNITS), torch.zeros(1, ENVS, UNITS))
        for t in range(HORIZON):
            obs[t] = torch.from_numpy(now)
            logits, seen, memory = net(obs[t][None], memory)
            policy = torch.distributions.Categorical(logits=logits[0], validate_args=False)
            action[t] = policy.sample()  # type: ignore[no-untyped-call]
            log_prob[t], value[t] = policy.log_prob(action[t]), seen[0]  # type: ignore[no-untyped-call]
            now, earned, terminated, truncated, info = env.step(action[t].numpy())
            reward[t], done[t] = torch.from_numpy(earned), torch.from_numpy(terminated | truncated)
            if memory is not None:
                memory = (memory[0] * (1 - done[t])[:, None], memory[1] * (1 - done[t])[:, None])
            if "_final_info" in info:
                lengths += info["final_info"]["length"][info["_final_info"]].tolist()
        after = net(torch.from_numpy(now)[None], memory)[1][0]
        advantage, running = torch.zeros_like(reward), torch.zeros(ENVS)
        for t in range(HORIZON - 1, -1, -1):
            following = after if t == HORIZON - 1 else value[t + 1]
            running = reward[t] + GAMMA * following * (1 - done[t]) - value[t] + GAMMA * LAMBDA * (1 - done[t]) * running
            advantage[t] = running
        returns = advantage + value
        weight = advantage.abs().sum(0) ** ALPHA
        probability = (weight + 1e-6) / (weight + 1e-6).sum()
    for _minibatch in range(ENVS * HORIZON // MINIBATCH):
        chosen = torch.multinomial(probability, MINIBATCH // HORIZON, replacement=True)
        scaled = advantage[:, chosen]
        scaled = (ENVS * probability[chosen]) ** -BETA * (scaled - scaled.mean()) / (scaled.std() + 1e-8)
        logits, seen, _ = net(obs[:, chosen], None)
        policy = torch.distributions.Categorical(logits=logits, validate_args=False)
        ratio = (policy.log_prob(action[:, chosen]) - log_prob[:, chosen]).exp()  # type: ignore[no-untyped-call]
        surrogate = torch.min(scaled * ratio, scaled * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
        near = value[:, chosen] + (seen - value[:, chosen]).clamp(-CLIP, CLIP)
        error = torch.max((seen - returns[:, chosen]) ** 2, (near - returns[:, chosen]) ** 2)
        loss = -surrogate + 2.0 * 0.5 * error.mean() - 0.001 * policy.entropy().mean()  # type: ignore[no-untyped-call]
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.5)
        optimizer.step()
    made += ENVS * HORIZON
    times.append(time.perf_counter() - begin)
    print(f"curve {made} {sum(times):.4f} {sum(lengths) / max(1, len(lengths)):.2f}")
print("parameters", sum(p.numel() for p in net.parameters()))
print("steps_per_s", ENVS * HORIZON / median(times[2:]), flush=True)
