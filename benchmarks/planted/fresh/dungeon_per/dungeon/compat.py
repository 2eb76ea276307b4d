import gymnasium as gym
import numpy as np

from .game import N_ACTIONS, OBS_SIZE, Game


class GymShim(gym.Env):
    """old 4-tuple game -> gymnasium"""

    def __init__(self, **kw):
        self.game = Game(**kw)
        self.observation_space = gym.spaces.Box(-1, 1, (OBS_SIZE,), np.float32)
        self.action_space = gym.spaces.Discrete(N_ACTIONS)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.game.rng.seed(seed)
        return self.game.new_game(), {}

    def step(self, action):
        obs, rew, done, info = self.game.step(int(action))
        timeout = done and self.game.moves >= self.game.max_moves
        return obs, rew, done and not timeout, timeout, info
