import random
from collections import deque

import numpy as np
import torch
from torch.utils.data import IterableDataset


class ReplayDataset(IterableDataset):
    """Endless stream of batches drawn from what has been appended so far."""

    def __init__(self, capacity, batch_size):
        self.items = deque(maxlen=capacity)
        self.batch_size = batch_size

    def append(self, frames, action, reward, new_frames, done):
        self.items.append((frames, action, reward, new_frames, done))

    def __iter__(self):
        while True:
            s, a, r, s2, d = zip(*random.sample(self.items, self.batch_size))
            yield (torch.from_numpy(np.stack(s)), torch.tensor(a), torch.tensor(r, dtype=torch.float32),
                   torch.from_numpy(np.stack(s2)), torch.tensor(d, dtype=torch.float32))
