"""Games on their Python reference, which refuse wrong actions and can be saved, as their kernels do.

What such a game offers: `env_spec`, `kernel` and `defines`; `reset`, `step` and the spaces of Gymnasium; `encode_start(options)
-> Start`; `tables()`, those of its kernel, if it has any; `metrics()` of the episode; `pack()` and `unpack()`, everything that
its future depends on, tables too, as uint64 numbers. Rewards are float32 numbers. Where players take turns, `info` holds `seat`
and `rewards`; where actions can be illegal, `action_mask`. Games whose agents act at the same time have the `reset` and `step`
of `pettingzoo.SimultaneousEnv`, and `metrics(agent)`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.buffers import StepBuffers
from hotlap.envs.serial import AgentsEngine, SerialEngine
from hotlap.envs.spec import EnvSpec


class ReferenceEngine(SerialEngine):
    """A game with one row for each environment."""

    restores = True

    def step(self, slot: int) -> int:
        row = self.first_wrong(EnvSpec.of(self.envs[0]), self._actions, self._buffers[slot - 1])
        return super().step(slot) if row is None else -1 - row

    @staticmethod
    def first_wrong(spec: EnvSpec, actions: NDArray[Any], now: StepBuffers) -> int | None:
        """The first row whose action is out of range, or illegal although it plays."""
        actions = actions.reshape(len(actions), -1)
        fits = ((actions >= 0) & (actions < spec.action_sizes)).all(1)
        if spec.masked and fits.all():
            choices = actions + np.cumsum([0, *spec.action_sizes[:-1]])
            fits = np.take_along_axis(now.mask, choices, 1).all(1)
            if spec.agents > 1:
                fits |= ~now.active
        return None if fits.all() else int(np.argmin(fits))

    def _note_end(self, i: int, out: StepBuffers, info: dict[str, Any]) -> None:
        super()._note_end(i, out, info)
        agents = self.num_rows // len(self.envs)
        out.episode_metrics[i] = self.envs[i].metrics() if agents == 1 else self.envs[i // agents].metrics(i % agents)

    def state(self) -> dict[str, NDArray[Any]]:
        """Of each environment: what it packs; then the returns and lengths of its rows so far."""
        envs = len(self.envs)
        returns = np.append(self._returns.reshape(envs, -1), self._seat_returns.reshape(envs, -1), 1).view(np.uint64)
        lengths = self._lengths.reshape(envs, -1).astype(np.uint64)
        return {"envs": np.concatenate([np.stack([env.pack() for env in self.envs]), returns, lengths], 1)}

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        packed, agents, seats = state["envs"], self.num_rows // len(self.envs), self._seat_returns.size // len(self.envs)
        packed, returns, lengths = np.split(packed, [-2 * agents - seats, -agents], 1)
        for env, row in zip(self.envs, packed, strict=True):
            env.unpack(row)
        returns = np.ascontiguousarray(returns).view(np.float64)
        self._returns[:] = returns[:, :agents].ravel()
        self._seat_returns[:] = returns[:, agents:].reshape(self._seat_returns.shape)
        self._lengths[:] = lengths.astype(np.int64).ravel()


class AgentsReferenceEngine(ReferenceEngine, AgentsEngine):
    """A game whose agents act at the same time, a row for each."""
