"""The `mettagrid` package as hotlap environments: its navigation task, with the tokens and the maps of `envs/mettagrid`.

    env = make_gym("mettagrid/", num_envs=64, agents=4)            # pip install hotlap[mettagrid]

Through its public interface: configs, `Simulation` and `Buffers`. Its simulations write into arrays of the engine, one block
for all environments, so that a vector step copies once. Tested with the versions that the extra `mettagrid` names. What the
package plays today is not what `envs/mettagrid` plays: agents have no direction, moving against an altar takes its heart,
an agent sees a disc of its window, an episode lasts `max_steps`. Rewards, maps and the packing of tokens are the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from hotlap.envs.buffers import StepBuffers
from hotlap.envs.mettagrid.maps import FLOOR, Map, read_map
from hotlap.envs.mettagrid.objects import Kind
from hotlap.envs.mettagrid.options import NAVIGATION, OBJECTS
from hotlap.envs.mettagrid.tokens import WINDOW
from hotlap.envs.picture import Picture
from hotlap.envs.serial import SerialEngine
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Options

PREFIX = "mettagrid/"
NAMES = {Kind.WALL: "wall", Kind.ALTAR: "altar"}  # what maps of both may hold, besides agents
SYMBOLS = {"wall": ("#", "blue"), "altar": ("_", "magenta"), "agent": ("@", "bold")}
HEART = "heart"


def maker(name: str, options: Mapping[str, Any]) -> Callable[[], "MettaEnv"]:
    """A function that makes such environments."""
    if name != PREFIX:
        raise ValueError(f"mettagrid has one game here, {PREFIX!r}, not {name!r}")
    if find_spec("mettagrid") is None:
        raise ValueError("this needs the mettagrid package, on Python 3.11 or 3.12: pip install 'hotlap[mettagrid]'")
    return lambda: MettaEnv(**options)


@dataclass(frozen=True)
class Arrays:
    """What a simulation reads and writes, a row for each agent."""

    obs: NDArray[np.uint8]
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    actions: NDArray[np.int32]

    @classmethod
    def allocate(cls, spec: EnvSpec, rows: int) -> "Arrays":
        return cls(
            obs=np.zeros((rows, *spec.obs_shape), np.uint8),
            reward=np.zeros(rows, np.float32),
            terminated=np.zeros(rows, np.bool_),
            truncated=np.zeros(rows, np.bool_),
            actions=np.zeros(rows, np.int32),
        )

    def rows(self, rows: slice) -> "Arrays":
        return Arrays(*(array[rows] for array in vars(self).values()))


class MettaEnv:
    """One simulation after another. Agents act at the same time, as in `pettingzoo.SimultaneousEnv`; the engine uses `begin`
    and `advance` instead, which leave their results in its arrays."""

    metric_names = ("hearts", "found")

    def __init__(
        self,
        task: str = NAVIGATION,
        agents: int | None = None,
        map: str | None = None,
        generator: str = "open",
        rows: int = 32,
        columns: int = 32,
        max_steps: int = 1_000,
        tokens: int = 200,
    ) -> None:
        if task != NAVIGATION or generator != "open":
            raise ValueError("mettagrid: the package plays navigation on open maps, or on maps from files")
        source = None if map is None else read_map(map)
        self.agents = agents or (len(source.starts) if source else 0) or 4
        self.config = _config(source, self.agents, rows, columns, max_steps, tokens)
        self.action_names: list[str] = [action.name for action in self.config.game.actions.actions()]
        self.hearts = source.count(Kind.ALTAR) if source else OBJECTS[NAVIGATION]["altar"]
        self.env_spec = EnvSpec.dense(
            (tokens, 3), 0, 255, "|u1", actions=len(self.action_names), agents=self.agents, metrics=self.metric_names
        )
        self.observation_space = Box(0, 255, (tokens, 3), np.uint8)
        self.action_space = Discrete(len(self.action_names))
        self.agent_rows = self.agents
        self.simulation: Any = None
        self._seeds = np.random.default_rng()
        self._returns = np.zeros(self.agents)
        self.attach(Arrays.allocate(self.env_spec, self.agents))

    # -- as the engine uses it --

    def attach(self, arrays: Arrays) -> None:
        """From now on simulations read and write these arrays."""
        from mettagrid.simulator.simulator import Buffers

        self.arrays = arrays
        unused = [np.zeros(self.agents, np.int32) for _ in range(2)]
        self._buffers = Buffers(
            observations=arrays.obs,
            terminals=arrays.terminated,
            truncations=arrays.truncated,
            rewards=arrays.reward,
            masks=np.ones(self.agents, np.bool_),
            actions=arrays.actions,
            teacher_actions=unused[0],
            vibe_actions=unused[1],
        )

    def begin(self, seed: int | None = None) -> None:
        """A new episode: a new simulation on a new map, which follow from the seed or from the last one."""
        from mettagrid.simulator import Simulation

        if seed is not None:
            self._seeds = np.random.default_rng(seed)
        map_seed, own_seed = self._seeds.integers(2**31, size=2).tolist()
        if hasattr(self.config.game.map_builder, "seed"):
            self.config.game.map_builder.seed = map_seed
        if self.simulation is not None:
            self.simulation.close()
        self.arrays.reward[:] = self.arrays.terminated[:] = self.arrays.truncated[:] = 0
        self.simulation = Simulation(self.config, own_seed, buffers=self._buffers)

    def advance(self) -> None:
        """One step, with the actions that are in the arrays."""
        self.simulation.step()

    @property
    def over(self) -> bool:
        return bool(self.arrays.truncated[0] or self.arrays.terminated[0])  # of all agents at once

    def metrics(self, agent: int = 0) -> tuple[float, ...]:
        """How many hearts the agent has taken, and which share of all of them all agents together have."""
        taken = self.simulation.episode_rewards
        return float(taken[agent]), float(taken.sum()) / max(1, self.hearts)

    # -- as replays use it --

    def reset(self, *, seed: int | None = None, options: Options = None) -> Any:
        if options:
            raise ValueError("mettagrid: the package's environments take no reset options")
        self.begin(seed)
        seen = [(agent, obs.copy(), None) for agent, obs in enumerate(self.arrays.obs)]
        return seen if self.agents > 1 else (seen[0][1], {})

    def step(self, actions: Any) -> Any:
        self.arrays.actions[:] = actions
        self.advance()
        left = [
            (agent, obs.copy(), float(reward), bool(terminated), bool(truncated), None)
            for agent, (obs, reward, terminated, truncated) in enumerate(
                zip(self.arrays.obs, self.arrays.reward, self.arrays.terminated, self.arrays.truncated, strict=True)
            )
        ]
        return (left, self.over) if self.agents > 1 else (*left[0][1:5], {})

    def draw(self) -> Picture:
        sim = self.simulation
        cells = [[(".", "dim")] * sim.map_width for _ in range(sim.map_height)]
        for thing in sim.grid_objects().values():
            column, row = thing["location"][:2]
            cells[row][column] = SYMBOLS.get(thing["type_name"], ("?", ""))
        return [list(line) for line in cells]

    def describe_action(self, action: int) -> str:
        return self.action_names[action].replace("_", " ")

    def close(self) -> None:
        if self.simulation is not None:
            self.simulation.close()
            self.simulation = None


class MettaEngine(SerialEngine):
    """Simulations that share one block of arrays, which is copied to where trainers read it once per vector step."""

    envs: list[MettaEnv]

    def __init__(
        self, name: str, envs: list[Any], actions: NDArray[Any], buffers: tuple[StepBuffers, ...], first: int = 0
    ) -> None:
        super().__init__(name, envs, actions, buffers, first)
        self._agents = len(actions) // len(envs)
        self._arrays = Arrays.allocate(envs[0].env_spec, len(actions))
        for i, env in enumerate(envs):
            env.attach(self._arrays.rows(self._rows(i)))

    def _rows(self, i: int) -> slice:
        return slice(i * self._agents, (i + 1) * self._agents)

    def reset(self, seeds: NDArray[np.uint64] | None, starts: Sequence[Options] | None, slot: int) -> None:
        if starts and any(starts):
            raise ValueError("mettagrid: the package's environments take no reset options")
        out = self._buffers[slot]
        try:
            for i, env in enumerate(self.envs):
                self.at[0] = i
                env.begin(None if seeds is None else int(seeds[i * self._agents]))
        except Exception as error:
            self._fail(error)
        out.obs[:], out.active[:] = self._arrays.obs, True
        self._returns[:] = 0
        self._lengths[:] = 0

    def step(self, slot: int) -> int:
        out, arrays = self._buffers[slot], self._arrays
        arrays.actions[:] = self._actions
        try:
            for i, env in enumerate(self.envs):
                self.at[0] = i
                env.advance()
        except Exception as error:
            self._fail(error)
        out.reward[:], out.terminated[:], out.truncated[:] = arrays.reward, arrays.terminated, arrays.truncated
        out.active[:] = True
        self._returns += arrays.reward
        self._lengths += 1
        ended = 0
        if arrays.truncated.any() or arrays.terminated.any():
            try:
                for i, env in enumerate(self.envs):
                    if env.over:
                        self.at[0] = i
                        self._end(i, env, out)
                        ended += self._agents
            except Exception as error:
                self._fail(error)
        out.obs[:] = arrays.obs
        return ended

    def _end(self, i: int, env: MettaEnv, out: StepBuffers) -> None:
        """Keep how an episode ended, and begin another one."""
        rows = self._rows(i)
        out.final_obs[rows] = env.arrays.obs
        out.episode_return[rows], out.episode_length[rows] = self._returns[rows], self._lengths[rows]
        out.episode_metrics[rows] = [env.metrics(agent) for agent in range(self._agents)]
        self._returns[rows] = self._lengths[rows] = 0
        with self.around_reset():
            env.begin()


# -- the package's config --


def _config(source: Map | None, agents: int, rows: int, columns: int, max_steps: int, tokens: int) -> Any:
    """Navigation: each altar has a heart, which whoever moves against it gets, as its reward."""
    from mettagrid.config.handler_config import Handler, withdraw
    from mettagrid.config.mettagrid_config import GridObjectConfig, InventoryConfig, MettaGridConfig, WallConfig
    from mettagrid.config.reward_config import inventoryReward
    from mettagrid.map_builder.random_map import RandomMapBuilder

    config = MettaGridConfig.EmptyRoom(agents, width=columns, height=rows, with_walls=True)
    game = config.game
    take = Handler(mutations=[withdraw({HEART: 1})])
    altar = GridObjectConfig(name="altar", inventory=InventoryConfig(initial={HEART: 1}), on_use_handler=take)
    game.objects = {"wall": WallConfig(), "altar": altar}
    game.resource_names = [HEART]
    game.agent.rewards = {HEART: inventoryReward(HEART)}
    game.agent.inventory = InventoryConfig(default_limit=255)
    game.actions.change_vibe.enabled = False
    game.max_steps, game.episode_truncates = max_steps, True
    game.obs.width = game.obs.height = WINDOW
    game.obs.num_tokens = tokens
    game.protocol_details_obs = False
    if source is None:
        objects = dict(OBJECTS[NAVIGATION])
        game.map_builder = RandomMapBuilder.Config(
            width=columns, height=rows, objects=objects, agents=agents, border_width=1, seed=0
        )
        return config
    names = {symbol: name for name, (symbol, _) in SYMBOLS.items()} | {".": "empty", "@": "agent.agent"}
    return config.with_ascii_map(_lines(source, agents), {symbol: name for symbol, name in names.items() if len(symbol) == 1})


def _lines(source: Map, agents: int) -> list[list[str]]:
    """A map as the package reads it; agents that it does not place begin on its first free cells."""
    unknown = set(np.unique(source.cells).tolist()) - {FLOOR, *(kind + 1 for kind in NAMES)}
    if unknown:
        names = ", ".join(Kind(number - 1).name.lower() for number in sorted(unknown))
        raise ValueError(f"mettagrid: for the package a map may have walls, altars and agents, no {names}")
    symbols = {FLOOR: "."} | {kind + 1: SYMBOLS[name][0] for kind, name in NAMES.items()}
    lines = [[symbols[number] for number in row] for row in source.cells.tolist()]
    free = [(int(row), int(column)) for row, column in np.argwhere(source.cells == FLOOR)]
    placed = [start.cell for start in source.starts]
    for row, column in [*placed, *(cell for cell in free if cell not in placed)][:agents]:
        lines[row][column] = "@"
    return lines


def features() -> dict[str, tuple[int, float]]:
    """The number of each feature of these observations, and the largest value that it usually has."""
    config = _config(None, 1, 32, 32, 1_000, 200)
    return {feature.name: (feature.id, feature.normalization) for feature in config.game.id_map().features()}


def tag_names() -> list[str]:
    """What the values of the feature `tag` mean: `type:wall`, for example."""
    names: list[str] = _config(None, 1, 32, 32, 1_000, 200).game.id_map().tag_names()
    return names
