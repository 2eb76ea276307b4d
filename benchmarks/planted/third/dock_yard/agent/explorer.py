import random

import torch


class Explorer:
    def __init__(self, net, n_actions, settings):
        self.net, self.n_actions = net, n_actions
        self.low, self.ticks = settings["eps_low"], settings["eps_ticks"]
        self.rng = random.Random(settings["seed"])

    @torch.inference_mode()
    def choose(self, obs, tick):
        eps = max(self.low, 1.0 - tick / self.ticks)
        if self.rng.random() < eps:
            return self.rng.randrange(self.n_actions)
        return self.net(torch.tensor([obs])).argmax().item()
