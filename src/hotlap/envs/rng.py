"""Counter-based random numbers, one stream per environment. `kernel.h` has the same in C.

Draw number `n` of a stream is a pure function of (key, n), so a stream can be saved as two integers, copied to
another device and replayed there, and never depends on which thread runs the environment.
"""

from secrets import randbits

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix64(x: int) -> int:
    """A bijective scrambler of 64-bit integers (the finaliser of splitmix64)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class Rng:
    """One stream: `key` says which, `counter` says how many numbers were drawn."""

    def __init__(self, seed: int) -> None:
        self.key = mix64((seed + _GOLDEN) & _MASK)
        self.counter = 0

    @classmethod
    def unseeded(cls) -> "Rng":
        """Another stream each time."""
        return cls(randbits(64))

    def below(self, n: int) -> int:
        """A uniform integer in [0, n)."""
        self.counter += 1
        word = mix64((self.key + self.counter * _GOLDEN) & _MASK) >> 32
        return (word * n) >> 32
