"""Builds, loads and steps the C kernel of any game.

A kernel is compiled once per (source, declaration, compiler, CPU) and kept under the user's cache folder by the hash of
those. The game's declaration and constants reach it as C text (declare.py), so the compiler sees a fixed board and feature set.
"""

import ctypes
import os
import weakref
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import native
from hotlap.core.errors import KernelError
from hotlap.envs.buffers import StepBuffers
from hotlap.envs.declare import check_tables, declaration
from hotlap.envs.serial import InProcess
from hotlap.envs.spec import EnvSpec
from hotlap.envs.start import Start

ENVS = Path(__file__).parent
# No contraction into fused multiply-adds: the kernel must round like the Python reference. No induction variables: a batch has
# more arrays than the CPU has registers, and one index for all is faster (Snake, basic: 31 to 27 ns a step).
FLAGS = ("-std=gnu11", "-O3", "-fno-ivopts", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
TABLE = "table."  # before the names of tables in a saved state
FILLED = [field.name for field in fields(StepBuffers)]  # in the order of engine.h's struct Batch


def identity(game: Any) -> str:
    """Names a kernel by its source and declaration: equal names have equal states and rules."""
    sources = [ENVS / "engine.c", *sorted(ENVS.glob("*.h")), *sorted(game.kernel.parent.glob("*.h"))]
    text = declaration(EnvSpec.of(game), game.defines)
    return f"{game.kernel.parent.name}-{native.digest(*(path.read_text() for path in sources), text)}"


def build(game: Any) -> Path:
    """Compile a game's kernel into a shared library, or find it in the cache."""
    cc = native.compiler()
    if cc is None:
        raise KernelError(f"{native.NO_COMPILER}, or use turbo=False for the Python reference")
    library = native.library(identity(game), *FLAGS, native.compiler_version(cc), native.cpu())
    arguments = [*FLAGS, f'-DKERNEL="{game.kernel.resolve()}"', str(ENVS / "engine.c")]
    headers = {"declaration.h": declaration(EnvSpec.of(game), game.defines)}
    native.build(library, f"{game.kernel.parent.name}/kernel.h", cc, arguments, headers)
    return library


@cache
def load(library: Path) -> ctypes.CDLL:
    """Open a built library and declare its entry points."""
    try:
        opened = ctypes.CDLL(str(library))
    except OSError as error:
        raise KernelError(f"cannot load {library} ({error}); delete it to build it again") from error
    pointer = ctypes.c_void_p
    opened.hotlap_state_size.restype = ctypes.c_size_t
    opened.hotlap_pool_new.argtypes, opened.hotlap_pool_new.restype = [ctypes.c_int], pointer
    opened.hotlap_pool_free.argtypes, opened.hotlap_pool_free.restype = [pointer], None
    opened.hotlap_reset.argtypes, opened.hotlap_reset.restype = [pointer, pointer, pointer, pointer], None
    opened.hotlap_step.argtypes, opened.hotlap_step.restype = [pointer, pointer], ctypes.c_int64
    return opened


class KernelTables:
    """The tables of all environments: one copy each, until a start gives one environment another."""

    def __init__(self, game: Any, num_envs: int) -> None:
        self._spec, self._num_envs = EnvSpec.of(game), num_envs
        tables = check_tables(self._spec, game.tables()) if self._spec.tables else {}
        self.arrays = {table.name: np.array(tables[table.name])[None] for table in self._spec.tables}  # [1 or num_envs, ...]

    def replace(self, starts: Sequence[Start]) -> bool:
        """Take the tables of new starts, all of them or, if one is refused, none; whether any array has moved."""
        checked = [check_tables(self._spec, dict(start.tables), all_of_them=False) for start in starts]
        for i, tables in enumerate(checked):
            for name, table in tables.items():
                shared = len(self.arrays[name]) < self._num_envs
                if shared and not np.array_equal(self.arrays[name][0], table):
                    self.arrays[name] = np.repeat(self.arrays[name], self._num_envs, 0)
                    shared = False
                if not shared:
                    self.arrays[name][i] = table
        return any(start.tables for start in starts)

    def load(self, saved: dict[str, NDArray[Any]]) -> None:
        """Take saved arrays, all of them or, if one does not fit, none."""
        for table in self._spec.tables:
            array = saved[table.name]
            if array.dtype.str != table.dtype or array.shape[1:] != table.shape or len(array) not in (1, self._num_envs):
                raise ValueError(f"the saved table {table.name} does not fit")
        self.arrays = {table.name: np.array(saved[table.name]) for table in self._spec.tables}

    def pointers(self) -> list[int]:
        """Fields `tables` and `strides` of engine.h's struct Batch."""
        arrays = self.arrays.values()
        strides = [array[0].size if len(array) == self._num_envs else 0 for array in arrays]
        return [array.ctypes.data for array in arrays] + ([] if arrays else [0]) + strides + [0]


class NativeEngine(InProcess):
    """A batch of environments that live in one block of memory and are stepped by the game's kernel."""

    compiled = True

    def __init__(self, game: Any, actions: NDArray[Any], threads: int, buffers: tuple[StepBuffers, ...]) -> None:
        spec = EnvSpec.of(game)
        self.num_rows = len(actions)
        self.masked = spec.masked
        self.tables = KernelTables(game, len(actions) // spec.agents)
        self._native = load(build(game))
        self.identity = identity(game)
        self._num_envs = len(actions) // spec.agents
        self._states = np.zeros((self._num_envs, self._native.hotlap_state_size()), np.uint8)
        self._actions, self._buffers = actions, buffers
        self._lay_out()
        self._threads = min(threads, self._num_envs)
        self._pool: int | None = None
        self._pool_owner = 0

    def _lay_out(self) -> None:
        """engine.h's struct Batch, once per slot."""
        inputs = [self._num_envs, self._states.ctypes.data, self._actions.ctypes.data]
        tables = self.tables.pointers()
        self._batches = []
        for slot, out in enumerate(self._buffers):
            before = self._buffers[slot - 1]
            pointers = [*inputs, before.mask.ctypes.data, before.active.ctypes.data, *tables]
            pointers += [getattr(out, name).ctypes.data for name in FILLED]
            self._batches.append((ctypes.c_int64 * len(pointers))(*pointers))
        self._addresses = [ctypes.addressof(batch) for batch in self._batches]

    def reset(self, seeds: NDArray[np.uint64] | None, starts: Sequence[Start] | None, slot: int) -> None:
        if starts and self.tables.replace(starts):
            self._lay_out()
        numbers = np.concatenate([start.numbers for start in starts]).astype(np.int32) if starts else np.zeros(0, np.int32)
        bounds = np.cumsum([0, *(len(start.numbers) for start in starts or [])], dtype=np.int64)
        self._native.hotlap_reset(
            self._addresses[slot],
            None if seeds is None else seeds.ctypes.data,
            numbers.ctypes.data if starts else None,
            bounds.ctypes.data,
        )

    def step(self, slot: int) -> int:
        """Step all environments into buffer `slot`; how many episodes ended, or -1 - row if its action is wrong."""
        if self._threads > 1 and self._pool_owner != os.getpid():  # threads do not survive a fork
            self._pool = self._native.hotlap_pool_new(self._threads)
            if self._pool is None:
                raise KernelError(f"cannot start {self._threads} threads; use fewer")
            self._pool_owner = os.getpid()
            self._free_pool = weakref.finalize(self, _free_pool, self._native, self._pool, self._pool_owner)
        return self._native.hotlap_step(self._addresses[slot], self._pool)  # type: ignore[no-any-return]

    def state(self) -> dict[str, NDArray[Any]]:
        return {"envs": self._states.copy(), **{TABLE + name: array.copy() for name, array in self.tables.arrays.items()}}

    def load_state(self, state: dict[str, NDArray[Any]]) -> None:
        if state["envs"].shape != self._states.shape:
            raise ValueError(f"the saved environments do not fit {self.identity}")
        self.tables.load({name: state[f"{TABLE}{name}"] for name in self.tables.arrays})
        self._lay_out()
        self._states[...] = state["envs"]

    def close(self) -> None:
        if self._pool is not None:
            self._free_pool()
        self._pool, self._threads = None, 1


def _free_pool(native: ctypes.CDLL, pool: int, owner: int) -> None:
    if owner == os.getpid():  # a forked child has no such threads
        native.hotlap_pool_free(pool)
