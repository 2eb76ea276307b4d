"""Environments on a CUDA GPU: the game's kernel, one thread per environment, on torch's current stream.

The header is the one that the CPU compiles, and the results are the CPU's, bit for bit. All arrays are torch tensors there;
with a slot for each step of a rollout the environments write straight into it. Nothing here waits for the GPU but what brings
numbers to the host: saving, and `check_actions`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hotlap.core.nvrtc import Program
from hotlap.envs.buffers import Arrays, StepBuffers, nbytes
from hotlap.envs.declare import declaration
from hotlap.envs.engine import ENVS, FILLED, TABLE, KernelTables, identity
from hotlap.envs.layout import Layout
from hotlap.envs.serial import InProcess
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Start
from hotlap.envs.vector import GameVectorEnv

# An environment whose action does not fit is not stepped; `refused` keeps the highest number of such a row, counted from 1.
ENTRY_POINTS = """
#include "engine.h"

extern "C" __global__ void state_size(int64_t *size) { *size = sizeof(Episode); }

extern "C" __global__ void reset(const Batch *batch, const uint64_t *seeds, const int32_t *starts, const int64_t *bounds) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch->count) return;
    int length = starts ? (int)(bounds[i + 1] - bounds[i]) : 0;
    reset_environment(batch, i, seeds ? seeds + i * AGENTS : nullptr, starts ? starts + bounds[i] : nullptr, length);
}

extern "C" __global__ void step(const Batch *batch, unsigned long long *refused) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch->count) return;
    const Batch to = *batch;
    for (int agent = 0; agent < AGENTS; agent++)
        if (!actions_fit(&to, i * AGENTS + agent)) {
            atomicMax(refused, (unsigned long long)(i * AGENTS + agent + 1));
            return;
        }
    advance_environment(&to, i);
    if (AGENTS == 1) observe_agent(&to, i, 0);
}

/* A thread per agent, after `step`: to see often takes longer than to act. */
extern "C" __global__ void observe(const Batch *batch) {
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch->count * AGENTS) return;
    const Batch to = *batch;
    observe_agent(&to, row / AGENTS, (int)(row % AGENTS));
}
"""


def source(game: Any) -> str:
    """All of a kernel's CUDA program. Its first line names what it includes, for caches that do not look there."""
    kernel = f'#define KERNEL "{game.kernel.resolve()}"\n'
    return f"// {identity(game)}\n{declaration(EnvSpec.of(game), game.defines)}{kernel}{ENTRY_POINTS}"


def device_arrays(spec: EnvSpec, rows: int, depth: int, device: torch.device) -> Arrays:
    """The arrays of `rows` rows on the GPU, where what is known of ended episodes has a copy for each slot too: it is read when
    the rollout is over."""
    block = torch.zeros(nbytes(spec, rows, depth, finals=depth), dtype=torch.uint8, device=device)
    return Arrays(spec, rows, depth, block, finals=depth, kind=_torch_kind)


def _torch_kind(dtype: Any) -> torch.dtype:
    return torch.from_numpy(np.zeros(0, dtype)).dtype


class DeviceEngine(InProcess):
    """A batch of environments on the GPU."""

    compiled = True

    def __init__(self, game: Any, arrays: Arrays, block: int = 128) -> None:
        spec, actions = EnvSpec.of(game), arrays.actions
        self.device: torch.device = actions.device
        self.num_rows, self.masked = len(actions), spec.masked
        self.identity = identity(game)
        self._num_envs = len(actions) // spec.agents
        with torch.cuda.device(self.device):
            self._program = Program(source(game), str(ENVS), block)
            size = torch.zeros(1, dtype=torch.int64, device=self.device)
            self._program.run("state_size", 1, size)
        self._states = torch.zeros(self._num_envs, int(size), dtype=torch.uint8, device=self.device)
        self.refused = torch.zeros(1, dtype=torch.int64, device=self.device)  # the highest row of a refused action, from 1
        self.tables = KernelTables(game, self._num_envs)
        self._arrays = arrays
        self.ring: Tensor | None = None
        self._actions = [actions.data_ptr()] * len(arrays.buffers)  # that each slot is stepped with
        self._batches: list[Tensor] = []
        self._lay_out()

    def take_actions_from(self, ring: Tensor) -> None:
        """From now on the step into slot t + 1 takes `ring[t]`, [depth - 1, rows, ...], where a trainer writes its actions."""
        actions = self._arrays.actions
        assert ring.shape == (len(self._arrays.buffers) - 1, *actions.shape) and ring.dtype == actions.dtype
        assert ring.is_contiguous() and ring.device == actions.device
        self.ring = ring  # which must not go away
        self._actions = [actions.data_ptr(), *(step.data_ptr() for step in ring)]
        self._lay_out()

    def _lay_out(self) -> None:
        """engine.h's struct Batch, once per slot; always in the same place, which CUDA graphs know."""
        arrays, buffers = self.tables.arrays, self._arrays.buffers
        self._on_device = {name: torch.from_numpy(array).to(self.device) for name, array in arrays.items()}
        tables = [array.data_ptr() for array in self._on_device.values()] + self.tables.pointers()[len(arrays) :]
        rows = []
        for slot, out in enumerate(buffers):
            before = buffers[slot - 1]
            inputs = [self._num_envs, self._states.data_ptr(), self._actions[slot]]
            read: list[Any] = [before.mask, before.active]
            written = [getattr(out, name) for name in FILLED]
            rows.append([*inputs, *(part.data_ptr() for part in read), *tables, *(part.data_ptr() for part in written)])
        batches = torch.tensor(rows, dtype=torch.int64, device=self.device)
        if self._batches:
            for kept, new in zip(self._batches, batches, strict=True):
                kept.copy_(new)
        else:
            self._batches = list(batches)

    def reset(self, seeds: NDArray[np.uint64] | None, starts: Sequence[Start] | None, slot: int) -> None:
        if starts and self.tables.replace(starts):
            self._lay_out()

        def there(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array).to(self.device)

        seeded = None if seeds is None else there(seeds.view(np.int64))
        numbers = bounds = None
        if starts:
            numbers = there(np.append(np.concatenate([start.numbers for start in starts]), 0).astype(np.int32))
            bounds = there(np.cumsum([0, *(len(start.numbers) for start in starts)], dtype=np.int64))
        with torch.cuda.device(self.device):
            self._program.run("reset", self._num_envs, self._batches[slot], seeded, numbers, bounds)

    def step(self, slot: int) -> int:
        """Step all environments into buffer `slot`. How many episodes ended is not known here: 1."""
        with torch.cuda.device(self.device):
            self._program.run("step", self._num_envs, self._batches[slot], self.refused)
            if self._num_envs < self.num_rows:
                self._program.run("observe", self.num_rows, self._batches[slot])
        return 1

    def state(self) -> dict[str, NDArray[Any]]:
        tables = {TABLE + name: array.copy() for name, array in self.tables.arrays.items()}
        return {"envs": self._states.cpu().numpy(), **tables}

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        if state["envs"].shape != tuple(self._states.shape):
            raise ValueError(f"the saved environments do not fit {self.identity}")
        self.tables.load({name: state[f"{TABLE}{name}"] for name in self.tables.arrays})
        self._lay_out()
        self._states.copy_(torch.from_numpy(np.array(state["envs"])))

    def close(self) -> None:
        pass


class DeviceVectorEnv(GameVectorEnv):
    """Environments on the GPU: `step` takes and returns torch tensors there.

    `info` always has `final_obs` and `final_info`, since the host does not know whether an episode ended: see `_final_obs`.
    """

    on_device = True

    engine: DeviceEngine  # type: ignore[assignment]

    def __init__(self, game: Any, spec: EnvSpec, arrays: Arrays, engine: DeviceEngine, seed: int | None) -> None:
        super().__init__(game, spec, arrays, engine, seed)  # type: ignore[arg-type]
        self.finals: dict[str, Tensor] = arrays.finals
        self.layout = Layout(0, device=str(engine.device))

    def at(self, slot: int) -> StepBuffers:
        return self._arrays.buffers[slot]

    def step_into(self, slot: int) -> StepBuffers:
        """A step whose results go into this slot, by the actions of `engine.take_actions_from`. On the host nothing changes:
        see `advance`."""
        self.engine.step(slot)
        return self._arrays.buffers[slot]

    def advance(self, steps: int) -> None:
        """So many steps were taken by `step_into`, into the slots that follow."""
        self.steps += steps
        self._slot = [self._slot[0] + steps]

    def refused_action(self) -> str:
        """Whose action was out of range or illegal in any step so far, in words; waits for the GPU."""
        row = int(self.engine.refused) - 1
        if row < 0:
            return ""
        self.engine.refused.zero_()
        agents = self.env_spec.agents
        who = f"environment {row}" if agents == 1 else f"agent {row % agents} of environment {row // agents}"
        return f"an action of {who} is illegal or outside {self.single_action_space}"

    def check_actions(self) -> None:
        """Raise an error if there was such an action."""
        if problem := self.refused_action():
            raise ValueError(problem)

    def _take(self, actions: Any, rows: slice) -> None:
        if not self._started:
            raise RuntimeError("call reset() before step()")
        if self.engine.ring is not None:
            raise RuntimeError("these environments take their actions from a trainer")
        place = self._arrays.actions[rows]
        given = torch.as_tensor(actions, device=place.device)
        if given.shape != place.shape or given.is_floating_point() or given.dtype == torch.bool:
            raise ValueError(f"actions must be {len(place)} whole numbers, not {given.dtype} of shape {tuple(given.shape)}")
        place.copy_(given)

    def to_host(self, array: Tensor) -> NDArray[Any]:
        numbers: NDArray[Any] = array.cpu().numpy()
        return numbers

    def _from_host(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(np.array(array)).to(self._arrays.actions.device)


def make_on_device(game: Any, num_envs: int, seed: int | None, depth: int, device: str) -> DeviceVectorEnv:
    """See `vector.make_vec`."""
    spec, where = EnvSpec.of(game), torch.device(device)
    arrays = device_arrays(spec, num_envs * spec.agents, depth, where)
    return DeviceVectorEnv(game, spec, arrays, DeviceEngine(game, arrays), seed)
