"""Environments in Python, stepped one after another: any Gymnasium environment, or simultaneous agents.

An engine has one or more groups of rows that step apart from each other: `start(group, slot)` begins a step of a group,
`wait()` gives the groups whose steps are over. In this process there is one group, and `wait` does the work.
"""

import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import EnvFailed
from hotlap.envs.buffers import StepBuffers
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Options


class InProcess:
    """An engine whose rows are one group."""

    num_rows: int
    _slot: int | None = None
    restores = True  # whether `load_state` brings episodes back
    masked = False  # whether environments give action masks
    compiled = False  # whether a kernel steps them
    workers = 0

    @property
    def groups(self) -> list[slice]:
        return [slice(0, self.num_rows)]

    def start(self, group: int, slot: int) -> None:
        self._slot = slot

    def wrong_action(self, group: int, slot: int) -> int | None:
        """None: a wrong action is found in `step`, before anything is stepped."""
        return None

    def wait(self) -> list[tuple[int, int]]:
        """(group, how many episodes ended) of each group that has stepped; -1 - i instead if the action of row i is wrong."""
        if self._slot is None:
            return []
        slot, self._slot = self._slot, None
        return [(0, self.step(slot))]

    def step(self, slot: int) -> int:
        raise NotImplementedError


class SerialEngine(InProcess):
    """Gymnasium environments, one row each. Those with `seats` take turns: `info` holds `seat` and `rewards`."""

    restores = False
    around_reset: Callable[[], AbstractContextManager[None]] = nullcontext  # of resets inside a step: to time them

    def __init__(
        self, name: str, envs: list[Any], actions: NDArray[Any], buffers: tuple[StepBuffers, ...], first: int = 0
    ) -> None:
        self.identity = name
        self.envs = envs
        self.num_rows = len(actions)
        self.at = np.zeros(1, np.int64)  # the environment that is being stepped; workers put it where their parent sees it
        self._first = first
        self._actions = actions
        self._scalar = actions.ndim == 1
        self._buffers = buffers
        self._returns = np.zeros(len(actions), np.float64)
        self._lengths = np.zeros(len(actions), np.int64)
        self._turn_based = bool(buffers[0].seat.size)
        self._seat_returns = np.zeros_like(buffers[0].episode_returns)

    def reset(self, seeds: NDArray[np.uint64] | None, starts: Sequence[Options] | None, slot: int) -> None:
        """Begin new episodes; `starts` are the options of each environment."""
        out = self._buffers[slot]
        try:
            for i, env in enumerate(self.envs):
                self.at[0] = i
                seed, options = None if seeds is None else int(seeds[i]), starts[i] if starts else None
                out.obs[i], info = env.reset(seed=seed, options=options)
                self._note(i, out, info)
        except Exception as error:
            self._fail(error)
        self._returns[:] = self._seat_returns[:] = 0
        self._lengths[:] = 0

    @staticmethod
    def first_wrong(spec: EnvSpec, actions: NDArray[Any], now: StepBuffers) -> int | None:
        """The first row whose action is refused in the state `now`; None: these environments judge actions themselves."""
        return None

    def step(self, slot: int) -> int:
        out, at = self._buffers[slot], self.at
        actions = list(self._actions) if self._scalar else self._actions.copy()
        results, over = [], []
        try:
            for i, env in enumerate(self.envs):
                at[0] = i
                obs, reward, terminated, truncated, info = env.step(actions[i])
                results.append((reward, terminated, truncated))
                if self._turn_based:
                    out.rewards[i] = info["rewards"]
                if terminated or truncated:
                    over.append(i)
                    out.final_obs[i] = obs
                    self._note_end(i, out, info)
                    with self.around_reset():
                        obs, info = env.reset()
                out.obs[i] = obs
                if info or self.masked:
                    self._note(i, out, info)
        except Exception as error:
            self._fail(error)
        rewards, out.terminated[:], out.truncated[:] = zip(*results, strict=True)
        out.reward[:] = rewards
        self._returns += rewards
        self._lengths += 1
        if self._turn_based:
            self._seat_returns += out.rewards
        for i in over:
            out.episode_return[i], out.episode_length[i] = self._returns[i], self._lengths[i]
            self._returns[i] = self._lengths[i] = 0
            if self._turn_based:
                out.episode_returns[i] = self._seat_returns[i]
                out.episode_return[i] = self._seat_returns[i, 0]
                self._seat_returns[i] = 0
        return len(over)

    def _note(self, i: int, out: StepBuffers, info: dict[str, Any]) -> None:
        """Keep what `info` tells: which actions are legal, whose turn it is."""
        if "action_mask" in info:
            self.masked = True
            out.mask[i] = np.asarray(info["action_mask"], np.bool_).ravel()
        elif self.masked:
            out.mask[i] = True
        if self._turn_based:
            out.seat[i] = info["seat"]

    def _note_end(self, i: int, out: StepBuffers, info: dict[str, Any]) -> None:
        if self._turn_based:
            out.final_seat[i] = info["seat"]

    def _fail(self, error: Exception) -> None:
        where = f"environment {self._first + int(self.at[0])} of {self.identity}"
        message = str(error).partition("\n")[0]
        raise EnvFailed(f"{where} raised {type(error).__name__}: {message}", traceback.format_exc()) from error

    def state(self) -> dict[str, NDArray[Any]]:
        """Nothing: these environments cannot be saved, so a resumed run begins new episodes."""
        return {"envs": np.zeros((len(self.envs), 0), np.uint8)}

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        """See `state`."""

    def close(self) -> None:
        for env in self.envs:
            env.close()
        self.envs = []


class AgentsEngine(SerialEngine):
    """Environments whose agents act at the same time, a row for each agent (see `pettingzoo.SimultaneousEnv`).

    An agent that leaves early is not active until the episode of the others is over; meanwhile it sees nothing.
    """

    def reset(self, seeds: NDArray[np.uint64] | None, starts: Sequence[Options] | None, slot: int) -> None:
        out, agents = self._buffers[slot], self.num_rows // len(self.envs)
        out.active[:] = False
        try:
            for i, env in enumerate(self.envs):
                self.at[0] = i
                seed, options = None if seeds is None else int(seeds[i * agents]), starts[i] if starts else None
                self._begin(out, i * agents, env.reset(seed=seed, options=options))
        except Exception as error:
            self._fail(error)
        self._hide(out)
        self._returns[:] = 0
        self._lengths[:] = 0

    def step(self, slot: int) -> int:
        out, ended = self._buffers[slot], 0
        agents = self.num_rows // len(self.envs)
        out.reward[:] = out.terminated[:] = out.truncated[:] = 0
        out.active[:] = False
        try:
            for i, env in enumerate(self.envs):
                self.at[0] = i
                begin = i * agents
                left, over = env.step(self._actions[begin : begin + agents])
                for agent, obs, reward, terminated, truncated, mask in left:
                    row = begin + agent
                    out.reward[row], out.terminated[row], out.truncated[row] = reward, terminated, truncated
                    self._returns[row] += reward
                    self._lengths[row] += 1
                    if terminated or truncated:
                        ended += 1
                        out.final_obs[row] = obs
                        self._note_end(row, out, {})
                        out.episode_return[row], out.episode_length[row] = self._returns[row], self._lengths[row]
                        self._returns[row] = self._lengths[row] = 0
                    else:
                        self._observe(out, row, obs, mask)
                if over:
                    with self.around_reset():
                        seen = env.reset()
                    self._begin(out, begin, seen)
        except Exception as error:
            self._fail(error)
        self._hide(out)
        return ended

    def _hide(self, out: StepBuffers) -> None:
        """Agents that wait for the others see nothing, and may choose anything."""
        waiting = ~out.active
        if waiting.any():
            out.obs[waiting], out.mask[waiting] = EnvSpec.of(self.envs[0]).empty_obs, True

    def _begin(self, out: StepBuffers, begin: int, seen: list[Any]) -> None:
        for agent, obs, mask in seen:
            self._observe(out, begin + agent, obs, mask)

    def _observe(self, out: StepBuffers, row: int, obs: Any, mask: Any) -> None:
        out.obs[row], out.active[row] = obs, True
        self._note(row, out, {} if mask is None else {"action_mask": mask})
