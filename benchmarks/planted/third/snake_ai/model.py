import torch
from torch import nn, optim


class LinearQNet(nn.Module):
    def __init__(self, n_in, hidden, n_out):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, n_out))

    def forward(self, x):
        return self.layers(x)


class QTrainer:
    def __init__(self, model, lr, gamma):
        self.model = model
        self.gamma = gamma
        self.optimizer = optim.Adam(model.parameters(), lr=lr)
        self.criterion = nn.MSELoss()

    def td_target(self, reward, next_state, done):
        target = reward.clone()
        with torch.no_grad():
            for i in range(len(target)):
                if not done[i]:
                    target[i] += self.gamma * torch.max(self.model(next_state[i]))
        return target

    def train_step(self, state, action, reward, next_state, done):
        state = torch.from_numpy(state)
        next_state = torch.from_numpy(next_state)
        action = torch.from_numpy(action)
        reward = torch.from_numpy(reward)

        q = self.model(state).gather(1, action.unsqueeze(1)).squeeze(1)
        target = self.td_target(reward, next_state, done)

        self.optimizer.zero_grad()
        loss = self.criterion(q, target)
        loss.backward()
        self.optimizer.step()
        return loss.item()
