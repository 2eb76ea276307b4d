"""Peng's Q(lambda) on slices of trajectories."""
import copy

import torch
import torch.nn.functional as F
from torchrl.data import Composite
from torchrl.modules import MLP, EGreedyModule, QValueActor
from tensordict.nn import TensorDictSequential

from market import OBS_DIM, POWER


class QLambda:
    def __init__(self, cfg, action_spec):
        self.gamma, self.lam, self.tau = cfg["gamma"], cfg["lam"], cfg["target_tau"]
        self.net = MLP(in_features=OBS_DIM, out_features=len(POWER), num_cells=cfg["hidden"],
                       activation_class=torch.nn.ReLU)
        self.target = copy.deepcopy(self.net).requires_grad_(False)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg["lr"], fused=True)
        self.actor = QValueActor(module=self.net, spec=Composite(action=action_spec, shape=action_spec.shape),
                                 in_keys=["observation"])
        self.greedy = EGreedyModule(spec=action_spec, eps_init=cfg["eps_start"], eps_end=cfg["eps_end"],
                                    annealing_num_steps=cfg["eps_steps"])
        self.policy = TensorDictSequential(self.actor, self.greedy)

    @torch.no_grad()
    def targets(self, nxt_obs, reward, terminated):
        best = self.target(nxt_obs).amax(-1)                     # [B, T]
        decay = self.gamma * (1.0 - terminated.float())
        step = (reward + (1 - self.lam) * decay * best).unbind(1)
        carry = (self.lam * decay).unbind(1)
        running, returns = best[:, -1], []
        for b, c in zip(reversed(step), reversed(carry)):
            running = torch.addcmul(b, c, running)
            returns.append(running)
        return torch.stack(returns[::-1], dim=1)

    def update(self, batch):
        nxt = batch["next"]
        target = self.targets(nxt["observation"], nxt["reward"].squeeze(-1), nxt["terminated"].squeeze(-1))
        q = self.net(batch["observation"]).gather(-1, batch["action"].unsqueeze(-1)).squeeze(-1)
        loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.target.parameters()), list(self.net.parameters()), self.tau)
        return loss.detach()
