"""Floor plans. A plan is a yaml file with the aisles, racks and packing stations."""
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra

LAYOUT_DIR = Path(__file__).parent / "layouts"


@dataclass(frozen=True)
class Layout:
    name: str
    free: np.ndarray        # bool [H, W]
    slots: tuple            # cells next to a rack
    stations: tuple
    dist: np.ndarray        # [n_stations, H, W] walking distance


def _walk_distance(free, sources):
    h, w = free.shape
    idx = np.arange(h * w).reshape(h, w)
    a, b = [], []
    ok = free[:, :-1] & free[:, 1:]
    a.append(idx[:, :-1][ok]); b.append(idx[:, 1:][ok])
    ok = free[:-1] & free[1:]
    a.append(idx[:-1][ok]); b.append(idx[1:][ok])
    a, b = np.concatenate(a), np.concatenate(b)
    g = coo_matrix((np.ones(len(a)), (a, b)), shape=(h * w, h * w))
    d = dijkstra(g, directed=False, indices=[idx[s] for s in sources], unweighted=True)
    d[np.isinf(d)] = h * w
    return d.reshape(len(sources), h, w).astype(np.float32)


def load_layout(name):
    with open(LAYOUT_DIR / f"{name}.yaml") as f:
        raw = yaml.safe_load(f)
    h, w = raw["size"]
    free = np.ones((h, w), dtype=bool)
    for rack in raw["racks"]:
        r, c = rack["at"]
        free[r, c] = False
    slots = tuple(tuple(rack["access"]) for rack in raw["racks"])
    stations = tuple(tuple(s) for s in raw["stations"])
    return Layout(name, free, slots, stations, _walk_distance(free, stations))
