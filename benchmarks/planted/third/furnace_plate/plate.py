"""Heating of a composite plate: implicit finite volumes with a strongly varying conductivity."""
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla


def conduction_matrix(kappa):
    """Five-point stencil with harmonic face conductivities, insulated rim."""
    n = kappa.shape[0]
    idx = np.arange(n * n).reshape(n, n)
    rows, cols, vals = [], [], []
    for a, b, ka, kb in (
        (idx[:-1], idx[1:], kappa[:-1], kappa[1:]),
        (idx[:, :-1], idx[:, 1:], kappa[:, :-1], kappa[:, 1:]),
    ):
        k = (2 * ka * kb / (ka + kb)).ravel()
        a, b = a.ravel(), b.ravel()
        rows += [a, b, a, b]
        cols += [b, a, a, b]
        vals += [k, k, -k, -k]
    return sp.csc_matrix((np.concatenate(vals), (np.concatenate(rows), np.concatenate(cols))), shape=(n * n, n * n))


class Plate:
    def __init__(self, n, dt, substeps, layout_seed=0):
        rng = np.random.default_rng(layout_seed)
        kappa = np.full((n, n), 1.0)
        for _ in range(12):                          # fibre bundles
            x, y = rng.integers(0, n, 2)
            w, h = rng.integers(n // 16, n // 4, 2)
            kappa[x : x + w, y : y + h] *= rng.choice([0.1, 8.0])
        kappa = np.clip(kappa, 0.05, 20.0)
        self.n = n
        self.substeps = substeps
        a = sp.identity(n * n, format="csc") * (1.0 + dt * 0.05) - dt * conduction_matrix(kappa)
        self.lu = spla.splu(a.astype(np.float32))
        g = np.linspace(0, 1, n, dtype=np.float32)
        gx, gy = np.meshgrid(g, g, indexing="ij")
        spots = [(x, y) for x in (0.2, 0.5, 0.8) for y in (0.2, 0.5, 0.8)]
        self.heaters = np.stack([np.exp(-((gx - x) ** 2 + (gy - y) ** 2) / 0.006).ravel() for x, y in spots], 1)
        self.heaters = (dt * self.heaters).astype(np.float32)
        self.target = (1.0 + 0.3 * np.sin(3 * gx)).ravel().astype(np.float32)
        step = n // 6
        self.probe = np.arange(n * n).reshape(n, n)[step // 2 :: step, step // 2 :: step].ravel()

    def advance(self, temp, power):
        source = self.heaters @ power
        for _ in range(self.substeps):
            temp = self.lu.solve(temp + source)
        return temp
