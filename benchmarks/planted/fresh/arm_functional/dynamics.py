"""Two-link arm in the plane, written as functions over a NamedTuple."""
import math
from typing import NamedTuple

import numpy as np

DT, LIMIT, DAMP = 0.05, 150, 0.4


class ArmState(NamedTuple):
    q1: float
    q2: float
    w1: float
    w2: float
    gx: float
    gy: float
    t: int


def initial(rng) -> ArmState:
    r, a = rng.uniform(0.4, 1.7), rng.uniform(-math.pi, math.pi)
    return ArmState(rng.uniform(-3, 3), rng.uniform(-2, 2), 0.0, 0.0, r * math.cos(a), r * math.sin(a), 0)


def tip(s: ArmState):
    return math.cos(s.q1) + math.cos(s.q1 + s.q2), math.sin(s.q1) + math.sin(s.q1 + s.q2)


def observe(s: ArmState):
    x, y = tip(s)
    return np.array([math.cos(s.q1), math.sin(s.q1), math.cos(s.q2), math.sin(s.q2), s.w1, s.w2,
                     s.gx, s.gy, s.gx - x, s.gy - y], dtype=np.float32)


def transition(s: ArmState, u):
    u1, u2 = float(u[0]), float(u[1])
    c2, s2 = math.cos(s.q2), math.sin(s.q2)
    m11, m12, m22 = 3.0 + 2.0 * c2, 1.0 + c2, 1.0
    h = s2
    b1 = 4 * u1 - DAMP * s.w1 + h * s.w2 * (2 * s.w1 + s.w2)
    b2 = 2 * u2 - DAMP * s.w2 - h * s.w1 ** 2
    det = m11 * m22 - m12 * m12
    a1, a2 = (m22 * b1 - m12 * b2) / det, (m11 * b2 - m12 * b1) / det
    w1 = max(-6.0, min(6.0, s.w1 + DT * a1))
    w2 = max(-6.0, min(6.0, s.w2 + DT * a2))
    n = s._replace(q1=s.q1 + DT * w1, q2=s.q2 + DT * w2, w1=w1, w2=w2, t=s.t + 1)
    x, y = tip(n)
    d = math.hypot(n.gx - x, n.gy - y)
    return n, -d - 0.01 * (u1 * u1 + u2 * u2) + (1.0 if d < 0.1 else 0.0), n.t >= LIMIT
