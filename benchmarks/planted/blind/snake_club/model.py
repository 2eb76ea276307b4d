import copy
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

    def save(self, folder, file_name="model.pth"):
        os.makedirs(folder, exist_ok=True)
        torch.save(self.state_dict(), os.path.join(folder, file_name))


class QTrainer:
    def __init__(self, model, lr, gamma):
        self.gamma = gamma
        self.model = model
        self.target_model = copy.deepcopy(model)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
        self.criterion = nn.MSELoss()
        self.updates = 0

    def train_step(self, state, action, reward, next_state, done):
        state = torch.from_numpy(state)
        next_state = torch.from_numpy(next_state)
        action = torch.from_numpy(action)
        reward = torch.from_numpy(reward)

        # 1: predicted Q values with the current state
        pred = self.model(state)

        # 2: Q_new = r + gamma * max(next Q) -> only if not done
        target = pred.detach().clone()
        with torch.no_grad():
            for idx in range(len(done)):
                Q_new = reward[idx]
                if not done[idx]:
                    Q_new = reward[idx] + self.gamma * torch.max(self.target_model(next_state[idx]))
                target[idx][action[idx]] = Q_new

        self.optimizer.zero_grad(set_to_none=True)
        loss = self.criterion(pred, target)
        loss.backward()
        self.optimizer.step()

        self.updates += 1
        if self.updates % 500 == 0:
            self.target_model.load_state_dict(self.model.state_dict())
        return loss.detach()
