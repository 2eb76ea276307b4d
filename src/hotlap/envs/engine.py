"""Builds, loads and steps the C kernel of any game.

A kernel is compiled once per (source, options, compiler, CPU) and kept under the user's cache folder by the hash of
those. The game's constants and options reach it as macros, so the compiler sees a fixed board and feature set.
"""

import ctypes
import os
import weakref
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core import native
from hotlap.core.errors import KernelError
from hotlap.envs.buffers import StepBuffers
from hotlap.envs.serial import InProcess

ENGINE = Path(__file__).with_name("engine.c")
# No contraction into fused multiply-adds: the kernel must round like the Python reference.
FLAGS = ("-std=gnu11", "-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared", "-pthread")
FILLED = [field.name for field in fields(StepBuffers)][:8]  # what engine.c's struct Batch has pointers to, in its order


def identity(kernel: Path, defines: dict[str, int | float]) -> str:
    """Names a kernel by its source and options: equal names have equal states and rules."""
    sources = [ENGINE, kernel, *sorted(kernel.parent.parent.glob("*.h"))]
    return f"{kernel.parent.name}-{native.digest(*(path.read_text() for path in sources), *_macros(defines))}"


def _macros(defines: dict[str, int | float]) -> list[str]:
    return [f"-D{name}={value!r}" for name, value in sorted(defines.items())]


def build(kernel: Path, defines: dict[str, int | float]) -> Path:
    """Compile a kernel header into a shared library, or find it in the cache."""
    cc = native.compiler()
    if cc is None:
        raise KernelError(f"{native.NO_COMPILER}, or use turbo=False for the Python reference")
    library = native.library(identity(kernel, defines), *FLAGS, native.compiler_version(cc), native.cpu())
    arguments = [*FLAGS, *_macros(defines), f'-DKERNEL="{kernel.resolve()}"', str(ENGINE), "-lm"]
    native.build(library, f"{kernel.parent.name}/kernel.h", cc, arguments)
    return library


@cache
def load(library: Path) -> ctypes.CDLL:
    """Open a built library and declare its entry points."""
    try:
        native_library = ctypes.CDLL(str(library))
    except OSError as error:
        raise KernelError(f"cannot load {library} ({error}); delete it to build it again") from error
    pointer = ctypes.c_void_p
    native_library.hotlap_state_size.restype = ctypes.c_size_t
    native_library.hotlap_pool_new.argtypes, native_library.hotlap_pool_new.restype = [ctypes.c_int], pointer
    native_library.hotlap_pool_free.argtypes, native_library.hotlap_pool_free.restype = [pointer], None
    native_library.hotlap_reset.argtypes, native_library.hotlap_reset.restype = [pointer, pointer, pointer, ctypes.c_int], None
    native_library.hotlap_step.argtypes, native_library.hotlap_step.restype = [pointer, pointer], ctypes.c_int64
    return native_library


class NativeEngine(InProcess):
    """A batch of environments that live in one block of memory and are stepped by the game's kernel."""

    def __init__(self, game: Any, actions: NDArray[Any], threads: int, buffers: tuple[StepBuffers, ...]) -> None:
        self.num_rows = len(actions)
        self._native = load(build(game.kernel, game.defines))
        self.identity = identity(game.kernel, game.defines)
        self._states = np.zeros((len(actions), self._native.hotlap_state_size()), np.uint8)
        # engine.c's struct Batch, once per slot: the count, then a pointer to each array.
        self._batches = [
            (ctypes.c_int64 * (3 + len(FILLED)))(
                len(actions), self._states.ctypes.data, actions.ctypes.data, *(getattr(out, n).ctypes.data for n in FILLED)
            )
            for out in buffers
        ]
        self._addresses = [ctypes.addressof(batch) for batch in self._batches]
        self._threads = min(threads, len(actions))
        self._pool: int | None = None
        self._pool_owner = 0

    def reset(self, seeds: NDArray[np.uint64] | None, start: NDArray[np.int32] | None, slot: int) -> None:
        self._native.hotlap_reset(
            self._addresses[slot],
            None if seeds is None else seeds.ctypes.data,
            None if start is None else start.ctypes.data,
            0 if start is None else len(start),
        )

    def step(self, slot: int) -> int:
        """Step all environments into buffer `slot`; how many episodes ended, or -1 - i if action i is out of range."""
        if self._threads > 1 and self._pool_owner != os.getpid():  # threads do not survive a fork
            self._pool = self._native.hotlap_pool_new(self._threads)
            if self._pool is None:
                raise KernelError(f"cannot start {self._threads} threads; use fewer")
            self._pool_owner = os.getpid()
            self._free_pool = weakref.finalize(self, _free_pool, self._native, self._pool, self._pool_owner)
        return self._native.hotlap_step(self._addresses[slot], self._pool)  # type: ignore[no-any-return]

    def state(self) -> NDArray[Any]:
        return self._states.copy()

    def load_state(self, state: NDArray[Any]) -> None:
        self._states[...] = state

    def close(self) -> None:
        if self._pool is not None:
            self._free_pool()
        self._pool, self._threads = None, 1


def _free_pool(native: ctypes.CDLL, pool: int, owner: int) -> None:
    if owner == os.getpid():  # a forked child has no such threads
        native.hotlap_pool_free(pool)
