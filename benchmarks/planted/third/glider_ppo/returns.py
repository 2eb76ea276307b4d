import torch


def gae(rewards, values, dones, last_value, gamma, lam):
    """Generalised advantage estimation for one trajectory (1-D tensors)."""
    advantages = torch.zeros_like(rewards)
    running = torch.zeros(())
    next_value = last_value
    for t in reversed(range(len(rewards))):
        mask = 1.0 - dones[t]
        delta = rewards[t] + gamma * next_value * mask - values[t]
        running = delta + gamma * lam * mask * running
        advantages[t] = running
        next_value = values[t]
    return advantages


def batch_gae(rewards, values, dones, last_values, gamma, lam):
    """rewards, values, dones: (T, N); last_values: (N,). Returns advantages and value targets, (T, N)."""
    columns = [
        gae(rewards[:, n], values[:, n], dones[:, n], last_values[n], gamma, lam)
        for n in range(rewards.shape[1])
    ]
    advantages = torch.stack(columns, 1)
    return advantages, advantages + values
