"""Sine and cosine in plain arithmetic, the same to the bit here, in C and on CUDA (`kernel.h`), whose own differ in the last
bit. Within one unit in the last place."""

PARTS = (float.fromhex("0x1.921fb544p+0"), float.fromhex("0x1.0b4611a6p-34"), float.fromhex("0x1.3198a2e037073p-69"))  # of pi/2
TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")


def sin_cos(x: float) -> tuple[float, float]:
    """Sine and cosine of |x| < 1e6, else not a number."""
    if -0.78 < x < 0.78:
        return _near(x, 0.0)
    if not -1e6 < x < 1e6:
        return float("nan"), float("nan")
    quarters = x * TWO_OVER_PI
    n = int(quarters + (-0.5 if quarters < 0 else 0.5))
    near, middle = x - n * PARTS[0], n * PARTS[1]
    high = near - middle
    low = ((near - high) - middle) - n * PARTS[2]
    r = high + low
    s, c = _near(r, (high - r) + low)
    sine, cosine = (c, s) if n & 1 else (s, c)
    return -sine if n & 2 else sine, -cosine if (n + 1) & 2 else cosine


def _near(r: float, rest: float) -> tuple[float, float]:
    """Sine and cosine of r + rest, where |r| < pi / 4 and |rest| is below r's last place: the Taylor series."""
    rr = r * r
    s = -1.0 / 1307674368000.0 + rr * (1.0 / 355687428096000.0)
    for factor in (1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0, -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0):
        s = factor + rr * s
    c = -1.0 / 87178291200.0 + rr * (1.0 / 20922789888000.0)
    for factor in (1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0, -1.0 / 720.0, 1.0 / 24.0):
        c = factor + rr * c
    half = 0.5 * rr
    top = 1.0 - half
    return r + (rr * r * s + rest), top + (((1.0 - top) - half) + (rr * rr * c - r * rest))
