import math

import torch


class SharedAdam(torch.optim.Adam):
    """Adam whose state lies in shared memory (after ikostrikov/pytorch-a3c)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, lr=lr, betas=betas, eps=eps, foreach=False)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = {"step": torch.zeros(1), "exp_avg": torch.zeros_like(p.data), "exp_avg_sq": torch.zeros_like(p.data)}

    def share_memory(self):
        for state in self.state.values():
            for value in state.values():
                value.share_memory_()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["step"] += 1
                t = state["step"].item()
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                denom = state["exp_avg_sq"].sqrt().add_(group["eps"])
                size = group["lr"] * math.sqrt(1 - beta2 ** t) / (1 - beta1 ** t)
                p.data.addcdiv_(state["exp_avg"], denom, value=-size)
