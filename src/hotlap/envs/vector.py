"""Many environments as one `gymnasium.vector.VectorEnv`: games on their C kernel (turbo) or on their Python reference, and any
Gymnasium environment or PettingZoo game, in this process or in workers over shared memory.

Arrays that `reset` and `step` return are views of buffers, not copies. There are `depth` sets of buffers, used in turn: with
two, what a step returned stays valid during the next step and is overwritten by the one after it.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hotlap.envs import layout, load_game, metta, pettingzoo, registered, start
from hotlap.envs.buffers import Arrays, StepBuffers
from hotlap.envs.engine import NativeEngine, identity
from hotlap.envs.layout import Placement
from hotlap.envs.reference import AgentsReferenceEngine, ReferenceEngine
from hotlap.envs.serial import AgentsEngine, SerialEngine
from hotlap.envs.spec import EnvSpec
from hotlap.envs.transport import TRANSPORTS
from hotlap.envs.workers import PATIENCE, WorkerEngine

MAX_ENVS = 1 << 22
AUTO = -1  # workers: as many as measure fastest
Engine = NativeEngine | SerialEngine | WorkerEngine


class GameVectorEnv(VectorEnv[Any, Any, Any]):
    """Copies of one game with auto-reset in the step that ends an episode.

    When episodes end, `info` holds Gymnasium's keys: `final_obs` (the true last observation) and `final_info` with `return`,
    `length` and the game's own metrics, such as `score`; the masks `_final_obs` and `_final_info` say which rows count.
    `action_mask` says which actions are legal, `seat` whose turn it is, `rewards` what each seat got, where a game has them.

    Row i is seeded with `seed + i`. `reset(options=...)` fixes the start: see start.py. `state()` and
    `load_state()` save and restore everything, to the bit.

    `send` and `receive` step `groups` of rows apart from each other: asynchronous batches, which do not wait for the slowest.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
    on_device = False  # whether its arrays are tensors on a GPU

    def __init__(self, game: Any, spec: EnvSpec, arrays: Arrays, engine: Engine, seed: int | None) -> None:
        self.game = game
        self.env_spec = spec
        self.engine = engine
        self.num_envs = engine.num_rows
        self.single_observation_space, self.single_action_space = game.observation_space, game.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.turbo = engine.compiled
        self.layout = layout.Layout(engine.workers)
        self.rings = arrays.rings
        self.depth = len(arrays.buffers)
        self.groups = engine.groups
        self._arrays = arrays
        self._views = [
            arrays.buffers if len(self.groups) == 1 else tuple(step.rows(rows.start, rows.stop) for step in arrays.buffers)
            for rows in self.groups
        ]
        self._slot = [0] * len(self.groups)
        self._finished = [0] * len(self.groups)
        self._seed = seed
        self._started = False
        self.steps = 0  # vector steps; a resumed run goes on counting

    # -- as Gymnasium has it --

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is None and not self._started:
            seed = self._seed if self._seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
        seeds = None if seed is None else self._seeds(seed)
        super().reset(seed=seed if isinstance(seed, int) else None)
        starts: Any = start.split(options, self.num_envs // self.env_spec.agents)
        if hasattr(self.game, "encode_start"):
            encoded = start.encode(self.game, starts)  # which also checks them
            starts = encoded if self.turbo else starts
        slot = (self._slot[0] + 1) % self.depth
        self._slot = [slot] * len(self.groups)
        self.engine.reset(seeds, starts, slot)
        self._started = True
        return self._arrays.buffers[slot].obs, self._info(self._arrays.buffers[slot])

    def _seeds(self, seed: Any) -> NDArray[np.uint64]:
        each = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        fine = isinstance(each, list | tuple | np.ndarray) and len(each) == self.num_envs
        if not fine or not all(isinstance(s, int | np.integer) and 0 <= s < 2**64 for s in each):
            raise ValueError(f"seed must be a whole number >= 0, or one for each of the {self.num_envs} environments")
        return np.array(each, np.uint64)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        self._take(actions, slice(0, self.num_envs))
        for group in range(len(self.groups)):
            self._check(group)  # all of them before any steps, or a wrong action would leave the others a step ahead
        for group in range(len(self.groups)):
            self._start(group)
        while self.receive():
            pass
        out = self._arrays.buffers[self._slot[0]]
        info = self._info(out)
        if any(self._finished):
            ended = out.terminated | out.truncated
            info |= {"final_obs": out.final_obs, "_final_obs": ended, "final_info": self.final_info(out), "_final_info": ended}
        return out.obs, out.reward, out.terminated, out.truncated, info

    def _info(self, out: StepBuffers) -> dict[str, Any]:
        """Which actions are legal, whose turn it is, which agents still play."""
        info: dict[str, Any] = {"action_mask": out.mask} if self.engine.masked else {}
        if self.env_spec.seats > 1:
            info |= {"seat": out.seat, "rewards": out.rewards}
        if self.env_spec.agents > 1:
            info["active"] = out.active
        return info

    def final_info(self, out: StepBuffers) -> dict[str, Any]:
        """Return, length and the game's own metrics of episodes, by row; of rows whose episode ended in this step."""
        columns: dict[str, Any] = {name: out.episode_metrics[..., i] for i, name in enumerate(self.env_spec.metrics)}
        if self.env_spec.seats > 1:
            columns["returns"] = out.episode_returns
        return {"return": out.episode_return, "length": out.episode_length, **columns}

    # -- groups of rows, apart from each other --

    def send(self, group: int, actions: Any) -> None:
        """Begin a step of a group of rows."""
        self._take(actions, self.groups[group])
        self._check(group)
        self._start(group)

    def receive(self) -> list[int]:
        """Wait for groups whose steps are over; none if no step is under way."""
        over = self.engine.wait()
        for group, finished in over:
            if finished < 0:
                self._refuse(-1 - finished)
            self._slot[group] = (self._slot[group] + 1) % self.depth
            self._finished[group] = finished
        return [group for group, _ in over]

    def _check(self, group: int) -> None:
        row = self.engine.wrong_action(group, self._slot[group])
        if row is not None:
            self._refuse(row)

    def _refuse(self, row: int) -> None:
        action, agents = self.to_host(self._arrays.actions[row]), self.env_spec.agents
        who = f"environment {row}" if agents == 1 else f"agent {row % agents} of environment {row // agents}"
        fault = "is illegal" if self.single_action_space.contains(action) else f"is outside {self.single_action_space}"
        raise ValueError(f"action {action} of {who} {fault}")

    def outcome(self, group: int) -> tuple[StepBuffers, int]:
        """What the last step of a group left behind, and how many of its episodes ended."""
        return self._views[group][self._slot[group]], self._finished[group]

    @property
    def slot(self) -> int:
        """Which set of buffers holds the last step."""
        return self._slot[0]

    def rewind(self) -> None:
        """Go on from the first set of buffers, as a rollout does that begins where the last one ended."""
        now = self._slot[0]
        if now:
            for name in ("obs", "mask", "seat", "active"):
                self.rings[name][0] = self.rings[name][now]
        self._slot = [0] * len(self.groups)

    def _take(self, actions: Any, rows: slice) -> None:
        if not self._started:
            raise RuntimeError("call reset() before step()")
        place = self._arrays.actions[rows]
        try:
            if np.shape(actions) != place.shape:  # or NumPy would broadcast one action to all environments
                raise ValueError
            np.copyto(place, actions, casting="same_kind")
        except (TypeError, ValueError):
            raise ValueError(
                f"actions must be {len(place)} whole numbers, not {np.asarray(actions).dtype} of shape {np.shape(actions)}"
            ) from None

    def _start(self, group: int) -> None:
        self.steps += group == 0
        self.engine.start(group, (self._slot[group] + 1) % self.depth)

    # -- saving --

    @property
    def restores(self) -> bool:
        """Whether `load_state` brings the episodes back, rather than beginning new ones."""
        return self.engine.restores

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the future depends on: the environments and the observation they are in."""
        now = {name: self.to_host(self.rings[name][self._slot[0]]) for name in ("obs", "mask", "seat", "active")}
        return {**self.engine.state(), "identity": self._identity(), **now}

    def to_host(self, array: Any) -> NDArray[Any]:
        """A copy in NumPy."""
        return np.array(array)

    def _from_host(self, array: NDArray[Any]) -> Any:
        return array

    def _identity(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.engine.identity.encode(), np.uint8)

    def load_state(self, state: dict[str, NDArray[Any]], seed: int | list[int | None] | None = None) -> NDArray[Any]:
        """Go back to a saved state; returns the observation. What cannot be saved begins new episodes, of `seed`."""
        same_rules = np.array_equal(state["identity"], self._identity())
        if not same_rules or len(state["obs"]) != self.num_envs:
            raise ValueError(f"the saved environments do not fit {self.num_envs} x {self.engine.identity}")
        if not state["envs"].size:
            obs: NDArray[Any] = self.reset(seed=seed)[0]
            return obs
        self.engine.load_state(state)
        for name in ("obs", "mask", "seat", "active"):
            self.rings[name][self._slot[0]] = self._from_host(state[name])
        self._started = True
        return self._arrays.buffers[self._slot[0]].obs

    def close_extras(self, **kwargs: Any) -> None:
        self.engine.close()


def make_vec(
    name: str,
    num_envs: int = 1,
    turbo: bool = True,
    seed: int | None = None,
    threads: int = 1,
    workers: int = 0,
    async_factor: int = 1,
    depth: int = 2,
    patience: float = PATIENCE,
    transport: str = "shared",
    device: str = "cpu",
    **options: Any,
) -> GameVectorEnv:
    """A vector of `num_envs` environments.

    `turbo=True` runs the C kernel, on `threads` threads; `turbo=False` the Python reference, with the same results bit for
    bit, in this process or in `workers` (see `make_gym`). `device="cuda"` runs the kernel on that GPU, again with the same
    results; all arrays are then torch tensors there. Other options are the game's own: see its class docstring, such as
    `hotlap.envs.snake.reference.Snake`.
    """
    _check_counts(name, num_envs=num_envs, threads=threads)
    kind = load_game(name)
    try:
        inspect.signature(kind).bind(**options)
    except TypeError as error:
        raise ValueError(f"{name}: unknown option: {error}") from None
    game = kind(**options)
    if not turbo:
        place = Placement(workers, async_factor, depth, patience, transport)
        engine = ReferenceEngine if game.env_spec.agents == 1 else AgentsReferenceEngine
        return _in_python(f"{identity(game)}-reference", lambda: kind(**options), engine, game, num_envs, seed, place)
    if device != "cpu":
        from hotlap.envs.device import make_on_device

        return make_on_device(game, num_envs, seed, depth, device)
    spec = EnvSpec.of(game)
    arrays = Arrays(spec, num_envs * spec.agents, depth)
    return GameVectorEnv(game, spec, arrays, NativeEngine(game, arrays.actions, threads, arrays.buffers), seed)


def make_gym(
    env: str | Callable[[], Any],
    num_envs: int = 1,
    seed: int | None = None,
    workers: int = 0,
    async_factor: int = 1,
    depth: int = 2,
    patience: float = PATIENCE,
    transport: str = "shared",
    **options: Any,
) -> GameVectorEnv:
    """A vector of any Gymnasium environment, PettingZoo game or `mettagrid/`, by its name or by a function that makes one.

    `workers` processes step them, 0: this one, -1: as many as measure fastest; the results are the same. Those form
    `async_factor` groups, which step apart from each other through `send` and `receive`, and are told actions and tell results
    by `transport`: shared memory, or pickles through a pipe. A worker that does not answer for
    `patience` seconds is an error. Observations that are not arrays of numbers are flattened (a discrete one becomes one-hot).
    """
    name = env if isinstance(env, str) else getattr(env, "__name__", "environment")
    _check_counts(name, num_envs=num_envs)
    make = _maker(env, name, options)
    first = registered.with_numbers(make, name)
    if not isinstance(first.action_space, Box | Discrete | MultiDiscrete):
        raise ValueError(f"{name}: actions must be Discrete, MultiDiscrete or Box, not {first.action_space}")
    engines = {pettingzoo.SimultaneousEnv: AgentsEngine, metta.MettaEnv: metta.MettaEngine}
    kind = engines.get(type(first), SerialEngine)
    place = Placement(workers, async_factor, depth, patience, transport)
    return _in_python(name, lambda: registered.with_numbers(make, name), kind, first, num_envs, seed, place)


def _maker(env: str | Callable[[], Any], name: str, options: dict[str, Any]) -> Callable[[], Any]:
    """The function that makes one environment."""
    if not callable(env) and env.startswith(metta.PREFIX):
        return metta.maker(env, options)
    if options and (callable(env) or env.startswith(pettingzoo.PREFIX)):
        raise ValueError(f"{name}: unknown option {', '.join(options)}")
    if callable(env):
        return env
    return pettingzoo.maker(env) if env.startswith(pettingzoo.PREFIX) else registered.maker(env, options)


def _in_python(
    name: str, make: Callable[[], Any], kind: type[SerialEngine], game: Any, num_envs: int, seed: int | None, place: Placement
) -> GameVectorEnv:
    """Environments in Python. `game` is the first of them, already made."""
    _check_counts(name, async_factor=place.async_factor)
    if place.transport not in TRANSPORTS:
        raise ValueError(f"{name}: transport must be one of {', '.join(TRANSPORTS)}, not {place.transport!r}")
    spec = EnvSpec.of(game)
    if place.workers == AUTO:
        chosen = layout.pick(name, make, kind, spec, num_envs, place)
    else:
        _check_counts(name, 0, workers=place.workers)
        chosen = layout.Layout(place.workers)
    workers = chosen.workers
    if workers > num_envs or workers % place.async_factor:
        limits = f"at most num_envs ({num_envs}), and a multiple of async_factor ({place.async_factor})"
        raise ValueError(f"{name}: workers ({workers}) must be {limits}")
    rows = num_envs * spec.agents
    if not workers:
        arrays = Arrays(spec, rows, place.depth)
        envs = [game, *(make() for _ in range(num_envs - 1))]
        env = GameVectorEnv(game, spec, arrays, kind(name, envs, arrays.actions, arrays.buffers), seed)
    else:
        game.close()
        how = (place.depth, workers, place.async_factor, place.patience, place.transport)
        engine = WorkerEngine(name, make, kind, spec, rows, *how)
        env = GameVectorEnv(game, spec, engine.arrays, engine, seed)
    env.layout = chosen
    return env


def _check_counts(name: str, least: int = 1, **counts: int) -> None:
    for label, value in counts.items():
        limit = MAX_ENVS if label == "num_envs" else 1024
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= limit:
            raise ValueError(f"{name}: {label} must be a whole number from {least} to {limit:,}, not {value!r}")
