"""Work that sweeps the CPU's caches, for measuring what a hook or a stage costs between the operations of a training loop."""

from __future__ import annotations

_BYTES = 8 << 20  # more than a core's own caches hold


class CacheSweep:
    """Each call reads and writes more memory than the caches hold."""

    def __init__(self) -> None:
        self._memory = memoryview(bytearray(2 * _BYTES))

    def __call__(self) -> None:
        self._memory[:_BYTES] = self._memory[_BYTES:]
