"""Numbers for people, and back."""

from __future__ import annotations

import re

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_BYTES = {"b": 1.0} | {
    prefix + suffix: base**power for power, prefix in enumerate("kmgt", 1) for suffix, base in (("b", 1000.0), ("ib", 1024.0))
}
_PLAIN = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "%": 0.01}


def seconds(value: float) -> str:
    for limit, scale, unit in (
        (1e-6, 1e9, "ns"),
        (1e-3, 1e6, "us"),
        (1, 1e3, "ms"),
        (120, 1, "s"),
        (7200, 1 / 60, "min"),
    ):
        if abs(value) < limit:
            return f"{_digits(value * scale)} {unit}"
    return f"{_digits(value / 3600)} h"


def count(value: float) -> str:
    for limit, scale, unit in ((1e4, 1, ""), (1e6, 1e-3, "k"), (1e9, 1e-6, "M")):
        if abs(value) < limit:
            return f"{_digits(value * scale)}{unit}"
    return f"{_digits(value / 1e9)}G"


def size(value: float) -> str:
    for limit, scale, unit in ((1e3, 1, "B"), (1e6, 1e-3, "kB"), (1e9, 1e-6, "MB")):
        if abs(value) < limit:
            return f"{_digits(value * scale)} {unit}"
    return f"{_digits(value / 1e9)} GB"


def ratio(value: float) -> str:
    """A ratio: three digits behind the point near 1, three digits in all elsewhere."""
    return f"{value:.3f}" if 0.5 < value < 2 else _digits(value) if value >= 1 else f"{value:.3g}"


def share(value: float) -> str:
    return f"{value:.1%}"


def share_range(low: float, high: float) -> str:
    return f"{100 * low:.1f}-{100 * high:.1f}%"


def parse(text: str, kind: str) -> float:
    """A number with a unit: kind is "seconds", "bytes", "share" or "plain"."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*([a-z%]*)\s*", text.lower())
    table = {"seconds": _SECONDS | {"": 1.0}, "bytes": _BYTES | {"": 1.0}, "plain": _PLAIN, "share": _PLAIN}[kind]
    if not match or match[2] not in table or match[1].count(".") > 1:
        units = ", ".join(unit for unit in table if unit)
        raise ValueError(f"{text!r} is not a number with a unit ({units})")
    if kind == "share" and (match[2] not in ("", "%") or (match[2] == "" and float(match[1]) >= 1)):
        raise ValueError(f"{text!r} is not a share: write 5% or 0.05")
    return float(match[1]) * table[match[2]]


def _digits(value: float) -> str:
    """Three significant digits, no exponent."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    return f"{value:,.0f}" if magnitude >= 100 else f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}"
