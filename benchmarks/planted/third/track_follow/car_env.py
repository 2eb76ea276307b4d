"""A car that follows a wavy closed track; kinematic bicycle model."""
import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces

POINTS = 240
LOOKAHEAD = 6
WHEELBASE = 0.6
DT = 0.1


def make_track(rng):
    angle = np.linspace(0, 2 * np.pi, POINTS, endpoint=False)
    radius = np.full(POINTS, 8.0)
    for k in range(2, 6):
        radius += rng.uniform(-1.0, 1.0) * np.cos(k * angle + rng.uniform(0, 2 * np.pi))
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


class TrackEnv(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode=None, image_size=160, limit=300):
        self.render_mode, self.image_size, self.limit = render_mode, image_size, limit
        self.observation_space = spaces.Box(-np.inf, np.inf, (2 + 2 * LOOKAHEAD,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.track = make_track(self.np_random)
        self.at = int(self.np_random.integers(POINTS))
        ahead = self.track[(self.at + 1) % POINTS] - self.track[self.at]
        self.pos = self.track[self.at] + self.np_random.normal(0, 0.1, 2)
        self.heading = float(np.arctan2(ahead[1], ahead[0]))
        self.speed, self.steer, self.t = 1.0, 0.0, 0
        self.trail = [self.pos.copy()]
        return self._obs(), {}

    def step(self, action):
        throttle, wheel = np.clip(action, -1.0, 1.0)
        self.steer += 0.3 * (0.5 * float(wheel) - self.steer)
        self.speed = min(max(self.speed + DT * 2.0 * float(throttle), 0.2), 4.0)
        self.heading += DT * self.speed / WHEELBASE * np.tan(self.steer)
        self.pos = self.pos + DT * self.speed * np.array([np.cos(self.heading), np.sin(self.heading)])
        near = (self.at + np.arange(-3, 12)) % POINTS
        gap = ((self.track[near] - self.pos) ** 2).sum(1)
        best = int(gap.argmin())
        progress = best - 3
        self.at = int(near[best])
        off = float(np.sqrt(gap[best]))
        self.trail.append(self.pos.copy())
        self.t += 1
        left = off > 1.5
        reward = 0.5 * progress - 0.3 * off - 0.02 * float(wheel) ** 2 - (5.0 if left else 0.0)
        return self._obs(), reward, left, self.t >= self.limit, {}

    def _obs(self):
        ahead = self.track[(self.at + 4 * np.arange(1, LOOKAHEAD + 1)) % POINTS] - self.pos
        c, s = np.cos(self.heading), np.sin(self.heading)
        local = ahead @ np.array([[c, -s], [s, c]])
        return np.concatenate([[self.speed / 4.0, self.steer], local.ravel() / 4.0]).astype(np.float32)

    def _pixel(self, xy):
        scale = self.image_size / 28.0
        return np.round((np.asarray(xy) + 14.0) * scale).astype(np.int32)

    def render(self):
        img = np.full((self.image_size, self.image_size, 3), (60, 120, 60), np.uint8)
        loop = self._pixel(self.track).reshape(-1, 1, 2)
        road = max(2, int(3.0 * self.image_size / 28.0))
        cv2.polylines(img, [loop], True, (90, 90, 90), road)
        cv2.polylines(img, [loop], True, (230, 230, 230), 1)
        cv2.polylines(img, [self._pixel(self.trail[-80:]).reshape(-1, 1, 2)], False, (60, 60, 220), 2, cv2.LINE_AA)
        c, s = np.cos(self.heading), np.sin(self.heading)
        body = np.array([[0.5, 0.25], [0.5, -0.25], [-0.4, -0.25], [-0.4, 0.25]]) @ np.array([[c, s], [-s, c]])
        cv2.fillPoly(img, [self._pixel(self.pos + body)], (200, 60, 40), cv2.LINE_AA)
        cv2.putText(img, f"v {self.speed:.1f}", (6, 12), cv2.FONT_HERSHEY_SIMPLEX, 0.35, (255, 255, 255))
        return cv2.cvtColor(img, cv2.COLOR_BGR2RGB)
