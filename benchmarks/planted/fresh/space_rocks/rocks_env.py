import math
import random

import numpy as np

from objects import Body, Bullet


class SpaceRocks:
    """turn left, turn right, thrust, fire; one point per rock, minus one for a crash"""

    n_actions = 5
    obs_dim = 5 + 4 * 5

    def __init__(self, n_rocks=6, limit=80, seed=0):
        self.rnd = random.Random(seed)
        self.n_rocks = n_rocks
        self.limit = limit
        self.rocks = []
        self.bullets = []
        self.ship = None

    def reset(self):
        for old in self.rocks:
            old.alive = False
        for old in self.bullets:
            old.alive = False
        self.ship = Body(0.5, 0.5, 0.0, 0.0, 0.025)
        self.angle = self.rnd.uniform(-math.pi, math.pi)
        self.cooldown = 0
        self.t = 0
        for _ in range(self.n_rocks):
            self._spawn_rock()
        return self._obs()

    def _spawn_rock(self):
        a = self.rnd.uniform(-math.pi, math.pi)
        h = self.rnd.uniform(-math.pi, math.pi)
        v = self.rnd.uniform(0.004, 0.012)
        self.rocks.append(Body((0.5 + 0.4 * math.cos(a)) % 1.0, (0.5 + 0.4 * math.sin(a)) % 1.0,
                               v * math.cos(h), v * math.sin(h), self.rnd.uniform(0.03, 0.06)))

    def step(self, action):
        s = self.ship
        if action == 1:
            self.angle += 0.3
        elif action == 2:
            self.angle -= 0.3
        elif action == 3:
            s.vx = 0.9 * s.vx + 0.006 * math.cos(self.angle)
            s.vy = 0.9 * s.vy + 0.006 * math.sin(self.angle)
        elif action == 4 and self.cooldown <= 0:
            self.bullets.append(Bullet(s.x, s.y, 0.04 * math.cos(self.angle), 0.04 * math.sin(self.angle)))
            self.cooldown = 4
        self.cooldown -= 1
        s.move()
        for r in self.rocks:
            if r.alive:
                r.move()
        reward = 0.0
        for b in self.bullets:
            if not b.alive:
                continue
            b.move()
            b.life -= 1
            if b.life <= 0:
                b.alive = False
                continue
            for r in self.rocks:
                if r.alive and b.hits(r):
                    r.alive = b.alive = False
                    reward += 1.0
                    break
        crash = False
        for r in self.rocks:
            if r.alive and r.hits(s):
                crash = True
        if crash:
            reward -= 1.0
        while sum(r.alive for r in self.rocks) < self.n_rocks:
            self._spawn_rock()
        self.t += 1
        return self._obs(), reward, crash or self.t >= self.limit, {}

    def _obs(self):
        s = self.ship
        o = [math.cos(self.angle), math.sin(self.angle), s.vx * 50, s.vy * 50, float(self.cooldown > 0)]
        near = []
        for r in self.rocks:
            if not r.alive:
                continue
            dx, dy = (r.x - s.x + 0.5) % 1.0 - 0.5, (r.y - s.y + 0.5) % 1.0 - 0.5
            near.append((dx * dx + dy * dy, dx, dy, r))
        near.sort(key=lambda k: k[0])
        for _, dx, dy, r in near[:5]:
            o += [dx * 2, dy * 2, r.vx * 50, r.vy * 50]
        return np.array(o, dtype=np.float32)
