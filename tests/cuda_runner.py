"""Runs a game's kernel on a CUDA GPU, one thread per environment, for tests: the arrays of `buffers.py` live on the device, and
`engine.h` is the one that the CPU compiles. Without fused multiply-adds, the results must be those of the CPU to the bit.

Needs CuPy, whose NVRTC compiles the kernel. The engine that training will use is another matter.
"""

from typing import Any

import numpy as np

from hotlap.envs.buffers import Arrays, nbytes
from hotlap.envs.declare import declaration
from hotlap.envs.engine import ENVS, FILLED, KernelTables, identity
from hotlap.envs.spec import EnvSpec

ENTRY_POINTS = """
#include "engine.h"

extern "C" __global__ void state_size(int64_t *size) { *size = sizeof(Episode); }

extern "C" __global__ void reset(const Batch *batch, const uint64_t *seeds, const int32_t *starts, const int64_t *bounds) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch->count) return;
    int length = starts ? (int)(bounds[i + 1] - bounds[i]) : 0;
    reset_environment(batch, i, seeds ? seeds + i * AGENTS : nullptr, starts ? starts + bounds[i] : nullptr, length);
}

extern "C" __global__ void step(const Batch *batch, unsigned long long *ended, int *wrong) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch->count) return;
    const Batch to = *batch;
    for (int agent = 0; agent < AGENTS; agent++)
        if (!actions_fit(&to, i * AGENTS + agent)) *wrong = 1;
    atomicAdd(ended, (unsigned long long)step_environment(&to, i));
}
"""


def source(game: Any) -> str:
    """All of a kernel's CUDA program, but for what it includes, which CuPy's cache does not look at: so it is named here."""
    return f"// {identity(game)}\n" + declaration(EnvSpec.of(game), game.defines) + ENTRY_POINTS


def flags(game: Any) -> tuple[str, ...]:
    """For NVRTC and nvcc alike."""
    return ("--fmad=false", f"-I{ENVS}", f'-DKERNEL="{game.kernel.resolve()}"')


class CudaEngine:
    """Environments on the GPU, with the `reset` and `step` of `engine.NativeEngine`; `arrays` are CuPy's."""

    def __init__(self, game: Any, num_envs: int, depth: int = 2, block: int = 128) -> None:
        import cupy

        self._cupy, self._game, spec = cupy, game, EnvSpec.of(game)
        rows = num_envs * spec.agents
        self._grid, self._block = (-(-num_envs // block),), (block,)
        self.arrays = Arrays(spec, rows, depth, cupy.zeros(nbytes(spec, rows, depth), cupy.uint8))
        module = cupy.RawModule(code=source(game), options=flags(game), backend="nvrtc")
        self._reset, self._step = module.get_function("reset"), module.get_function("step")
        size = cupy.zeros(1, cupy.int64)
        module.get_function("state_size")((1,), (1,), (size,))
        self._states = cupy.zeros((num_envs, int(size[0])), cupy.uint8)
        self._tables, self._num_envs = KernelTables(game, num_envs), num_envs
        self._lay_out()

    def _lay_out(self) -> None:
        """engine.h's struct Batch, once per slot, on the device."""
        arrays = self._tables.arrays
        self._on_device = {name: self._cupy.asarray(array) for name, array in arrays.items()}
        tables = [array.data.ptr for array in self._on_device.values()] + self._tables.pointers()[len(arrays) :]
        inputs = [self._num_envs, self._states.data.ptr, self.arrays.actions.data.ptr]
        self._batches = []
        for slot, out in enumerate(self.arrays.buffers):
            before = self.arrays.buffers[slot - 1]
            outputs = [getattr(out, name).data.ptr for name in FILLED]
            pointers = [*inputs, before.mask.data.ptr, before.active.data.ptr, *tables, *outputs]
            self._batches.append(self._cupy.array(pointers, np.int64))

    def reset(self, seeds: Any, starts: Any, slot: int) -> None:
        cupy = self._cupy
        if starts and self._tables.replace(starts):
            self._lay_out()
        numbers, bounds = [cupy.zeros(1, np.int32)] * 2
        if starts:
            numbers = cupy.asarray(np.append(np.concatenate([start.numbers for start in starts]), 0).astype(np.int32))
            bounds = cupy.asarray(np.cumsum([0, *(len(start.numbers) for start in starts)], dtype=np.int64))
        seeded = 0 if seeds is None else cupy.asarray(seeds).data.ptr
        self._reset(
            self._grid, self._block, (self._batches[slot], np.uint64(seeded), numbers if starts else np.uint64(0), bounds)
        )
        cupy.cuda.get_current_stream().synchronize()

    def step(self, slot: int) -> int:
        """How many episodes ended; -1 if an action was out of range or illegal (the environments have stepped all the same)."""
        ended, wrong = self._cupy.zeros(1, np.uint64), self._cupy.zeros(1, np.int32)
        self._step(self._grid, self._block, (self._batches[slot], ended, wrong))
        return -1 if int(wrong[0]) else int(ended[0])

    def state(self) -> dict[str, Any]:
        return {"envs": self._states.get(), **{f"table.{name}": array for name, array in self._tables.arrays.items()}}
