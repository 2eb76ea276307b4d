import random
from collections import namedtuple
from enum import Enum

Point = namedtuple("Point", "x, y")
BLOCK = 20


class Direction(Enum):
    RIGHT = 1
    LEFT = 2
    UP = 3
    DOWN = 4


CLOCK = [Direction.RIGHT, Direction.DOWN, Direction.LEFT, Direction.UP]
DELTA = {Direction.RIGHT: (BLOCK, 0), Direction.LEFT: (-BLOCK, 0),
         Direction.DOWN: (0, BLOCK), Direction.UP: (0, -BLOCK)}


class SnakeGameAI:
    def __init__(self, w=320, h=240):
        self.w, self.h = w, h
        self.reset()

    def reset(self):
        self.direction = Direction.RIGHT
        self.head = Point(self.w // 2 // BLOCK * BLOCK, self.h // 2 // BLOCK * BLOCK)
        self.snake = [self.head, Point(self.head.x - BLOCK, self.head.y), Point(self.head.x - 2 * BLOCK, self.head.y)]
        self.score = 0
        self.food = None
        self._place_food()
        self.frame_iteration = 0

    def _place_food(self):
        while True:
            self.food = Point(random.randrange(self.w // BLOCK) * BLOCK, random.randrange(self.h // BLOCK) * BLOCK)
            if self.food not in self.snake:
                return

    def play_step(self, action):
        self.frame_iteration += 1
        self._move(action)
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

    def is_collision(self, pt=None):
        pt = pt or self.head
        if pt.x >= self.w or pt.x < 0 or pt.y >= self.h or pt.y < 0:
            return True
        return pt in self.snake[1:]

    def _move(self, action):
        idx = CLOCK.index(self.direction)
        self.direction = CLOCK[(idx + (0, 1, -1)[action]) % 4]
        dx, dy = DELTA[self.direction]
        self.head = Point(self.head.x + dx, self.head.y + dy)
