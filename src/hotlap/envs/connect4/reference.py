"""Connect Four in plain Python: the specification that `kernel.h` must equal bit for bit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hotlap.envs.connect4.board import COLUMNS, LINES, ROWS, Cell
from hotlap.envs.connect4.bots import BOTS
from hotlap.envs.picture import Picture, plain
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Start, check_keys

STONES = "XO"  # of seat 0 and seat 1, where a board is drawn
STYLES = ("bold red", "bold yellow")


class ConnectFour(gymnasium.Env[NDArray[np.uint8], int]):
    """Connect Four for two seats that take turns; seat 0 begins.

    **Actions**: the column, 0 to 6, that a stone is dropped into: it falls to the lowest empty cell. A full column is illegal:
    `info["action_mask"]` says which are not.

    **Observation**: 6 x 7 x 2 bytes of zeros and ones, top row first: the stones of the seat to move, those of the other.

    **Reward**: +1 for the seat that first has four stones in a row, across, up or diagonally, and -1 for the other; a draw is
    0 for both. `step` gives the reward of the seat that moved, `info["rewards"]` that of both, `info["seat"]` who moves next.

    **Start**: the empty board. `reset(options={"moves": [3, 3, 2]})` plays these columns first.

    **End**: terminated by four in a row or a full board. **Metric** `draw`: 1 where nobody won.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 2}
    kernel = Path(__file__).with_name("kernel.h")
    bots = BOTS
    seat_styles = STYLES

    stones: dict[Cell, int]  # (row, column) -> seat; row 0 is the top
    last: int | None  # the column of the last move

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.env_spec = EnvSpec.dense((ROWS, COLUMNS, 2), 0, 1, "|u1", actions=COLUMNS, masked=True, seats=2, metrics=("draw",))
        self.observation_space = self.env_spec.observation_space
        self.action_space = self.env_spec.action_space
        self.stones, self.last = {}, None

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        return {"ROWS": ROWS, "COLUMNS": COLUMNS}

    # -- episode --

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        start = self.encode_start(options or {})
        self.stones, self.last = {}, None
        for column in start.numbers:
            self._drop(int(column))
        return self.observe(), {"seat": self.seat, "action_mask": self.mask()}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"connect4: action must be a column from 0 to {COLUMNS - 1}, not {action!r}")
        if not self.mask()[action]:
            raise ValueError(f"connect4: {self.describe_action(action)} is full")
        mover = self.seat
        self._drop(int(action))
        rewards = np.zeros(2, np.float32)
        won = bool(self.winning_cells())
        if won:
            rewards[:] = -1
            rewards[mover] = 1
        info = {"seat": self.seat, "rewards": rewards, "action_mask": self.mask()}
        return self.observe(), float(rewards[mover]), won or self._full, False, info

    def metrics(self) -> tuple[float, ...]:
        return (float(self._full and not self.winning_cells()),)

    # -- rules --

    @property
    def seat(self) -> int:
        """Who moves next; after the last move, who would."""
        return len(self.stones) % 2

    @property
    def _full(self) -> bool:
        return len(self.stones) == ROWS * COLUMNS

    def mask(self) -> NDArray[np.bool_]:
        return np.array([(0, column) not in self.stones for column in range(COLUMNS)])

    def _drop(self, column: int) -> None:
        row = max(row for row in range(ROWS) if (row, column) not in self.stones)
        self.stones[row, column] = self.seat
        self.last = column

    def winning_cells(self) -> set[Cell]:
        """All cells of a row of four or more equal stones; none while nobody has won."""
        won = [line for line in LINES if {self.stones.get(cell) for cell in line} in ({0}, {1})]
        return {cell for line in won for cell in line}

    def observe(self) -> NDArray[np.uint8]:
        obs = np.zeros((ROWS, COLUMNS, 2), np.uint8)
        for (row, column), seat in self.stones.items():
            obs[row, column, int(seat != self.seat)] = 1
        return obs

    # -- for people --

    def draw(self) -> Picture:
        """The board, X for seat 0 and O for seat 1; a row of four stands out."""
        winning = self.winning_cells()
        lines: Picture = [[(" ".join(str(column + 1) for column in range(COLUMNS)), "dim")]]
        for row in range(ROWS):
            line: list[tuple[str, str]] = []
            for column in range(COLUMNS):
                cell = (row, column)
                if cell in self.stones:
                    seat = self.stones[cell]
                    line.append((STONES[seat], STYLES[seat] + (" reverse" if cell in winning else "")))
                else:
                    line.append((".", "dim"))
                line.append((" ", ""))
            lines.append(line)
        if winning:
            winner = 1 - self.seat
            lines.append([(f"{STONES[winner]} wins", STYLES[winner])])
        elif self._full:
            lines.append([("draw", "bold")])
        else:
            lines.append([(f"{STONES[self.seat]} to move", STYLES[self.seat])])
        return lines

    def render(self) -> str:
        return plain(self.draw())

    def describe_action(self, action: int) -> str:
        return f"column {action + 1}"

    def parse_action(self, text: str) -> int:
        """The action that a person types: a column from 1 to 7."""
        word = text.strip()
        if word not in [str(column + 1) for column in range(COLUMNS)]:
            raise ValueError(f"type a column from 1 to {COLUMNS}, not {word!r}")
        action = int(word) - 1
        if not self.mask()[action]:
            raise ValueError(f"{self.describe_action(action)} is full")
        return action

    # -- saving and fixing the state --

    def encode_start(self, options: Mapping[str, Any]) -> Start:
        """Check `options["moves"]`: legal columns, after which the game goes on."""
        check_keys("connect4", options, "moves")
        moves = options.get("moves", [])
        if not isinstance(moves, list | tuple | np.ndarray) or not all(self.action_space.contains(move) for move in moves):
            raise ValueError(f"connect4: moves must be a list of columns from 0 to {COLUMNS - 1}")
        board = ConnectFour()
        for number, move in enumerate(moves, 1):
            if not board.mask()[move]:
                raise ValueError(f"connect4: move {number} drops into column {move}, which is full")
            board._drop(int(move))
            if board._full or board.winning_cells():
                raise ValueError(f"connect4: move {number} ends the game; a start must leave something to play")
        return Start(np.array(moves, np.int32))

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly."""
        cells = [[row * COLUMNS + column for (row, column), seat in self.stones.items() if seat == s] for s in (0, 1)]
        boards = [sum(1 << number for number in numbers) for numbers in cells]
        return np.array([*boards, COLUMNS if self.last is None else self.last], np.uint64)

    def unpack(self, state: NDArray[np.uint64]) -> None:
        *boards, last = (int(value) for value in state)
        numbers = range(ROWS * COLUMNS)
        self.stones = {divmod(n, COLUMNS): seat for seat in (0, 1) for n in numbers if boards[seat] >> n & 1}
        self.last = None if last == COLUMNS else last
