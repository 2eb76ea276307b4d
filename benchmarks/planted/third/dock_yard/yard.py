"""A forklift on a dock: fetch crates, bring them to the ramp, keep away from the three patrolling carts.

Parts of the yard talk over a small event bus, so that sensors and scoring can be swapped.
"""
import math
import random
from collections import defaultdict


class EventBus:
    def __init__(self):
        self._handlers = defaultdict(list)

    def subscribe(self, topic, handler):
        self._handlers[topic].append(handler)

    def publish(self, topic, *args):
        for handler in self._handlers[topic]:
            handler(*args)


class Cart:
    def __init__(self, x, y, heading, size):
        self.x, self.y, self.heading, self.size = x, y, heading, size

    def move(self):
        self.x += 0.3 * math.cos(self.heading)
        self.y += 0.3 * math.sin(self.heading)
        if not 0.0 <= self.x <= self.size or not 0.0 <= self.y <= self.size:
            self.x = min(max(self.x, 0.0), self.size)
            self.y = min(max(self.y, 0.0), self.size)
            self.heading += 2.1


class ProximitySensor:
    """Position, distance and approach of one cart, updated whenever the carts have moved."""

    def __init__(self, bus, cart):
        self.cart = cart
        self.dx = self.dy = self.distance = self.closing = 0.0
        bus.subscribe("moved", self.on_moved)

    def on_moved(self, x, y):
        self.dx, self.dy = self.cart.x - x, self.cart.y - y
        distance = math.hypot(self.dx, self.dy)
        self.closing = self.distance - distance
        self.distance = distance


class Scoring:
    def __init__(self, bus):
        self.reward = 0.0
        self.delivered = 0
        bus.subscribe("picked", self.on_picked)
        bus.subscribe("delivered", self.on_delivered)
        bus.subscribe("crash", self.on_crash)

    def on_picked(self):
        self.reward += 0.5

    def on_delivered(self):
        self.reward += 1.0
        self.delivered += 1

    def on_crash(self):
        self.reward -= 1.0

    def collect(self):
        reward, self.reward = self.reward - 0.01, 0.0
        return reward


class Yard:
    MOVES = ((0.0, 0.5), (0.5, 0.0), (0.0, -0.5), (-0.5, 0.0), (0.0, 0.0))
    OBS = 17

    def __init__(self, size=8.0, max_ticks=30, seed=0):
        self.size, self.max_ticks = size, max_ticks
        self.rng = random.Random(seed)
        self.bus = EventBus()

    def begin(self):
        rnd = self.rng.uniform
        self.tick_no = 0
        self.x, self.y = rnd(1, self.size - 1), rnd(1, self.size - 1)
        self.loaded = False
        self.crate = (rnd(0, self.size), rnd(0, self.size))
        self.carts = [Cart(rnd(0, self.size), rnd(0, self.size), rnd(0, 6.28), self.size) for _ in range(3)]
        self.sensors = [ProximitySensor(self.bus, cart) for cart in self.carts]
        self.scoring = Scoring(self.bus)
        self.bus.publish("moved", self.x, self.y)
        return self.view()

    def view(self):
        goal = (self.size / 2, 0.0) if self.loaded else self.crate
        k = 1.0 / self.size
        view = [self.x * k, self.y * k, (goal[0] - self.x) * k, (goal[1] - self.y) * k, float(self.loaded)]
        for s in self.sensors:
            view += (s.dx * k, s.dy * k, s.distance * k, s.closing)
        return view

    def tick(self, action):
        self.tick_no += 1
        dx, dy = self.MOVES[action]
        self.x = min(max(self.x + dx, 0.0), self.size)
        self.y = min(max(self.y + dy, 0.0), self.size)
        for cart in self.carts:
            cart.move()
        self.bus.publish("moved", self.x, self.y)

        over = self.tick_no >= self.max_ticks
        if min(s.distance for s in self.sensors) < 0.35:
            self.bus.publish("crash")
            over = True
        if not self.loaded and math.hypot(self.crate[0] - self.x, self.crate[1] - self.y) < 0.6:
            self.loaded = True
            self.bus.publish("picked")
        elif self.loaded and math.hypot(self.size / 2 - self.x, self.y) < 0.6:
            self.loaded = False
            self.crate = (self.rng.uniform(0, self.size), self.rng.uniform(0, self.size))
            self.bus.publish("delivered")
        return self.view(), self.scoring.collect(), over
