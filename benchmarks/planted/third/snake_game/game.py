# Snake for the AI to play. The pygame window was replaced by an OpenCV canvas
# so that it also runs on the lab server.
import random
from collections import deque

import cv2
import numpy as np

cv2.setNumThreads(1)

BLOCK = 32
WHITE = (255, 255, 255)
RED = (0, 0, 200)
GREEN1 = (0, 200, 0)
GREEN2 = (80, 255, 120)
GRID = (40, 40, 40)

RIGHT, DOWN, LEFT, UP = range(4)
STEP = ((1, 0), (0, 1), (-1, 0), (0, -1))


class SnakeGameAI:
    def __init__(self, w=20, h=15, seed=0):
        self.w = w
        self.h = h
        self.rnd = random.Random(seed)
        self.display = np.zeros((h * BLOCK, w * BLOCK, 3), np.uint8)
        self.n_games = 0
        self.record = 0
        self.reset()

    def reset(self):
        self.direction = RIGHT
        x, y = self.w // 2, self.h // 2
        self.head = (x, y)
        self.snake = deque([(x, y), (x - 1, y), (x - 2, y)])
        self.body = set(self.snake)
        self.score = 0
        self.frame_iteration = 0
        self._place_food()

    def _place_food(self):
        while True:
            self.food = (self.rnd.randrange(self.w), self.rnd.randrange(self.h))
            if self.food not in self.body:
                return

    def is_collision(self, pt):
        x, y = pt
        return not (0 <= x < self.w and 0 <= y < self.h) or pt in self.body

    def play_step(self, action):
        """action: 0 straight, 1 right turn, 2 left turn -> reward, game_over, score"""
        self.frame_iteration += 1
        self._move(action)
        reward = 0
        game_over = False
        if self.is_collision(self.head) or self.frame_iteration > 60 * len(self.snake):
            game_over = True
            reward = -10
            self.n_games += 1
            return reward, game_over, self.score
        self.snake.appendleft(self.head)
        self.body.add(self.head)
        if self.head == self.food:
            self.score += 1
            reward = 10
            self._place_food()
        else:
            self.body.discard(self.snake.pop())
        self._update_ui()
        return reward, game_over, self.score

    def _update_ui(self):
        img = self.display
        img[:] = 0
        for x in range(self.w):
            cv2.line(img, (x * BLOCK, 0), (x * BLOCK, self.h * BLOCK), GRID, 1)
        for y in range(self.h):
            cv2.line(img, (0, y * BLOCK), (self.w * BLOCK, y * BLOCK), GRID, 1)
        for x, y in self.snake:
            p = (x * BLOCK, y * BLOCK)
            cv2.rectangle(img, p, (p[0] + BLOCK - 1, p[1] + BLOCK - 1), GREEN1, -1)
            cv2.rectangle(img, (p[0] + 6, p[1] + 6), (p[0] + 24, p[1] + 24), GREEN2, -1)
        fx, fy = self.food
        cv2.circle(img, (fx * BLOCK + BLOCK // 2, fy * BLOCK + BLOCK // 2), BLOCK // 2 - 2, RED, -1, cv2.LINE_AA)
        text = "Score: %d   Record: %d   Game: %d" % (self.score, self.record, self.n_games)
        cv2.putText(img, text, (8, 24), cv2.FONT_HERSHEY_DUPLEX, 0.8, WHITE, 1, cv2.LINE_AA)

    def screenshot(self, path):
        cv2.imwrite(path, self.display)

    def _move(self, action):
        if action == 1:
            self.direction = (self.direction + 1) % 4
        elif action == 2:
            self.direction = (self.direction - 1) % 4
        dx, dy = STEP[self.direction]
        self.head = (self.head[0] + dx, self.head[1] + dy)
