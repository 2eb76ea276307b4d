import gymnasium as gym
import numpy as np
from gymnasium.vector.utils import batch_space


class QuadHover(gym.vector.VectorEnv):
    """2D quadrotor, hover over a moving pad. all envs stepped together."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}

    def __init__(self, num_envs=64, dt=0.02, horizon=400, wind=0.4, seed=0):
        self.num_envs = num_envs
        self.dt, self.horizon, self.wind = dt, horizon, wind
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (10,), np.float32)
        self.single_action_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.rng = np.random.default_rng(seed)
        self.x = np.zeros((num_envs, 6), np.float32)  # x z th vx vz w
        self.ph = np.zeros(num_envs, np.float32)
        self.t = np.zeros(num_envs, np.int64)
        self.closed = False
        self.render_mode = None
        self.spec = None

    def _spawn(self, m):
        k = int(m.sum())
        if k == 0:
            return
        s = self.rng.normal(0, 0.3, (k, 6)).astype(np.float32)
        s[:, 1] += 1.0
        self.x[m] = s
        self.ph[m] = self.rng.uniform(0, 6.28, k)
        self.t[m] = 0

    def _pad(self):
        return 0.8 * np.sin(0.01 * self.t + self.ph).astype(np.float32)

    def _obs(self):
        x = self.x
        o = np.empty((self.num_envs, 10), np.float32)
        o[:, 0] = x[:, 0] - self._pad()
        o[:, 1] = x[:, 1] - 1.0
        o[:, 2] = np.sin(x[:, 2])
        o[:, 3] = np.cos(x[:, 2])
        o[:, 4:7] = x[:, 3:6]
        o[:, 7] = self._pad()
        o[:, 8] = np.sin(0.01 * self.t + self.ph)
        o[:, 9] = np.cos(0.01 * self.t + self.ph)
        return o

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self._spawn(np.ones(self.num_envs, bool))
        return self._obs(), {}

    def step(self, a):
        a = np.clip(np.asarray(a, np.float32), -1, 1)
        x, dt = self.x, self.dt
        f = 9.81 * (1 + 0.5 * (a[:, 0] + a[:, 1]))
        tq = 8.0 * (a[:, 1] - a[:, 0])
        gust = self.wind * self.rng.standard_normal(self.num_envs).astype(np.float32)
        x[:, 3] += dt * (-f * np.sin(x[:, 2]) + gust - 0.1 * x[:, 3])
        x[:, 4] += dt * (f * np.cos(x[:, 2]) - 9.81 - 0.1 * x[:, 4])
        x[:, 5] += dt * (tq - 0.5 * x[:, 5])
        x[:, :3] += dt * x[:, 3:]
        self.t += 1
        dx = x[:, 0] - self._pad()
        dz = x[:, 1] - 1.0
        crash = (np.abs(dx) > 4) | (np.abs(dz) > 3) | (np.abs(x[:, 2]) > 2.5)
        rew = 1.0 - 0.5 * np.sqrt(dx * dx + dz * dz) - 0.02 * (a * a).sum(1) - 0.05 * np.abs(x[:, 5])
        rew = np.where(crash, -10.0, rew).astype(np.float32)
        trunc = self.t >= self.horizon
        self._spawn(crash | trunc)
        return self._obs(), rew, crash, trunc & ~crash, {}
