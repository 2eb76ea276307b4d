"""MettaGrid in plain Python: the specification that `kernel.h` must equal bit for bit.

The class docstring is the rule book. Its parts: `objects.py` (kinds, resources, recipes), `world.py` (what actions do),
`generate.py` and `maps.py` (maps), `tokens.py` (observations), `options.py` (defaults).
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.mettagrid import tables
from hotlap.envs.mettagrid.drawing import picture
from hotlap.envs.mettagrid.generate import TRIES, Generator
from hotlap.envs.mettagrid.maps import FLOOR, Map, read_map
from hotlap.envs.mettagrid.objects import ACTIONS, COLOUR, FACING, FROZEN, ITEMS, LAST_ACTION, TIME, WORKING, Kind, constants
from hotlap.envs.mettagrid.options import NAVIGATION, check
from hotlap.envs.mettagrid.tokens import GLOBAL, VIEW, encode, pack
from hotlap.envs.mettagrid.world import Agent, Converter, Thing, World
from hotlap.envs.picture import Picture, plain
from hotlap.envs.rng import Rng
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Start, check_keys

METRICS = ("hearts", "hits", "found")
ROW_ORDER = sorted(range(-VIEW, VIEW + 1), key=lambda row: (abs(row), row))  # the nearest rows of the window first


class MettaGrid:
    """Agents on a walled grid gather resources, have them converted, and rob each other.

    **Objects**, at most one on a cell: walls; blocks; agents; converters, which are mines, generators, altars, laseries and
    armories. Resources: ore, battery, heart, laser, armor. An agent holds up to 200 of each, a converter up to 6.

    | converter | takes | makes |
    |---|---|---|
    | mine | nothing | 1 ore |
    | generator | 1 ore | 1 battery |
    | altar | 3 batteries | 1 heart |
    | lasery | 1 ore, 1 battery | 1 laser |
    | armory | 3 ore | 1 armor |

    A converter that has what it takes, and room for what it makes, uses it up, and 10 steps later the product is there.

    **Actions** of each agent, which faces up, right, down or left:
    - 0 noop; 1 forward, 2 backward: one cell, without turning; 3 to 6 face up, right, down, left.
    - 7 put: give the converter ahead what it takes, as much as it has room for.
    - 8 get: take all that the converter ahead has made.
    - 9 attack: costs a laser. It meets the first agent ahead that is not frozen, within three cells ahead and one to each side:
      the nearest row first, in it straight on, then left, then right; walls do not stop it. An agent with armor loses one armor
      instead. Otherwise it is frozen for 10 steps, and the attacker takes all that it holds.
    - 10 swap: change places with the block or the frozen agent ahead. 11 to 14: become red, green, blue, yellow.

    Masks allow what would do something now: moves to free cells, other directions and colours, put and get that would move at
    least one piece, attacks with a laser and a target, swaps with something to swap; noop always; to the frozen, noop only.

    **A step.** The frozen come one step closer to thawing. Then the agents act one after another, in step t (from 0) beginning
    with agent t modulo their number; what has become impossible meanwhile does nothing. Then each converter works.

    **Tasks.** `arena`: as above, and the episode is truncated after `max_steps` (1,000). `navigation`: each altar has one heart
    at the start, converters do not work, and the episode also ends, terminated, when the last heart has been taken.

    **Reward** of each agent: the sum over resources of its rate times what it got by `get` and by attacks, less what attacks
    took from it. Rates: navigation: heart 1; arena: ore 0.05, battery 0.2, heart 1; `rewards={"ore": 0, ...}` changes them.

    **Maps**: `map` is a file or text (maps.py), else one of `rows` x `columns` (32 x 32) is made for each episode (generate.py)
    by `generator`: `open`, `rooms` or `maze`, with as many of each kind as `objects={"altar": 8, ...}` says; what it does not
    name is as the task has it (options.py). Agents (`agents`: 4, or those of the map) that a map does not place begin on a
    random free cell, facing a random way; their colours are red, green, blue, yellow in turn. `reset(options={"map": ...})`
    gives an environment another map of the same size, until the next such options; None: the one it was made with.

    **Observation** of each agent: `tokens` (200) tokens of three bytes (tokens.py) about the 11 x 11 cells around it. First two
    that belong to no cell: time (255 * steps // max_steps) and its last action + 1 (if any). Then its own cell, then the others
    by rows, the nearest first (the upper one of two), each from left to right. A cell's tokens: its kind, of value 1; of an
    agent facing + 1, colour + 1, and the steps for which it is frozen (if any); of a converter the steps that it still works
    (if any); then resources (if any). Tokens that find no room are left out.

    **Metrics** of each agent: `hearts` taken from altars, `hits` that froze somebody, `found`: the share of the map's hearts
    that all agents together have taken (navigation; else 0).
    """

    kernel = Path(__file__).with_name("kernel.h")
    world: World

    def __init__(
        self,
        task: str = NAVIGATION,
        agents: int | None = None,
        map: str | Path | None = None,
        generator: str = "open",
        rows: int = 32,
        columns: int = 32,
        objects: Mapping[str, int] | None = None,
        rewards: Mapping[str, float] | None = None,
        max_steps: int = 1_000,
        tokens: int = 200,
    ) -> None:
        self.rules = check(task, agents, map, generator, rows, columns, objects, rewards, max_steps, tokens)
        self.first_maps = self.rules.maps
        self.env_spec = EnvSpec.dense(
            (tokens, 3),
            0,
            255,
            "|u1",
            actions=len(ACTIONS),
            masked=True,
            agents=self.rules.agents,
            metrics=METRICS,
            tables=tables.declare(self.rules),
        )
        self.observation_space, self.action_space = self.env_spec.observation_space, self.env_spec.action_space
        self.agents = range(self.rules.agents)
        self.rng = Rng.unseeded()
        self._begin()

    @property
    def defines(self) -> dict[str, int | float]:
        """What the kernel must know about this game, as C macros."""
        sizes = {"ROWS": self.rules.rows, "COLUMNS": self.rules.columns, "CONVERTERS": self.rules.max_converters}
        return {
            **sizes,
            **constants(),
            "VIEW": VIEW,
            "TOKENS": self.rules.tokens,
            "GENERATED": tables.GENERATED,
            "TRIES": TRIES,
        }

    def tables(self) -> dict[str, NDArray[Any]]:
        """What the kernel reads at run time."""
        return tables.encode(self.rules)

    # -- episode: of several agents as SimultaneousEnv has it, of one as Gymnasium has it --

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        """(agent, observation, mask) of each agent; of a single one, observation and info."""
        if seed is not None:
            self.rng = Rng(seed)
        if options:
            self.rules = replace(self.rules, maps=self._read_options(options))
        self._begin()
        seen = [(agent, self.observe(agent), self.mask(agent)) for agent in self.agents]
        return seen if len(seen) > 1 else (seen[0][1], {"action_mask": seen[0][2]})

    def step(self, actions: Any) -> Any:
        """(agent, observation, reward, terminated, truncated, mask) of each agent, and whether the episode is over."""
        chosen = np.atleast_1d(actions).tolist()
        for agent, action in enumerate(chosen):
            self._check(agent, action)
        self.world.step(chosen)
        terminated = self.world.navigation and not self.world.hearts_left
        truncated = not terminated and self.world.steps >= self.rules.max_steps
        results = [
            (agent, self.observe(agent), self._reward(agent), terminated, truncated, self.mask(agent)) for agent in self.agents
        ]
        if len(results) > 1:
            return results, terminated or truncated
        return *results[0][1:5], {"action_mask": results[0][5]}

    def _begin(self) -> None:
        maps = self.rules.maps
        map = Map(maps.make(self.rng)) if isinstance(maps, Generator) else maps
        self.world = World(map, self.rules.agents, self.rules.navigation, self.rng)

    def _check(self, agent: int, action: Any) -> None:
        if not self.action_space.contains(action):
            raise ValueError(f"mettagrid: action must be a whole number from 0 to {len(ACTIONS) - 1}, not {action!r}")
        if not self.world.can(self.world.agents[agent], action):
            raise ValueError(f"mettagrid: agent {agent} cannot do {ACTIONS[action]} now")

    def _reward(self, agent: int) -> float:
        reward = 0.0
        for rate, gained in zip(self.rules.rewards, self.world.agents[agent].gained, strict=True):
            reward += rate * gained
        return float(np.float32(reward))

    def mask(self, agent: int) -> NDArray[np.bool_]:
        return self.world.mask(self.world.agents[agent])

    def metrics(self, agent: int = 0) -> tuple[float, ...]:
        world, who = self.world, self.world.agents[agent]
        found = (world.hearts - world.hearts_left) / world.hearts if world.hearts else 0.0
        return float(who.hearts), float(who.hits), found

    def close(self) -> None:
        """Nothing to close."""

    # -- observation --

    def observe(self, agent: int) -> NDArray[np.uint8]:
        world, who = self.world, self.world.agents[agent]
        seen = [(GLOBAL, TIME, 255 * world.steps // self.rules.max_steps)]
        if who.last_action:
            seen.append((GLOBAL, LAST_ACTION, who.last_action))
        around = [(row, column) for row in ROW_ORDER for column in range(-VIEW, VIEW + 1) if (row, column) != (0, 0)]
        for row, column in [(0, 0), *around]:
            thing = world.things.get((who.cell[0] + row, who.cell[1] + column))
            if thing is not None:
                location = pack(row + VIEW, column + VIEW)
                seen += [(location, feature, value) for feature, value in _features(thing)]
        return encode(seen, self.rules.tokens)

    # -- for people --

    def draw(self) -> Picture:
        return picture(self.world)

    def render(self) -> str:
        return plain(self.draw())

    def describe_action(self, action: int) -> str:
        return ACTIONS[action]

    # -- saving and fixing the state --

    def _read_options(self, options: Mapping[str, Any]) -> Map | Generator:
        check_keys("mettagrid", options, "map")
        if options["map"] is None:
            return self.first_maps
        map = read_map(options["map"])
        self.rules.fits(map)
        return map

    def encode_start(self, options: Mapping[str, Any]) -> Start:
        """Check the options of a reset; the map as tables."""
        return Start(tables=tables.encode_map(self.rules, self._read_options(options)))

    def pack(self) -> NDArray[np.uint64]:
        """The whole state as numbers, for checkpoints: `unpack` restores it exactly."""
        world = self.world
        agents = [
            [*who.cell, who.facing, who.colour, who.frozen, who.last_action, who.hearts, who.hits, *who.items]
            for who in world.agents
        ]
        converters = np.zeros((self.rules.max_converters, 1 + len(world.agents[0].items)), np.uint64)
        for row, converter in zip(converters, world.converters, strict=False):
            row[:] = converter.working, *converter.items
        cells = np.zeros((world.rows, world.columns), np.uint8)
        for cell, thing in world.things.items():
            cells[cell] = thing.kind + 1 if thing.kind != Kind.AGENT else FLOOR
        start = np.array([self.rng.key, self.rng.counter, world.steps, world.hearts], np.uint64)
        parts = [start, np.array(agents, np.uint64).ravel(), converters.ravel(), cells.astype(np.uint64).ravel()]
        return np.concatenate([*parts, tables.to_numbers(tables.encode(self.rules))])

    def unpack(self, state: NDArray[np.uint64]) -> None:
        rules, count = self.rules, self.rules.agents
        per_agent, per_converter = 8 + len(self.world.agents[0].items), 1 + len(self.world.agents[0].items)
        lengths = [4, count * per_agent, rules.max_converters * per_converter, rules.rows * rules.columns]
        start, agents, converters, cells, saved = np.split(state, np.cumsum(lengths))
        self.rules = tables.decode(rules, tables.from_numbers(rules, saved))
        self.rng.key, self.rng.counter, steps, hearts = (int(number) for number in start)
        empty = Map(cells.astype(np.uint8).reshape(rules.rows, rules.columns))
        self.world = world = World(empty, 0, self.rules.navigation, Rng(0))
        world.steps, world.hearts = steps, hearts
        for converter, row in zip(world.converters, converters.reshape(-1, per_converter).tolist(), strict=False):
            converter.working, *converter.items = row
        for down, right, facing, colour, frozen, last, taken, hits, *items in agents.reshape(count, -1).tolist():
            agent = Agent(Kind.AGENT, (down, right), facing, colour, frozen, last, items, hearts=taken, hits=hits)
            world.agents.append(agent)
            world.things[agent.cell] = agent


def _features(thing: Thing) -> list[tuple[int, int]]:
    """(feature, value) of what is on a cell."""
    seen = [(int(thing.kind), 1)]
    if isinstance(thing, Agent):
        seen += [(FACING, thing.facing + 1), (COLOUR, thing.colour + 1), *[(FROZEN, thing.frozen)] * (thing.frozen > 0)]
    if isinstance(thing, Converter):
        seen += [(WORKING, thing.working)] * (thing.working > 0)
    if isinstance(thing, Agent | Converter):
        seen += [(ITEMS + item, held) for item, held in enumerate(thing.items) if held]
    return seen
