import random
from collections import namedtuple

Point = namedtuple("Point", "x, y")

RIGHT, DOWN, LEFT, UP = 0, 1, 2, 3
DELTA = {RIGHT: (1, 0), DOWN: (0, 1), LEFT: (-1, 0), UP: (0, -1)}


class SnakeGame:
    """Snake without a window. action: 0 straight, 1 right turn, 2 left turn."""

    def __init__(self, w=16, h=16, seed=None):
        self.w, self.h = w, h
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.direction = RIGHT
        self.head = Point(self.w // 2, self.h // 2)
        self.snake = [self.head, Point(self.head.x - 1, self.head.y), Point(self.head.x - 2, self.head.y)]
        self.score = 0
        self.frame_iteration = 0
        self._place_food()

    def _place_food(self):
        while True:
            self.food = Point(self.rng.randrange(self.w), self.rng.randrange(self.h))
            if self.food not in self.snake:
                return

    def is_collision(self, pt=None):
        pt = pt or self.head
        if pt.x < 0 or pt.x >= self.w or pt.y < 0 or pt.y >= self.h:
            return True
        return pt in self.snake[1:]

    def play_step(self, action):
        self.frame_iteration += 1
        if action == 1:
            self.direction = (self.direction + 1) % 4
        elif action == 2:
            self.direction = (self.direction - 1) % 4
        dx, dy = DELTA[self.direction]
        self.head = Point(self.head.x + dx, self.head.y + dy)
        self.snake.insert(0, self.head)

        if self.is_collision() or self.frame_iteration > 60 * len(self.snake):
            return -10.0, True, self.score
        if self.head == self.food:
            self.score += 1
            self._place_food()
            return 10.0, False, self.score
        self.snake.pop()
        return 0.0, False, self.score
