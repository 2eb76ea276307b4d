import numpy as np
import torch


class Ring:
    def __init__(self, cap, dim, seed):
        self.o, self.o2 = np.zeros((cap, dim), np.float32), np.zeros((cap, dim), np.float32)
        self.a, self.r, self.w = np.zeros(cap, np.int64), np.zeros(cap, np.float32), np.zeros(cap, np.float32)
        self.cap, self.head, self.size = cap, 0, 0
        self.rng = np.random.default_rng(seed)

    def put(self, o, a, r, o2, w):
        k = len(a)
        ix = np.arange(self.head, self.head + k) % self.cap
        self.o[ix], self.a[ix], self.r[ix], self.o2[ix], self.w[ix] = o, a, r, o2, w
        self.head = (self.head + k) % self.cap
        self.size = min(self.size + k, self.cap)

    def chunks(self, m, k):
        # m batches in one go
        ix = self.rng.integers(0, self.size, m * k)
        parts = [torch.from_numpy(x[ix]).split(k) for x in (self.o, self.a, self.r, self.o2, self.w)]
        return zip(*parts)
