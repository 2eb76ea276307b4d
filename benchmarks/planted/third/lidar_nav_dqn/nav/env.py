import gymnasium as gym
import numpy as np

BEAMS = 360
RANGE = 8.0


class LidarNavEnv(gym.Env):
    """Differential-drive robot among round obstacles, 360-beam lidar, discrete velocity commands."""

    COMMANDS = ((0.6, 0.0), (0.6, 0.8), (0.6, -0.8), (0.25, 1.6), (0.25, -1.6))

    def __init__(self, n_obstacles=8, size=10.0, max_steps=300):
        self.n_obstacles = n_obstacles
        self.size = size
        self.max_steps = max_steps
        self.beam = np.linspace(0, 2 * np.pi, BEAMS, endpoint=False, dtype=np.float32)
        self.action_space = gym.spaces.Discrete(len(self.COMMANDS))
        self.observation_space = gym.spaces.Box(-1.0, 1.0, (BEAMS + 4,), np.float32)

    def _scan(self):
        ang = self.beam + np.float32(self.th)
        d = np.stack([np.cos(ang), np.sin(ang)])                 # 2, beams
        rel = self.centres - self.pos                            # k, 2
        along = rel @ d                                          # k, beams
        miss2 = (rel**2).sum(1, keepdims=True) - along**2
        inside = self.radii2[:, None] - miss2
        hit = along - np.sqrt(np.maximum(inside, 0))
        hit[(inside <= 0) | (along <= 0)] = RANGE
        return np.clip(hit.min(0), 0.0, RANGE)

    def _obs(self):
        self.scan = self._scan()
        g = self.goal - self.pos
        dist = float(np.hypot(g[0], g[1]))
        bearing = np.arctan2(g[1], g[0]) - self.th
        tail = (min(dist / self.size, 1.0), np.cos(bearing), np.sin(bearing), self.v)
        self.dist = dist
        out = np.empty(BEAMS + 4, np.float32)
        out[:BEAMS] = self.scan / RANGE
        out[BEAMS:] = tail
        return out

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        r = self.np_random
        self.t, self.v = 0, 0.0
        self.pos = np.array([1.0, 1.0], np.float32)
        self.th = float(r.uniform(0, 2 * np.pi))
        self.goal = r.uniform(0.6 * self.size, self.size, 2).astype(np.float32)
        self.centres = r.uniform(2.0, self.size, (self.n_obstacles, 2)).astype(np.float32)
        self.radii2 = (r.uniform(0.2, 0.6, self.n_obstacles) ** 2).astype(np.float32)
        obs = self._obs()
        return obs, {}

    def step(self, action):
        v, w = self.COMMANDS[int(action)]
        before = self.dist
        self.th = (self.th + 0.2 * w) % (2 * np.pi)
        self.pos = self.pos + np.array([np.cos(self.th), np.sin(self.th)], np.float32) * np.float32(0.2 * v)
        self.v = v
        self.t += 1
        obs = self._obs()
        reward = 2.0 * (before - self.dist) - 0.01
        crashed = float(self.scan.min()) < 0.1
        reached = self.dist < 0.4
        if crashed:
            reward -= 5.0
        if reached:
            reward += 10.0
        return obs, reward, crashed or reached, self.t >= self.max_steps, {"is_success": reached}
