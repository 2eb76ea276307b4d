"""Many environments as one `gymnasium.vector.VectorEnv`: games on their C kernel (turbo) or on their Python reference, and any
Gymnasium environment, one after another.

Arrays that `reset` and `step` return are views of buffers, not copies. There are two sets of buffers, used in turn: what a
step returned stays valid during the next step and is overwritten by the one after it.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hotlap.envs import load_game
from hotlap.envs.engine import Buffers, NativeEngine, identity

MAX_ENVS = 1 << 22
LONGEST = 10_000  # steps of an episode, where the environment itself sets no limit
MakeEngine = Callable[[NDArray[Any], tuple[Buffers, ...]], "NativeEngine | SerialEngine"]


class SerialEngine:
    """A batch of Gymnasium environments, one after another."""

    def __init__(self, name: str, envs: list[Any], actions: NDArray[Any], slots: tuple[Buffers, ...]) -> None:
        self.envs = envs
        self.identity = name
        self.masks: NDArray[np.bool_] | None = None  # of legal actions, where environments tell them
        self._actions = actions
        self._scalar = actions.ndim == 1
        self._slots = slots
        self._returns = np.zeros(len(actions), np.float64)
        self._lengths = np.zeros(len(actions), np.int64)

    def reset(self, seeds: NDArray[np.uint64] | None, start: Any, slot: int) -> None:
        for i, env in enumerate(self.envs):
            seed = None if seeds is None else int(seeds[i])
            self._slots[slot].obs[i], info = env.reset(seed=seed, options=start)
            self._note_mask(i, info)
        self._returns[:] = 0
        self._lengths[:] = 0

    def step(self, slot: int) -> int:
        out = self._slots[slot]
        actions = list(self._actions) if self._scalar else self._actions.copy()
        results, over = [], []
        for i, env in enumerate(self.envs):
            obs, reward, terminated, truncated, info = env.step(actions[i])
            results.append((reward, terminated, truncated))
            if terminated or truncated:
                over.append(i)
                out.final_obs[i] = obs
                self._note_metrics(i, out)
                obs, info = env.reset()
            out.obs[i] = obs
            if info or self.masks is not None:
                self._note_mask(i, info)
        rewards, out.terminated[:], out.truncated[:] = zip(*results, strict=True)
        out.reward[:] = rewards
        self._returns += rewards
        self._lengths += 1
        for i in over:
            out.episode_return[i], out.episode_length[i] = self._returns[i], self._lengths[i]
            self._returns[i] = self._lengths[i] = 0
        return len(over)

    def _note_metrics(self, i: int, out: Buffers) -> None:
        """Environments of other people have none."""

    def _note_mask(self, i: int, info: dict[str, Any]) -> None:
        if self.masks is not None and "action_mask" not in info:
            self.masks[i] = True
        elif "action_mask" in info:
            mask = np.asarray(info["action_mask"], np.bool_).ravel()
            self.masks = np.ones((len(self.envs), len(mask)), np.bool_) if self.masks is None else self.masks
            self.masks[i] = mask

    def state(self) -> NDArray[Any]:
        """Nothing: these environments cannot be saved, so a resumed run begins new episodes."""
        return np.zeros((len(self.envs), 0), np.uint8)

    def load_state(self, state: NDArray[Any]) -> None:
        """See `state`."""

    def close(self) -> None:
        for env in self.envs:
            env.close()
        self.envs = []


class ReferenceEngine(SerialEngine):
    """A batch of a game on its Python reference."""

    def __init__(self, game: Any, options: dict[str, Any], actions: NDArray[Any], slots: tuple[Buffers, ...]) -> None:
        name = f"{identity(game.kernel, game.defines)}-reference"
        super().__init__(name, [type(game)(**options) for _ in actions], actions, slots)

    def step(self, slot: int) -> int:
        for i, action in enumerate(self._actions):
            if not self.envs[i].action_space.contains(action):
                return -1 - i
        return super().step(slot)

    def _note_metrics(self, i: int, out: Buffers) -> None:
        out.episode_metrics[i] = self.envs[i].metrics()

    def state(self) -> NDArray[Any]:
        packed = [np.append(env.pack(), r.view(np.uint64)) for env, r in zip(self.envs, self._returns, strict=True)]
        return np.stack([np.append(row, np.uint64(n)) for row, n in zip(packed, self._lengths, strict=True)])

    def load_state(self, state: NDArray[Any]) -> None:
        for i, env in enumerate(self.envs):
            env.unpack(state[i, :-2])
        self._returns[:] = np.ascontiguousarray(state[:, -2]).view(np.float64)
        self._lengths[:] = state[:, -1].astype(np.int64)


class GameVectorEnv(VectorEnv[Any, Any, Any]):
    """`num_envs` copies of one game with auto-reset in the step that ends an episode.

    When episodes end, `info` holds Gymnasium's keys: `final_obs` (the true last observation) and `final_info` with `return`,
    `length` and the game's own metrics, such as `score`; the masks `_final_obs` and `_final_info` say which rows count.

    Environment i is seeded with `seed + i`. `state()` and `load_state()` save and restore everything, to the bit.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    engine: NativeEngine | SerialEngine

    def __init__(self, game: Any, num_envs: int, seed: int | None, make_engine: MakeEngine) -> None:
        self._game = game
        self.num_envs = num_envs
        self.single_observation_space = self._game.observation_space
        self.single_action_space = self._game.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._slots = (Buffers.allocate(self._game, num_envs), Buffers.allocate(self._game, num_envs))
        self._final_infos = [_final_info(out, getattr(game, "metric_names", ())) for out in self._slots]
        self._slot = 0
        space = self.single_action_space
        self._actions = np.zeros((num_envs, *(space.shape or ())), np.float32 if isinstance(space, Box) else np.int64)
        self._seed = seed
        self._started = False
        self.engine = make_engine(self._actions, self._slots)
        self.turbo = isinstance(self.engine, NativeEngine)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is None and not self._started:
            seed = self._seed if self._seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
        seeds = None if seed is None else self._seeds(seed)
        super().reset(seed=seed if isinstance(seed, int) else None)
        start: Any = options
        if self.turbo:
            start = self._game.encode_start(options) if options and self._game.start_key in options else None
        self._slot = 1 - self._slot
        self.engine.reset(seeds, start, self._slot)
        self._started = True
        return self._slots[self._slot].obs, self._masks()

    def _seeds(self, seed: Any) -> NDArray[np.uint64]:
        each = [seed + i for i in range(self.num_envs)] if isinstance(seed, int | np.integer) else seed
        fine = isinstance(each, list | tuple | np.ndarray) and len(each) == self.num_envs
        if not fine or not all(isinstance(s, int | np.integer) and 0 <= s < 2**64 for s in each):
            raise ValueError(f"seed must be a whole number >= 0, or one for each of the {self.num_envs} environments")
        return np.array(each, np.uint64)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        if not self._started:
            raise RuntimeError("call reset() before step()")
        try:
            if np.shape(actions) != self._actions.shape:  # or one action would be spread over all environments
                raise ValueError
            np.copyto(self._actions, actions, casting="same_kind")
        except (TypeError, ValueError):
            raise ValueError(
                f"actions must be {self.num_envs} whole numbers, not {np.asarray(actions).dtype} of shape {np.shape(actions)}"
            ) from None
        slot = self._slot = 1 - self._slot
        out = self._slots[slot]
        finished = self.engine.step(slot)
        if finished == 0:
            return out.obs, out.reward, out.terminated, out.truncated, self._masks()
        if finished < 0:
            self._slot = 1 - slot
            bad = -1 - finished
            raise ValueError(f"action {self._actions[bad]} of environment {bad} is outside {self.single_action_space}")
        ended = out.terminated | out.truncated
        final_info = dict(self._final_infos[slot])
        info = {
            "final_obs": out.final_obs,
            "_final_obs": ended,
            "final_info": final_info,
            "_final_info": ended,
            **self._masks(),
        }
        return out.obs, out.reward, out.terminated, out.truncated, info

    def _masks(self) -> dict[str, Any]:
        """Which actions are legal, if the environments tell."""
        masks = self.engine.masks if isinstance(self.engine, SerialEngine) else None
        return {} if masks is None else {"action_mask": masks.copy()}

    @property
    def restores(self) -> bool:
        """Whether `load_state` brings the episodes back, rather than beginning new ones."""
        return not isinstance(self.engine, SerialEngine) or isinstance(self.engine, ReferenceEngine)

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that the future depends on: the environments and the observation they are in."""
        return {"envs": self.engine.state(), "obs": self._slots[self._slot].obs.copy(), "identity": self._identity()}

    def _identity(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.engine.identity.encode(), np.uint8)

    def load_state(self, state: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Go back to a saved state; returns the observation."""
        same_rules = np.array_equal(state["identity"], self._identity())
        if not same_rules or len(state["envs"]) != self.num_envs:
            raise ValueError(f"the saved environments do not fit {self.num_envs} x {self.engine.identity}")
        if not state["envs"].size:  # environments that cannot be saved begin anew
            obs: NDArray[Any] = self.reset()[0]
            return obs
        self.engine.load_state(state["envs"])
        self._slots[self._slot].obs[...] = state["obs"]
        self._started = True
        return self._slots[self._slot].obs

    def close_extras(self, **kwargs: Any) -> None:
        self.engine.close()


def _final_info(out: Buffers, metric_names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    columns = {name: out.episode_metrics[:, i] for i, name in enumerate(metric_names)}
    return {"return": out.episode_return, "length": out.episode_length, **columns}


def make_vec(
    name: str, num_envs: int = 1, turbo: bool = True, seed: int | None = None, threads: int = 1, **options: Any
) -> GameVectorEnv:
    """A vector of `num_envs` environments.

    `turbo=True` runs the C kernel, on `threads` threads; `turbo=False` the Python reference, with the same results bit for
    bit. Other options are the game's own: see its class docstring, such as `hotlap.envs.snake.reference.Snake`.
    """
    _check_counts(name, num_envs, threads)
    try:
        game = load_game(name)(**options)
    except TypeError as error:
        raise ValueError(f"{name}: unknown option: {str(error).split('__init__() ')[-1]}") from None

    def make_engine(actions: NDArray[Any], slots: tuple[Buffers, ...]) -> NativeEngine | SerialEngine:
        if turbo:
            return NativeEngine(game, actions, threads, slots)
        return ReferenceEngine(game, options, actions, slots)

    return GameVectorEnv(game, num_envs, seed, make_engine)


def make_gym(env: str | Callable[[], Any], num_envs: int = 1, seed: int | None = None, **options: Any) -> GameVectorEnv:
    """A vector of any Gymnasium environment, by its registered name or by a function that makes one.

    Observations that are no array of numbers are flattened (a discrete one becomes one-hot).
    """
    import gymnasium

    name = env if isinstance(env, str) else getattr(env, "__name__", "environment")
    _check_counts(name, num_envs, 1)
    # Wrappers that only check how they are called are left out: this class calls them as it should, at every step.
    spec: Any = copy.deepcopy(gymnasium.spec(env)) if isinstance(env, str) else None
    if spec is not None:
        spec.order_enforce = False

    def make() -> Any:
        try:
            made = env() if callable(env) else gymnasium.make(spec, disable_env_checker=True, **options)
        except (gymnasium.error.Error, ImportError) as error:
            raise ValueError(f"{name} cannot be made: {error}") from None
        if spec is not None and spec.max_episode_steps is None:  # or a greedy policy may play one episode forever
            made = gymnasium.wrappers.TimeLimit(made, LONGEST)
        return made if isinstance(made.observation_space, Box) else gymnasium.wrappers.FlattenObservation(made)

    envs = [make() for _ in range(num_envs)]
    return GameVectorEnv(envs[0], num_envs, seed, lambda actions, slots: SerialEngine(name, envs, actions, slots))


def _check_counts(name: str, num_envs: int, threads: int) -> None:
    for label, value, limit in (("num_envs", num_envs, MAX_ENVS), ("threads", threads, 1024)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            raise ValueError(f"{name}: {label} must be a whole number from 1 to {limit:,}, not {value!r}")
