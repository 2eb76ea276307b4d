import torch
import torch.nn as nn
import torch.nn.functional as F


class QRNet(nn.Module):
    def __init__(self, obs_dim, n_actions, n_quant=25, hidden=96):
        super().__init__()
        self.n_actions, self.n_quant = n_actions, n_quant
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(),
                                  nn.Linear(hidden, hidden), nn.ReLU(),
                                  nn.Linear(hidden, n_actions * n_quant))

    def forward(self, x):
        return self.body(x).view(-1, self.n_actions, self.n_quant)


class QRAgent:
    def __init__(self, obs_dim, n_actions, lr=5e-4, gamma=0.97, tau_sync=400):
        self.net = QRNet(obs_dim, n_actions)
        self.tgt = QRNet(obs_dim, n_actions)
        self.tgt.load_state_dict(self.net.state_dict())
        self.opt = torch.optim.Adam(self.net.parameters(), lr=lr, fused=True)
        self.gamma = gamma
        self.sync = tau_sync
        n = self.net.n_quant
        self.taus = ((torch.arange(n) + 0.5) / n).view(1, 1, n)
        self.k = 0

    @torch.inference_mode()
    def greedy(self, obs):
        return self.net(torch.from_numpy(obs)).mean(-1).argmax(-1).numpy()

    def learn(self, batch):
        s, a, r, s2, d = (torch.from_numpy(x) for x in batch)
        rows = torch.arange(len(a))
        with torch.no_grad():
            best = self.net(s2).mean(-1).argmax(-1)
            nq = self.tgt(s2)[rows, best]
            y = r[:, None] + self.gamma * (1 - d[:, None]) * nq
        q = self.net(s)[rows, a]
        u = y.unsqueeze(2) - q.unsqueeze(1)              # B x target x quantile
        hub = F.huber_loss(q.unsqueeze(1).expand_as(u), y.unsqueeze(2).expand_as(u), reduction="none")
        loss = ((self.taus - (u.detach() < 0).float()).abs() * hub).sum(2).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        self.k += 1
        if self.k % self.sync == 0:
            self.tgt.load_state_dict(self.net.state_dict())
        return loss.detach()
