import random
from collections import namedtuple

import torch

Transition = namedtuple("Transition", "state action reward next_state over")


class Memory:
    def __init__(self, capacity):
        self.capacity, self.items, self.at = capacity, [], 0

    def __len__(self):
        return len(self.items)

    def push(self, *args):
        if len(self.items) < self.capacity:
            self.items.append(None)
        self.items[self.at] = Transition(*args)
        self.at = (self.at + 1) % self.capacity

    def sample(self, k):
        batch = Transition(*zip(*random.choices(self.items, k=k)))
        return to_tensors(batch)


def to_tensors(batch):
    return (
        torch.tensor(batch.state, dtype=torch.float),
        torch.tensor(batch.action, dtype=torch.long),
        torch.tensor(batch.reward, dtype=torch.float),
        torch.tensor(batch.next_state, dtype=torch.float),
        torch.tensor(batch.over, dtype=torch.float),
    )
