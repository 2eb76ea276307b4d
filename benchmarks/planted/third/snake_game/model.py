import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Linear_QNet(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.linear1 = nn.Linear(input_size, hidden_size)
        self.linear2 = nn.Linear(hidden_size, output_size)

    def forward(self, x):
        return self.linear2(F.relu(self.linear1(x)))


class Memory:
    def __init__(self, size, state_size):
        self.state = np.zeros((size, state_size), np.float32)
        self.next_state = np.zeros((size, state_size), np.float32)
        self.action = np.zeros(size, np.int64)
        self.reward = np.zeros(size, np.float32)
        self.done = np.zeros(size, np.float32)
        self.size, self.n, self.i = size, 0, 0

    def push(self, s, a, r, s2, d):
        i = self.i
        self.state[i], self.action[i], self.reward[i], self.next_state[i], self.done[i] = s, a, r, s2, d
        self.i = (i + 1) % self.size
        self.n = min(self.n + 1, self.size)

    def sample(self, k):
        idx = np.random.randint(0, self.n, k)
        return [torch.from_numpy(b[idx]) for b in (self.state, self.action, self.reward, self.next_state, self.done)]


class QTrainer:
    def __init__(self, model, lr, gamma):
        self.model = model
        self.gamma = gamma
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)

    def train_step(self, batch):
        s, a, r, s2, d = batch
        with torch.no_grad():
            target = r + self.gamma * (1 - d) * self.model(s2).max(1).values
        q = self.model(s).gather(1, a[:, None])[:, 0]
        loss = F.mse_loss(q, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
