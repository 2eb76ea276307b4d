"""Training utilities: AMSGrad with decoupled weight decay, gradient clipping, averaged target networks."""
import copy
import math

import torch


class AdamW(torch.optim.Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter, 2019), AMSGrad variant."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                    state["v_max"] = torch.zeros_like(p)
                state["step"] += 1
                m, v, v_max = state["m"], state["v"], state["v_max"]
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                v_max.copy_(torch.maximum(v_max, v))
                m_hat = m / (1 - b1 ** state["step"])
                v_hat = v_max / (1 - b2 ** state["step"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]))


def clip_gradients(params, max_norm):
    total = 0.0
    for p in params:
        if p.grad is not None:
            total += p.grad.norm(2).item() ** 2
    total = math.sqrt(total)
    scale = max_norm / (total + 1e-6)
    if scale < 1:
        for p in params:
            if p.grad is not None:
                p.grad.mul_(scale)
    return total


class TargetNetwork:
    """Exponential moving average of a network."""

    def __init__(self, net, decay):
        self.decay = decay
        self.online = net
        self.net = copy.deepcopy(net).requires_grad_(False)

    def __call__(self, *args):
        return self.net(*args)

    @torch.no_grad()
    def update(self):
        old, new = self.net.state_dict(), self.online.state_dict()
        self.net.load_state_dict({k: self.decay * old[k] + (1 - self.decay) * new[k] for k in new})


def build_optimizer(params, cfg):
    return AdamW(params, lr=cfg["lr"], betas=tuple(cfg["betas"]), eps=cfg["eps"], weight_decay=cfg["weight_decay"])
