"""Snake in plain Python: the specification that `kernel.h` must equal bit for bit.

One environment, no tricks: a list of cells, a breadth-first search, a float per feature. Every constant of the game is
written here once; the engine hands them to the C kernel as macros.
"""

import itertools
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotlap.envs.picture import Picture, plain
from hotlap.envs.rng import Rng
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Start, check_keys

Cell = tuple[int, int]

FEATURES = ("basic", "flood", "grid")
MIN_SIZE, MAX_SIZE = 4, 32
START_LENGTH = 3
MAX_STEPS = 1000

STRAIGHT, LEFT, RIGHT = range(3)
TURN = (0, -1, 1)  # what each action adds to the heading
UP, EAST, DOWN, WEST = range(4)  # headings, clockwise
DELTA = ((-1, 0), (0, 1), (1, 0), (0, -1))

REWARD_STEP = -0.01
REWARD_FOOD = 10.0
REWARD_DEATH = -10.0
REWARD_TIMEOUT = -5.0
SHAPING = 0.5  # per unit of Manhattan distance gained, divided by the board's size


class Snake(gymnasium.Env[NDArray[Any], int]):
    """Snake on a walled square board.

    **Actions** are relative to the heading: 0 straight, 1 left, 2 right.

    **Observation**, by `features`:
    - `basic`: 11 floats: danger straight, left, right, back; food up, right, down, left; heading up, right, down (left is
      all zeros).
    - `flood`: `basic` and 3 floats: the share of the free cells that can be reached when going straight, right, left;
      0 where the next cell is deadly.
    - `grid`: size x size x 3 bytes: head, body behind the head, food.

    **Reward**, summed: -0.01 each step; +10 for food; -10 for death; on live steps without food
    0.5 x (Manhattan distance to the food before - after) / size; -5 for running out of time.

    **Start**: length 3, head at the centre, heading right, food on a random free cell. `reset(options={"board": {"body":
    [(row, column), ...], "food": (row, column)}})` fixes it; the body is listed head first.

    **End**: terminated when the next cell is a wall or any cell of the current body (the tail's cell too, although it is
    about to move), or when the snake fills the board; truncated after 1,000 steps.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 10}
    body: list[Cell]  # head first
    food: Cell
    heading: int
    steps: int
    score: int

    kernel = Path(__file__).with_name("kernel.h")

    def __init__(self, size: int = 10, features: str = "flood", render_mode: str | None = None) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or not MIN_SIZE <= size <= MAX_SIZE:
            raise ValueError(f"snake: size must be a whole number from {MIN_SIZE} to {MAX_SIZE}, not {size!r}")
        if features not in FEATURES:
            raise ValueError(f"snake: unknown features {features!r}; choose one of {', '.join(FEATURES)}")
        self.size = size
        self.features = features
        self.render_mode = render_mode
        shape, dtype = {"basic": ((11,), "<f4"), "flood": ((14,), "<f4"), "grid": ((size, size, 3), "|u1")}[features]
        self.env_spec = EnvSpec.dense(shape, 0, 1, dtype, actions=3, metrics=("score",))
        self.observation_space, self.action_space = self.env_spec.observation_space, self.env_spec.action_space
        self.rng = Rng.unseeded()
        self._start(self._centre(), None)

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        return {
            "SIZE": self.size,
            "FEATURES": FEATURES.index(self.features),
            "START_LENGTH": START_LENGTH,
            "MAX_STEPS": MAX_STEPS,
            "REWARD_STEP": REWARD_STEP,
            "REWARD_FOOD": REWARD_FOOD,
            "REWARD_DEATH": REWARD_DEATH,
            "REWARD_TIMEOUT": REWARD_TIMEOUT,
            "SHAPING": SHAPING,
        }

    # -- episode --

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.rng = Rng(seed)
        if options:
            cells = [divmod(int(cell), self.size) for cell in self.encode_start(options).numbers]
            self._start(cells[1:], cells[0])
        else:
            self._start(self._centre(), None)
        return self.observe(), {}

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"snake: action must be 0, 1 or 2, not {action!r}")
        self.steps += 1
        self.heading = (self.heading + TURN[action]) % 4
        head = self._next_cell(self.heading)
        reward = REWARD_STEP
        terminated = False
        if self._deadly(head):
            reward += REWARD_DEATH
            terminated = True
        else:
            before = self._distance_to_food()
            self.body.insert(0, head)
            if head == self.food:
                reward += REWARD_FOOD
                self.score += 1
                terminated = len(self.body) == self.size**2
                if not terminated:
                    self._place_food()
            else:
                self.body.pop()
                reward += SHAPING * (before - self._distance_to_food()) / self.size
        truncated = not terminated and self.steps >= MAX_STEPS
        if truncated:
            reward += REWARD_TIMEOUT
        return self.observe(), float(np.float32(reward)), terminated, truncated, {"score": self.score}

    def metrics(self) -> tuple[float, ...]:
        return (self.score,)

    def action_of_key(self, key: str) -> int:
        """The action that steers up, right, down or left; straight on if there is no key, or it would turn around."""
        turn = ("up", "right", "down", "left").index(key) - self.heading if key else 0
        return {1: RIGHT, 3: LEFT}.get(turn % 4, STRAIGHT)

    # -- rules --

    def _centre(self) -> list[Cell]:
        middle = self.size // 2
        return [(middle, middle - i) for i in range(START_LENGTH)]

    def _start(self, body: list[Cell], food: Cell | None) -> None:
        self.body = list(body)
        (row, column), (neck_row, neck_column) = body[0], body[1]
        self.heading = DELTA.index((row - neck_row, column - neck_column))
        self.steps = 0
        self.score = 0
        if food is None:
            self._place_food()
        else:
            self.food = food

    def _place_food(self) -> None:
        cells = ((row, column) for row in range(self.size) for column in range(self.size))
        free = [cell for cell in cells if cell not in self.body]
        self.food = free[self.rng.below(len(free))]

    def _next_cell(self, heading: int) -> Cell:
        row, column = self.body[0]
        return row + DELTA[heading % 4][0], column + DELTA[heading % 4][1]

    def _deadly(self, cell: Cell) -> bool:
        row, column = cell
        return not (0 <= row < self.size and 0 <= column < self.size) or cell in self.body

    def _distance_to_food(self) -> int:
        (row, column), (food_row, food_column) = self.body[0], self.food
        return abs(row - food_row) + abs(column - food_column)

    # -- observation --

    def observe(self) -> NDArray[Any]:
        if self.features == "grid":
            return self._grid()
        turns = (self.heading, self.heading - 1, self.heading + 1, self.heading + 2)
        danger = [self._deadly(self._next_cell(heading)) for heading in turns]
        (row, column), (food_row, food_column) = self.body[0], self.food
        food = [food_row < row, food_column > column, food_row > row, food_column < column]
        heading = [self.heading == UP, self.heading == EAST, self.heading == DOWN]
        values: list[float] = [*danger, *food, *heading]
        if self.features == "flood":
            values += [self._reachable(self._next_cell(self.heading + turn)) for turn in (0, 1, -1)]
        return np.array(values, dtype=np.float32)

    def _reachable(self, start: Cell) -> float:
        """The share of free cells that a walk from `start` can reach; the body blocks. 0 if `start` is deadly."""
        if self._deadly(start):
            return 0.0
        unseen = {(row, column) for row in range(self.size) for column in range(self.size)} - {*self.body, start}
        queue = deque([start])
        reached = 1
        while queue:
            row, column = queue.popleft()
            for cell in ((row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)):
                if cell in unseen:
                    unseen.remove(cell)
                    queue.append(cell)
                    reached += 1
        return min(1.0, reached / (self.size**2 - len(self.body)))

    def _grid(self) -> NDArray[np.uint8]:
        grid = np.zeros((self.size, self.size, 3), dtype=np.uint8)
        for plane, cells in enumerate(([self.body[0]], self.body[1:], [self.food])):
            for row, column in cells:
                grid[row, column, plane] = 1
        if len(self.body) == self.size**2:
            grid[:, :, 2] = 0  # a full board has no food
        return grid

    # -- for people --

    def draw(self) -> Picture:
        """The board: the head points where the snake is heading."""
        cells = {self.food: ("o", "bold red"), **dict.fromkeys(self.body, ("#", "green"))}
        cells[self.body[0]] = ("^>v<"[self.heading], "bold green")
        empty = (".", "dim")
        return [
            [pair for column in range(self.size) for pair in (cells.get((row, column), empty), (" ", ""))]
            for row in range(self.size)
        ]

    def render(self) -> str:
        return plain(self.draw())

    def describe_action(self, action: int) -> str:
        return ("straight", "left", "right")[action]

    # -- saving and fixing the state --

    def encode_start(self, options: Mapping[str, Any]) -> Start:
        """Check `options["board"]` and flatten it to cell numbers: food, then the body from the head."""
        check_keys("snake", options, "board")
        try:
            body = [(int(row), int(column)) for row, column in options["board"]["body"]]
            food_row, food_column = options["board"]["food"]
            food = (int(food_row), int(food_column))
        except (TypeError, KeyError, ValueError):
            raise ValueError(
                "snake: board must be {'body': [(row, column), ...] from the head, 'food': (row, column)}"
            ) from None
        inside = all(0 <= value < self.size for cell in [*body, food] for value in cell)
        joined = all(abs(r1 - r2) + abs(c1 - c2) == 1 for (r1, c1), (r2, c2) in itertools.pairwise(body))
        if len(body) < 2 or not inside or not joined or len(set(body)) != len(body) or food in body:
            raise ValueError(
                "snake: this board is no snake: the body needs two or more different cells on the board, each beside the "
                "one before, and the food must lie on a free cell"
            )
        return Start(np.array([row * self.size + column for row, column in [food, *body]], dtype=np.int32))

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly."""
        head = [self.rng.key, self.rng.counter, self.steps, self.score, self.heading, len(self.body)]
        cells = [row * self.size + column for row, column in [self.food, *self.body]]
        return np.array(head + cells + [0] * (self.size**2 + 1 - len(cells)), dtype=np.uint64)

    def unpack(self, state: NDArray[np.uint64]) -> None:
        numbers = [int(value) for value in state]
        self.rng.key, self.rng.counter, self.steps, self.score, self.heading, length = numbers[:6]
        cells = [divmod(number, self.size) for number in numbers[6 : 7 + length]]
        self.food, self.body = cells[0], cells[1:]
