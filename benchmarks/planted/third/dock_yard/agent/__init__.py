from .explorer import Explorer
from .learner import Learner
from .memory import Memory


class DriverAgent:
    """Puts explorer, memory and learner together."""

    def __init__(self, obs_size, n_actions, settings):
        self.settings = settings
        self.memory = Memory(settings["memory"], obs_size, settings["seed"])
        self.learner = Learner(obs_size, n_actions, settings)
        self.explorer = Explorer(self.learner.net, n_actions, settings)
        self.ticks = 0
        self.last_loss = 0.0

    def choose(self, obs):
        return self.explorer.choose(obs, self.ticks)

    def observe(self, obs, action, reward, next_obs, over):
        self.memory.add(obs, action, reward, next_obs, over)
        self.ticks += 1
        if self.ticks >= self.settings["warmup"] and self.ticks % self.settings["learn_every"] == 0:
            self.last_loss = self.learner.learn(self.memory.sample(self.settings["batch"]))
