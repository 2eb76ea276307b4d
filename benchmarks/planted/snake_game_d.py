"""Snake with a game object of its own, as in many tutorials: reward, game_over, score = game.play_step(action)."""

import random
from collections import deque

import numpy as np
import torch
from torch import nn

SIDE = 20
DIRECTIONS = [(0, 1), (1, 0), (0, -1), (-1, 0)]


class SnakeGame:
    def __init__(self):
        self.reset()

    def reset(self):
        self.direction = 0
        self.snake = [(SIDE // 2, SIDE // 2 - i) for i in range(3)]
        self.score = self.frame = 0
        self.place_food()

    def place_food(self):
        self.food = (random.randrange(SIDE), random.randrange(SIDE))
        if self.food in self.snake:
            self.place_food()

    def is_collision(self, point):
        return not (0 <= point[0] < SIDE and 0 <= point[1] < SIDE) or point in self.snake[1:]

    def free_space(self, start):
        """How many cells can be reached from here."""
        seen, todo = {start}, [start]
        while todo:
            x, y = todo.pop()
            for dx, dy in DIRECTIONS:
                cell = (x + dx, y + dy)
                if cell not in seen and not self.is_collision(cell):
                    seen.add(cell)
                    todo.append(cell)
        return len(seen)

    def play_step(self, action):
        self.frame += 1
        self.direction = (self.direction + [0, 1, -1][int(np.argmax(action))]) % 4
        dx, dy = DIRECTIONS[self.direction]
        head = (self.snake[0][0] + dx, self.snake[0][1] + dy)
        reward, game_over = 0, False
        if self.is_collision(head) or self.frame > 100 * len(self.snake):
            return -10, True, self.score
        self.snake.insert(0, head)
        if head == self.food:
            self.score += 1
            reward = 10
            self.place_food()
        else:
            self.snake.pop()
        if self.free_space(head) < len(self.snake):
            reward -= 1
        return reward, game_over, self.score


class Agent:
    def __init__(self):
        self.games = 0
        self.memory = deque(maxlen=20_000)
        self.model = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 3))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def get_state(self, game):
        head = game.snake[0]
        around = [(head[0] + dx, head[1] + dy) for dx, dy in DIRECTIONS]
        food = [game.food[0] < head[0], game.food[0] > head[0], game.food[1] < head[1], game.food[1] > head[1]]
        return np.array([*map(game.is_collision, around), *food], dtype=np.float32)

    def get_action(self, state):
        move = [0, 0, 0]
        if random.random() < 0.1:
            move[random.randint(0, 2)] = 1
        else:
            with torch.no_grad():
                move[int(self.model(torch.from_numpy(state)).argmax())] = 1
        return move

    def train(self, states, actions, rewards, nexts, dones):
        with torch.no_grad():
            goal = rewards + 0.9 * (1 - dones) * self.model(nexts).max(-1).values
        q = self.model(states).gather(1, actions[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(q, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random.seed(0)
    agent, game = Agent(), SnakeGame()
    steps = 0
    while True:
        old = agent.get_state(game)
        action = agent.get_action(old)
        reward, game_over, score = game.play_step(action)
        new = agent.get_state(game)
        agent.memory.append((old, np.argmax(action), np.float32(reward), new, np.float32(game_over)))
        steps += 1
        if steps % 4 == 0 and len(agent.memory) > 200:
            batch = [agent.memory[random.randrange(len(agent.memory))] for _ in range(64)]
            agent.train(*(torch.from_numpy(np.stack(column)) for column in zip(*batch, strict=True)))
        if game_over:
            game.reset()
            agent.games += 1
            if agent.games % 100 == 0:
                print("game", agent.games, "score", score)


if __name__ == "__main__":
    main()
