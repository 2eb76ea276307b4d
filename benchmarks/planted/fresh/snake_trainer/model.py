import os

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

    def save(self, file_name="model.pth"):
        os.makedirs("./model", exist_ok=True)
        torch.save(self.state_dict(), os.path.join("./model", file_name))


class QTrainer:
    def __init__(self, model, target, lr, gamma):
        self.model, self.target, self.gamma = model, target, gamma
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def train_step(self, state, action, reward, next_state, done):
        state = torch.from_numpy(state)
        next_state = torch.from_numpy(next_state)
        action = torch.from_numpy(action).unsqueeze(1)
        reward = torch.from_numpy(reward)
        done = torch.from_numpy(done)
        q = self.model(state).gather(1, action).squeeze(1)
        with torch.no_grad():
            nxt = self.target(next_state).max(1).values
            y = reward + self.gamma * nxt * (1 - done)
        loss = F.smooth_l1_loss(q, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
