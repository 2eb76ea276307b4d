import math


class Body:
    __slots__ = ("x", "y", "vx", "vy", "r", "alive")

    def __init__(self, x, y, vx, vy, r):
        self.x, self.y, self.vx, self.vy, self.r = x, y, vx, vy, r
        self.alive = True

    def move(self):
        self.x = (self.x + self.vx) % 1.0
        self.y = (self.y + self.vy) % 1.0

    def hits(self, other):
        dx, dy = abs(self.x - other.x), abs(self.y - other.y)
        dx, dy = min(dx, 1 - dx), min(dy, 1 - dy)
        return math.hypot(dx, dy) < self.r + other.r


class Bullet(Body):
    __slots__ = ("life",)

    def __init__(self, x, y, vx, vy):
        super().__init__(x, y, vx, vy, 0.01)
        self.life = 14
