import random
from collections import namedtuple
from enum import Enum


class Direction(Enum):
    RIGHT = 1
    LEFT = 2
    UP = 3
    DOWN = 4


Point = namedtuple("Point", "x, y")
CLOCKWISE = [Direction.RIGHT, Direction.DOWN, Direction.LEFT, Direction.UP]
DELTA = {Direction.RIGHT: (1, 0), Direction.LEFT: (-1, 0), Direction.UP: (0, -1), Direction.DOWN: (0, 1)}


class SnakeGameAI:
    """same game as in the pygame version, drawing ripped out (see old/ for that)"""

    def __init__(self, w=16, h=12, seed=None):
        self.w = w
        self.h = h
        self.rng = random.Random(seed)
        self.reset()

    def reset(self):
        self.direction = Direction.RIGHT
        self.head = Point(self.w // 2, self.h // 2)
        self.snake = [self.head, Point(self.head.x - 1, self.head.y), Point(self.head.x - 2, self.head.y)]
        self.score = 0
        self.food = None
        self._place_food()
        self.frame_iteration = 0

    def _place_food(self):
        while True:
            f = Point(self.rng.randrange(self.w), self.rng.randrange(self.h))
            if f not in self.snake:
                self.food = f
                return

    def is_collision(self, pt=None):
        if pt is None:
            pt = self.head
        if pt.x < 0 or pt.y < 0 or pt.x >= self.w or pt.y >= self.h:
            return True
        return pt in self.snake[1:]

    def play_step(self, action):
        # action: 0 straight, 1 right turn, 2 left turn
        self.frame_iteration += 1
        i = CLOCKWISE.index(self.direction)
        if action == 1:
            i = (i + 1) % 4
        elif action == 2:
            i = (i - 1) % 4
        self.direction = CLOCKWISE[i]
        dx, dy = DELTA[self.direction]
        self.head = Point(self.head.x + dx, self.head.y + dy)
        self.snake.insert(0, self.head)

        reward, game_over = 0, False
        if self.is_collision() or self.frame_iteration > 60 * len(self.snake):
            return -10, True, self.score
        if self.head == self.food:
            self.score += 1
            reward = 10
            self._place_food()
        else:
            self.snake.pop()
        return reward, game_over, self.score
