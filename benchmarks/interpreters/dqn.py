"""DQN on CartPole as one file, for any torch since 1.13 and any gym or Gymnasium: `python dqn.py STEPS`."""

import hashlib
import json
import random
import sys
from collections import deque

import numpy as np
import torch
from plain_ppo import gym, reset, step
from torch import nn


def make_net(inputs, actions):
    return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, actions))


def learn(net, target, optimizer, batch):
    observations, actions, rewards, following, done = (np.array(column) for column in zip(*batch))
    with torch.no_grad():
        best = target(torch.as_tensor(following, dtype=torch.float32)).max(1)[0]
    wanted = torch.as_tensor(rewards, dtype=torch.float32) + 0.99 * best * (1 - torch.as_tensor(done, dtype=torch.float32))
    values = net(torch.as_tensor(observations, dtype=torch.float32)).gather(1, torch.as_tensor(actions)[:, None])[:, 0]
    loss = nn.functional.smooth_l1_loss(values, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    total = int(sys.argv[1])
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    env = gym.make("CartPole-v1")
    net, target = (make_net(env.observation_space.shape[0], int(env.action_space.n)) for _ in range(2))
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    memory = deque(maxlen=10_000)
    observation, steps = reset(env, seed=0), 0
    while steps < total:
        if random.random() < max(0.05, 1 - steps / 1000):
            action = random.randrange(int(env.action_space.n))
        else:
            with torch.no_grad():
                action = int(net(torch.as_tensor(observation, dtype=torch.float32)[None]).argmax())
        following, reward, done = step(env, action)
        memory.append((observation, action, float(reward), following, done))
        observation = reset(env) if done else following
        steps += 1
        if len(memory) >= 200 and steps % 4 == 0:
            learn(net, target, optimizer, random.sample(memory, 64))
        if steps % 250 == 0:
            target.load_state_dict(net.state_dict())
    weights = b"".join(value.numpy().tobytes() for value in net.state_dict().values())
    print(json.dumps({"env_steps": steps, "weights": hashlib.sha256(weights).hexdigest()}))


if __name__ == "__main__":
    main()
