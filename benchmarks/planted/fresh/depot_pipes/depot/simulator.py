"""Forklift in a depot: kinematics with substeps, laser scanner against boxes."""
import numpy as np


class DepotSim:
    n_actions = 5
    n_beams = 32
    obs_dim = n_beams + 5

    def __init__(self, seed, n_boxes=50, horizon=600):
        self.rng = np.random.default_rng(seed)
        self.n_boxes, self.horizon = n_boxes, horizon
        self.angles = np.linspace(-np.pi, np.pi, self.n_beams, endpoint=False).astype(np.float32)
        self.reach = np.linspace(0.0, 0.5, 30, dtype=np.float32)

    def reset(self):
        self.boxes = self.rng.random((self.n_boxes, 2), dtype=np.float32)
        self.pose = np.array([0.5, 0.5, self.rng.uniform(-np.pi, np.pi)], np.float32)
        self.boxes = self.boxes[np.linalg.norm(self.boxes - self.pose[:2], axis=1) > 0.12]
        self.goal = self.rng.random(2, dtype=np.float32)
        self.speed = 0.0
        self.t = 0
        self.total = 0.0
        self.trace = []
        return self._observe()

    def _scan(self):
        th = self.angles + self.pose[2]
        rays = np.stack([np.cos(th), np.sin(th)], -1)[:, None] * self.reach[None, :, None] + self.pose[:2]
        d2 = ((rays[:, :, None] - self.boxes) ** 2).sum(-1).min(-1)
        blocked = (d2 < 0.0009) | (rays < 0).any(-1) | (rays > 1).any(-1)
        first = np.where(blocked.any(1), blocked.argmax(1), len(self.reach) - 1)
        return self.reach[first]

    def _observe(self):
        self.scan = self._scan()
        to = self.goal - self.pose[:2]
        c, s = np.cos(self.pose[2]), np.sin(self.pose[2])
        rest = [c * to[0] + s * to[1], -s * to[0] + c * to[1], self.speed * 20, c, s]
        return np.concatenate([self.scan * 2, rest]).astype(np.float32)

    def step(self, action):
        turn = (0.0, 0.25, -0.25, 0.0, 0.0)[action]
        self.speed = float(np.clip(self.speed + (0, 0, 0, 0.006, -0.006)[action], -0.01, 0.03))
        before = np.linalg.norm(self.goal - self.pose[:2])
        crash = False
        for _ in range(4):
            self.pose[2] += turn / 4
            new = self.pose[:2] + self.speed / 4 * np.array([np.cos(self.pose[2]), np.sin(self.pose[2])], np.float32)
            if (new < 0).any() or (new > 1).any() or ((self.boxes - new) ** 2).sum(1).min() < 0.0009:
                crash, self.speed = True, 0.0
                break
            self.pose[:2] = new
        after = np.linalg.norm(self.goal - self.pose[:2])
        reward = float(before - after) * 10 - 0.1 * crash
        if after < 0.06:
            reward += 1.0
            self.goal = self.rng.random(2, dtype=np.float32)
        self.t += 1
        self.total += reward
        obs = self._observe()
        self.trace.append({"pose": self.pose.copy(), "goal": self.goal.copy(), "scan": self.scan,
                           "speed": self.speed, "action": action, "reward": reward, "crash": crash})
        done = self.t >= self.horizon
        info = {"return": self.total, "trace": self.trace}
        return obs, reward, done, info
