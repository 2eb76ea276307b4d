#!/usr/bin/env python
# coding: utf-8

# # Catching fruit with deep Q-learning
# converted from catch_dqn.ipynb

# In[1]:

import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
from tqdm import tqdm

torch.set_num_threads(1)
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)


# In[2]:

class FruitEnv:
    """Basket at the bottom of a 10x10 field, fruit falls with a sideways drift."""
    size = 10
    n_actions = 3

    def __init__(self):
        self.state_size = 6

    def reset(self):
        self.basket = self.size // 2
        self.caught = 0
        self.t = 0
        self._new_fruit()
        return self._get_state()

    def _new_fruit(self):
        self.fx = random.uniform(0, self.size - 1)
        self.fy = 0.0
        self.vx = random.uniform(-0.4, 0.4)

    def _get_state(self):
        s = self.size
        return np.array([[self.basket / s, self.fx / s, self.fy / s, self.vx,
                          (self.fx - self.basket) / s, self.t / 100]], dtype=np.float32)

    def step(self, action):
        self.basket = min(max(self.basket + action - 1, 0), self.size - 1)
        self.fy += 1.0
        self.fx += self.vx
        if self.fx < 0 or self.fx > self.size - 1:
            self.vx = -self.vx
            self.fx = min(max(self.fx, 0), self.size - 1)
        self.t += 1
        reward = 0.0
        if self.fy >= self.size - 1:
            hit = abs(self.fx - self.basket) <= 1
            reward = 1.0 if hit else -1.0
            self.caught += hit
            self._new_fruit()
        done = self.t >= 100
        return self._get_state(), reward, done, {"caught": self.caught}


env = FruitEnv()
state_size, action_size = env.state_size, env.n_actions


# In[3]:

class DQNAgent:
    def __init__(self, state_size, action_size):
        self.state_size = state_size
        self.action_size = action_size
        self.memory = deque(maxlen=5000)
        self.gamma = 0.95
        self.epsilon = 1.0
        self.epsilon_min = 0.05
        self.epsilon_decay = 0.97
        self.model = self._build_model()
        self.target_model = self._build_model()
        self.update_target_model()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.criterion = nn.MSELoss()

    def _build_model(self):
        return nn.Sequential(
            nn.Linear(self.state_size, 48), nn.ReLU(),
            nn.Linear(48, 48), nn.ReLU(),
            nn.Linear(48, self.action_size),
        )

    def update_target_model(self):
        self.target_model.load_state_dict(self.model.state_dict())

    def predict(self, model, state):
        with torch.no_grad():
            return model(torch.from_numpy(state)).numpy()

    def remember(self, state, action, reward, next_state, done):
        self.memory.append((state, action, reward, next_state, done))

    def act(self, state):
        if random.random() <= self.epsilon:
            return random.randrange(self.action_size)
        return int(np.argmax(self.predict(self.model, state)[0]))

    def replay(self, batch_size):
        minibatch = random.sample(self.memory, batch_size)
        states, targets = [], []
        for state, action, reward, next_state, done in minibatch:
            target = self.predict(self.model, state)
            if done:
                target[0][action] = reward
            else:
                t = self.predict(self.target_model, next_state)[0]
                target[0][action] = reward + self.gamma * np.amax(t)
            states.append(state[0])
            targets.append(target[0])
        x = torch.from_numpy(np.stack(states))
        y = torch.from_numpy(np.stack(targets))
        loss = self.criterion(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


# In[4]:

agent = DQNAgent(state_size, action_size)
batch_size = 64
n_episodes = 2000
scores = []
total_steps = 0
output = "catch_weights.pt"


# In[5]:

bar = tqdm(range(n_episodes), mininterval=1.0)
for e in bar:
    state = env.reset()
    done = False
    losses = []
    while not done:
        action = agent.act(state)
        next_state, reward, done, info = env.step(action)
        agent.remember(state, action, reward, next_state, done)
        state = next_state
        total_steps += 1
        if len(agent.memory) > 500 and total_steps % 2 == 0:
            losses.append(agent.replay(batch_size))
    agent.update_target_model()
    if len(agent.memory) > 500:
        agent.epsilon = max(agent.epsilon_min, agent.epsilon * agent.epsilon_decay)
    scores.append(info["caught"])
    if (e + 1) % 2 == 0:
        tqdm.write(f"episode {e + 1} steps {total_steps} caught {np.mean(scores[-20:]):.2f} "
                   f"eps {agent.epsilon:.2f} loss {np.mean(losses) if losses else 0:.4f}")


# In[6]:

torch.save(agent.model.state_dict(), output)
# plt.plot(scores)
