"""DQN that learns Snake on 256 boards, in plain PyTorch, written the way one writes it first.

python casestudies/snake_dqn.py
"""

import random

import gymnasium
import numpy as np
import torch
from torch import nn

SIZE = 10
NUM_ENVS = 256
UPDATES_PER_STEP = 64
BATCH_SIZE = 64
BUFFER_SIZE = 100_000
LEARNING_STARTS = 1_000
GAMMA = 0.99
TARGET_EVERY = 1_000
TOTAL_STEPS = 20_000_000
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left


def reachable(blocked, row, col):
    """How many free cells can be reached from a cell."""
    if row < 0 or row >= SIZE or col < 0 or col >= SIZE or blocked[row, col]:
        return 0
    seen = np.zeros((SIZE, SIZE), np.bool_)
    seen[row, col] = True
    stack = [(row, col)]
    count = 0
    while len(stack) > 0:
        r, c = stack.pop()
        count += 1
        for dr, dc in ((-1, 0), (0, 1), (1, 0), (0, -1)):
            nr, nc = r + dr, c + dc
            if 0 <= nr < SIZE and 0 <= nc < SIZE and not seen[nr, nc] and not blocked[nr, nc]:
                seen[nr, nc] = True
                stack.append((nr, nc))
    return count


class Snake(gymnasium.Env):
    """Actions are straight, left and right of where the snake goes."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (14,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        middle = SIZE // 2
        self.body = [(middle, middle), (middle, middle - 1), (middle, middle - 2)]
        self.heading = 1
        self.steps = 0
        self.place_food()
        return self.observe(), {}

    def place_food(self):
        free = [(r, c) for r in range(SIZE) for c in range(SIZE) if (r, c) not in self.body]
        self.food = free[self.np_random.integers(len(free))]

    def step(self, action):
        self.heading = (self.heading + (0, -1, 1)[int(action)]) % 4
        head = (self.body[0][0] + MOVES[self.heading][0], self.body[0][1] + MOVES[self.heading][1])
        self.steps += 1
        if not (0 <= head[0] < SIZE and 0 <= head[1] < SIZE) or head in self.body:
            return self.observe(), -10.0, True, False, {}
        before = abs(self.body[0][0] - self.food[0]) + abs(self.body[0][1] - self.food[1])
        self.body.insert(0, head)
        if head == self.food:
            reward = 10.0
            if len(self.body) == SIZE * SIZE:
                return self.observe(), reward, True, False, {}
            self.place_food()
        else:
            self.body.pop()
            after = abs(head[0] - self.food[0]) + abs(head[1] - self.food[1])
            reward = -0.01 + 0.5 * (before - after) / SIZE
        return self.observe(), reward, False, self.steps >= 1000, {}

    def observe(self):
        blocked = np.zeros((SIZE, SIZE), np.bool_)
        for r, c in self.body:
            blocked[r, c] = True
        row, col = self.body[0]
        features = []
        space = []
        for turn in (0, -1, 1, 2):
            dr, dc = MOVES[(self.heading + turn) % 4]
            r, c = row + dr, col + dc
            danger = not (0 <= r < SIZE and 0 <= c < SIZE) or blocked[r, c]
            features.append(float(danger))
            if turn != 2:
                space.append(min(1.0, reachable(blocked, r, c) / (SIZE * SIZE - len(self.body))))
        features += [float(self.food[0] < row), float(self.food[1] > col), float(self.food[0] > row), float(self.food[1] < col)]
        features += [float(self.heading == direction) for direction in (0, 1, 2)]
        return np.array(features + space, np.float32)


class Replay:
    def __init__(self):
        self.states = np.zeros((BUFFER_SIZE, 14), np.float32)
        self.next_states = np.zeros((BUFFER_SIZE, 14), np.float32)
        self.actions = np.zeros(BUFFER_SIZE, np.int64)
        self.rewards = np.zeros(BUFFER_SIZE, np.float32)
        self.dones = np.zeros(BUFFER_SIZE, np.float32)
        self.position = 0
        self.size = 0

    def push(self, state, action, reward, next_state, done):
        self.states[self.position] = state
        self.actions[self.position] = action
        self.rewards[self.position] = reward
        self.next_states[self.position] = next_state
        self.dones[self.position] = done
        self.position = (self.position + 1) % BUFFER_SIZE
        self.size = min(self.size + 1, BUFFER_SIZE)

    def sample(self):
        rows = np.random.randint(0, self.size, BATCH_SIZE)
        columns = (self.states, self.actions, self.rewards, self.next_states, self.dones)
        return [torch.from_numpy(column[rows]) for column in columns]


def update(net, target, optimizer, replay):
    states, actions, rewards, next_states, dones = replay.sample()
    with torch.no_grad():
        following = target(next_states).max(1).values
        wanted = rewards + GAMMA * following * (1 - dones)
    value = net(states).gather(1, actions[:, None])[:, 0]
    loss = nn.functional.smooth_l1_loss(value, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    envs = gymnasium.vector.SyncVectorEnv([Snake] * NUM_ENVS, autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP)
    net = nn.Sequential(nn.Linear(14, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    target = nn.Sequential(nn.Linear(14, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    replay = Replay()
    epsilon = 1.0
    updates = 0
    states = torch.from_numpy(envs.reset(seed=0)[0])
    for step in range(TOTAL_STEPS // NUM_ENVS):
        with torch.no_grad():
            actions = net(states).argmax(1)
        explore = torch.rand(NUM_ENVS) < epsilon
        actions = torch.where(explore, torch.randint(0, 3, (NUM_ENVS,)), actions)
        observed, rewards, terminated, truncated, _ = envs.step(actions.numpy())
        next_states = torch.from_numpy(observed)
        rewards = torch.from_numpy(rewards).float()
        dones = torch.from_numpy(terminated)
        for i in range(NUM_ENVS):
            replay.push(
                states[i].cpu().numpy(),
                actions[i].item(),
                rewards[i].item(),
                next_states[i].cpu().numpy(),
                dones[i].item(),
            )
            if terminated[i] or truncated[i]:
                epsilon = max(0.01, epsilon * 0.995)
        states = next_states
        if replay.size < LEARNING_STARTS:
            continue
        for _ in range(UPDATES_PER_STEP):
            update(net, target, optimizer, replay)
            updates += 1
            if updates % TARGET_EVERY == 0:
                target.load_state_dict(net.state_dict())
        if step % 100 == 0:
            print(f"{step * NUM_ENVS} steps, epsilon {epsilon:.2f}", flush=True)


if __name__ == "__main__":
    main()
