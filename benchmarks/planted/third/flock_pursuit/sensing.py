"""What an agent perceives of the others, and how they push each other away."""
import math

import numpy as np


def wrap(d, arena):
    """Shortest difference on the torus."""
    return (d + arena / 2) % arena - arena / 2


def nearest(pos, vel, other_pos, other_vel, k, arena, skip_self):
    """Relative position and velocity of the k nearest others: array [len(pos), 4 * k]."""
    out = np.zeros((len(pos), 4 * k), np.float32)
    for i in range(len(pos)):
        seen = []
        for j in range(len(other_pos)):
            if skip_self and i == j:
                continue
            dx = wrap(other_pos[j][0] - pos[i][0], arena)
            dy = wrap(other_pos[j][1] - pos[i][1], arena)
            seen.append((math.hypot(dx, dy), dx, dy, j))
        seen.sort()
        row = []
        for dist, dx, dy, j in seen[:k]:
            row += [dx, dy, other_vel[j][0] - vel[i][0], other_vel[j][1] - vel[i][1]]
        out[i, :len(row)] = row
    return out


def separation(pos, arena, radius=0.6):
    """Soft repulsion between agents that come too close."""
    push = np.zeros_like(pos)
    for i in range(len(pos)):
        for j in range(i + 1, len(pos)):
            dx = wrap(pos[i][0] - pos[j][0], arena)
            dy = wrap(pos[i][1] - pos[j][1], arena)
            dist = math.hypot(dx, dy) + 1e-6
            if dist < radius:
                force = (radius - dist) / dist
                push[i] += (force * dx, force * dy)
                push[j] -= (force * dx, force * dy)
    return push
