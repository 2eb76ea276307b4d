"""One process of A3C: it plays with a copy of the shared network and writes its gradients into the shared one."""

import torch
from game import ActorCritic, Game
from torch.distributions import Categorical


def rollout(env, net, obs, horizon, total):
    log_probs, values, rewards = [], [], []
    for _ in range(horizon):
        logits, value = net(torch.as_tensor(obs).unsqueeze(0))
        policy = Categorical(logits=logits)
        action = policy.sample()
        obs, reward, done, _, _ = env.step(int(action))
        with total.get_lock():
            total.value += 1
        log_probs.append(policy.log_prob(action))
        values.append(value.squeeze())
        rewards.append(reward)
        if done:
            obs, _ = env.reset()
    return obs, log_probs, values, rewards


def train(rank, shared, optimizer, rounds, total):
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    env, net = Game(), ActorCritic()
    obs, _ = env.reset(seed=rank)
    for _ in range(rounds):
        net.load_state_dict(shared.state_dict())
        obs, log_probs, values, rewards = rollout(env, net, obs, 20, total)
        return_, loss = 0.0, 0.0
        for log_prob, value, reward in zip(reversed(log_probs), reversed(values), reversed(rewards), strict=True):
            return_ = reward + 0.99 * return_
            loss = loss - log_prob * (return_ - value.detach()) + (return_ - value) ** 2
        net.zero_grad()
        loss.backward()
        for local, common in zip(net.parameters(), shared.parameters(), strict=True):
            common._grad = local.grad
        optimizer.step()
