import torch
import torch.nn.functional as F


class Learner:
    def __init__(self, net, cfg):
        self.net, self.cfg = net, cfg
        self.opt = torch.optim.RMSprop(net.parameters(), lr=cfg["lr"], eps=1e-3)

    def learn(self, o, a, mu, r, d):
        c = self.cfg
        T, k = a.shape
        o, a, mu, r, d = map(torch.from_numpy, (o, a, mu, r, d))
        logits, v = self.net(o.flatten(0, 1))
        logits, v = logits.view(T + 1, k, -1), v.view(T + 1, k)
        logp = F.log_softmax(logits[:-1], -1)
        lp = logp.gather(-1, a.unsqueeze(-1)).squeeze(-1)
        with torch.no_grad():
            rho = (lp - mu).exp().clamp(max=c["clip_rho"])
            disc = c["gamma"] * (1 - d)
            delta = rho * (r + disc * v[1:] - v[:-1])
            acc, vs = torch.zeros(k), []
            for t in reversed(range(T)):
                acc = delta[t] + disc[t] * rho[t] * acc
                vs.insert(0, acc + v[t])
            vs = torch.stack(vs + [v[-1]])
            adv = rho * (r + disc * vs[1:] - v[:-1])
        loss = (-(lp * adv).mean() + c["value_coef"] * F.mse_loss(v[:-1], vs[:-1])
                + c["entropy_coef"] * (logp.exp() * logp).sum(-1).mean())
        self.opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 10.0)
        self.opt.step()
        return loss.item()
