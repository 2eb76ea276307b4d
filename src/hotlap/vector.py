"""Many environments as one `gymnasium.vector.VectorEnv`: on their C kernel (turbo) or on their Python reference.

Arrays that `reset` and `step` return are views of buffers, not copies. There are two sets of buffers, used in turn: what a
step returned stays valid during the next step and is overwritten by the one after it.
"""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hotlap.envs import load_game
from hotlap.envs.engine import Buffers, NativeEngine, identity

MAX_ENVS = 1 << 22


class ReferenceEngine:
    """The same batch on the Python reference, one environment after another."""

    def __init__(self, game: Any, options: dict[str, Any], actions: NDArray[np.int64], slots: tuple[Buffers, ...]) -> None:
        self.envs = [type(game)(**options) for _ in actions]
        self.identity = f"{identity(game.kernel, game.defines)}-reference"
        self._actions = actions
        self._slots = slots
        self._returns = np.zeros(len(actions), np.float64)
        self._lengths = np.zeros(len(actions), np.int64)

    def reset(self, seeds: NDArray[np.uint64] | None, start: Any, slot: int) -> None:
        for i, env in enumerate(self.envs):
            seed = None if seeds is None else int(seeds[i])
            self._slots[slot].obs[i], _ = env.reset(seed=seed, options=start)
        self._returns[:] = 0
        self._lengths[:] = 0

    def step(self, slot: int) -> int:
        for i, action in enumerate(self._actions):
            if not self.envs[i].action_space.contains(action):
                return -1 - i
        out = self._slots[slot]
        finished = 0
        for i, env in enumerate(self.envs):
            obs, reward, terminated, truncated, _ = env.step(int(self._actions[i]))
            self._returns[i] += reward
            self._lengths[i] += 1
            out.reward[i], out.terminated[i], out.truncated[i] = reward, terminated, truncated
            if terminated or truncated:
                finished += 1
                out.final_obs[i] = obs
                out.episode_return[i], out.episode_length[i] = self._returns[i], self._lengths[i]
                out.episode_metrics[i] = env.metrics()
                self._returns[i] = self._lengths[i] = 0
                obs, _ = env.reset()
            out.obs[i] = obs
        return finished

    def state(self) -> NDArray[Any]:
        packed = [np.append(env.pack(), r.view(np.uint64)) for env, r in zip(self.envs, self._returns, strict=True)]
        return np.stack([np.append(row, np.uint64(n)) for row, n in zip(packed, self._lengths, strict=True)])

    def load_state(self, state: NDArray[Any]) -> None:
        for i, env in enumerate(self.envs):
            env.unpack(state[i, :-2])
        self._returns[:] = np.ascontiguousarray(state[:, -2]).view(np.float64)
        self._lengths[:] = state[:, -1].astype(np.int64)

    def close(self) -> None:
        self.envs.clear()


class GameVectorEnv(VectorEnv[Any, Any, Any]):
    """`num_envs` copies of one game with auto-reset in the step that ends an episode.

    When episodes end, `info` holds Gymnasium's keys: `final_obs` (the true last observation) and `final_info` with `return`,
    `length` and the game's own metrics, such as `score`; the masks `_final_obs` and `_final_info` say which rows count.

    Environment i is seeded with `seed + i`. `state()` and `load_state()` save and restore everything, to the bit.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, name: str, num_envs: int, turbo: bool, seed: int | None, threads: int, **options: Any) -> None:
        for label, value, limit in (("num_envs", num_envs, MAX_ENVS), ("threads", threads, 1024)):
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
                raise ValueError(f"{name}: {label} must be a whole number from 1 to {limit:,}, not {value!r}")
        try:
            self._game = load_game(name)(**options)
        except TypeError as error:
            raise ValueError(f"{name}: unknown option: {str(error).split('__init__() ')[-1]}") from None
        self.num_envs = num_envs
        self.single_observation_space = self._game.observation_space
        self.single_action_space = self._game.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._slots = (Buffers.allocate(self._game, num_envs), Buffers.allocate(self._game, num_envs))
        self._final_infos = [_final_info(out, self._game.metric_names) for out in self._slots]
        self._slot = 0
        self._actions = np.zeros(num_envs, np.int64)
        self._seed = seed
        self._started = False
        self.turbo = turbo
        self.engine: NativeEngine | ReferenceEngine
        if turbo:
            self.engine = NativeEngine(self._game, self._actions, threads, self._slots)
        else:
            self.engine = ReferenceEngine(self._game, options, self._actions, self._slots)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        if seed is None and not self._started:
            seed = self._seed if self._seed is not None else int(np.random.SeedSequence().generate_state(1)[0])
        seeds = None if seed is None else self._seeds(seed)
        super().reset(seed=seed if isinstance(seed, int) else None)
        start: Any = None
        if options and "board" in options:
            start = self._game.encode_start(options) if self.turbo else options
        self._slot = 1 - self._slot
        self.engine.reset(seeds, start, self._slot)
        self._started = True
        return self._slots[self._slot].obs, {}

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
            return out.obs, out.reward, out.terminated, out.truncated, {}
        if finished < 0:
            self._slot = 1 - slot
            bad = -1 - finished
            raise ValueError(f"action {self._actions[bad]} of environment {bad} is outside {self.single_action_space}")
        ended = out.terminated | out.truncated
        final_info = dict(self._final_infos[slot])
        info = {"final_obs": out.final_obs, "_final_obs": ended, "final_info": final_info, "_final_info": ended}
        return out.obs, out.reward, out.terminated, out.truncated, info

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
    return GameVectorEnv(name, num_envs, turbo, seed, threads, **options)
