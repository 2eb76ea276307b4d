"""Advantage actor-critic on a vector of landers, with an Adam of its own and target weights that follow slowly."""

import numpy as np
import torch
from torch import nn

N_ENVS, STEPS = 32, 8


class Landers:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.reset()

    def reset(self):
        self.state = self.rng.normal(0, 1, (N_ENVS, 4)).astype(np.float32)
        self.age = np.zeros(N_ENVS, int)
        return self.state.copy()

    def step(self, action):
        self.state[:, 2:] += 0.1 * np.stack([action - 1, -np.ones(N_ENVS)], 1)
        self.state[:, :2] += 0.1 * self.state[:, 2:]
        self.age += 1
        done = (np.abs(self.state[:, 0]) > 3) | (self.age >= 200)
        reward = 1.0 - np.abs(self.state[:, 0])
        self.state[done] = self.rng.normal(0, 1, (int(done.sum()), 4))
        self.age[done] = 0
        return self.state.copy(), reward.astype(np.float32), done, {}


class MyAdam(torch.optim.Optimizer):
    """Adam as the paper has it."""

    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            for w in group["params"]:
                state = self.state[w]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(w), torch.zeros_like(w)
                m, v, grad = state["m"], state["v"], w.grad
                m.mul_(0.9).add_(grad, alpha=0.1)
                v.mul_(0.999).addcmul_(grad, grad, value=0.001)
                step = (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)).sqrt() + 1e-8)
                w -= group["lr"] * step


def network(outputs):
    layers = [nn.Linear(4, 32), nn.Tanh()]
    for _ in range(10):
        layers += [nn.Linear(32, 32), nn.LayerNorm(32), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(32, outputs))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env, actor, critic, slow = Landers(), network(3), network(1), network(1)
    slow.load_state_dict(critic.state_dict())
    optimizer = MyAdam([*actor.parameters(), *critic.parameters()])
    obs, updates = env.reset(), 0
    while True:
        seen, chosen, rewards, masks = [], [], [], []
        for _ in range(STEPS):
            with torch.no_grad():
                action = torch.distributions.Categorical(logits=actor(torch.from_numpy(obs)), validate_args=False).sample().numpy()
            new, reward, done, _ = env.step(action)
            seen.append(obs)
            chosen.append(action)
            rewards.append(reward)
            masks.append(1.0 - done.astype(np.float32))
            obs = new
        with torch.no_grad():
            value = slow(torch.from_numpy(obs)).squeeze(-1).numpy()
        returns = np.zeros((STEPS, N_ENVS), np.float32)
        for t in reversed(range(STEPS)):
            value = rewards[t] + 0.99 * masks[t] * value
            returns[t] = value
        states, actions = torch.from_numpy(np.concatenate(seen)), torch.from_numpy(np.concatenate(chosen))
        goal, values = torch.from_numpy(returns.reshape(-1)), critic(states).squeeze(-1)
        log_prob = torch.log_softmax(actor(states), -1).gather(1, actions[:, None]).squeeze(1)
        loss = -(log_prob * (goal - values).detach()).mean() + (goal - values).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for a, b in zip(slow.parameters(), critic.parameters()):
                a.mul_(0.995).add_(b, alpha=0.005)
        updates += 1
        if updates % 200 == 0:
            print(updates, loss.item())


if __name__ == "__main__":
    main()
