"""Predators in plain Python: the specification that `kernel.h` must equal bit for bit.

Several agents act at the same time, each with a reward and an end of its own, on a map that is given at run time. The
interface is that of `hotlap.envs.pettingzoo.SimultaneousEnv`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.picture import Picture, plain
from hotlap.envs.predators.maps import DEFAULT_MAP, read_map
from hotlap.envs.rng import Rng
from hotlap.envs.spec import EnvSpec, Table
from hotlap.envs.start import RANDOM, Start, check_keys

Cell = tuple[int, int]

MIN_AGENTS, MAX_AGENTS = 2, 16
MAX_PREY = 64
ACTIONS = ("stay", "up", "right", "down", "left")
DELTA = ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))
PREY_MOVES = 8  # a prey draws a number below this: 1 to 4 are the ways it tries to go, with others it stays
VIEW = 3  # how far an agent sees in each direction
WINDOW = 2 * VIEW + 1

ENERGY_START = 30
ENERGY_CATCH = 15
ENERGY_MAX = WINDOW * WINDOW
REWARD_CATCH = 1.0
REWARD_STARVE = -1.0
MAX_STEPS = 200


class Predators:
    """Predators hunt scripted prey on a grid with walls, and starve if they catch too little.

    **Map**: lines of `#` (wall) and `.` (floor), all of one length; what lies outside is wall. `map=TEXT` gives another than
    the built-in 12 x 12, `agents` (2 to 16) and `prey` say how many there are.

    **Actions** of each predator: 0 stay, 1 up, 2 right, 3 down, 4 left. Into a wall is illegal: masks say which are not.

    **A step.** First the predators act, in order. Each loses 1 energy and moves, unless another predator is in the way: then
    it stays. If there is prey on its new cell, it catches that: +15 energy, up to 49, and the prey returns at once on a free
    cell (no wall, predator or prey), drawn at random from all of them in reading order. A predator whose energy is now 0
    starves and leaves the grid. Then the prey move, in order: each draws one number from 0 to 7; 1 to 4 is a direction, as
    above, in which it moves if that cell is free; else it stays.

    **Observation** of each predator: 7 x 7 x 4 bytes of zeros and ones, the cells around it, the top row first. Planes: wall or
    outside; predators, itself included; prey; and its energy, as a gauge: the first so many of the 49 cells are 1.

    **Reward** of each: +1 for a catch, -1 for starving.

    **Start**: predators, then prey, each on a random free cell, with energy 30. `reset(options=...)` takes `predators` and
    `prey`, lists of all their (row, column), and `map`, another of the same size, which stays until the next such options.

    **End** of each: terminated when it starves; it then waits until the episode is over. That is when all have starved, or
    after 200 steps, which truncate those alive. **Metric** of each: `caught`.
    """

    kernel = Path(__file__).with_name("kernel.h")

    predators: list[Cell]  # where each is, or was when it starved
    prey: list[Cell]
    energy: list[int]  # 0: starved
    caught: list[int]
    steps: int

    def __init__(self, agents: int = 4, prey: int = 6, map: str = DEFAULT_MAP) -> None:
        for name, value, least, most in (("agents", agents, MIN_AGENTS, MAX_AGENTS), ("prey", prey, 1, MAX_PREY)):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"predators: {name} must be a whole number from {least} to {most}, not {value!r}")
        self.num_prey = prey
        self.default_walls = read_map(map, agents + prey)
        self.rows, self.columns = self.default_walls.shape
        self.env_spec = EnvSpec.dense(
            (WINDOW, WINDOW, 4),
            0,
            1,
            "|u1",
            actions=len(ACTIONS),
            masked=True,
            agents=agents,
            metrics=("caught",),
            tables=(Table("walls", "|u1", self.default_walls.shape),),
        )
        self.observation_space = self.env_spec.observation_space
        self.action_space = self.env_spec.action_space
        self.agents = range(agents)
        self.rng = Rng.unseeded()
        self.walls = self.default_walls
        self._start([])

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        return {
            "ROWS": self.rows,
            "COLUMNS": self.columns,
            "PREY": self.num_prey,
            "PREY_MOVES": PREY_MOVES,
            "VIEW": VIEW,
            "ENERGY_START": ENERGY_START,
            "ENERGY_CATCH": ENERGY_CATCH,
            "ENERGY_MAX": ENERGY_MAX,
            "REWARD_CATCH": REWARD_CATCH,
            "REWARD_STARVE": REWARD_STARVE,
            "MAX_STEPS": MAX_STEPS,
        }

    def tables(self) -> dict[str, NDArray[Any]]:
        """What the kernel reads at run time."""
        return {"walls": self.default_walls}

    # -- episode --

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> list[tuple[int, NDArray[np.uint8], NDArray[np.bool_]]]:
        """(agent, observation, mask) of each agent."""
        if seed is not None:
            self.rng = Rng(seed)
        start = self.encode_start(options) if options else RANDOM
        self.walls = start.tables.get("walls", self.walls)
        self._start([divmod(int(number), self.columns) for number in start.numbers])
        return [(agent, self.observe(agent), self.mask(agent)) for agent in self.agents]

    def step(self, actions: Any) -> tuple[list[tuple[int, NDArray[np.uint8], float, bool, bool, NDArray[np.bool_]]], bool]:
        """(agent, observation, reward, terminated, truncated, mask) of each that acted, and whether the episode is over."""
        acted = [agent for agent in self.agents if self.active(agent)]
        for agent in acted:
            self._check(agent, actions[agent])
        rewards = {agent: self._act(agent, int(actions[agent])) for agent in acted}
        for i in range(self.num_prey):
            self._move_prey(i)
        self.steps += 1
        late = self.steps >= MAX_STEPS
        results = []
        for agent in acted:
            starved = not self.active(agent)
            results.append((agent, self.observe(agent), rewards[agent], starved, late and not starved, self.mask(agent)))
        return results, late or not any(self.energy)

    def active(self, agent: int) -> bool:
        return self.energy[agent] > 0

    def metrics(self, agent: int) -> tuple[float, ...]:
        return (float(self.caught[agent]),)

    def close(self) -> None:
        """Nothing to close."""

    # -- rules --

    def _start(self, cells: list[Cell]) -> None:
        """A start on given cells, of predators and then prey, or on random ones."""
        count = len(self.agents)
        self.energy = [ENERGY_START] * count
        self.caught = [0] * count
        self.steps = 0
        self.predators, self.prey = cells[:count], cells[count:]
        if not cells:
            for _ in self.agents:
                self.predators.append(self._free_cell())
            for _ in range(self.num_prey):
                self.prey.append(self._free_cell())

    def _check(self, agent: int, action: Any) -> None:
        if not self.action_space.contains(action):
            raise ValueError(f"predators: action must be a whole number from 0 to {len(ACTIONS) - 1}, not {action!r}")
        if not self.mask(agent)[action]:
            raise ValueError(f"predators: agent {agent} cannot go {ACTIONS[action]}: there is a wall")

    def _act(self, agent: int, action: int) -> float:
        """Move one predator; its reward."""
        reward = 0.0
        self.energy[agent] -= 1
        target = _beside(self.predators[agent], action)
        if not any(other != agent and self.active(other) and self.predators[other] == target for other in self.agents):
            self.predators[agent] = target
        if self.predators[agent] in self.prey:
            reward = REWARD_CATCH
            self.caught[agent] += 1
            self.energy[agent] = min(self.energy[agent] + ENERGY_CATCH, ENERGY_MAX)
            self.prey[self.prey.index(self.predators[agent])] = self._free_cell()
        return reward if self.active(agent) else REWARD_STARVE

    def _move_prey(self, i: int) -> None:
        draw = self.rng.below(PREY_MOVES)
        if 1 <= draw <= 4 and self._free(_beside(self.prey[i], draw)):
            self.prey[i] = _beside(self.prey[i], draw)

    def _wall(self, cell: Cell) -> bool:
        row, column = cell
        return not (0 <= row < self.rows and 0 <= column < self.columns) or bool(self.walls[row, column])

    def _hunted(self, cell: Cell) -> bool:
        """Whether a predator is there."""
        return any(self.active(agent) and at == cell for agent, at in enumerate(self.predators))

    def _free(self, cell: Cell) -> bool:
        return not self._wall(cell) and cell not in self.prey and not self._hunted(cell)

    def _free_cell(self) -> Cell:
        free = [cell for cell in np.ndindex(self.rows, self.columns) if self._free(cell)]
        return free[self.rng.below(len(free))]

    def mask(self, agent: int) -> NDArray[np.bool_]:
        return np.array([not self._wall(_beside(self.predators[agent], action)) for action in range(len(ACTIONS))])

    def observe(self, agent: int) -> NDArray[np.uint8]:
        obs = np.zeros((WINDOW, WINDOW, 4), np.uint8)
        row, column = self.predators[agent]
        for i, j in np.ndindex(WINDOW, WINDOW):
            cell = (row + i - VIEW, column + j - VIEW)
            obs[i, j] = self._wall(cell), self._hunted(cell), cell in self.prey, i * WINDOW + j < self.energy[agent]
        return obs

    # -- for people --

    def draw(self) -> Picture:
        """The map with predators as letters and prey as `o`, then each predator's energy and catches."""
        lines: Picture = []
        for row in range(self.rows):
            line: list[tuple[str, str]] = []
            for column in range(self.columns):
                cell = (row, column)
                hunters = [agent for agent in self.agents if self.active(agent) and self.predators[agent] == cell]
                if hunters:
                    line.append((_letter(hunters[0]), "bold red"))
                elif cell in self.prey:
                    line.append(("o", "green"))
                else:
                    line.append(("#", "blue") if self._wall(cell) else (".", "dim"))
                line.append((" ", ""))
            lines.append(line)
        for agent in self.agents:
            alive = self.active(agent)
            state = f"energy {self.energy[agent]:2}" if alive else "starved  "
            text = f"  {state}  caught {self.caught[agent]}"
            lines.append([(_letter(agent), "bold red" if alive else "dim"), (text, "" if alive else "dim")])
        return lines

    def render(self) -> str:
        return plain(self.draw())

    def describe_action(self, action: int) -> str:
        return ACTIONS[action]

    # -- saving and fixing the state --

    def encode_start(self, options: Mapping[str, Any]) -> Start:
        """Check a start; the cells of predators and then prey as numbers, and the map as a table."""
        check_keys("predators", options, "predators", "prey", "map")
        walls = self.default_walls
        if "map" in options:
            walls = read_map(options["map"], len(self.agents) + self.num_prey)
            if walls.shape != self.default_walls.shape:
                sizes = [f"{rows} x {columns}" for rows, columns in (walls.shape, self.default_walls.shape)]
                raise ValueError(f"predators: this map is {sizes[0]}, not {sizes[1]}")
        if ("predators" in options) != ("prey" in options):
            raise ValueError("predators: a start needs the cells of both predators and prey")
        cells: list[Cell] = []
        for name, count in (("predators", len(self.agents)), ("prey", self.num_prey)):
            try:
                listed = [(int(row), int(column)) for row, column in options.get(name, [])]
            except (TypeError, ValueError):
                raise ValueError(f"predators: {name} must be a list of (row, column)") from None
            if name in options and len(listed) != count:
                raise ValueError(f"predators: {name} must be {count} cells, not {len(listed)}")
            cells += listed
        for cell in cells:
            row, column = cell
            if not (0 <= row < self.rows and 0 <= column < self.columns) or walls[row, column] or cells.count(cell) > 1:
                raise ValueError(f"predators: {cell} must be a cell of floor that only one starts on")
        return Start(np.array([row * self.columns + column for row, column in cells], np.int32), {"walls": walls})

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly."""
        cells = [row * self.columns + column for row, column in self.predators + self.prey]
        walls = [sum(1 << int(column) for column in np.flatnonzero(row)) for row in self.walls]
        return np.array([self.rng.key, self.rng.counter, self.steps, *self.energy, *self.caught, *cells, *walls], np.uint64)

    def unpack(self, state: NDArray[np.uint64]) -> None:
        numbers = [int(value) for value in state]
        count = len(self.agents)
        self.rng.key, self.rng.counter, self.steps = numbers[:3]
        self.energy, self.caught = numbers[3 : 3 + count], numbers[3 + count : 3 + 2 * count]
        cells = [divmod(number, self.columns) for number in numbers[3 + 2 * count : -self.rows]]
        self.predators, self.prey = cells[:count], cells[count:]
        rows = numbers[-self.rows :]
        self.walls = np.array([[row >> column & 1 for column in range(self.columns)] for row in rows], np.uint8)


def _beside(cell: Cell, action: int) -> Cell:
    return cell[0] + DELTA[action][0], cell[1] + DELTA[action][1]


def _letter(agent: int) -> str:
    return chr(ord("A") + agent)
