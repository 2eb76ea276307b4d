import numpy as np
import torch
import torch.nn.functional as F

from envs import TrackerBatch
from model import ActorCritic


def pull(local, shared):
    for p, sp in zip(local.parameters(), shared.parameters()):
        p.data.copy_(sp.data)


def push_gradients(local, shared):
    for p, sp in zip(local.parameters(), shared.parameters()):
        sp.grad = p.grad


def train_worker(rank, args, shared, optimizer, steps, score):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed + rank)
    env = TrackerBatch(args.envs, args.horizon, args.seed + rank)
    model = ActorCritic(env.obs_dim, env.n_actions)
    params = list(model.parameters())

    obs = torch.from_numpy(env.reset())
    state = model.initial_state(args.envs)
    episode_reward = 0.0

    while steps.value < args.total_steps:
        pull(model, shared)
        log_probs, entropies, values, rewards, masks = [], [], [], [], []

        for _ in range(args.num_steps):
            logits, value, state = model(obs, state)
            log_prob = F.log_softmax(logits, dim=-1)
            prob = log_prob.exp()
            action = prob.detach().multinomial(1)
            entropies.append(-(prob * log_prob).sum(1))
            log_probs.append(log_prob.gather(1, action).squeeze(1))
            values.append(value)

            next_obs, reward, done = env.step(action.squeeze(1).numpy())
            rewards.append(torch.from_numpy(reward))
            masks.append(0.0 if done else 1.0)
            episode_reward += float(reward.mean())
            if done:
                with score.get_lock():
                    score.value = 0.9 * score.value + 0.1 * episode_reward
                episode_reward = 0.0
                next_obs = env.reset()
                state = model.initial_state(args.envs)
            obs = torch.from_numpy(next_obs)

        with torch.no_grad():
            ret = model(obs, state)[1]
        returns = []
        for reward, mask in zip(reversed(rewards), reversed(masks)):
            ret = reward + args.gamma * mask * ret
            returns.append(ret)
        returns = torch.stack(returns[::-1])
        values, log_probs, entropies = torch.stack(values), torch.stack(log_probs), torch.stack(entropies)
        advantage = returns - values
        policy_loss = -(log_probs * advantage.detach() + args.entropy * entropies).mean()
        loss = policy_loss + args.value_coef * advantage.pow(2).mean()

        for p in params:
            p.grad = None
        loss.backward(retain_graph=True)
        torch.nn.utils.clip_grad_norm_(params, args.max_grad_norm)
        push_gradients(model, shared)
        optimizer.step()
        with steps.get_lock():
            steps.value += args.num_steps * args.envs
