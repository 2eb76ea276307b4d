"""Double DQN with a custom optimizer on CartPole."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn


class AdaBelief(torch.optim.Optimizer):
    def __init__(self, params, lr=5e-4, beta1=0.9, beta2=0.999):
        super().__init__(params, {"lr": lr, "beta1": beta1, "beta2": beta2})
        for group in self.param_groups:
            group["mean"] = [torch.zeros_like(p) for p in group["params"]]
            group["spread"] = [torch.zeros_like(p) for p in group["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2, lr = group["beta1"], group["beta2"], group["lr"]
            for p, m, s in zip(group["params"], group["mean"], group["spread"]):
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                diff = p.grad - m
                s.mul_(b2).addcmul_(diff, diff, value=1 - b2)
                denom = s.sqrt().add_(1e-8)
                p.addcdiv_(m, denom, value=-lr)


def clip_gradients(params, limit):
    total = torch.zeros(())
    for p in params:
        total = total + p.grad.square().sum()
    scale = torch.clamp(limit / (total.sqrt() + 1e-6), max=1.0)
    for p in params:
        p.grad.mul_(scale)


@torch.no_grad()
def soft_update(net, target, tau=0.005):
    for p, q in zip(net.parameters(), target.parameters()):
        q.data.copy_((1 - tau) * q.data + tau * p.data)


class Tower(nn.Module):
    """Several small value heads on one trunk, averaged."""

    def __init__(self, inputs, moves, width=32, heads=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.scales = nn.ParameterList([torch.ones(width) for _ in range(heads)])
        self.shifts = nn.ParameterList([torch.zeros(width) for _ in range(heads)])
        self.tops = nn.ParameterList([0.1 * torch.randn(width, moves) for _ in range(heads)])

    def forward(self, x):
        h = self.trunk(x)
        top = torch.stack(list(self.tops))
        top = top * torch.stack(list(self.scales))[:, :, None]
        return h @ top.mean(0) + torch.stack(list(self.shifts)).mean()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    n, size, batch, gamma, moves = 256, 102_400, 256, 0.98, 2
    envs = gym.make_vec("CartPole-v1", num_envs=n, vectorization_mode="vector_entry_point")
    net, target = Tower(4, moves), Tower(4, moves)
    target.load_state_dict(net.state_dict())
    params = list(net.parameters())
    optimizer = AdaBelief(params)
    states, after = np.zeros((2, size, 4), np.float32)
    taken, (rewards, ends) = np.zeros(size, np.int64), np.zeros((2, size), np.float32)
    obs, _ = envs.reset(seed=0)
    for step in range(1_000_000):
        with torch.no_grad():
            actions = net(torch.from_numpy(obs)).argmax(1).numpy()
        explore = rng.random(n) < 0.1
        actions[explore] = rng.integers(0, moves, explore.sum())
        new, reward, end, late, _ = envs.step(actions)
        at = slice(step * n % size, step * n % size + n)
        states[at], taken[at], rewards[at], after[at], ends[at] = obs, actions, reward, new, end
        obs = new
        pick = rng.integers(0, min((step + 1) * n, size), batch)
        state, action, gain, nxt, stop = (torch.from_numpy(x[pick]) for x in (states, taken, rewards, after, ends))
        with torch.no_grad():
            goal = gain + gamma * (1 - stop) * target(nxt).gather(1, net(nxt).argmax(1, True)).squeeze(1)
        value = net(state).gather(1, action[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        clip_gradients(params, 10.0)
        optimizer.step()
        soft_update(net, target)
        if step % 1000 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
